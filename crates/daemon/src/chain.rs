//! From an epoch that closes to what people read of it.
//!
//! `observe.observing` → the handlers, as tasks → `observe.transcribed`, `observe.described` →
//! `observe.observed` → a dream. Each step is written to the segment's `events.jsonl` and then put
//! on the bus; a step that is written there is not taken again. The chain is a consumer of the
//! journal, and passes an epoch only when all of this has happened: after a crash it begins again
//! with the epoch it was at.

mod calendar; // what is due by the clock
mod event_log; // what happened to a segment

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use event::{Kind, Time};
use journal::{AppendError, Journal, ReadError, Recorded};
use serde_json::{Value, json};

use crate::chronicles::chronicle_of;
use crate::dream::Dream;
use crate::segment::{Segment, SegmentError, SegmentKey, write_whole};
use crate::zone::{LocalDay, Zone};
use calendar::Calendar;
use event_log::EventLogs;

/// The name the chain has as a consumer of the journal.
const CONSUMER: &str = "chain";

/// Where the calendar is kept.
const STATE: &str = "chain.json";

/// An epoch that ended longer ago is history: nobody waits for it, and it is described here rather
/// than by a process of its own. Longer than the silence that ends an epoch.
const HISTORY_MILLIS: i128 = 2 * 60 * 60 * 1_000;

/// What every message of the daemon says it comes from. Messages that say so were written down
/// before they were put on the bus.
pub(crate) const REVISION: &str = env!("CARGO_PKG_VERSION");

/// What the chain cannot do by itself.
pub trait Hands {
    /// Puts a message on the bus.
    fn publish(&mut self, message: &Value);

    /// Whether all this is to end now.
    fn is_stopping(&self) -> bool;

    /// The user's own handlers for a file of that name.
    fn handlers(&self, file: &str) -> Vec<String>;

    /// Starts a handler in the folder of a segment, and waits until its process exists.
    fn start(&mut self, segment: &Segment, handler: &str) -> Result<Begun, HandsError>;

    /// Waits for the end of what was started. The exit code; nothing if all this is to end now.
    fn finish(&mut self, run: &str) -> Option<i32>;

    /// Stores a dream to be dreamt soon, also after a crash.
    fn dream(&mut self, dream: &Dream) -> Result<(), HandsError>;
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

/// A task could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot store a task: {0}")]
pub struct HandsError(pub String);

#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    #[error("a journal in memory has no folders for its days")]
    NoFolder,
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
    logs: EventLogs,
}

impl Chain {
    /// Goes on where it was.
    pub fn open(journal: Journal, zone: Zone) -> Result<Chain, ChainError> {
        let root = journal.dir().ok_or(ChainError::NoFolder)?.to_owned();
        let saved = std::fs::read(health(&root).join(STATE)).ok();
        let calendar = saved.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let logs = EventLogs::of(&root);
        Ok(Chain { journal, root, zone, calendar: calendar.unwrap_or_default(), logs })
    }

    fn position(&self) -> Result<u64, ChainError> {
        Ok(self.journal.consumer(CONSUMER)? + 1)
    }

