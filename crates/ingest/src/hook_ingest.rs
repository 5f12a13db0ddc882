//! How messages of hooks get into the journal: first those on disk, which are older, then those in
//! the queue.
//!
//! The transcripts that messages name are read first, each once however many messages name it. Then
//! each message is recorded as far as it tells more than the transcript. A message about a session
//! that is not known yet waits on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use capture::{
    CaptureError, HookMemory, IngestSummary, Ingester, SignalOutcome, Sink, Warning, WarningKind,
};
use event::{HookMessage, Source, Time};
use hooks::{
    FailureCause, HookReport, MessageHandler, SpoolSummary, StoreError, Undelivered,
    UndeliveredSummary,
};
use journal::{AppendError, Journal};

use crate::hook_queue::HookQueue;

/// Ingests all messages of hooks for one journal.
pub struct HookIngest {
    queue: HookQueue,
    undelivered: Undelivered,
    report: HookReport,
    memory: HookMemory,
}

/// One pass: what reads transcripts, where events go, and what is counted.
struct HookPass<'a, 'p> {
    ingester: &'a Ingester<'p>,
    sink: &'a mut dyn Sink,
    summary: &'a mut IngestSummary,
    memory: &'a mut HookMemory,
}

impl HookIngest {
    /// For a journal. One in memory has no folder, and no hooks.
    pub fn new(journal: &Journal, queue: HookQueue) -> HookIngest {
        let folder = journal.dir().unwrap_or(Path::new(""));
        let undelivered = Undelivered::in_journal(folder);
        let (report, memory) = (HookReport::in_journal(folder), HookMemory::default());
        HookIngest { queue, undelivered, report, memory }
    }

    /// The folders in which messages appear.
    pub fn watched_dirs(&self) -> [PathBuf; 2] {
        self.undelivered.folders().map(Path::to_owned)
    }

    /// Creates these folders, so that they can be watched. If that fails, hooks cannot write there
    /// either.
    pub fn create_dirs(&self) {
        let _ = self.undelivered.create();
    }

    /// Ingests what has come since the last pass.
    pub fn run_pass(
        &mut self,
        ingester: &Ingester<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
        now: Time,
    ) -> Result<(), CaptureError> {
        let HookIngest { queue, undelivered, report, memory } = self;
        // The log of the queue keeps the messages until `finish`.
        let messages = queue.take_all();
        note_calls(&messages, report);
        let mut pass = HookPass { ingester, sink, summary, memory };
        let mut is_kept = Vec::new();
        let mut stored = UndeliveredSummary::default();
        // Transcripts first: most messages tell what stands there too, and then nothing more is
        // recorded.
        let done = pass.read_transcripts(&messages).and_then(|()| {
            undelivered.handle(now, &mut pass, &mut stored)?;
            messages.iter().try_for_each(|message| {
                is_kept.push(pass.ingest_queued(message, now, undelivered, &mut stored, report)?);
                Ok(())
            })?;
            pass.ingest_unwritten(now)
        });
        for message in std::mem::take(&mut stored.given_up) {
            let problem = "the journal does not take it; it was moved to `rejected`";
            report.note_failure(&message.provider, &message.event, problem, message.at);
        }
        // After an error the remaining messages go to disk, where they wait for a later pass.
        // `is_kept` is in step with the messages: one answer for each that was tried.
        let remaining = &messages[is_kept.len()..];
        is_kept.extend(remaining.iter().map(|message| store_if_room(message, undelivered, report)));
        // Without messages the log is left alone.
        if !messages.is_empty() {
            queue.finish(not_kept(messages, &is_kept));
        }
        let [spool, signals] = undelivered.folders();
        let warnings = warnings(spool, stored.spool).chain(warnings(signals, stored.signals));
        pass.summary.warnings.extend(warnings);
        // Only now: the queue is in order again, whatever the error.
        done
    }
}

impl HookPass<'_, '_> {
    /// Reads what is new in the transcripts that messages name.
    fn read_transcripts(&mut self, messages: &[HookMessage]) -> Result<(), CaptureError> {
        let named = messages.iter().filter_map(|message| {
            Some((message.provider.as_str(), message.transcript.as_deref()?))
        });
        let named: BTreeSet<(&str, &Path)> = named.collect();
        let Err(error) = self.read_and_settle(&named) else { return Ok(()) };
        if self.failure_cause(&error) == FailureCause::Journal {
            return Err(error);
        }
        // The journal refuses one of them, and will refuse it again. The others are read one by one,
        // so that nothing waits for it: neither the messages nor other agents.
        for transcript in named {
            let Err(error) = self.read_and_settle(&BTreeSet::from([transcript])) else { continue };
            if self.failure_cause(&error) == FailureCause::Journal {
                return Err(error);
            }
            self.summary.warnings.push(refused(transcript.1, &error));
        }
        Ok(())
    }

