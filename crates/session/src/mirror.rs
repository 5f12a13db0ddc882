//! A session copied into another journal as it happens.
//!
//! The copy has the same events in the same order, numbered as they arrive; a second telling of
//! one that is there changes nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use event::{Draft, SessionId};
use journal::{
    AppendOutcome, ArtifactError, Batch, Delivery, ExpectedBody, FollowError, FollowFrom, Journal,
    OnLag, ReadError, Selection, Subscription,
};

use crate::{Session, SessionError};

/// How long the copier sleeps before it looks whether it is to stop.
const STOP_POLL: Duration = Duration::from_millis(250);

/// Events that are copied in one transaction: enough to catch up quickly, few enough that
/// detaching does not wait long.
const COPY_MAX: usize = 256;

/// Not told to stop yet.
const RUNNING: u64 = u64::MAX;

/// Copies events in order, each once. The source never waits for it and never fails because of
/// it; the first error is kept for the next call of `check_health` or `detach`.
pub struct Mirror {
    shared: Arc<MirrorShared>,
    source: Journal,
    session_id: SessionId,
    thread: Option<JoinHandle<()>>,
}

struct MirrorShared {
    /// The last event to copy, once detaching.
    stop_after: AtomicU64,
    failed: Mutex<Option<SessionError>>,
}

impl Session {
    /// Copies this session into `target`, from a point on.
    pub fn mirror(&self, target: &Journal, from: FollowFrom) -> Result<Mirror, SessionError> {
        let copied = match from {
            FollowFrom::Now => last_seq(self.journal(), self.session_id())?,
            FollowFrom::Beginning => 0,
            FollowFrom::At(seq) => seq.saturating_sub(1),
        };
        self.mirror_behind(target, copied)
    }

    /// Copies on behind the newest event that `target` has of this session: after a restart
    /// nothing is missing and nothing is copied again.
    pub fn mirror_on(&self, target: &Journal) -> Result<Mirror, SessionError> {
        let copied = last_copied(self.journal(), target, self.session_id())?;
        self.mirror_behind(target, copied)
    }

    fn mirror_behind(&self, target: &Journal, copied: u64) -> Result<Mirror, SessionError> {
        if self.journal().is_same(target) {
            return Err(SessionError::BadArgument {
                argument: self.session_id().to_string(),
                expected: "a session of another journal than the one it is mirrored into",
            });
        }
        // By number and not from now on: what comes until the stream is open belongs to it.
        let subscription = self.follow(FollowFrom::At(copied + 1), OnLag::CatchUp)?;
        let shared = Arc::new(MirrorShared {
            stop_after: AtomicU64::new(RUNNING),
            failed: Mutex::new(None),
        });
        let copier = Copier {
            shared: Arc::clone(&shared),
            subscription,
            source: self.journal().clone(),
            target: target.clone(),
            copied,
        };
        let thread = std::thread::Builder::new()
            .name("session mirror".to_owned())
            .spawn(move || copier.run())
            .expect("a thread can be started");
        Ok(Mirror {
            shared,
            source: self.journal().clone(),
            session_id: self.session_id().clone(),
            thread: Some(thread),
        })
    }
}

impl Mirror {
    /// Tells what went wrong so far.
    pub fn check_health(&self) -> Result<(), SessionError> {
        match &*self.shared.lock_failure() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Stops copying after everything that is in the source now is stored in the target.
    pub fn detach(mut self) -> Result<(), SessionError> {
        self.stop()?;
        self.check_health()
    }

    fn stop(&mut self) -> Result<(), SessionError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let tail = last_seq(&self.source, &self.session_id);
        // A source that cannot be asked any more has nothing to wait for.
        self.shared.stop_after.store(*tail.as_ref().unwrap_or(&0), Ordering::SeqCst);
        // A panic of the copier is not repeated here; the events that it copied are in the target.
        let _ = thread.join();
        tail?;
        Ok(())
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // Only `check_health` and `detach` report the first error; dropping a mirror ignores it.
        let _ = self.stop();
    }
}

