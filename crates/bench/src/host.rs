//! A clock and dice for sessions: later with every look, and never the same twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::Time;
use journal::Journal;
use session::{Host, Stamps};

/// Where the clock starts: after everything a corpus tells.
const BEGINNING_MS: i64 = 1_900_000_000_000;

/// Looks so far, of all hosts: a journal that is opened again meets no id twice.
static LOOKS: AtomicU64 = AtomicU64::new(0);

struct Counter;

impl Stamps for Counter {
    fn now(&self) -> Time {
        Time::from_millis(BEGINNING_MS + LOOKS.fetch_add(1, Ordering::Relaxed) as i64)
    }

    fn tail(&self) -> [u8; 10] {
        let mut tail = [0xbe; 10];
        tail[..8].copy_from_slice(&LOOKS.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        tail
    }
}

/// A host over a journal.
pub(crate) fn make_host(journal: &Journal) -> Host {
    Host::new(journal.clone(), Arc::new(Counter))
}
