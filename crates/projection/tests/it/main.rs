//! The projections at their border: events in, what people look at out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod given; // logs to fold
mod facts; // what a list of sessions shows
mod ending; // how a session stands at the end
mod spend; // tokens, money and what they are grouped by
mod price; // which price applies
mod budget; // how much may be spent
mod status; // what a session is doing, and why
mod resumed; // what a later process finds
mod attention; // what it wants of a person
mod hot; // the newest part of a session
mod turn; // from a prompt to the end of its answer
mod text; // a session as text
mod digest; // what is worth keeping of an epoch
mod model; // what a model said of a session
mod tool; // what calls do
mod quality; // how the work went
mod epoch; // ranges of epochs
mod activity; // work without a long pause, and what kind it was
mod document; // sessions as documents
mod lives; // random logs, folded in any split