    fn read_and_settle(&mut self, named: &BTreeSet<(&str, &Path)>) -> Result<(), CaptureError> {
        for (provider, path) in named {
            self.ingester.read_transcript(provider, path, self.sink, self.summary)?;
        }
        if named.is_empty() {
            return Ok(());
        }
        // The messages are compared with the journal, so the transcripts have to be committed.
        self.sink.settle().map_err(CaptureError::Positions)
    }

    /// Ingests a message of the queue; whether all of it is recorded or stored on disk.
    fn ingest_queued(
        &mut self,
        message: &HookMessage,
        now: Time,
        undelivered: &mut Undelivered,
        stored: &mut UndeliveredSummary,
        report: &HookReport,
    ) -> Result<bool, CaptureError> {
        // A compaction of its session may be among the messages on disk that this pass has not
        // reached. There it gets its place behind them. A full spool is being emptied, and the
        // message waits in the queue until then.
        if stored.has_more && message.ends_history() {
            return Ok(store_if_room(message, undelivered, report));
        }
        match self.try_queued(message, now, undelivered, stored, report) {
            // On disk it waits for its next try, and later messages need not wait for it.
            Err(error) if self.failure_cause(&error) != FailureCause::Journal => {
                Ok(store_message(message, undelivered, report))
            }
            done => done,
        }
    }

    /// Records the processes of sessions whose hooks called before they had a record, if they have
    /// one now.
    fn ingest_unwritten(&mut self, now: Time) -> Result<(), CaptureError> {
        let mut failed = Ok(());
        for message in self.memory.take_unwritten(now) {
            if failed.is_ok() {
                failed = self.record_facts(&message).map(|_| ());
            }
            let Err(error) = &failed else { continue };
            match self.failure_cause(error) {
                // A later call names the process again.
                FailureCause::Message => failed = Ok(()),
                FailureCause::Transcript => {
                    self.memory.keep_unwritten(&message);
                    failed = Ok(());
                }
                FailureCause::Journal => self.memory.keep_unwritten(&message),
            }
        }
        failed
    }

    fn try_queued(
        &mut self,
        message: &HookMessage,
        now: Time,
        undelivered: &mut Undelivered,
        stored: &mut UndeliveredSummary,
        report: &HookReport,
    ) -> Result<bool, CaptureError> {
        undelivered.handle_before(message, now, self, stored)?;
        // If its facts have to wait, a message is stored whole, with its signal.
        if self.record_facts(message)? != SignalOutcome::Done {
            return Ok(store_whole(message, undelivered, report));
        }
        let is_applied = self.apply_signal(message, false)? == SignalOutcome::Done;
        // The facts are recorded, so only the signal is left to store.
        Ok(is_applied || undelivered.postpone_signal(message, now).is_ok())
    }
}

impl MessageHandler for HookPass<'_, '_> {
    fn record_facts(&mut self, message: &HookMessage) -> Result<SignalOutcome, CaptureError> {
        self.ingester.ingest_hook(message, self.memory, self.sink, self.summary)
    }

    fn apply_signal(
        &mut self,
        message: &HookMessage,
        is_followed: bool,
    ) -> Result<SignalOutcome, CaptureError> {
        // A signal that lay on disk without its message cancels the questions before it, too. Where
        // the message did so already, nothing is left to cancel.
        if message.facts.is_empty() {
            let outcome = self.record_facts(message)?;
            if outcome != SignalOutcome::Done {
                return Ok(outcome);
            }
        }
        self.ingester.apply_signal(message, is_followed, self.sink, self.summary)
    }

    fn failure_cause(&self, error: &CaptureError) -> FailureCause {
        let (source, cause) = match error {
            CaptureError::Hook(source) => (source, FailureCause::Message),
            CaptureError::Sink { source, .. }
            | CaptureError::Unrecorded(source)
            | CaptureError::Positions(source) => (source, FailureCause::Transcript),
        };
        // What does not come from the journal's check of events may be the disk.
        match source.0.downcast_ref().is_some_and(is_about_events) {
            true => cause,
            false => FailureCause::Journal,
        }
    }
}

/// Whether the journal refuses these events for what they are. Everything else may pass.
fn is_about_events(error: &AppendError) -> bool {
    match error {
        AppendError::DuplicateId { .. }
        | AppendError::BadSeq { .. }
        | AppendError::TooLarge { .. }
        | AppendError::SessionNotFound(_)
        | AppendError::SessionExists(_)
        | AppendError::SameSession(_)
        | AppendError::Deleted(..)
        | AppendError::PointOutOfRange { .. }
        | AppendError::LiveOnly(_)
        | AppendError::Ancestry(_) => true,
        AppendError::Conflict { .. }
        | AppendError::SourceMoved { .. }
        | AppendError::Busy { .. }
        | AppendError::Closed
        | AppendError::ReadOnly
        | AppendError::OutOfSpace
        | AppendError::NotDurable(_)
        | AppendError::Storage(_) => false,
    }
}

