//! Proofs with real processes: what the journal promises holds when programs are killed, when
//! several work at once, when bytes change and when the disk says no.
//!
//! Every proof runs for every durable store and prints what it did. `HANSARD_TEST_CRASHES` sets
//! the number of kills per store, `HANSARD_TEST_SECONDS` how long programs race, and
//! `HANSARD_TEST_SEED` repeats the chance of an earlier run.
// Tells the lints that all of this is a test, where a panic is an answer and printing a report.
#![cfg(test)]

mod worker; // the other process, and how it ends
mod test_journal; // a journal in a temporary folder
mod account; // what must be there

mod kill; // at any instant
mod copying; // while the log is copied
mod migrate; // in the middle of a migration
mod repair; // in the middle of a repair
mod processes; // several at once
mod in_use; // one comes and goes while another stays
mod deleting; // what may be deleted, in use or not
mod damage; // changed bytes, cut files
mod disk; // full, read-only, not ours

/// Makes a test per durable store of a function that takes one.
macro_rules! in_every_store {
    ($($proof:ident),* $(,)?) => {
        $(mod $proof {
            #[test]
            fn sqlite() {
                super::$proof(journal::StoreKind::Sqlite);
            }

            #[test]
            fn files() {
                super::$proof(journal::StoreKind::Files);
            }
        })*
    };
}
use in_every_store;

/// A number from the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}
