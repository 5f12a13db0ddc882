//! Everything agents have written, into the journal.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

use capture::{
    AGENTS, CaptureError, DatabaseGuard, Environment, IngestProgress, IngestSummary, Ingester,
    Sink, SourceIndex, SourceWatcher, StopFlag, Waker, WatchStopper,
};
use event::Time;
use journal::{Claim, ClaimError, Journal, ReadError, StorageError};

use crate::admission::Gate;
use crate::hook_ingest::HookIngest;
use crate::hook_queue::HookQueue;
use crate::import::Slice;
use crate::policy::{RecordingPolicy, Retention};
use crate::recorder::Recorder;
use crate::view_saver::{RecordedViews, ViewSaver};
use host::{HostProbe, Processes};

/// Facts of sessions that are being written are kept at most this often.
const KEEP_EVERY: Duration = Duration::from_secs(2);

/// How often it is asked which sessions have fallen silent, and what is kept for too long.
const UPKEEP_EVERY: Duration = Duration::from_secs(5 * 60);

/// What only one process does at a time: two would read the same lines and keep their originals
/// twice.
const TASK: &str = "ingest";

/// Reads what agents write.
pub struct Ingest<'a> {
    pub journal: &'a Journal,
    pub environment: &'a Environment,
    pub clock: &'a (dyn Fn() -> Time + Sync),
    pub policy: RecordingPolicy,
    /// Shared by all passes: a database that waits in one of them waits in the next.
    pub guard: DatabaseGuard,
}

/// What a pass has brought.
#[derive(Debug)]
pub struct Ingested {
    /// Sessions that were unknown before.
    pub sessions_new: u64,
    /// Known sessions with news.
    pub sessions_updated: u64,
    pub sessions_total: u64,
    /// Events that are now recorded and were not before.
    pub events: u64,
    pub read: IngestSummary,
}

