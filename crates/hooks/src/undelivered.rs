//! Messages that no daemon took, on disk: each in one place, the spool or the folder of signals.
//!
//! A pass handles the messages of both folders in one order, by the time of the call. A compaction
//! may have to wait, because the agent's own record of it says more. Before a clear or stop of its
//! session is handled it is tried once more: else the epoch would be closed as cleared.

use std::io;
use std::path::Path;

use capture::{CaptureError, SignalOutcome};
use event::{HookMessage, Time};

use crate::signals::Signals;
use crate::spool::Spool;
use crate::spool_dir::{SpoolDir, SpoolSummary};

/// Messages handled in one pass, of both folders together: the oldest. The others wait for the next
/// pass.
const PASS_MAX: usize = 1_000;

/// The two folders for messages that no daemon took.
#[derive(Debug)]
pub struct Undelivered {
    spool: Spool,
    signals: Signals,
}

/// What brings messages into the journal.
pub trait MessageHandler {
    /// Records what no transcript has.
    fn record_facts(&mut self, message: &HookMessage) -> Result<SignalOutcome, CaptureError>;

    /// Records what the signal announces. `is_followed` says that the session was cleared or
    /// stopped after it, so that it cannot wait for the agent's own record any longer.
    fn apply_signal(
        &mut self,
        message: &HookMessage,
        is_followed: bool,
    ) -> Result<SignalOutcome, CaptureError>;

    /// What an error is about.
    fn failure_cause(&self, error: &CaptureError) -> FailureCause;
}

/// What the failure of a message is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureCause {
    /// The events of the message itself. It is given up after some tries.
    Message,
    /// The transcript, which is read before its message. The message waits for it, however long.
    Transcript,
    /// The journal takes nothing now, which ends the pass. The message waits, and the next pass begins
    /// with others.
    Journal,
}

/// What one pass over both folders did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UndeliveredSummary {
    pub spool: SpoolSummary,
    pub signals: SpoolSummary,
    /// More messages are due than one pass handles.
    pub has_more: bool,
    /// Messages that failed by themselves too often; their files were moved aside.
    pub given_up: Vec<HookMessage>,
}

/// A file of one of the folders. Files sort by the time of the call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct WaitingFile {
    at: Time,
    name: String,
    is_signal: bool,
}

