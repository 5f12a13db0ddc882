//! From an epoch that closes to what people read of it.
//!
//! `observe.observing` → the handlers, as tasks → `observe.transcribed`, `observe.described` →
//! `observe.observed` → a dream. Each step is written to the segment's `events.jsonl` and then put
//! on the bus; a step that is written there is not taken again. The chain is a consumer of the
//! journal, and passes an epoch only when all of this has happened, or when it is written down that
//! it is owed: after a crash it begins again with the epoch it was at, and one that fails is tried
//! again later and holds up nobody.

mod agenda; // what is owed
mod calendar; // what is due by the clock
mod event_log; // what happened to a segment
mod steps; // one segment, step by step

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bus::{FieldValue, Message};
use event::{Kind, SessionId, Time};
use journal::{AppendError, Journal, ReadError, Recorded, SessionInfo};
use projection::{Chronicle, Projection};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dream::{self, Dream};
use crate::segment::{Segment, SegmentError, SegmentKey, folder_of, forget_deleted, write_whole};
use crate::zone::Zone;
use agenda::{Agenda, Owed, What};
use calendar::Calendar;
use event_log::EventLogs;
use steps::Step;
use supervise::Day;
use views::chronicle_if_exists;
use wire::health_dir;

pub use steps::Site;

/// The name the chain has as a consumer of the journal.
const CONSUMER: &str = "chain";

/// Where it is kept what is due and what is owed.
const STATE: &str = "chain.json";

/// An epoch that ended longer ago is history: nobody waits for it, and it is described here rather
/// than by a process of its own. Longer than the silence that ends an epoch.
const HISTORY_MILLIS: i128 = 2 * 60 * 60 * 1_000;

/// Files of one segment that somebody may announce at once. The rest is not looked at.
const FILES_MAX: usize = 1_000;

/// Bytes of what somebody says of a segment. Of a longer one handlers hear nothing.
const META_BYTES_MAX: usize = 64 * 1024;

/// The program that a message comes from.
pub const REVISION: &str = env!("CARGO_PKG_VERSION");

/// Who tells the steps of the chain. What says so was written down before it was put on the bus;
/// the same step told by somebody else is not ours.
const BY: &str = "hansard";

/// What the chain cannot do by itself.
pub trait Hands {
    /// Puts a message on the bus.
    fn publish(&mut self, message: &Value);

    /// Writes down that something went wrong.
    fn warn(&mut self, words: &str);

    /// Tells a person so, too.
    fn alarm(&mut self, title: &str, words: &str);

    /// What time it is.
    fn now(&self) -> Time;

    /// Whether all this is to end now.
    fn is_stopping(&self) -> bool;

    /// The user's own handlers for a file of that name.
    fn handlers(&self, file: &str) -> Vec<String>;

    /// Starts a handler for a file in the folder of a segment, and waits until its process exists.
    fn start(&mut self, site: &Site, handler: &str, file: &str) -> Result<Begun, HandsError>;

    /// Waits for the end of any of those that were started. Which it is, and its exit code; nothing
    /// if all this is to end now.
    fn finish(&mut self, runs: &[&str]) -> Option<(usize, i32)>;

    /// Stores a dream to be dreamt soon, also after a crash.
    fn dream(&mut self, dream: &Dream) -> Result<(), HandsError>;

    /// Whether a program of the user is run instead of that dream: what it leaves is not known.
    fn is_replaced(&self, dream: &Dream) -> bool;
}

/// How a handler began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begun {
    /// Under this ref.
    Running(String),
    /// It has an exit code and never was a process.
    Ended(i32),
    /// All this is to end now.
    Stopped,
}

/// Why a task was not stored.
#[derive(Debug, thiserror::Error)]
pub enum HandsError {
    #[error("cannot store a task now: {0}")]
    NotNow(String),
    #[error("cannot be run: {0}")]
    Never(String),
}