    /// Dreams again of segments whose dream was told to a daemon that is gone: what it heard and had
    /// not written down yet is lost with it.
    pub fn recover(&mut self, now: Time, hands: &mut dyn Hands) -> Result<(), ChainError> {
        let today = self.zone.day(now);
        for day in [today.yesterday(), today] {
            for segment in Segment::of_day(&self.root, day)? {
                let is_observed = self.has(&segment, &observed())?;
                if is_observed
                    && !self.has(&segment, &batched())?
                    && !self.has(&segment, &dreamt())?
                {
                    hands.dream(&Dream::Segment(segment.key()))?;
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

    /// Takes what was recorded, in order, and passes it.
    pub fn take(
        &mut self,
        recorded: &[Recorded],
        now: Time,
        hands: &mut dyn Hands,
    ) -> Result<Went, ChainError> {
        let mut days = Vec::new();
        for Recorded { position, event } in recorded {
            if event.kind != Kind::EpochClosed || event.fork_origin().is_some() {
                continue;
            }
            if hands.is_stopping() {
                return Ok(Went::Stopped);
            }
            let Some(segment) = self.segment_of(event)? else { continue };
            if (now.nanos() - event.created_at.nanos()) / 1_000_000 > HISTORY_MILLIS {
                self.describe_here(&segment, hands)?;
                days.push(segment.key().day());
                continue;
            }
            self.dream_of_days(&mut days, hands)?;
            if self.observe(&segment, now, hands)? == Went::Stopped {
                return Ok(Went::Stopped);
            }
            self.journal.advance_consumer(CONSUMER, *position)?;
        }
        self.dream_of_days(&mut days, hands)?;
        if let Some(last) = recorded.last() {
            self.journal.advance_consumer(CONSUMER, last.position)?;
        }
        Ok(Went::On)
    }

    /// Does what is due by the clock.
    pub fn tick(&mut self, now: Time, hands: &mut dyn Hands) -> Result<(), ChainError> {
        let before = self.calendar.clone();
        for dream in self.calendar.due(now, &self.zone) {
            hands.dream(&dream)?;
        }
        if self.calendar != before {
            self.save()?;
        }
        Ok(())
    }

    /// Hears what somebody else put on the bus: it is written down, and what has ended elsewhere is
    /// dreamt of.
    pub fn hear(&mut self, message: &Value, hands: &mut dyn Hands) -> Result<(), ChainError> {
        if message["rev"] == REVISION {
            return Ok(());
        }
        let failed = |cause| ChainError::Events { path: self.root.clone(), cause };
        self.logs.hear(message).map_err(failed)?;
        let text = |name: &str| message.get(name).and_then(Value::as_str);
        let day = text("day").and_then(LocalDay::parse);
        match (text("tract"), text("event"), day) {
            (Some("observe"), Some("observed"), Some(day)) => {
                let (stream, segment) = (text("stream"), text("segment"));
                let key = stream.zip(segment).and_then(|(stream, segment)| {
                    SegmentKey::parse(&day.to_string(), stream, segment)
                });
                if let Some(key) = key {
                    hands.dream(&Dream::Segment(key))?;
                }
            }
            (Some("activity"), Some("recorded"), Some(day)) => {
                if let Some((facet, id)) = text("facet")
                    .zip(text("id"))
                    .filter(|(facet, id)| is_plain(facet) && is_plain(id))
                {
                    let (facet, id) = (facet.to_owned(), id.to_owned());
                    hands.dream(&Dream::Activity { day, facet, id })?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The folder of the epoch that an event closes; `None` for a session that is gone, and for a
    /// second report of one end.
    fn segment_of(&self, event: &event::Event) -> Result<Option<Segment>, ChainError> {
        let session = match self.journal.stat(&event.session_id) {
            Err(ReadError::SessionNotFound(_)) => return Ok(None),
            session => session?,
        };
        let chronicle = chronicle_of(&self.journal, &session)?;
        let is_it = |chapter: &projection::Chapter<'_>| {
            chapter.epoch.to_seq == event.seq && chapter.epoch.closed.is_some()
        };
        let Some(chapter) = chronicle.chapters().find(is_it) else { return Ok(None) };
        match Segment::claim(&self.journal, &session, chapter.epoch, &self.zone) {
            Err(SegmentError::Deleted(_)) => Ok(None),
            segment => Ok(Some(segment?)),
        }
    }

    /// An epoch that just ended, step by step.
    fn observe(
        &mut self,
        segment: &Segment,
        now: Time,
        hands: &mut dyn Hands,
    ) -> Result<Went, ChainError> {
        let began = Instant::now();
        let meta = serde_json::to_value(&segment.meta).expect("names and numbers always encode");
        let observing = json!({"files": ["segment.json"], "meta": meta});
        self.tell(segment, "observing", json!({}), observing, hands)?;

        let mut missing: Vec<String> = Vec::new();
        missing.extend(segment.transcribed().is_none().then(|| "transcribe".to_owned()));
        missing.extend(segment.described().is_none().then(|| "describe".to_owned()));
        missing.extend(hands.handlers("segment.json"));
        let mut errors: Vec<String> = Vec::new();
        let mut runs = Vec::new();
        for handler in missing {
            let run = match hands.start(segment, &handler)? {
                Begun::Running(run) => run,
                Begun::Ended(code) => {
                    errors.push(format!("{handler} exit {code}"));
                    continue;
                }
                Begun::Stopped => return Ok(Went::Stopped),
            };
            let detected = json!({"file": "segment.json", "handler": handler, "ref": run});
            self.tell(segment, "detected", json!({"handler": handler}), detected, hands)?;
            runs.push((handler, run));
        }
        for (handler, run) in runs {
            let Some(code) = hands.finish(&run) else { return Ok(Went::Stopped) };
            errors.extend((code != 0).then(|| format!("{handler} exit {code}")));
        }
        let millis = began.elapsed().as_millis() as u64;
        if let Some(made) = segment.transcribed() {
            let mut fields = serde_json::to_value(made).expect("names and numbers always encode");
            fields["input"] = json!("segment.json");
            fields["output"] = json!("transcript.jsonl");
            fields["duration_ms"] = json!(millis);
            self.tell(segment, "transcribed", json!({}), fields, hands)?;
        }
        if let Some(made) = segment.described() {
            let fields = json!({"input": "segment.json", "output": "digest.jsonl",
                "duration_ms": millis, "facts": made.facts});
            self.tell(segment, "described", json!({}), fields, hands)?;
        }
        let mut observed = json!({"duration": began.elapsed().as_secs()});
        if !errors.is_empty() {
            observed["error"] = json!(true);
            observed["errors"] = json!(errors);
            hands.publish(&json!({
                "tract": "notification",
                "event": "show",
                "title": "A segment was not described",
                "message": format!("{}: {}", segment.meta.tag, errors.join(", ")),
                "app": "hansard",
                "rev": REVISION,
            }));
        }
        self.tell(segment, "observed", json!({}), observed, hands)?;
        self.calendar.saw(segment.key(), now);
        self.save()?;
        if !self.has(segment, &dreamt())? {
            hands.dream(&Dream::Segment(segment.key()))?;
        }
        Ok(Went::On)
    }

    /// An epoch of long ago: described here and now, and told once.
    fn describe_here(
        &mut self,
        segment: &Segment,
        hands: &mut dyn Hands,
    ) -> Result<(), ChainError> {
        segment.transcribe(&self.journal)?;
        segment.describe(&self.journal)?;
        self.tell(segment, "observed", json!({}), json!({"duration": 0, "batch": true}), hands)?;
        self.calendar.saw_history(segment.key().day());
        Ok(())
    }

    fn dream_of_days(
        &mut self,
        days: &mut Vec<LocalDay>,
        hands: &mut dyn Hands,
    ) -> Result<(), ChainError> {
        if days.is_empty() {
            return Ok(());
        }
        days.sort();
        days.dedup();
        for day in days.drain(..) {
            hands.dream(&Dream::Segments(day))?;
        }
        self.save()
    }

    /// Writes a step down and puts it on the bus, unless it was taken before. `like` is what tells
    /// it from others of its name.
    fn tell(
        &mut self,
        segment: &Segment,
        event: &str,
        like: Value,
        fields: Value,
        hands: &mut dyn Hands,
    ) -> Result<(), ChainError> {
        let mut like = like;
        like["tract"] = json!("observe");
        like["event"] = json!(event);
        if self.has(segment, &like)? {
            return Ok(());
        }
        let meta = &segment.meta;
        let mut message = json!({"tract": "observe", "event": event, "day": meta.day,
            "segment": meta.segment, "stream": meta.stream});
        if let (Some(message), Value::Object(fields)) = (message.as_object_mut(), fields) {
            message.extend(fields);
        }
        message["rev"] = json!(REVISION);
        let failed = |cause| ChainError::Events { path: segment.folder().to_owned(), cause };
        event_log::append(segment.folder(), &message).map_err(failed)?;
        hands.publish(&message);
        Ok(())
    }

    fn has(&self, segment: &Segment, like: &Value) -> Result<bool, ChainError> {
        let failed = |cause| ChainError::Events { path: segment.folder().to_owned(), cause };
        event_log::has(segment, like).map_err(failed)
    }

    fn save(&self) -> Result<(), ChainError> {
        let folder = health(&self.root);
        if !folder.is_dir() {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&self.calendar).expect("names and numbers always encode");
        Ok(write_whole(&folder, STATE, &bytes)?)
    }
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

fn health(root: &Path) -> PathBuf {
    root.join("health")
}

/// Whether a text can be an argument of a command and nothing else.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.chars().any(char::is_control)
}
