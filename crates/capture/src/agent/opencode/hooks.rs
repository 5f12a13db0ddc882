//! What OpenCode's bus says, told by a plugin of ours that calls a hook for each event.
//!
//! Seen with 1.18: the database tells everything but open requests for permission.

use event::{Kind, SignalKind};

use crate::hook::{
    AnswerForm, AnswerMoment, AnswerRow, HookAnswer, HookForm, HookMap, HookMeaning, HookPlace,
    HookRow,
};

pub(super) static HOOKS: HookMap = HookMap {
    session: &["properties.sessionID", "input.sessionID"],
    transcript: &[],
    cwd: &["directory"],
    // A request for permission first, then a call that is about to be made.
    tool: &["properties.permission", "input.tool"],
    input: &["properties.metadata", "output.args"],
    call: &["properties.tool.callID", "input.callID"],
    rows: &[
        HookRow { event: "permission.asked", when: &[], meaning: HookMeaning::Approval },
        HookRow {
            event: "permission.replied",
            when: &[],
            meaning: HookMeaning::Decided {
                id: "properties.requestID",
                reply: "properties.reply",
                denies: &["reject"],
            },
        },
        HookRow {
            event: "session.idle",
            when: &[],
            meaning: HookMeaning::Signal(SignalKind::TurnEnd),
        },
        // Once per piece of an answer.
        HookRow { event: "message.part.delta", when: &[], meaning: HookMeaning::Ignored },
    ],
    hook_only: &[Kind::ApprovalRequested, Kind::ApprovalResolved],
    answers: &[
        AnswerRow {
            event: "tool.execute.before",
            moment: AnswerMoment::Before,
            form: AnswerForm::Plugin,
            takes: &[HookAnswer::Deny],
        },
        AnswerRow {
            event: "permission.asked",
            moment: AnswerMoment::Asking,
            form: AnswerForm::Plugin,
            takes: &[HookAnswer::Deny, HookAnswer::Allow],
        },
    ],
    user_questions: &["question"],
    place: HookPlace {
        folder: ("XDG_CONFIG_HOME", ".config", "opencode"),
        file: "plugins/hansard.js",
        project_file: ".opencode/plugins/hansard.js",
        form: HookForm::Plugin,
        has_comments: false,
        events: &[
            ("session.created", 5),
            ("chat.message", 5),
            ("session.status", 5),
            ("tool.execute.before", 5),
            ("permission.asked", 5),
            ("permission.replied", 5),
            ("session.idle", 5),
            ("session.compacted", 5),
            ("session.error", 5),
        ],
        narrowed: &[],
    },
    ..HookMap::CLAUDE_LIKE
};