/// Why a message could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the spool is full")]
    SpoolFull,
    #[error("the spool could not be written")]
    Spool(#[source] io::Error),
    #[error("the signal could not be written")]
    Signal(#[source] io::Error),
}

impl Undelivered {
    /// The folders of the journal in this folder.
    pub fn in_journal(journal: &Path) -> Undelivered {
        let (spool, signals) = (Spool::in_journal(journal), Signals::in_journal(journal));
        Undelivered { spool, signals }
    }

    /// The folders of the spool and of the signals.
    pub fn folders(&self) -> [&Path; 2] {
        [self.spool.dir.path(), self.signals.dir.path()]
    }

    /// Creates both folders, for their owner only.
    pub fn create(&self) -> io::Result<()> {
        self.signals.dir.create().and_then(|()| self.spool.dir.create())
    }

    /// Handles the messages that are due, oldest first. A file stays until its message is done with.
    /// The summary counts what was handled before an error, too.
    pub fn handle(
        &mut self,
        now: Time,
        handler: &mut dyn MessageHandler,
        summary: &mut UndeliveredSummary,
    ) -> Result<(), CaptureError> {
        // The oldest of both folders are among these.
        let (spooled, spooled_count) = self.spool.due_files(PASS_MAX, now);
        let (signaled, signaled_count) =
            self.signals.due_files(PASS_MAX, now, &mut summary.signals);
        let mut files = waiting_files(spooled, signaled);
        // Counted before files that cannot be read are left out: others wait behind these.
        summary.has_more = spooled_count + signaled_count > PASS_MAX;
        files.truncate(PASS_MAX);
        // An error stops the pass: the journal takes nothing now, and the files wait.
        let handled =
            files.into_iter().try_for_each(|file| self.handle_file(file, now, handler, summary));
        self.spool.correct_room();
        handled
    }

    /// Tries the earlier messages of a session again that wait on disk, before a message that ends
    /// its history is handled.
    pub fn handle_before(
        &mut self,
        message: &HookMessage,
        now: Time,
        handler: &mut dyn MessageHandler,
        summary: &mut UndeliveredSummary,
    ) -> Result<(), CaptureError> {
        if !message.ends_history() {
            return Ok(());
        }
        let Undelivered { spool, signals } = self;
        let waiting =
            waiting_files(spool.dir.waiting_before(message), signals.dir.waiting_before(message));
        for file in waiting {
            if let Some(earlier) = self.read(&file, now, summary) {
                self.handle_message(file, earlier, true, now, handler, summary)?;
            }
        }
        Ok(())
    }

    fn handle_file(
        &mut self,
        file: WaitingFile,
        now: Time,
        handler: &mut dyn MessageHandler,
        summary: &mut UndeliveredSummary,
    ) -> Result<(), CaptureError> {
        let Some(message) = self.read(&file, now, summary) else { return Ok(()) };
        if let Err(error) = self.handle_before(&message, now, handler, summary) {
            // It would meet the same error in every pass, in front of all others.
            self.dir_of(&file).retry_later(file.name, message, now);
            return Err(error);
        }
        self.handle_message(file, message, false, now, handler, summary)
    }

    fn dir_of(&mut self, file: &WaitingFile) -> &mut SpoolDir {
        match file.is_signal {
            true => &mut self.signals.dir,
            false => &mut self.spool.dir,
        }
    }

    /// Handles a message. One that fails by itself waits, so that it is not in the way of the others,
    /// and is given up in the end.
    fn handle_message(
        &mut self,
        file: WaitingFile,
        message: HookMessage,
        is_followed: bool,
        now: Time,
        handler: &mut dyn MessageHandler,
        summary: &mut UndeliveredSummary,
    ) -> Result<(), CaptureError> {
        let (is_signal, name) = (file.is_signal, file.name.clone());
        let tried = message.clone();
        let Err(error) = self.try_message(file, message, is_followed, now, handler, summary) else {
            return Ok(());
        };
        let (dir, counted) = match is_signal {
            true => (&mut self.signals.dir, &mut summary.signals),
            false => (&mut self.spool.dir, &mut summary.spool),
        };
        match handler.failure_cause(&error) {
            FailureCause::Message => {
                if dir.fail(name, tried.clone(), now, counted) {
                    summary.given_up.push(tried);
                }
            }
            FailureCause::Transcript => dir.retry_later(name, tried, now),
            FailureCause::Journal => {
                // Perhaps only its own session cannot be read or written: the next pass begins with
                // the others. It is never given up, for the journal may take nothing at all now.
                dir.retry_later(name, tried, now);
                return Err(error);
            }
        }
        Ok(())
    }

    fn try_message(
        &mut self,
        file: WaitingFile,
        message: HookMessage,
        is_followed: bool,
        now: Time,
        handler: &mut dyn MessageHandler,
        summary: &mut UndeliveredSummary,
    ) -> Result<(), CaptureError> {
        if file.is_signal {
            let dir = &mut self.signals.dir;
            match handler.apply_signal(&message, is_followed)? {
                SignalOutcome::Done => dir.finish(&file.name, &mut summary.signals),
                _ => dir.retry_later(file.name, message, now),
            }
            return Ok(());
        }
        // After a crash behind this step, the next pass records the same facts without effect.
        let is_done = handler.record_facts(&message)? == SignalOutcome::Done
            && (handler.apply_signal(&message, is_followed)? == SignalOutcome::Done
                // The facts are recorded, and a signal needs no room in the spool.
                || self.postpone_signal(&message, now).is_ok());
        match is_done {
            true => self.spool.dir.finish(&file.name, &mut summary.spool),
            false => self.spool.dir.retry_later(file.name, message, now),
        }
        Ok(())
    }

    fn read(
        &mut self,
        file: &WaitingFile,
        now: Time,
        summary: &mut UndeliveredSummary,
    ) -> Option<HookMessage> {
        match file.is_signal {
            true => self.signals.read(&file.name, now, &mut summary.signals),
            false => self.spool.read(&file.name, now, &mut summary.spool),
        }
    }

    /// Stores the whole message in the spool. A spool that takes no more still leaves the signal,
    /// which needs no room there.
    pub fn store_message(&self, message: &HookMessage) -> Result<(), StoreError> {
        let error = match self.spool.add(message) {
            Ok(true) => return Ok(()),
            Ok(false) => StoreError::SpoolFull,
            Err(error) => StoreError::Spool(error),
        };
        // The signal fits a few bytes and tells at least that the turn or session has ended.
        self.store_signal(message)?;
        Err(error)
    }

    /// Stores a message on disk, in the one place it belongs to; `false` if the spool is full. Then
    /// nothing of it is stored.
    pub fn store_if_room(&self, message: &HookMessage) -> Result<bool, StoreError> {
        match message.facts.is_empty() {
            true => self.store_signal(message).map(|()| true),
            false => self.spool.add(message).map_err(StoreError::Spool),
        }
    }

    /// Stores the signal of a message whose facts are recorded. A message that ends the history of
    /// its session finds it there.
    pub fn postpone_signal(&mut self, message: &HookMessage, now: Time) -> Result<(), StoreError> {
        self.store_signal(message)?;
        self.signals.dir.retry_later(Signals::file_name(message), message.clone(), now);
        Ok(())
    }

    /// Stores the signal of a message, if it has one, in the folder of signals.
    pub fn store_signal(&self, message: &HookMessage) -> Result<(), StoreError> {
        self.signals.add(message).map_err(StoreError::Signal)
    }
}

/// The files of both folders in the order of their calls.
fn waiting_files(spooled: Vec<(Time, String)>, signaled: Vec<(Time, String)>) -> Vec<WaitingFile> {
    let spooled = spooled.into_iter().map(|(at, name)| (at, name, false));
    let signaled = signaled.into_iter().map(|(at, name)| (at, name, true));
    let files = spooled.chain(signaled);
    let mut files: Vec<WaitingFile> =
        files.map(|(at, name, is_signal)| WaitingFile { at, name, is_signal }).collect();
    files.sort();
    files
}