#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    #[error("a journal in memory has no folders for its days")]
    NoFolder,
    #[error("too much is owed already")]
    Behind,
    #[error("cannot write the events of a segment in `{path}`: {cause}")]
    Events { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Hands(#[from] HandsError),
}

impl ChainError {
    /// Whether it is about one segment: the next one may go well.
    fn is_about_one(&self) -> bool {
        match self {
            ChainError::Events { cause, .. }
            | ChainError::Segment(SegmentError::Io { cause, .. }) => !is_full(cause),
            ChainError::Segment(_) | ChainError::Read(_) => true,
            ChainError::Hands(HandsError::Never(_)) => true,
            ChainError::NoFolder
            | ChainError::Behind
            | ChainError::Append(_)
            | ChainError::Hands(HandsError::NotNow(_)) => false,
        }
    }
}

/// Whether nothing at all can be written now.
fn is_full(error: &io::Error) -> bool {
    use ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// How far the chain got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Went {
    On,
    /// It was told to end in the middle of an epoch.
    Stopped,
}

/// The chain of one journal.
pub struct Chain {
    journal: Journal,
    root: PathBuf,
    zone: Zone,
    calendar: Calendar,
    agenda: Agenda,
    /// Deletions whose segments are known to be gone.
    deletions: u64,
    /// Days of which history came, to be dreamt of once all of it is there.
    days: BTreeSet<Day>,
    logs: EventLogs,
    /// Messages that asked for something that cannot be done.
    refused: u64,
    /// What was saved last.
    saved: Vec<u8>,
    /// The chronicle that was read last, of a session up to a `seq`.
    read: Option<(SessionId, u64, Arc<Chronicle>)>,
}

/// What survives a restart.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
struct Saved {
    #[serde(flatten)]
    calendar: Calendar,
    #[serde(default)]
    owed: Agenda,
    #[serde(default)]
    deletions: u64,
    #[serde(default)]
    days: BTreeSet<Day>,
}

impl Saved {
    /// What was saved. Damage is set aside and what it said begun anew; one that cannot be read now
    /// may be read later.
    fn load(root: &Path) -> Result<Saved, ChainError> {
        let path = health_dir(root).join(STATE);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Saved::default()),
            read => read.map_err(|cause| SegmentError::Io { path: path.clone(), cause })?,
        };
        Ok(serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            // Where it cannot be set aside it is written over.
            let _ = std::fs::rename(&path, path.with_extension("json.damaged"));
            Saved::default()
        }))
    }
}

impl Chain {
    /// Goes on where it was.
    pub fn open(journal: Journal, zone: Zone) -> Result<Chain, ChainError> {
        let root = journal.dir().ok_or(ChainError::NoFolder)?.to_owned();
        let Saved { calendar, owed: agenda, deletions, days } = Saved::load(&root)?;
        let logs = EventLogs::of(&root);
        Ok(Chain {
            journal,
            root,
            zone,
            calendar,
            agenda,
            deletions,
            days,
            logs,
            refused: 0,
            saved: Vec::new(),
            read: None,
        })
    }

    /// Goes on with a journal that was opened again. What has been done stays known, also if there
    /// was no room to write it down.
    pub fn reopen(&mut self, journal: Journal) {
        self.journal = journal;
        self.read = None;
    }

    /// Whether something is owed that has failed before or has just been announced.
    pub fn is_behind(&self) -> bool {
        !self.agenda.is_empty()
    }

    /// Messages about segments that could be neither written down nor acted upon.
    pub fn unheard(&self) -> u64 {
        self.logs.homeless + self.refused
    }

    fn position(&self) -> Result<u64, ChainError> {
        Ok(self.journal.consumer(CONSUMER)? + 1)
    }

    /// Dreams again of segments and activities whose end was told to a daemon that is gone: what it
    /// heard and had not written down yet is lost with it.
    ///
    /// What a deletion that was cut off has left of segments goes, too.
    pub fn recover(&mut self, now: Time, hands: &mut dyn Hands) -> Result<(), ChainError> {
        let deletions = self.journal.deletions()?;
        if deletions != self.deletions {
            forget_deleted(&self.journal, &self.root)?;
            self.deletions = deletions;
            self.save()?;
        }
        let today = self.zone.day(now);
        for day in [today.yesterday(), today] {
            for segment in Segment::of_day(&self.root, day)? {
                // What cannot be read says nothing of a dream that is owed.
                let has = |like: &Value| event_log::has(segment.folder(), like).unwrap_or(false);
                let dream = Dream::Segment(segment.key());
                let is_owed = has(&observed()) && !has(&batched()) && !has(&dreamt());
                if is_owed && !hands.is_replaced(&dream) {
                    self.dream(&dream, hands)?;
                }
            }
            for dream in dream::without_outcome(&self.root, day) {
                if !hands.is_replaced(&dream) {
                    self.dream(&dream, hands)?;
                }
            }
        }
        Ok(())
    }

