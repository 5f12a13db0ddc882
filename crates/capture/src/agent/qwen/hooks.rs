//! Qwen Code's hooks: Claude's names, in an order of its own.
//!
//! Seen with the recordings of November 2026: a question comes before the call it is about, ids of
//! calls are made up for hooks, and prompts come again, empty, after each round of calls. No record
//! tells the end of a turn.

use event::payload::Outcome;
use event::{Kind, SignalKind};

use crate::hook::{
    AnswerForm, AnswerMoment, AnswerRow, HookAnswer, HookForm, HookMap, HookMeaning, HookPlace,
    HookRow,
};

pub(super) static HOOKS: HookMap = HookMap {
    call: &[],
    rows: &[
        // A question to the user is no approval; the records tell it.
        HookRow {
            event: "PermissionRequest",
            when: &[("tool_name", "ask_user_question")],
            meaning: HookMeaning::News,
        },
        HookRow { event: "PermissionRequest", when: &[], meaning: HookMeaning::Approval },
        // It comes after the decision; the records tell that when the call is done.
        HookRow { event: "PreToolUse", when: &[], meaning: HookMeaning::ToolStarted },
        // A call that a rule asked about is over.
        HookRow { event: "PostToolUse", when: &[], meaning: HookMeaning::ToolResult(Outcome::Ok) },
        HookRow { event: "Stop", when: &[], meaning: HookMeaning::Signal(SignalKind::TurnEnd) },
        HookRow {
            event: "StopFailure",
            when: &[],
            meaning: HookMeaning::Signal(SignalKind::TurnEnd),
        },
        // After every turn. After a denial or Esc, which fire no `Stop`, nothing else tells the end.
        HookRow {
            event: "Notification",
            when: &[("notification_type", "idle_prompt")],
            meaning: HookMeaning::Ready,
        },
        HookRow { event: "PreCompact", when: &[], meaning: HookMeaning::Compacting },
        HookRow { event: "SessionEnd", when: &[], meaning: HookMeaning::Signal(SignalKind::Stop) },
    ],
    hook_only: &[
        Kind::ApprovalRequested,
        Kind::ApprovalResolved,
        Kind::CompactionStarted,
        Kind::TurnCompleted,
    ],
    answers: &[
        AnswerRow {
            event: "PreToolUse",
            moment: AnswerMoment::Before,
            form: AnswerForm::PermissionDecision,
            takes: &[HookAnswer::Deny, HookAnswer::Ask, HookAnswer::Allow, HookAnswer::Note],
        },
        AnswerRow {
            event: "PermissionRequest",
            moment: AnswerMoment::Asking,
            form: AnswerForm::Behavior,
            takes: &[HookAnswer::Deny, HookAnswer::Allow],
        },
    ],
    // It asks in its own dialog then, and fires no `PermissionRequest`.
    asks_untold: true,
    user_questions: &["ask_user_question"],
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
            ("StopFailure", 5),
            ("PreCompact", 5),
            ("SessionEnd", 5),
        ],
        narrowed: &[],
    },
    ..HookMap::CLAUDE_LIKE
};
