//! The steps from a closed epoch to its dream.
//!
//! `observe.observing` → the handlers, as tasks → `observe.transcribed`, `observe.described` →
//! `observe.observed` → a dream. Each step is appended to the segment's `events.jsonl` and then
//! published on the bus; a step that is in that log is not taken again. The chain is a consumer of
//! the journal. It advances past an epoch only when the epoch is stored in the work queue, from which
//! it is removed when all steps are done. After a crash the chain begins what the queue holds again.
//! Each handler has a queue of its own: a slow or failing one delays no other.

mod work_queue; // work that is pending
mod calendar; // dreams that are due by the clock
mod event_log; // the event log of a segment
mod handler_queues; // whose turn it is, handler by handler
mod handler_status; // what handlers are busy with, every few seconds
mod steps; // one segment, step by step

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bus::{FieldValue, Message};
use event::{Kind, SessionId, Time};
use journal::{AppendError, Journal, ReadError, Recorded, SessionInfo};
use projection::{Chronicle, Projection};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dream::{self, Dream};
use crate::segment::{
    Segment, SegmentError, SegmentKey, SegmentOutput, folder_of, forget_deleted, write_durably,
};
use crate::zone::Zone;
use calendar::Calendar;
use event_log::EventLogs;
use handler_queues::HandlerQueues;
use handler_status::HandlerStatus;
use steps::ActiveSegment;
use supervise::Day;
use views::chronicle_if_exists;
use wire::health_dir;
use work_queue::{PendingWork, WorkItem, WorkQueue};

pub use steps::HandlerTarget;

/// The name the chain has as a consumer of the journal.
const CONSUMER: &str = "chain";

/// File of the calendar and the work queue, in the health folder.
const STATE: &str = "chain.json";

/// An epoch that ended longer ago is history: it is described in this process instead of by
/// handlers, so that an import of years starts no thousands of processes. The limit has to be
/// longer than the silence that closes an epoch.
const HISTORY_MILLIS: i128 = 2 * 60 * 60 * 1_000;

/// Files that one announcement may name. The rest is ignored.
const FILES_MAX: usize = 1_000;

/// Bytes of the name of another machine. A longer one is left out.
const REMOTE_BYTES_MAX: usize = 256;

/// Bytes of the `meta` of an announcement. Handlers get an empty one instead of a longer one.
const META_BYTES_MAX: usize = 64 * 1024;

/// Version of the program, in the `rev` field of messages.
pub const REVISION: &str = env!("CARGO_PKG_VERSION");

/// The `by` field of messages of the chain. They are in the event log before they are on the bus;
/// the same step with another sender is not a step of the chain.
const BY: &str = "hansard";

/// What the chain needs from the daemon: the bus, the log, the clock and the supervisor's tasks.
pub trait ChainRuntime {
    /// Publishes a message on the bus.
    fn publish(&mut self, message: &Value);

    /// Logs a warning.
    fn warn(&mut self, words: &str);

    /// Logs an error and shows it to the user.
    fn alarm(&mut self, title: &str, words: &str);

    /// Returns the current time.
    fn now(&self) -> Time;

    /// Returns the name of this machine.
    fn host(&self) -> &str;

    /// Returns whether the daemon is stopping.
    fn is_stopping(&self) -> bool;

    /// Returns the names of the user's handlers for a file.
    fn handlers_for(&self, file: &str) -> Vec<String>;

    /// Queues a run of a handler for a file of a segment; returns its ref.
    fn start_handler(
        &mut self,
        target: &HandlerTarget,
        handler: &str,
        file: &str,
    ) -> Result<String, TaskError>;

    /// Returns the next event of a run, if there is one. Never waits. A run that ends because the
    /// daemon stops has none.
    fn poll_handler(&mut self, run: &str) -> Option<HandlerEvent>;

    /// Queues a dream. A queued dream survives a crash.
    fn queue_dream(&mut self, dream: &Dream) -> Result<(), TaskError>;

    /// Takes note of a file of an epoch that came as history, and whether it was written now.
    fn note_history(&mut self, key: &SegmentKey, output: SegmentOutput, is_new: bool);

    /// Returns whether the user has a command of their own for this dream. The files that such a
    /// command leaves are unknown.
    fn has_replacement(&self, dream: &Dream) -> bool;
}

