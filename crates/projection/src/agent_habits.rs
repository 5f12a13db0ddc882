//! What single agents do differently, as data.
//!
//! A new agent, or a new version that ends its turns in another way, is a change of these tables
//! and of no code.

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

/// Entry points, as agents name them in their files, with which a program runs the agent and no
/// user sits at it.
const HEADLESS_ENTRY_POINTS: &[&str] =
    &["exec", "codex_exec", "sdk-cli", "sdk-ts", "sdk-py", "mcp"];

/// Whether no user can answer a session that was started with this entry point.
pub(crate) fn is_headless(entry_point: &str) -> bool {
    HEADLESS_ENTRY_POINTS.contains(&entry_point)
}