    /// The next events that were recorded; none if all are passed.
    pub fn page(&self) -> Result<Vec<Recorded>, ChainError> {
        let position = self.position()?;
        if self.journal.tail()? < position {
            return Ok(Vec::new());
        }
        Ok(self.journal.recorded_from(position)?)
    }

    /// Takes what was recorded, in order, and passes it. When there is nothing, the days of which
    /// history came are dreamt of.
    pub fn take(
        &mut self,
        recorded: &[Recorded],
        now: Time,
        hands: &mut dyn Hands,
    ) -> Result<Went, ChainError> {
        if recorded.is_empty() {
            // There is nothing more to come of what was begun: its session was deleted meanwhile.
            while let Some(owed) = self.agenda.at_hand() {
                if self.attempt(owed, now, hands)? == Went::Stopped {
                    return Ok(Went::Stopped);
                }
            }
            self.dream_of_days(hands)?;
        }
        for Recorded { position, event } in recorded {
            if event.kind != Kind::EpochClosed || event.fork_origin().is_some() {
                continue;
            }
            if hands.is_stopping() {
                return Ok(Went::Stopped);
            }
            let (session_id, closed_at) = (event.session_id.clone(), event.created_at);
            let what = What::Epoch { session_id, seq: event.seq, closed_at };
            let owed = self.agenda.taken_up(what, now);
            if self.attempt(owed, now, hands)? == Went::Stopped {
                return Ok(Went::Stopped);
            }
            if !is_history(closed_at, now) {
                self.journal.advance_consumer(CONSUMER, *position)?;
            }
        }
        if let Some(last) = recorded.last() {
            self.journal.advance_consumer(CONSUMER, last.position)?;
        }
        Ok(Went::On)
    }

    /// Does what is owed and can be tried now.
    pub fn make_up(&mut self, now: Time, hands: &mut dyn Hands) -> Result<Went, ChainError> {
        while let Some(owed) = self.agenda.due(now) {
            if hands.is_stopping() || self.attempt(owed, now, hands)? == Went::Stopped {
                return Ok(Went::Stopped);
            }
        }
        Ok(Went::On)
    }

    /// Does what is due by the clock.
    pub fn tick(&mut self, now: Time, hands: &mut dyn Hands) -> Result<(), ChainError> {
        // What cannot be stored now is due again.
        let mut calendar = self.calendar.clone();
        for dream in calendar.due(now, &self.zone) {
            self.dream(&dream, hands)?;
        }
        self.calendar = calendar;
        self.save()
    }

    /// Writes down what somebody else put on the bus.
    pub fn note(&mut self, message: &Message) -> Result<(), ChainError> {
        if message.field("by").and_then(FieldValue::text).is_some_and(|by| by == BY) {
            return Ok(());
        }
        let failed = |cause| ChainError::Events { path: self.root.clone(), cause };
        self.logs.note(message).map_err(failed)
    }

    /// Does what follows from it: what was announced is handled, and what has ended elsewhere is
    /// dreamt of.
    pub fn heed(
        &mut self,
        message: &Message,
        now: Time,
        hands: &mut dyn Hands,
    ) -> Result<(), ChainError> {
        let message = &message.to_json();
        // What came of history is written down already.
        if message["by"] == BY || message["batch"] == true {
            return Ok(());
        }
        let text = |name: &str| message.get(name).and_then(Value::as_str);
        match (text("tract"), text("event")) {
            (Some("observe"), Some("observing")) => return self.announce(message, now),
            (Some("observe"), Some("observed")) => {
                if let Some(key) = self.logs.segment_of(message) {
                    return self.dream(&Dream::Segment(key), hands);
                }
            }
            (Some("activity"), Some("recorded")) => {
                let day = event_log::text(message, "day").and_then(|day| Day::parse(&day));
                let of = text("facet").zip(text("id"));
                let of = of.filter(|(facet, id)| is_facet(facet) && is_name(id));
                if let Some((day, (facet, id))) = day.zip(of) {
                    let (facet, id) = (facet.to_owned(), id.to_owned());
                    return self.dream(&Dream::Activity { day, facet, id }, hands);
                }
            }
            _ => return Ok(()),
        }
        self.refused += 1;
        Ok(())
    }

