//! What a document is made of, in the order it is read.

use event::Time;

use super::cut::Cut;

/// One thing a reader sees. Its texts are harmless and redacted; what they look like is for each
/// form to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DocumentBlock {
    /// A turn begins.
    Turn {
        number: u64,
        at: Time,
    },
    Prompt {
        text: String,
        is_queued: bool,
    },
    Answer(String),
    Thinking(String),
    Call(CallBlock),
    /// What came before was replaced by this summary for the model.
    Compacted {
        summary: String,
    },
    Interrupted(String),
    Error(String),
    /// Anything else worth a line.
    Remark(String),
}

/// A call of a tool and what came back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallBlock {
    pub(crate) tool: String,
    /// What it is about, on one line.
    pub(crate) about: String,
    /// What else was given to it.
    pub(crate) input: Cut,
    pub(crate) outcome: CallOutcome,
    /// How it went, in words: `ok, 13.5 s`.
    pub(crate) how: String,
    pub(crate) output: Cut,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallOutcome {
    Good,
    Bad,
    /// Nothing came back, or it is not told here.
    Unknown,
}
