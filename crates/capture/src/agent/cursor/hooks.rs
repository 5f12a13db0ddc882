//! Cursor's hooks: the only place where the output of its tools is told.
//!
//! As documented by the vendor for version 1 of `hooks.json`; no recording was made. Its own
//! dialogs have no hook: `beforeShellExecution` fires for every call.

use event::payload::Outcome;
use event::{Kind, SignalKind};

use crate::hook::{
    AnswerForm, AnswerMoment, AnswerRow, HookAnswer, HookForm, HookMap, HookMeaning, HookPlace,
    HookRow,
};

pub(super) static HOOKS: HookMap = HookMap {
    session: &["conversation_id", "session_id"],
    cwd: &["cwd"],
    output: &["tool_output", "error_message"],
    rows: &[
        HookRow { event: "postToolUse", when: &[], meaning: HookMeaning::ToolResult(Outcome::Ok) },
        HookRow {
            event: "postToolUseFailure",
            when: &[],
            meaning: HookMeaning::ToolResult(Outcome::Error),
        },
        HookRow { event: "stop", when: &[], meaning: HookMeaning::Signal(SignalKind::TurnEnd) },
        HookRow {
            event: "preCompact",
            when: &[],
            meaning: HookMeaning::Signal(SignalKind::Compact),
        },
        HookRow { event: "sessionEnd", when: &[], meaning: HookMeaning::Signal(SignalKind::Stop) },
    ],
    hook_only: &[Kind::ToolResult],
    answers: &[
        AnswerRow {
            event: "beforeShellExecution",
            moment: AnswerMoment::Before,
            form: AnswerForm::Permission,
            takes: &[HookAnswer::Deny, HookAnswer::Ask, HookAnswer::Allow],
        },
        AnswerRow {
            // It does not name the server, so what is allowed there cannot be told.
            event: "beforeMCPExecution",
            moment: AnswerMoment::Before,
            form: AnswerForm::Permission,
            takes: &[HookAnswer::Deny, HookAnswer::Ask],
        },
        AnswerRow {
            event: "preToolUse",
            moment: AnswerMoment::Before,
            form: AnswerForm::Permission,
            takes: &[HookAnswer::Deny],
        },
        AnswerRow {
            event: "postToolUse",
            moment: AnswerMoment::After,
            form: AnswerForm::PlainContext,
            takes: &[HookAnswer::Note],
        },
    ],
    user_questions: &[],
    bare_mcp_event: Some("beforeMCPExecution"),
    left_to_others: ("preToolUse", &["Shell", "MCP:"]),
    events_of_one_tool: &[("beforeShellExecution", "Shell", &["command"])],
    place: HookPlace {
        folder: ("", "", ".cursor"),
        file: "hooks.json",
        project_file: ".cursor/hooks.json",
        form: HookForm::Commands,
        has_comments: false,
        events: &[
            ("sessionStart", 5),
            ("beforeSubmitPrompt", 5),
            ("preToolUse", 5),
            ("beforeShellExecution", 5),
            ("beforeMCPExecution", 5),
            ("postToolUse", 5),
            ("postToolUseFailure", 5),
            ("afterAgentResponse", 5),
            ("subagentStart", 5),
            ("subagentStop", 5),
            ("preCompact", 5),
            ("stop", 5),
            ("sessionEnd", 5),
        ],
        narrowed: &[],
    },
    ..HookMap::CLAUDE_LIKE
};
