//! Everything agents have written, into the journal.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use capture::{AGENTS, CaptureError, Environment, Progress, Pump, Stopper, Summary, Watch};
use event::Time;
use journal::{ClaimError, Journal, ReadError};

use crate::recorder::Recorder;

/// Facts of sessions that are being written are kept at most this often.
const KEEP_EVERY: Duration = Duration::from_secs(2);

/// What only one process does at a time: two would read the same lines and keep their originals
/// twice.
const TASK: &str = "ingest";

/// Reads what agents write.
pub struct Ingest<'a> {
    pub journal: &'a Journal,
    pub environment: &'a Environment,
    pub clock: &'a dyn Fn() -> Time,
}

/// What a pass has brought.
#[derive(Debug)]
pub struct Ingested {
    /// Sessions nobody knew before.
    pub sessions_new: u64,
    /// Known sessions with news.
    pub sessions_updated: u64,
    pub sessions_total: u64,
    /// Events that are now recorded and were not before.
    pub events: u64,
    pub read: Summary,
}

#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot read what agents write: {0}")]
    Claim(#[from] ClaimError),
}

impl Ingest<'_> {
    /// Reads every source to its end, counts it and makes it searchable.
    pub fn once(&self, tell: &mut dyn FnMut(&Progress)) -> Result<Ingested, IngestError> {
        let _claim = self.journal.claim(TASK)?;
        let facts = RefCell::default();
        let mut recorder = Recorder::new(self.journal, &facts);
        let pump = Pump::new(AGENTS, self.environment, self.clock);
        let read = pump.once(&mut recorder, tell)?;
        self.journal.originals().sync().map_err(ReadError::from)?;
        facts.borrow_mut().keep(self.journal, recorder.sessions.keys())?;
        while self.journal.index()?.is_some() {}
        let known = recorder.sessions.values().filter(|is_known| **is_known).count();
        Ok(Ingested {
            sessions_new: (recorder.sessions.len() - known) as u64,
            sessions_updated: known as u64,
            sessions_total: self.journal.session_count()?,
            events: recorder.recorded,
            read,
        })
    }

    /// Reads everything there is, and goes on as agents write until it is stopped.
    ///
    /// `begun` is given the way to stop it; `tell` hears of every round that brought something.
    pub fn follow(
        &self,
        begun: impl FnOnce(Stopper),
        tell: &mut dyn FnMut(&Summary),
    ) -> Result<(), IngestError> {
        let _claim = self.journal.claim(TASK)?;
        let mut watch = Watch::new(Pump::new(AGENTS, self.environment, self.clock));
        begun(watch.stopper());
        let facts = RefCell::default();
        let mut recorder = Recorder::new(self.journal, &facts);
        let mut kept_at = Instant::now();
        let mut touched = BTreeSet::new();
        watch.run(&mut recorder, &mut |summary| {
            for provider in summary.by_provider.values() {
                touched.extend(provider.sessions.iter().cloned());
            }
            if kept_at.elapsed() >= KEEP_EVERY {
                // What cannot be kept now is folded when somebody asks for it.
                let _ = facts.borrow_mut().keep(self.journal, &touched);
                touched.clear();
                kept_at = Instant::now();
            }
            tell(summary);
        })?;
        self.journal.originals().sync().map_err(ReadError::from)?;
        Ok(facts.borrow_mut().keep(self.journal, &touched)?)
    }
}
