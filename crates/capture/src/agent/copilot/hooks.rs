//! Copilot CLI's hooks. Its event log tells everything they tell, so that they only say when to
//! look.
//!
//! A `permissionRequest` fires for every guarded call, whether anybody is asked or not: it says
//! nothing of waiting.

use event::SignalKind;

use crate::hook::{
    AnswerForm, AnswerMoment, AnswerRow, HookAnswer, HookForm, HookMap, HookMeaning, HookPlace,
    HookRow,
};

pub(super) static HOOKS: HookMap = HookMap {
    session: &["sessionId"],
    transcript: &["transcriptPath"],
    tool: &["toolName"],
    input: &["toolArgs", "toolInput"],
    call: &[],
    rows: &[
        HookRow {
            event: "agentStop",
            when: &[],
            meaning: HookMeaning::Signal(SignalKind::TurnEnd),
        },
        HookRow {
            event: "preCompact",
            when: &[],
            meaning: HookMeaning::Signal(SignalKind::Compact),
        },
        HookRow { event: "sessionEnd", when: &[], meaning: HookMeaning::Signal(SignalKind::Stop) },
        HookRow { event: "userPromptTransformed", when: &[], meaning: HookMeaning::Ignored },
    ],
    answers: &[AnswerRow {
        event: "preToolUse",
        moment: AnswerMoment::Before,
        form: AnswerForm::PlainPermissionDecision,
        takes: &[HookAnswer::Deny, HookAnswer::Ask, HookAnswer::Allow],
    }],
    user_questions: &["ask_user"],
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
        narrowed: &[],
    },
    ..HookMap::CLAUDE_LIKE
};
