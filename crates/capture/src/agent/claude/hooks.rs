//! Claude Code's hooks.
//!
//! Seen with 2.1: a question names no call; a denied or interrupted turn has no end; compaction ends
//! with a subagent that never began.

use event::payload::Outcome;
use event::{Kind, SignalKind};

use crate::hook::{
    AnswerForm, AnswerMoment, AnswerRow, HookAnswer, HookForm, HookMap, HookMeaning, HookPlace,
    HookRow, Subagent,
};

pub(super) static HOOKS: HookMap = HookMap {
    subagent: Some(Subagent { id: "agent_id", prefix: "agent-", folder: "subagents" }),
    rows: &[
        HookRow { event: "PreToolUse", when: &[], meaning: HookMeaning::ToolCall },
        // A question to the user is no approval; the records tell it.
        HookRow {
            event: "PermissionRequest",
            when: &[("tool_name", "AskUserQuestion")],
            meaning: HookMeaning::News,
        },
        HookRow { event: "PermissionRequest", when: &[], meaning: HookMeaning::Approval },
        HookRow { event: "PostToolUse", when: &[], meaning: HookMeaning::ToolResult(Outcome::Ok) },
        HookRow {
            event: "PostToolUseFailure",
            when: &[],
            meaning: HookMeaning::ToolResult(Outcome::Error),
        },
        // A denied or interrupted turn fires neither `Stop` nor `StopFailure`.
        HookRow { event: "Stop", when: &[], meaning: HookMeaning::Signal(SignalKind::TurnEnd) },
        HookRow {
            event: "StopFailure",
            when: &[],
            meaning: HookMeaning::Signal(SignalKind::TurnEnd),
        },
        HookRow { event: "PreCompact", when: &[], meaning: HookMeaning::Compacting },
        HookRow {
            event: "SessionEnd",
            when: &[("reason", "clear")],
            meaning: HookMeaning::Signal(SignalKind::Clear),
        },
        HookRow { event: "SessionEnd", when: &[], meaning: HookMeaning::Signal(SignalKind::Stop) },
        // Once per piece of an answer.
        HookRow { event: "MessageDisplay", when: &[], meaning: HookMeaning::Ignored },
    ],
    hook_only: &[Kind::ApprovalRequested, Kind::CompactionStarted],
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
    user_questions: &["AskUserQuestion"],
    place: HookPlace {
        folder: ("CLAUDE_CONFIG_DIR", ".claude", ""),
        file: "settings.json",
        project_file: ".claude/settings.json",
        form: HookForm::Groups { matcher: None, is_in_millis: false },
        has_comments: false,
        events: &[
            ("SessionStart", 5),
            ("UserPromptSubmit", 5),
            ("PreToolUse", 5),
            // A hook that answers for the user may take ten minutes for it.
            ("PermissionRequest", 605),
            ("PostToolUse", 5),
            ("PostToolUseFailure", 5),
            ("Notification", 5),
            ("Stop", 5),
            ("StopFailure", 5),
            ("SubagentStart", 5),
            ("SubagentStop", 5),
            ("PreCompact", 5),
            ("PostCompact", 5),
            ("SessionEnd", 5),
        ],
        narrowed: &[],
    },
    ..HookMap::CLAUDE_LIKE
};
