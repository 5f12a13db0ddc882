//! Qwen Code's hooks: Claude's names, in an order of its own.
//!
//! Seen with the recordings of November 2026: a question comes before the call it is about, ids of
//! calls are made up for hooks, and prompts come again, empty, after each round of calls. No record
//! tells the end of a turn.

use event::Kind;

use crate::hook::{HookForm, HookMap, HookPlace, HookRow, Says};
use crate::signal::SignalKind;

pub(super) static HOOKS: HookMap = HookMap {
    call: &[],
    rows: &[
        HookRow { event: "PermissionRequest", when: &[], says: Says::Asks },
        // It comes after the decision; the records tell that when the call is done.
        HookRow { event: "PreToolUse", when: &[], says: Says::Begins },
        HookRow { event: "Stop", when: &[], says: Says::Sign(SignalKind::TurnEnd) },
        HookRow { event: "StopFailure", when: &[], says: Says::Sign(SignalKind::TurnEnd) },
        HookRow { event: "PreCompact", when: &[], says: Says::Compacting },
        HookRow { event: "SessionEnd", when: &[], says: Says::Sign(SignalKind::Stop) },
    ],
    untold: &[
        Kind::ApprovalRequested,
        Kind::ApprovalResolved,
        Kind::CompactionStarted,
        Kind::TurnCompleted,
    ],
    place: HookPlace {
        folder: ("QWEN_HOME", ".qwen", ""),
        file: "settings.json",
        project_file: ".qwen/settings.json",
        form: HookForm::Groups { matcher: Some("*"), is_in_millis: true },
        has_comments: true,
        events: &[
            ("SessionStart", 5),
            ("UserPromptSubmit", 5),
            ("PreToolUse", 5),
            ("PermissionRequest", 5),
            ("PostToolUse", 5),
            ("Notification", 5),
            ("Stop", 5),
            ("PreCompact", 5),
            ("SessionEnd", 5),
        ],
    },
    ..HookMap::CLAUDE_LIKE
};