impl MirrorShared {
    fn lock_failure(&self) -> std::sync::MutexGuard<'_, Option<SessionError>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Copier {
    shared: Arc<MirrorShared>,
    subscription: Subscription,
    source: Journal,
    target: Journal,
    copied: u64,
}

impl Copier {
    fn run(mut self) {
        if let Err(error) = self.copy_events() {
            *self.shared.lock_failure() = Some(error);
        }
    }

    fn copy_events(&mut self) -> Result<(), SessionError> {
        // `RUNNING` is larger than any number, so the loop runs until `stop` sets a last event.
        while self.copied < self.stop_after() {
            let (drafts, ended) = self.next_batch();
            self.put_batch(drafts)?;
            match ended {
                None => {}
                Some(FollowError::Closed) => return Ok(()),
                Some(FollowError::Failed(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn stop_after(&self) -> u64 {
        self.shared.stop_after.load(Ordering::SeqCst)
    }

    /// Waits for an event and takes what has come with it.
    fn next_batch(&mut self) -> (Vec<Draft>, Option<FollowError>) {
        let mut drafts = Vec::new();
        let mut patience = STOP_POLL;
        // Waits for the first event only; the rest of the batch is what has come by then.
        while drafts.len() < COPY_MAX && self.copied < self.stop_after() {
            match self.subscription.next_within(patience) {
                Ok(Some(Delivery::Event(recorded))) => {
                    self.copied = recorded.event.seq;
                    drafts.push(recorded.event.draft.clone());
                    patience = Duration::ZERO;
                }
                // Notices of the stream, such as being behind, carry no event.
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(ended) => return (drafts, Some(ended)),
            }
        }
        (drafts, None)
    }

    fn put_batch(&self, drafts: Vec<Draft>) -> Result<(), SessionError> {
        let Some(first) = drafts.first().cloned() else { return Ok(()) };
        // Bodies first: an event never names a body that is not there.
        for id in drafts.iter().flat_map(|draft| draft.artifact_ids()) {
            self.put_body(&id)?;
        }
        // An import takes a batch of any size. `COPY_MAX` counts events, and each may be large.
        // Observed, because the events passed the rules in the source already.
        let receipt = self.target.import(Batch::observed().with_all(drafts))?;
        if receipt.events.iter().any(|appended| appended.outcome == AppendOutcome::Ignored) {
            // An ignored event means that the target has deleted the session. A hosted append
            // gives the proper error for it.
            self.target.append(Batch::hosted().with(first))?;
        }
        Ok(())
    }

    fn put_body(&self, id: &str) -> Result<(), SessionError> {
        let body = match self.source.artifacts().open(id) {
            // A reference to a file outside has no body to copy.
            Err(ArtifactError::ArtifactNotFound(_) | ArtifactError::BadArtifactId(_)) => {
                return Ok(());
            }
            body => body?,
        };
        let known = self.target.artifacts().stat(id);
        // Copied before, for example by a mirror that was stopped between the body and its event.
        if known.is_ok_and(|known| known.digest == body.body().digest) {
            return Ok(());
        }
        self.target.artifacts().put(id, body, ExpectedBody::default())?;
        Ok(())
    }
}

/// The last event of a session; 0 for one that has not begun.
fn last_seq(journal: &Journal, id: &SessionId) -> Result<u64, ReadError> {
    match journal.stat(id) {
        Ok(info) => Ok(info.tail_seq),
        Err(ReadError::SessionNotFound(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// The newest event of a session that another journal has too; 0 for none.
fn last_copied(source: &Journal, target: &Journal, id: &SessionId) -> Result<u64, SessionError> {
    if last_seq(source, id)? == 0 || last_seq(target, id)? == 0 {
        return Ok(0);
    }
    // The target may have events of its own behind the copied ones, so the newest shared one
    // counts.
    for event in target.events(id, Selection::all().newest_first())? {
        if let Some(seq) = source.seq_of(id, event?.id)? {
            return Ok(seq);
        }
    }
    Ok(0)
}
