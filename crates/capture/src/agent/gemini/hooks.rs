//! Gemini CLI's hooks.
//!
//! Seen with the recordings of November 2026: calls have no ids and are written down when they are
//! done; no record tells the end of a turn or a decision; after a denial nothing fires.

use event::payload::Outcome;
use event::{Kind, SignalKind};

use crate::hook::{
    AnswerForm, AnswerMoment, AnswerRow, HookAnswer, HookForm, HookMap, HookMeaning, HookPlace,
    HookRow,
};

pub(super) static HOOKS: HookMap = HookMap {
    rows: &[
        HookRow { event: "BeforeTool", when: &[], meaning: HookMeaning::ToolCall },
        // A question to the user is no approval. The records tell it when it is answered.
        HookRow {
            event: "Notification",
            when: &[("details.type", "ask_user")],
            meaning: HookMeaning::Question("details"),
        },
        HookRow {
            event: "Notification",
            when: &[("notification_type", "ToolPermission")],
            meaning: HookMeaning::ApprovalOfLast("details"),
        },
        HookRow { event: "AfterTool", when: &[], meaning: HookMeaning::ToolResult(Outcome::Ok) },
        HookRow {
            event: "AfterAgent",
            when: &[],
            meaning: HookMeaning::Signal(SignalKind::TurnEnd),
        },
        // The TUI of 0.61 fires it twice.
        HookRow { event: "SessionEnd", when: &[], meaning: HookMeaning::Signal(SignalKind::Stop) },
        // `/compress`. With another trigger it fires before every request, whether anything is
        // compressed or not.
        HookRow {
            event: "PreCompress",
            when: &[("trigger", "manual")],
            meaning: HookMeaning::Compacting,
        },
        HookRow { event: "PreCompress", when: &[], meaning: HookMeaning::Ignored },
        // Before every request, or once per piece of an answer.
        HookRow { event: "BeforeModel", when: &[], meaning: HookMeaning::Ignored },
        HookRow { event: "BeforeToolSelection", when: &[], meaning: HookMeaning::Ignored },
        HookRow { event: "AfterModel", when: &[], meaning: HookMeaning::Ignored },
    ],
    hook_only: &[
        Kind::ToolStarted,
        Kind::ApprovalRequested,
        Kind::ApprovalResolved,
        Kind::ExternalInput,
        Kind::CompactionStarted,
        Kind::TurnCompleted,
    ],
    answers: &[
        AnswerRow {
            event: "BeforeTool",
            moment: AnswerMoment::Before,
            form: AnswerForm::Decision,
            takes: &[HookAnswer::Deny, HookAnswer::Note],
        },
        AnswerRow {
            event: "AfterTool",
            moment: AnswerMoment::After,
            form: AnswerForm::Context,
            takes: &[HookAnswer::Note],
        },
    ],
    user_questions: &["ask_user"],
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
            ("PreCompress", 5),
            ("SessionEnd", 5),
        ],
        narrowed: &[("PreCompress", "manual")],
    },
    ..HookMap::CLAUDE_LIKE
};