/// An event of a handler's run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandlerEvent {
    /// Its process exists.
    Started { at: Instant },
    /// It ended with this exit code, or never ran.
    Ended { exit_code: i32, at: Instant },
}

/// Why a task was not queued.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("cannot queue a task now: {0}")]
    Unavailable(String),
    #[error("cannot be run: {0}")]
    Invalid(String),
}

#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    #[error("a journal in memory has no folder for segments")]
    NoFolder,
    #[error("the work queue is full")]
    Behind,
    #[error("cannot use the event log of a segment in `{path}`: {cause}")]
    Events { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl ChainError {
    /// Returns whether the error concerns one segment, so that the next one may succeed.
    fn is_about_one(&self) -> bool {
        match self {
            ChainError::Events { cause, .. }
            | ChainError::Segment(SegmentError::Io { cause, .. }) => !is_disk_full(cause),
            ChainError::Segment(_) | ChainError::Read(_) => true,
            ChainError::Task(TaskError::Invalid(_)) => true,
            ChainError::NoFolder
            | ChainError::Behind
            | ChainError::Append(_)
            | ChainError::Task(TaskError::Unavailable(_)) => false,
        }
    }
}

/// Returns whether the error means that no file can be written now.
fn is_disk_full(error: &io::Error) -> bool {
    use ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// Whether the caller goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChainFlow {
    Continue,
    /// The daemon is stopping; the current epoch is not done.
    Stop,
}

/// The chain of one journal.
pub struct Chain {
    journal: Journal,
    root: PathBuf,
    zone: Zone,
    calendar: Calendar,
    queue: WorkQueue,
    /// The journal's count of deletions when their segments were last removed.
    deletions: u64,
    /// Days with new history, each dreamt of once when the journal has no more.
    days: BTreeSet<Day>,
    logs: EventLogs,
    handlers: HandlerQueues,
    handler_status: HandlerStatus,
    /// Segments whose handlers have not all ended.
    active: Vec<ActiveSegment>,
    /// The ticket of the segment begun last.
    last_ticket: u64,
    /// Messages with requests that cannot be fulfilled.
    refused: u64,
    /// The bytes saved last: an unchanged state is not written again.
    saved: Vec<u8>,
    /// The chronicle read last: its session, its last `seq`, and itself.
    read: Option<(SessionId, u64, Arc<Chronicle>)>,
}

/// State that survives a restart, as stored in `chain.json`.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
struct ChainState {
    #[serde(flatten)]
    calendar: Calendar,
    #[serde(default)]
    owed: WorkQueue,
    #[serde(default)]
    deletions: u64,
    #[serde(default)]
    days: BTreeSet<Day>,
}

impl ChainState {
    /// Loads the state. A damaged file is renamed and replaced by an empty state. An unreadable file
    /// is an error, because it may be readable later.
    fn load(root: &Path) -> Result<ChainState, ChainError> {
        let path = health_dir(root).join(STATE);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ChainState::default()),
            read => read.map_err(|cause| SegmentError::Io { path: path.clone(), cause })?,
        };
        Ok(serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            // If the rename fails, the next save overwrites the damaged file.
            let _ = std::fs::rename(&path, path.with_extension("json.damaged"));
            // An empty state loses no epoch: the journal still knows the position of the chain.
            ChainState::default()
        }))
    }
}

impl Chain {
    /// Opens the chain at its saved state.
    pub fn open(journal: Journal, zone: Zone) -> Result<Chain, ChainError> {
        let root = journal.dir().ok_or(ChainError::NoFolder)?.to_owned();
        let ChainState { calendar, owed: queue, deletions, days } = ChainState::load(&root)?;
        let logs = EventLogs::new(&root);
        Ok(Chain {
            journal,
            root,
            zone,
            calendar,
            queue,
            deletions,
            days,
            logs,
            handlers: HandlerQueues::default(),
            handler_status: HandlerStatus::default(),
            active: Vec::new(),
            last_ticket: 0,
            refused: 0,
            saved: Vec::new(),
            read: None,
        })
    }

    /// Continues with a reopened journal. The state in memory is kept, because a full disk may have
    /// prevented its last save.
    pub fn reopen(&mut self, journal: Journal) {
        self.journal = journal;
        self.read = None;
    }