    /// Somebody else has put files into a segment: they are owed to the user's handlers.
    fn announce(&mut self, message: &Value, now: Time) -> Result<(), ChainError> {
        let key = self.logs.segment_of(message);
        let Some((key, files)) = key.zip(message["files"].as_array()) else {
            self.refused += 1;
            return Ok(());
        };
        let mut names: Vec<String> = Vec::new();
        for name in files.iter().take(FILES_MAX).filter_map(Value::as_str) {
            if is_name(name) && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        if self.agenda.is_full() {
            return Err(ChainError::Behind);
        }
        let meta = message.get("meta").filter(|meta| meta.to_string().len() <= META_BYTES_MAX);
        let meta = meta.cloned().unwrap_or_else(|| json!({}));
        let announced = self.number_of(message, &key, now)?;
        let what = What::Announced { key, files: names, meta, announced };
        self.agenda.add(what.clone(), now);
        self.save().inspect_err(|_| {
            // It is heard again, and then it is not another one.
            self.agenda.remove(&what);
        })
    }

    /// The number that an announcement goes by: when it was said, or the next one where that is not
    /// said or another announcement about the segment has it.
    fn number_of(&self, message: &Value, key: &SegmentKey, now: Time) -> Result<i64, ChainError> {
        let millis = i64::try_from(now.nanos() / 1_000_000).unwrap_or(0);
        let mut number = message["ts"].as_i64().unwrap_or(millis);
        let Some(folder) = folder_of(&self.root, key) else { return Ok(number) };
        let mut ours = observed();
        ours["by"] = json!(BY);
        let told = event_log::numbers(&folder, &ours, "announced");
        let told = told.map_err(|cause| ChainError::Events { path: folder, cause })?;
        while told.contains(&number) || self.agenda.has_announced(key, number) {
            number = number.wrapping_add(1);
        }
        Ok(number)
    }

    /// Stores a dream; one that can never be run is counted.
    fn dream(&mut self, dream: &Dream, hands: &mut dyn Hands) -> Result<(), ChainError> {
        match hands.dream(dream) {
            Err(HandsError::Never(_)) => self.refused += 1,
            dreamt => dreamt?,
        }
        Ok(())
    }

    /// Does one thing that is owed, or writes down that it still is.
    fn attempt(
        &mut self,
        mut owed: Owed,
        now: Time,
        hands: &mut dyn Hands,
    ) -> Result<Went, ChainError> {
        match self.do_owed(&mut owed, now, hands) {
            Ok(Step::Done) => {
                if !owed.is_first() {
                    self.dream_of_days(hands)?;
                }
                self.agenda.remove(&owed.what);
            }
            Ok(Step::Stopped) => return Ok(Went::Stopped),
            Ok(Step::Failed) => self.put_off(owed, now)?,
            Err(error) if !error.is_about_one() => return Err(error),
            Err(error) if owed.is_last() => {
                hands.alarm("A segment was given up", &error.to_string());
                self.agenda.remove(&owed.what);
            }
            Err(error) => {
                if owed.is_first() {
                    hands.warn(&format!("a segment is tried again later: {error}"));
                }
                self.put_off(owed, now)?;
            }
        }
        self.save()?;
        Ok(Went::On)
    }

    fn do_owed(
        &mut self,
        owed: &mut Owed,
        now: Time,
        hands: &mut dyn Hands,
    ) -> Result<Step, ChainError> {
        match owed.what.clone() {
            What::Epoch { session_id, seq, closed_at } => {
                let Some((segment, chronicle)) = self.segment_of(&session_id, seq)? else {
                    return Ok(Step::Done);
                };
                if is_history(closed_at, now) {
                    self.describe_here(&segment, &chronicle, hands)?;
                    return Ok(Step::Done);
                }
                self.observe(&segment, owed, now, hands)
            }
            What::Announced { key, files, meta, announced } => {
                let Some(folder) = folder_of(&self.root, &key) else { return Ok(Step::Done) };
                // Files may be put there anew and announced again: each time is one of its own.
                let like = json!({"announced": announced});
                self.observe_announced(&Site { key, folder, meta }, &files, like, owed, hands)
            }
        }
    }

    fn put_off(&mut self, owed: Owed, now: Time) -> Result<(), ChainError> {
        if owed.is_first() && self.agenda.is_full() {
            return Err(ChainError::Behind);
        }
        self.agenda.try_later(owed, now);
        Ok(())
    }

    /// The folder of the epoch that an event closes, and the chronicle it is a chapter of; `None`
    /// for a session that is gone, and for a second report of one end.
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
        let is_it = |chapter: &projection::Chapter<'_>| {
            chapter.epoch.to_seq == seq && chapter.epoch.closed.is_some()
        };
        let Some(chapter) = chronicle.chapters().find(is_it) else { return Ok(None) };
        match Segment::claim(&self.journal, &session, chapter.epoch, &self.zone) {
            Err(SegmentError::Deleted(_)) => Ok(None),
            segment => Ok(Some((segment?, chronicle))),
        }
    }

    /// The chronicle of a session as of now. Of history, the epochs of one session come one after
    /// the other: it is read once for all of them.
    fn chronicle_of(
        &mut self,
        session: &SessionInfo,
    ) -> Result<Option<Arc<Chronicle>>, ChainError> {
        if let Some((id, seq, chronicle)) = &self.read
            && (id, *seq) == (&session.id, session.tail_seq)
        {
            return Ok(Some(Arc::clone(chronicle)));
        }
        let Some(chronicle) = chronicle_if_exists(&self.journal, &session.id)? else {
            return Ok(None);
        };
        let chronicle = Arc::new(chronicle);
        self.read = Some((session.id.clone(), chronicle.seq(), Arc::clone(&chronicle)));
        Ok(Some(chronicle))
    }

    fn dream_of_days(&mut self, hands: &mut dyn Hands) -> Result<(), ChainError> {
        if self.days.is_empty() {
            return Ok(());
        }
        while let Some(day) = self.days.first().copied() {
            self.dream(&Dream::Segments(day), hands)?;
            self.days.remove(&day);
        }
        self.save()
    }

    /// Keeps what has changed.
    fn save(&mut self) -> Result<(), ChainError> {
        let saved = Saved {
            calendar: self.calendar.clone(),
            owed: self.agenda.clone(),
            deletions: self.deletions,
            days: self.days.clone(),
        };
        let bytes = serde_json::to_vec(&saved).expect("names and numbers always encode");
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
        write_whole(&folder, STATE, &bytes)?;
        self.saved = bytes;
        Ok(())
    }
}

fn is_history(closed_at: Time, now: Time) -> bool {
    (now.nanos() - closed_at.nanos()) / 1_000_000 > HISTORY_MILLIS
}

/// What the log of a segment has when all its handlers are done, when that was long ago, and when
/// it was dreamt of.
fn observed() -> Value {
    json!({"tract": "observe", "event": "observed"})
}

fn batched() -> Value {
    json!({"tract": "observe", "event": "observed", "batch": true})
}

fn dreamt() -> Value {
    json!({"tract": "dream", "event": "completed", "mode": "segment"})
}

/// Whether a text can be the name of a file, and an argument of a command, and nothing else.
fn is_name(text: &str) -> bool {
    let is_fine = |c: char| !c.is_control() && c != '/' && c != '\\';
    !text.is_empty() && !text.starts_with(['-', '.']) && text.chars().all(is_fine)
}

/// Whether a text can be a project, which is a name or a folder, and an argument of a command.
fn is_facet(text: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
    !text.starts_with('-') && text.strip_prefix('/').unwrap_or(text).split('/').all(is_part)
}
