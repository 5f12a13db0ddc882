//! What the answers of single agents leave open.
//!
//! Most agents say when a turn is over. Some only stop writing.

/// What an answer without a call means for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AnswerEnds {
    /// Nothing: the agent itself says when the turn is over.
    Nothing,
    /// It is the end: calls stand in the same record as the answer.
    Turn,
    /// Perhaps the end: calls are written down only when they are done.
    Perhaps,
}

/// Agents that do not say when a turn is over. All others do.
const WITHOUT_ENDS: &[(&str, AnswerEnds)] =
    &[("gemini", AnswerEnds::Perhaps), ("goose", AnswerEnds::Turn), ("qwen", AnswerEnds::Turn)];

impl AnswerEnds {
    pub(super) fn of(provider: &str) -> AnswerEnds {
        let row = WITHOUT_ENDS.iter().find(|(name, _)| *name == provider);
        row.map_or(AnswerEnds::Nothing, |(_, ends)| *ends)
    }
}

/// How agents call it in their files when a program runs them and nobody sits before them.
const WITHOUT_PERSON: &[&str] = &["exec", "codex_exec", "sdk-cli", "sdk-ts", "sdk-py", "mcp"];

/// Whether nobody can answer a session that was begun like this.
pub(super) fn has_nobody(entry_point: &str) -> bool {
    WITHOUT_PERSON.contains(&entry_point)
}