    /// Returns whether a segment failed and waits for its next try.
    pub fn is_behind(&self) -> bool {
        self.queue.has_retries()
    }

    /// Returns whether handlers are under way.
    pub fn is_busy(&self) -> bool {
        !self.active.is_empty()
    }

    /// Publishes what handlers are busy with, if it is time for that.
    pub fn publish_status(&mut self, at: Instant, runtime: &mut dyn ChainRuntime) {
        if let Some(status) = self.handler_status.next_message(&self.handlers, at) {
            runtime.publish(&status);
        }
    }

    /// Counts messages about segments that could not be logged or handled.
    pub fn unhandled_count(&self) -> u64 {
        self.logs.unplaced + self.refused
    }

    /// Returns the next position of the journal that the chain reads.
    pub fn position(&self) -> Result<u64, ChainError> {
        Ok(self.journal.consumer(CONSUMER)? + 1)
    }

    /// Queues dreams that an earlier daemon lost: it may have received the end of a segment or of an
    /// activity and crashed before it queued the dream.
    ///
    /// Also removes segments that an interrupted deletion has left.
    pub fn recover(&mut self, now: Time, runtime: &mut dyn ChainRuntime) -> Result<(), ChainError> {
        let deletions = self.journal.deletions()?;
        if deletions != self.deletions {
            forget_deleted(&self.journal, &self.root)?;
            self.deletions = deletions;
            self.save_state()?;
        }
        let today = self.zone.day(now);
        // A crash around midnight leaves work on both days.
        for day in [today.yesterday(), today] {
            for segment in Segment::list_of_day(&self.root, day)? {
                // An unreadable log is no evidence of a missing dream.
                let has =
                    |like: &Value| event_log::contains(segment.folder(), like).unwrap_or(false);
                let dream = Dream::Segment(segment.key());
                // History is dreamt of by day, and a completed dream needs no second one.
                let is_missing =
                    has(&observed()) && !has(&batched_filter()) && !has(&dreamt_filter());
                // The files that a user's command leaves are unknown, so nothing shows what is
                // missing.
                if is_missing && !runtime.has_replacement(&dream) {
                    self.queue_dream(&dream, runtime)?;
                }
            }
            for dream in dream::missing_outcomes(&self.root, day) {
                if !runtime.has_replacement(&dream) {
                    self.queue_dream(&dream, runtime)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the next recorded events; empty at the end of the journal.
    pub fn next_page(&self) -> Result<Vec<Recorded>, ChainError> {
        let position = self.position()?;
        // Without this check an idle chain would read a page each second.
        if self.journal.tail()? < position {
            return Ok(Vec::new());
        }
        Ok(self.journal.recorded_from(position)?)
    }

    /// Processes recorded events in order and advances past them. An empty page means that all of
    /// history has arrived: then its days are dreamt of.
    pub fn process_page(
        &mut self,
        recorded: &[Recorded],
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<ChainFlow, ChainError> {
        if recorded.is_empty() {
            self.queue_history_dreams(runtime)?;
        }
        for Recorded { position, event } in recorded {
            // The inherited epochs of a fork are the segments of its origin.
            if event.kind != Kind::EpochClosed || event.fork_origin().is_some() {
                continue;
            }
            if runtime.is_stopping() {
                return Ok(ChainFlow::Stop);
            }
            let (session_id, closed_at) = (event.session_id.clone(), event.created_at);
            let item = WorkItem::Epoch { session_id, seq: event.seq, closed_at };
            // With the progress of an earlier try: handlers that succeeded are not run again.
            let work = self.queue.resume(item, now);
            // History is cheap to repeat, and its position is stored once per page.
            if is_history(closed_at, now) {
                self.begin_work(work, now, runtime)?;
                continue;
            }
            // A page that comes again after a failure may hold an epoch that is under way.
            if !work.is_active {
                self.store_epoch(&work)?;
                self.begin_work(work, now, runtime)?;
            }
            self.journal.advance_consumer(CONSUMER, *position)?;
        }
        // Also for a page without a closed epoch, or the chain would read it again for ever.
        if let Some(last) = recorded.last() {
            self.journal.advance_consumer(CONSUMER, last.position)?;
        }
        Ok(ChainFlow::Continue)
    }

    /// Retries the pending work that is due.
    pub fn retry_pending(
        &mut self,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<ChainFlow, ChainError> {
        while let Some(work) = self.queue.next_due(now) {
            if runtime.is_stopping() {
                return Ok(ChainFlow::Stop);
            }
            self.begin_work(work, now, runtime)?;
        }
        Ok(ChainFlow::Continue)
    }

    /// Queues the dreams that are due by the clock.
    pub fn run_schedule(
        &mut self,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        // A copy, so that after a failure the same dreams are due again.
        let mut calendar = self.calendar.clone();
        for dream in calendar.due_dreams(now, &self.zone) {
            self.queue_dream(&dream, runtime)?;
        }
        // Saved after all dreams are queued: a crash in between queues them twice rather than
        // never.
        self.calendar = calendar;
        self.save_state()
    }

    /// Appends a message of another sender to the event log of its segment.
    pub fn log_message(&mut self, message: &Message) -> Result<(), ChainError> {
        // The chain wrote its own steps into the log before it published them.
        if message.field("by").and_then(FieldValue::text).is_some_and(|by| by == BY) {
            return Ok(());
        }
        let failed = |cause| ChainError::Events { path: self.root.clone(), cause };
        self.logs.log_message(message).map_err(failed)
    }

    /// Reacts to a message of another sender: announced files go to handlers, and a segment or
    /// activity that has ended is dreamt of.
    pub fn handle_message(
        &mut self,
        message: &Message,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        let message = &message.to_json();
        if message["by"] == BY {
            return Ok(());
        }
        let text = |name: &str| message.get(name).and_then(Value::as_str);
        match (text("tract"), text("event")) {
            (Some("observe"), Some("observing")) => return self.queue_announcement(message, now),
            (Some("observe"), Some("observed")) => {
                if let Some(key) = self.logs.named_segment(message, self.zone.day(now)) {
                    return self.dream_of_foreign(key, now, runtime);
                }
            }
            // Dreams over history write their outcomes themselves.
            (Some("activity"), Some("recorded")) if message["batch"] == true => return Ok(()),
            (Some("activity"), Some("recorded")) => {
                let day = event_log::text_field(message, "day").and_then(|day| Day::parse(&day));
                let name = text("facet").zip(text("id"));
                // Both become arguments and parts of paths, and any client may send them.
                let name = name.filter(|(facet, id)| is_facet(facet) && is_safe_name(id));
                if let Some((day, (facet, id))) = day.zip(name) {
                    let (facet, id) = (facet.to_owned(), id.to_owned());
                    return self.queue_dream(&Dream::Activity { day, facet, id }, runtime);
                }
            }
            _ => return Ok(()),
        }
        self.refused += 1;
        Ok(())
    }

    /// Queues the dream of a segment that another program made, and notes it for the dreams by the
    /// clock.
    fn dream_of_foreign(
        &mut self,
        key: SegmentKey,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        self.calendar.add_foreign(key.clone(), now, &self.zone);
        self.save_state()?;
        self.queue_dream(&Dream::Segment(key), runtime)
    }

    /// Queues files that another program has put into a segment for the user's handlers.
    fn queue_announcement(&mut self, message: &Value, now: Time) -> Result<(), ChainError> {
        let key = self.logs.segment_of(message);
        let Some((key, files)) = key.zip(message["files"].as_array()) else {
            self.refused += 1;
            return Ok(());
        };
        let mut names: Vec<String> = Vec::new();
        // Bounded before the names are compared: the message may hold any number.
        for name in files.iter().take(FILES_MAX).filter_map(Value::as_str) {
            // Twice the same name would run its handlers twice at once.
            if is_safe_name(name) && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        // Before any change: the caller keeps the message and delivers it again.
        if self.queue.is_full() {
            return Err(ChainError::Behind);
        }
        let meta = message.get("meta").filter(|meta| meta.to_string().len() <= META_BYTES_MAX);
        let meta = meta.cloned().unwrap_or_else(|| json!({}));
        // It becomes a variable in the environment of handlers.
        let is_fine = |name: &&str| {
            (1..=REMOTE_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control)
        };
        let remote = message["remote"].as_str().filter(is_fine).map(str::to_owned);
        let announced = self.announcement_number(message, &key, now)?;
        let item = WorkItem::Announced { key, files: names, meta, remote, announced };
        self.queue.add_new(item.clone(), now);
        self.save_state().inspect_err(|_| {
            // The caller delivers the message again. Left in the queue, it would count as another
            // announcement and get another number.
            self.queue.remove(&item);
        })
    }

    /// Returns the number of an announcement: its `ts`, or the current time without one. If another
    /// announcement about the segment has the number, the next free one.
    fn announcement_number(
        &self,
        message: &Value,
        key: &SegmentKey,
        now: Time,
    ) -> Result<i64, ChainError> {
        let millis = i64::try_from(now.nanos() / 1_000_000).unwrap_or(0);
        let mut number = message["ts"].as_i64().unwrap_or(millis);
        let Some(folder) = folder_of(&self.root, key) else { return Ok(number) };
        let mut ours = observed();
        ours["by"] = json!(BY);
        let used = event_log::field_values(&folder, &ours, "announced");
        let used = used.map_err(|cause| ChainError::Events { path: folder, cause })?;
        // Two announcements may have the same millisecond, and handlers of the second have to run,
        // too.
        while used.contains(&number) || self.queue.has_announced(key, number) {
            number = number.wrapping_add(1);
        }
        Ok(number)
    }

    /// Queues a dream. An invalid one is counted and dropped.
    fn queue_dream(
        &mut self,
        dream: &Dream,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        match runtime.queue_dream(dream) {
            Err(TaskError::Invalid(_)) => self.refused += 1,
            queued => queued?,
        }
        Ok(())
    }

    /// Stores a live epoch before its first step, so that it outlives a crash.
    fn store_epoch(&mut self, work: &PendingWork) -> Result<(), ChainError> {
        if self.queue.is_full() && !self.queue.contains(&work.item) {
            return Err(ChainError::Behind);
        }
        self.queue.store(work);
        self.save_state().inspect_err(|_| {
            // The journal delivers it again.
            if work.is_first_try() {
                self.queue.remove(&work.item);
            }
        })
    }

    /// Begins a piece of work, or stores it for a later retry.
    fn begin_work(
        &mut self,
        work: PendingWork,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        match self.try_begin(work.clone(), now, runtime) {
            Ok(()) => self.save_state(),
            Err(error) => self.fail_work(work, error, now, runtime),
        }
    }

    fn try_begin(
        &mut self,
        work: PendingWork,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        match work.item.clone() {
            WorkItem::Epoch { session_id, seq, closed_at } => {
                let Some((segment, chronicle)) = self.segment_of(&session_id, seq)? else {
                    return self.complete_work(&work, runtime);
                };
                // Judged now and not when it was queued: work that waited for hours has become
                // history.
                if is_history(closed_at, now) {
                    self.describe_inline(&segment, &chronicle, runtime)?;
                    return self.complete_work(&work, runtime);
                }
                self.begin_epoch(segment, work, now, runtime)
            }
            WorkItem::Announced { key, files, meta, remote, announced } => {
                let Some(folder) = folder_of(&self.root, &key) else {
                    return self.complete_work(&work, runtime);
                };
                // The same files may be replaced and announced again: the number tells the
                // announcements apart.
                let target = HandlerTarget { key, folder, meta, remote };
                self.begin_announced(target, files, announced, work, now, runtime)
            }
        }
    }

    /// Removes work that is done.
    fn complete_work(
        &mut self,
        work: &PendingWork,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        // Before the item is removed: after a crash in between it is retried, and its day is dreamt
        // of again.
        if !work.is_first_try() {
            self.queue_history_dreams(runtime)?;
        }
        self.queue.remove(&work.item);
        Ok(())
    }

    /// Schedules the next try of work that failed, or gives it up.
    fn fail_work(
        &mut self,
        work: PendingWork,
        error: ChainError,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        if !error.is_about_one() {
            // A full disk or queue would fail every segment: the caller waits and repeats this one.
            self.queue.release(&work.item);
            return Err(error);
        }
        if work.is_last_try() {
            runtime.alarm("A segment was given up", &error.to_string());
            self.queue.remove(&work.item);
        } else {
            if work.is_first_try() {
                runtime.warn(&format!("a segment is tried again later: {error}"));
            }
            self.schedule_retry(work, now)?;
        }
        self.save_state()
    }

    fn schedule_retry(&mut self, work: PendingWork, now: Time) -> Result<(), ChainError> {
        // Only history has no place in the queue at its first try.
        if !self.queue.contains(&work.item) && self.queue.is_full() {
            return Err(ChainError::Behind);
        }
        self.queue.retry_later(work, now);
        Ok(())
    }

    /// Returns the segment of the epoch that an event closes, and the chronicle of its session.
    /// Returns `None` if the session is deleted or the event reports the same end a second time.
    fn segment_of(
        &mut self,
        session: &SessionId,
        seq: u64,
    ) -> Result<Option<(Segment, Arc<Chronicle>)>, ChainError> {
        let session = match self.journal.stat(session) {
            Err(ReadError::SessionNotFound(_)) => return Ok(None),
            session => session?,
        };
        let Some(chronicle) = self.chronicle_of(&session)? else { return Ok(None) };
        let segment =
            Segment::claim_closed_by(&self.journal, &session, &chronicle, seq, &self.zone)?;
        Ok(segment.map(|segment| (segment, chronicle)))
    }

    /// Returns the current chronicle of a session. The epochs of one session of history arrive one
    /// after the other, so the last chronicle is cached.
    fn chronicle_of(
        &mut self,
        session: &SessionInfo,
    ) -> Result<Option<Arc<Chronicle>>, ChainError> {
        // Compared by the last `seq`: a session that went on has another chronicle.
        if let Some((id, seq, chronicle)) = &self.read
            && (id, *seq) == (&session.id, session.tail_seq)
        {
            return Ok(Some(Arc::clone(chronicle)));
        }
        let Some(chronicle) = chronicle_if_exists(&self.journal, &session.id)? else {
            return Ok(None);
        };
        let chronicle = Arc::new(chronicle);
        // Under the `seq` it covers: once the session has more events, the cache misses.
        self.read = Some((session.id.clone(), chronicle.seq(), Arc::clone(&chronicle)));
        Ok(Some(chronicle))
    }

    fn queue_history_dreams(&mut self, runtime: &mut dyn ChainRuntime) -> Result<(), ChainError> {
        if self.days.is_empty() {
            return Ok(());
        }
        while let Some(day) = self.days.first().copied() {
            self.queue_dream(&Dream::Segments(day), runtime)?;
            // After its dream is queued: a failure in between repeats the dream instead of losing it.
            self.days.remove(&day);
        }
        self.save_state()
    }

    /// Saves the state if it has changed.
    fn save_state(&mut self) -> Result<(), ChainError> {
        let saved = ChainState {
            calendar: self.calendar.clone(),
            owed: self.queue.clone(),
            deletions: self.deletions,
            days: self.days.clone(),
        };
        let bytes = serde_json::to_vec(&saved).expect("names and numbers always encode");
        // Called after each step; most change nothing.
        if bytes == self.saved {
            return Ok(());
        }
        let folder = health_dir(&self.root);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(SegmentError::Io { path: folder, cause: error }.into());
            }
            _ => {}
        }
        // Durable, unlike derived files: announced work cannot be rebuilt from the journal.
        write_durably(&folder, STATE, &bytes)?;
        self.saved = bytes;
        Ok(())
    }
}

fn is_history(closed_at: Time, now: Time) -> bool {
    (now.nanos() - closed_at.nanos()) / 1_000_000 > HISTORY_MILLIS
}

/// Matches the log line of a segment after its handlers are done.
fn observed() -> Value {
    json!({"tract": "observe", "event": "observed"})
}

/// Matches the log line of a segment that came as history.
fn batched_filter() -> Value {
    json!({"tract": "observe", "event": "observed", "batch": true})
}

/// Matches the log line of a completed dream of a segment.
fn dreamt_filter() -> Value {
    json!({"tract": "dream", "event": "completed", "mode": "segment"})
}

/// Returns whether a text is safe as a file name and as an argument of a command.
fn is_safe_name(text: &str) -> bool {
    let is_fine = |c: char| !c.is_control() && c != '/' && c != '\\';
    // Neither an option nor a hidden file.
    !text.is_empty() && !text.starts_with(['-', '.']) && text.chars().all(is_fine)
}

/// Returns whether a text is safe as a project (a name or a folder) and as an argument of a command.
fn is_facet(text: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
    !text.starts_with('-') && text.strip_prefix('/').unwrap_or(text).split('/').all(is_part)
}
