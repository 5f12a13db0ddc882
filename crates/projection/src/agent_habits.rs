//! What single agents do differently, as data.
//!
//! A new agent, or a new version that ends its turns in another way, is a change of these tables
//! and of no code.

use event::Raw;

/// How an agent ends its turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TurnHabits {
    /// The name of the provider.
    provider: &'static str,
    /// Whether the agent itself records that a turn is over (`turn.completed`).
    pub(crate) tells_ends: bool,
    /// What an answer without a tool call means for its turn.
    pub(crate) answer: AnswerMeaning,
    /// Stop reasons of a model's answer that end the turn. With any other word, as `tool_use` or
    /// `max_tokens`, the agent goes on.
    pub(crate) stop_words: &'static [&'static str],
}

/// What an answer without a tool call means for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnswerMeaning {
    /// Nothing: the agent itself records when the turn is over.
    GoesOn,
    /// The turn is over: the agent writes its calls in the same record as the answer.
    Over,
    /// The turn is probably over: the agent writes its calls down only when they are done, so a
    /// call may run that no record shows.
    ProbablyOver,
}

/// The stop reasons that the models of all agents share.
const STOP_WORDS: &[&str] = &["end_turn", "stop", "stop_sequence"];

/// The habits of an agent that is not in the table.
const USUAL: TurnHabits = TurnHabits {
    provider: "",
    tells_ends: true,
    answer: AnswerMeaning::GoesOn,
    stop_words: STOP_WORDS,
};

const AGENTS: &[TurnHabits] = &[
    TurnHabits { provider: "claude", ..USUAL },
    TurnHabits { provider: "codex", ..USUAL },
    TurnHabits { provider: "copilot", ..USUAL },
    TurnHabits { provider: "cursor", ..USUAL },
    TurnHabits {
        provider: "gemini",
        tells_ends: false,
        answer: AnswerMeaning::ProbablyOver,
        ..USUAL
    },
    TurnHabits { provider: "goose", tells_ends: false, answer: AnswerMeaning::Over, ..USUAL },
    TurnHabits { provider: "hansard", ..USUAL },
    TurnHabits { provider: "opencode", ..USUAL },
    TurnHabits { provider: "pi", ..USUAL },
    TurnHabits { provider: "qwen", tells_ends: false, answer: AnswerMeaning::Over, ..USUAL },
];

impl TurnHabits {
    pub(crate) fn for_provider(provider: &str) -> TurnHabits {
        AGENTS.iter().find(|habits| habits.provider == provider).copied().unwrap_or(USUAL)
    }

    /// Whether this stop reason of an answer ends the turn.
    pub(crate) fn is_stop_word(&self, word: &str) -> bool {
        self.stop_words.contains(&word)
    }
}

/// How an agent asks its user for approvals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ApprovalHabit {
    /// It asks for none.
    Never,
    /// Its records have every request, and when it was decided.
    Recorded,
    /// Its records do not tell that it asks: a call without a result may run or wait.
    Hidden,
}

/// The agents that do not hide their requests for approval.
const APPROVAL_HABITS: &[(&str, ApprovalHabit)] = &[
    ("copilot", ApprovalHabit::Recorded),
    ("hansard", ApprovalHabit::Recorded),
    ("pi", ApprovalHabit::Never),
];

impl ApprovalHabit {
    pub(crate) fn for_provider(provider: &str) -> ApprovalHabit {
        let known = APPROVAL_HABITS.iter().find(|(name, _)| *name == provider);
        known.map_or(ApprovalHabit::Hidden, |(_, habit)| *habit)
    }
}

/// Permission modes, as agents name them, in which the user is asked for nothing.
const UNASKED_MODES: &[&str] = &["bypassPermissions", "dontAsk", "never", "yolo"];

/// Whether the user is asked for approvals in this mode. An unknown mode may ask.
pub(crate) fn asks_in_mode(permission_mode: Option<&str>) -> bool {
    permission_mode.is_none_or(|mode| !UNASKED_MODES.contains(&mode))
}

/// What stands in the input of a call that has to be allowed before it runs: agent, member, value.
const ESCALATIONS: &[(&str, &str, &str)] = &[
    ("codex", "sandbox_permissions", r#""require_escalated""#),
    ("codex", "with_escalated_permissions", "true"),
];

/// Whether a call says itself that it has to be allowed before it runs.
pub(crate) fn is_escalated(provider: &str, input: &Raw) -> bool {
    // A program that the model wrote names the member of the call inside it.
    let program = input.text();
    ESCALATIONS.iter().filter(|(agent, ..)| *agent == provider).any(|(_, member, value)| {
        match &program {
            Some(program) => program.contains(member) && program.contains(value),
            None => input.field(member).is_some_and(|found| found.json == *value),
        }
    })
}

/// Entry points, as agents name them in their files, with which a program runs the agent and no
/// user sits at it.
const HEADLESS_ENTRY_POINTS: &[&str] =
    &["exec", "codex_exec", "sdk-cli", "sdk-ts", "sdk-py", "mcp"];

/// Whether no user can answer a session that was started with this entry point.
pub(crate) fn is_headless(entry_point: &str) -> bool {
    HEADLESS_ENTRY_POINTS.contains(&entry_point)
}
