//! A language model is asked what was worth keeping of a session, where somebody has set one up.
//!
//! [`Queue`] says when and about which events, and remembers it over a crash; [`Question`] says
//! what, after secrets were taken out, and reads what comes back; [`Client`] brings it to one of
//! three kinds of endpoints. Only the client speaks to another machine, and only when told to.
//!
//! Not here: the journal the events come from and the words go to, threads, files, and what is
//! shown when nobody was asked or nobody answered (`projection`).

mod settings; // which model, where, how often
mod key; // what lets us in
mod queue; // what is asked when, and what becomes of it
mod gathered; // what is new in a session
mod question; // what is asked, and what its answer says
mod answer; // an answer, as a model writes it
mod dialect; // how endpoints want to be asked
mod client; // the way to them

pub use client::{Client, Failure};
pub use dialect::Dialect;
pub use key::{KeyError, Secret};
pub use question::{Known, Question};
pub use queue::{Ask, Ended, Next, Purpose, Queue};
pub use settings::{Settings, SettingsError};
