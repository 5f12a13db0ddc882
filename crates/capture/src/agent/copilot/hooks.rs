//! Copilot CLI's hooks. Its event log tells everything they tell, so that they only say when to
//! look.
//!
//! A `permissionRequest` fires for every guarded call, whether anybody is asked or not: it says
//! nothing of waiting.

use crate::hook::{HookForm, HookMap, HookPlace, HookRow, Says};
use crate::signal::SignalKind;

pub(super) static HOOKS: HookMap = HookMap {
    session: &["sessionId"],
    transcript: &["transcriptPath"],
    tool: &["toolName"],
    input: &["toolArgs", "toolInput"],
    call: &[],
    rows: &[
        HookRow { event: "agentStop", when: &[], says: Says::Sign(SignalKind::TurnEnd) },
        HookRow { event: "preCompact", when: &[], says: Says::Sign(SignalKind::Compact) },
        HookRow { event: "sessionEnd", when: &[], says: Says::Sign(SignalKind::Stop) },
        HookRow { event: "userPromptTransformed", when: &[], says: Says::Nothing },
    ],
    place: HookPlace {
        folder: ("COPILOT_HOME", ".copilot", ""),
        file: "hooks/hansard.json",
        project_file: ".github/hooks/hansard.json",
        form: HookForm::OwnFile,
        has_comments: false,
        events: &[
            ("sessionStart", 5),
            ("userPromptSubmitted", 5),
            ("preToolUse", 5),
            ("postToolUse", 5),
            ("notification", 5),
            ("agentStop", 5),
            ("subagentStart", 5),
            ("subagentStop", 5),
            ("preCompact", 5),
            ("errorOccurred", 5),
            ("sessionEnd", 5),
        ],
    },
    ..HookMap::CLAUDE_LIKE
};