#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("cannot read what agents write: {0}")]
    Claim(#[from] ClaimError),
    #[error("no thread can be started to read what agents write")]
    Thread(#[source] io::Error),
}

/// What one slice of catching up has brought.
#[derive(Debug)]
pub struct Caught {
    pub slice: Slice,
    /// Everything there is was read.
    pub is_current: bool,
    /// A session that was known before has gone on.
    pub goes_on: bool,
}

impl Ingest<'_> {
    /// Reads every source to its end, counts it and makes it searchable. Asked to stop, it leaves
    /// the rest to the next time.
    pub fn ingest_all(
        &self,
        stop: &StopFlag,
        tell: &mut dyn FnMut(&IngestProgress),
    ) -> Result<Ingested, IngestError> {
        self.run_pass(stop, |ingester, recorder| {
            let mut read = ingester.ingest_all(recorder, tell)?;
            // Without a daemon no queue exists; messages of hooks wait in the spool and among the
            // signals.
            let mut hook_ingest = HookIngest::new(self.journal, HookQueue::default());
            self.ingest_hooks(&mut hook_ingest, ingester, recorder, &mut read)?;
            // Last: files and hooks may show that a session goes on.
            self.close_silent(ingester, recorder, &mut read)?;
            self.remove_old(self.policy.originals)?;
            Ok(read)
        })
    }

    /// Reads everything of one agent again with the present parsers, from what was kept of it, and
    /// adds what was not understood before.
    pub fn reparse_agent(
        &self,
        provider: &str,
        stop: &StopFlag,
        tell: &mut dyn FnMut(&IngestProgress),
    ) -> Result<Ingested, IngestError> {
        self.run_pass(stop, |ingester, recorder| Ok(ingester.reparse(provider, recorder, tell)?))
    }

    /// The right to read what agents write, for as long as it is held.
    pub fn claim_reading(&self) -> Result<Claim, ClaimError> {
        self.journal.claim(TASK)
    }

    /// Reads what there is for some time, what was written last first. What sources tell of which
    /// sessions is `known` from one slice to the next.
    pub fn catch_up(
        &self,
        hook_ingest: &mut HookIngest,
        known: &mut SourceIndex,
        stop: &StopFlag,
        slice: Duration,
        tell: &mut dyn FnMut(&IngestProgress),
    ) -> Result<Caught, IngestError> {
        let begun = Instant::now();
        // Asked when the slice is over, and in any case with `stop`.
        let pause = stop.or_earlier();
        let views = RefCell::default();
        let mut recorder = Recorder::new(self.journal, Gate::new(self.policy.clone()), &views);
        let ingester = self.ingester().with_stop_flag(pause.clone());
        // Handed from slice to slice: a new one would load all sources again.
        let ingester = ingester.with_index(std::mem::take(known));
        let mut read = ingester.ingest_all(&mut recorder, &mut |progress| {
            if begun.elapsed() >= slice {
                pause.request_stop();
            }
            tell(progress);
        })?;
        // What hooks say is news, however much history there is.
        self.ingest_hooks(hook_ingest, &ingester, &mut recorder, &mut read)?;
        // Only once every source was read: an unread one may show that its session goes on.
        if !pause.is_asked() {
            // What has long been silent belongs to the history, too.
            self.close_silent(&ingester, &mut recorder, &mut read)?;
        }
        *known = ingester.into_known();
        // A stop must not wait for views, which can be folded again.
        if !stop.is_asked() {
            // Facts that are not saved now are folded again by their next reader.
            let _ = views.borrow_mut().save_facts(self.journal, recorder.sessions.keys());
        }
        Ok(Caught {
            slice: Slice {
                sources: read.sources,
                bytes: read.bytes,
                events: recorder.recorded,
                span: recorder.span,
            },
            is_current: !pause.is_asked(),
            goes_on: recorder.sessions.values().any(|is_known| *is_known),
        })
    }

    pub(crate) fn ingester(&self) -> Ingester<'_> {
        Ingester::new(AGENTS, self.environment, self.clock).with_guard(self.guard.clone())
    }

    /// Claims the sources, lets `read` make a pass over them, counts what it brought and makes that
    /// searchable.
    fn run_pass(
        &self,
        stop: &StopFlag,
        read: impl FnOnce(&Ingester<'_>, &mut Recorder<'_>) -> Result<IngestSummary, IngestError>,
    ) -> Result<Ingested, IngestError> {
        let _claim = self.claim_reading()?;
        let views = RefCell::default();
        let mut recorder = Recorder::new(self.journal, Gate::new(self.policy.clone()), &views);
        let ingester = self.ingester();
        let read = read(&ingester.with_stop_flag(stop.clone()), &mut recorder)?;
        self.journal.originals().sync().map_err(ReadError::from)?;
        views.borrow_mut().save_facts(self.journal, recorder.sessions.keys())?;
        // In portions, so that a stop takes effect between two of them.
        while !stop.is_asked() && self.journal.index()?.is_some() {}
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
    /// `begun` is given the way to stop it; `tell` is called after every round with news.
    pub fn follow(
        &self,
        begun: impl FnOnce(WatchStopper),
        tell: &mut dyn FnMut(&IngestSummary),
    ) -> Result<(), IngestError> {
        let _claim = self.claim_reading()?;
        let mut hook_ingest = HookIngest::new(self.journal, HookQueue::default());
        self.follow_with(&mut hook_ingest, |stopper, _| begun(stopper), tell)
    }

    /// Does the same for a caller that holds the claim already.
    pub fn follow_with(
        &self,
        hook_ingest: &mut HookIngest,
        begun: impl FnOnce(WatchStopper, Waker),
        tell: &mut dyn FnMut(&IngestSummary),
    ) -> Result<(), IngestError> {
        // The folders have to exist before they can be watched.
        if self.journal.dir().is_some() {
            hook_ingest.create_dirs();
        }
        let ingester = self.ingester();
        let mut watch = SourceWatcher::new(ingester, hook_ingest.watched_dirs().to_vec());
        // Before the first read: a stop that comes during it must find its way.
        begun(watch.stopper(), watch.waker());
        let views = RefCell::new(RecordedViews::with_status());
        let mut recorder =
            Recorder::new(self.journal, Gate::new(self.policy.clone()), &views).for_news();
        // Due at once: sessions may have fallen silent while no process watched.
        let mut upkeep_at = (self.clock)();
        let mut hear =
            |ingester: &Ingester<'_>, sink: &mut dyn Sink, summary: &mut IngestSummary| {
                let now = (self.clock)();
                if now >= upkeep_at {
                    upkeep_at = Time::from_nanos(now.nanos() + UPKEEP_EVERY.as_nanos() as i128);
                    self.close_silent(ingester, sink, summary)?;
                    // What cannot be removed now is removed the next time.
                    let _ = self.remove_old(self.policy.originals);
                }
                self.ingest_hooks(hook_ingest, ingester, sink, summary)
            };
        let saver = ViewSaver::new(self.journal, self.clock);
        let stopper = watch.stopper();
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("views".to_owned());
            let kept = thread.spawn_scoped(scope, || {
                let kept = saver.run();
                // Stops recording, or it would go on although its originals do not reach the disk.
                stopper.stop();
                kept
            });
            let kept = kept.map_err(IngestError::Thread)?;
            let mut kept_at = Instant::now();
            let mut touched = BTreeSet::new();
            let watched = watch.run(&mut recorder, &mut hear, &mut |summary| {
                for provider in summary.by_provider.values() {
                    touched.extend(provider.sessions.iter().cloned());
                }
                // Bundled: each save is a commit of its own.
                if kept_at.elapsed() >= KEEP_EVERY {
                    saver.hand_over(views.borrow_mut().snapshot(&touched));
                    touched.clear();
                    kept_at = Instant::now();
                }
                tell(summary);
            });
            // The last views, also after an error: what was committed is right.
            saver.hand_over(views.borrow_mut().snapshot(&touched));
            saver.finish();
            let kept = kept.join().unwrap_or_else(|panic| resume_unwind(panic));
            // A saver that fails ends the watch without an error, so its own is reported behind it.
            watched?;
            Ok(kept?)
        })
    }

    /// Closes epochs that are over because no event comes any more.
    pub(crate) fn close_silent(
        &self,
        ingester: &Ingester<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        // Few sessions are silent in the middle of a turn. Only for them the host is probed, and
        // once for all.
        let (processes, around) = (Processes::default(), OnceCell::new());
        let look = || HostProbe::look(self.environment, &processes);
        let runs = |provider: &str, session: &str| around.get_or_init(look).runs(provider, session);
        ingester.close_silent(sink, summary, &runs)
    }

    /// Removes originals beyond the age or the size that the user set.
    fn remove_old(&self, retention: Retention) -> Result<(), StorageError> {
        let Retention { days, bytes, .. } = retention;
        if days.is_none() && bytes.is_none() {
            return Ok(());
        }
        // Without a limit in days, one that no journal reaches.
        let age = i128::from(days.unwrap_or(u32::MAX)) * 24 * 60 * 60 * 1_000_000_000;
        let since = Time::from_nanos((self.clock)().nanos() - age);
        self.journal.originals().retain(since, bytes.unwrap_or(u64::MAX))
    }

    /// Ingests the messages of hooks.
    fn ingest_hooks(
        &self,
        hook_ingest: &mut HookIngest,
        ingester: &Ingester<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        // A journal in memory has no folder for messages.
        if self.journal.dir().is_none() {
            return Ok(());
        }
        hook_ingest.run_pass(ingester, sink, summary, (self.clock)())
    }
}
