//! Codex's hooks, and its older `notify`.
//!
//! Seen with the rollouts of November 2026: the session is the root thread, so that a subagent is
//! told by the file that is named. Rollouts have no word of approvals.

use event::payload::Outcome;
use event::{Kind, SignalKind};

use crate::hook::{
    AnswerForm, AnswerMoment, AnswerRow, HookAnswer, HookForm, HookMap, HookMeaning, HookPlace,
    HookRow,
};

pub(super) static HOOKS: HookMap = HookMap {
    // The thread, where a call names it; a subagent's own before that of the root.
    session: &["agent_id", "session_id", "thread-id"],
    rows: &[
        HookRow { event: "PreToolUse", when: &[], meaning: HookMeaning::ToolCall },
        HookRow { event: "PermissionRequest", when: &[], meaning: HookMeaning::Approval },
        HookRow { event: "PostToolUse", when: &[], meaning: HookMeaning::ToolResult(Outcome::Ok) },
        HookRow { event: "Interrupt", when: &[], meaning: HookMeaning::Interrupted },
        HookRow { event: "Stop", when: &[], meaning: HookMeaning::Signal(SignalKind::TurnEnd) },
        // In the TUI it also fires for subagents and for a hidden thread that makes titles.
        HookRow { event: "notify", when: &[], meaning: HookMeaning::Signal(SignalKind::TurnEnd) },
        HookRow { event: "PreCompact", when: &[], meaning: HookMeaning::Compacting },
        HookRow { event: "SessionEnd", when: &[], meaning: HookMeaning::Signal(SignalKind::Stop) },
        HookRow { event: "PreModelRequest", when: &[], meaning: HookMeaning::Ignored },
        HookRow { event: "PostModelRequest", when: &[], meaning: HookMeaning::Ignored },
    ],
    hook_only: &[Kind::ApprovalRequested, Kind::ApprovalResolved, Kind::CompactionStarted],
    answers: &[
        AnswerRow {
            event: "PreToolUse",
            moment: AnswerMoment::Before,
            form: AnswerForm::PermissionDecision,
            takes: &[HookAnswer::Deny, HookAnswer::Note],
        },
        AnswerRow {
            event: "PermissionRequest",
            moment: AnswerMoment::Asking,
            form: AnswerForm::Behavior,
            takes: &[HookAnswer::Deny, HookAnswer::Allow],
        },
    ],
    user_questions: &["request_user_input"],
    place: HookPlace {
        folder: ("CODEX_HOME", ".codex", ""),
        file: "hooks.json",
        project_file: ".codex/hooks.json",
        form: HookForm::Groups { matcher: None, is_in_millis: false },
        has_comments: false,
        events: &[
            ("SessionStart", 5),
            ("UserPromptSubmit", 5),
            ("PreToolUse", 5),
            ("PermissionRequest", 60),
            ("PostToolUse", 5),
            // Codex cuts this hook and `SessionEnd` off after 3 seconds.
            ("Interrupt", 3),
            ("Stop", 5),
            ("SubagentStart", 5),
            ("SubagentStop", 5),
            ("PreCompact", 5),
            ("PostCompact", 5),
            ("SessionEnd", 3),
        ],
        narrowed: &[],
    },
    ..HookMap::CLAUDE_LIKE
};