/// Notes which agents' hooks have called. A hook leaves that to the daemon once its message was
/// taken.
fn note_calls(messages: &[HookMessage], report: &HookReport) {
    let of_hooks = messages.iter().filter(|message| message.source == Source::Hook);
    // The messages are in order of time; the map keeps the last of each agent.
    let last: BTreeMap<&str, Time> =
        of_hooks.map(|message| (message.provider.as_str(), message.at)).collect();
    last.into_iter().for_each(|(agent, at)| report.note_call(agent, at));
}

/// Stores all messages of the queue on disk, when no pass will ingest them. Those that cannot be
/// stored, or find the spool full, stay in the queue and its log.
pub fn store_queue(queue: &HookQueue, journal: &Path) {
    let undelivered = Undelivered::in_journal(journal);
    let report = HookReport::in_journal(journal);
    let messages = queue.take_all();
    if messages.is_empty() {
        return;
    }
    let is_kept: Vec<bool> =
        messages.iter().map(|message| store_if_room(message, &undelivered, &report)).collect();
    queue.finish(not_kept(messages, &is_kept));
}

/// Stores a message on disk, as far as it has facts or a signal; whether it is done with.
///
/// Facts that the transcript has are stored, too: a later message may refer to them.
fn store_message(message: &HookMessage, undelivered: &Undelivered, report: &HookReport) -> bool {
    match message.facts.is_empty() {
        true => undelivered.store_signal(message).is_ok(),
        false => store_whole(message, undelivered, report),
    }
}

/// Stores a message that was not tried yet; whether it is done with. While the spool is full it stays
/// in the queue, whose limits hold: the daemon has taken it, and nothing is known to be wrong with it.
fn store_if_room(message: &HookMessage, undelivered: &Undelivered, report: &HookReport) -> bool {
    match undelivered.store_if_room(message) {
        Ok(is_stored) => is_stored,
        Err(error) => is_unnameable(&error, message, report),
    }
}

/// Stores a message in the spool that was tried and has to wait; whether it is done with.
///
/// If the spool is full it is dropped and counted, as the hook itself would do: kept in the queue it
/// would be tried with every pass, and take the room of new ones.
fn store_whole(message: &HookMessage, undelivered: &Undelivered, report: &HookReport) -> bool {
    match undelivered.store_message(message) {
        Ok(()) => true,
        Err(StoreError::SpoolFull) => {
            let problem = "the spool is full";
            report.note_failure(&message.provider, &message.event, problem, message.at);
            true
        }
        Err(error) => is_unnameable(&error, message, report),
    }
}

/// Whether no file can have the name of a message. Then it is dropped and counted: kept in the queue it
/// would be in the way of all later ones. Other failures, such as a full disk, pass.
fn is_unnameable(error: &StoreError, message: &HookMessage, report: &HookReport) -> bool {
    let StoreError::Spool(error) = error else { return false };
    let is_it = matches!(error.kind(), ErrorKind::InvalidFilename | ErrorKind::NotFound);
    if is_it {
        let problem = "no file can have its name";
        report.note_failure(&message.provider, &message.event, problem, message.at);
    }
    is_it
}

/// The messages that are neither recorded nor stored.
fn not_kept(messages: Vec<HookMessage>, is_kept: &[bool]) -> Vec<HookMessage> {
    let messages = messages.into_iter().zip(is_kept);
    messages.filter(|(_, is_kept)| !**is_kept).map(|(message, _)| message).collect()
}

/// A transcript whose events the journal does not take.
fn refused(path: &Path, error: &CaptureError) -> Warning {
    let reason = error.source().map(ToString::to_string).unwrap_or_default();
    Warning {
        kind: WarningKind::Unreadable,
        provider: "hansard",
        version: None,
        path: Some(path.to_owned()),
        message: format!("the journal does not take its events: {reason}"),
        count: 1,
    }
}

/// What the user should know about a pass over a folder.
fn warnings(folder: &Path, summary: SpoolSummary) -> impl Iterator<Item = Warning> {
    let SpoolSummary { rejected, orphaned, .. } = summary;
    let folder: PathBuf = folder.to_owned();
    let rejected = rejected.into_iter().map(move |(name, reason)| {
        (Some(folder.join(name)), format!("{reason}; it was moved to `rejected`"), 1)
    });
    let orphaned = (orphaned > 0)
        .then(|| (None, format!("{orphaned} signals of unknown sessions were dropped"), orphaned));
    rejected.chain(orphaned).map(|(path, message, count)| Warning {
        kind: WarningKind::Signal,
        provider: "hansard",
        version: None,
        path,
        message,
        count,
    })
}

#[cfg(test)]
mod tests;
