//! Asks a language model what was worth keeping of a session, if the user has set one up.
//!
//! [`QuestionQueue`] decides when to ask about which events, and survives a crash. [`Question`]
//! builds the prompt, after secrets were removed, and reads the answer. [`Client`] sends it to
//! one of three kinds of endpoints. Only the client uses the network, and only when it is called.
//!
//! Not here: the journal that the events come from and the answers go to, threads, files, and
//! what is shown without an answer (`projection`).

mod settings; // which model, where, how often
mod key; // the API key
mod queue; // when to ask about which events
mod unasked; // the new events of a session
mod question; // the prompt, and the meaning of an answer
mod answer; // finding the JSON in an answer
mod dialect; // request and reply formats of the endpoints
mod client; // HTTP

pub use client::{AskError, Client};
pub use dialect::Dialect;
pub use key::{KeyError, Secret};
pub use question::{EpochFacts, Question};
pub use queue::{AskOutcome, NextAsk, PendingAsk, Purpose, QuestionQueue};
pub use settings::{ModelSettings, ModelSettingsError};
