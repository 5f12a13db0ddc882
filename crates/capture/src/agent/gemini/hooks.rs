//! Gemini CLI's hooks.
//!
//! Seen with the recordings of November 2026: calls have no ids and are written down when they are
//! done; no record tells the end of a turn or a decision; after a denial nothing fires.

use event::Kind;
use event::payload::Outcome;

use crate::hook::{HookForm, HookMap, HookPlace, HookRow, Says};
use crate::signal::SignalKind;

pub(super) static HOOKS: HookMap = HookMap {
    rows: &[
        HookRow { event: "BeforeTool", when: &[], says: Says::Calls },
        // A question to the user is no approval. The records tell it when it is answered.
        HookRow {
            event: "Notification",
            when: &[("details.type", "ask_user")],
            says: Says::Inquires("details"),
        },
        HookRow {
            event: "Notification",
            when: &[("notification_type", "ToolPermission")],
            says: Says::AsksForLast("details"),
        },
        HookRow { event: "AfterTool", when: &[], says: Says::Made(Outcome::Ok) },
        HookRow { event: "AfterAgent", when: &[], says: Says::Sign(SignalKind::TurnEnd) },
        HookRow { event: "SessionEnd", when: &[], says: Says::Sign(SignalKind::Stop) },
        // Before every request, or once per piece of an answer.
        HookRow { event: "PreCompress", when: &[], says: Says::Nothing },
        HookRow { event: "BeforeModel", when: &[], says: Says::Nothing },
        HookRow { event: "BeforeToolSelection", when: &[], says: Says::Nothing },
        HookRow { event: "AfterModel", when: &[], says: Says::Nothing },
    ],
    untold: &[
        Kind::ToolStarted,
        Kind::ApprovalRequested,
        Kind::ApprovalResolved,
        Kind::ExternalInput,
        Kind::TurnCompleted,
    ],
    place: HookPlace {
        folder: ("GEMINI_CLI_HOME", "", ".gemini"),
        file: "settings.json",
        project_file: ".gemini/settings.json",
        form: HookForm::Groups { matcher: Some("*"), is_in_millis: true },
        has_comments: true,
        events: &[
            ("SessionStart", 5),
            ("BeforeAgent", 5),
            ("BeforeTool", 5),
            ("Notification", 5),
            ("AfterTool", 5),
            ("AfterAgent", 5),
            ("SessionEnd", 5),
        ],
    },
    ..HookMap::CLAUDE_LIKE
};
