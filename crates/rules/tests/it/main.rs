//! Rules at the border of the crate: text in, verdicts out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod given; // actions and rules in few words
mod language; // lines of text as rules
mod table; // the cases of the specification, and a file of disguises
mod scope; // who and when a rule is for
mod agents; // inputs as real agents write them
mod compiled; // the form that is loaded
mod hostile; // bytes as rules and commands
mod laws; // what holds for all rules and all inputs
mod real_shells; // words as bash and dash split them
