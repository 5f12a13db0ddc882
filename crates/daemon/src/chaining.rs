//! The chain as a part of the daemon: fed by the journal, its handlers and dreams run by the
//! supervisor, its steps told on the bus.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use bus::{Field, Filter, Handle, Listener, Message, PublishError};
use event::Time;
use serde_json::{Value, json};
use supervise::{Day, Supervisor, Task, fill};

use crate::capturing::give_way;
use crate::chain::{Begun, Chain, ChainError, Hands, HandsError, Went};
use crate::dream::Dream;
use crate::log::{Log, Part};
use crate::opened::Opened;
use crate::segment::{Segment, SegmentKey};
use crate::zone::Zone;

/// How often the journal is looked at while nothing is said.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long to wait after a failure, as of a disk that is full.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long the chain is waited for at the end.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// How long a handler may take.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Messages that are held while a handler runs. Further ones are not written to the logs of their
/// segments.
const HEARD_MAX: usize = 10_000;

/// The thread the chain runs on.
pub(crate) struct Chaining {
    is_stopping: Arc<AtomicBool>,
    listener: Arc<Listener>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

/// What the chain works with.
pub(crate) struct Tools {
    pub opened: Opened,
    pub bus: Handle,
    pub supervisor: Arc<Supervisor>,
    pub clock: fn() -> Time,
    pub zone: Zone,
    pub log: Log,
}

impl Chaining {
    pub(crate) fn start(tools: Tools) -> Result<Chaining, ChainingError> {
        let tracts = ["observe", "dream", "activity", "supervisor"].map(str::to_owned).to_vec();
        let listener = Arc::new(tools.bus.listen(Filter { tracts, ..Filter::default() })?);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (end, ended) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("chain".to_owned());
        let (asked, heard) = (Arc::clone(&is_stopping), Arc::clone(&listener));
        let run = move || {
            run(tools, asked, heard);
            drop(end);
        };
        thread.spawn(run).map_err(ChainingError::Thread)?;
        Ok(Chaining { is_stopping, listener, ended })
    }

    /// Ends it. An epoch it is at is taken up again next time, so one that takes long is not
    /// waited for.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.listener.close();
        let _ = self.ended.recv_timeout(STOP_WITHIN);
    }
}

/// Why the chain is not there.
#[derive(Debug, thiserror::Error)]
pub enum ChainingError {
    #[error(transparent)]
    Bus(#[from] PublishError),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

fn run(tools: Tools, is_stopping: Arc<AtomicBool>, listener: Arc<Listener>) {
    give_way();
    let Tools { opened, bus, supervisor, clock, zone, log } = tools;
    let mut hands = Working {
        bus,
        supervisor,
        is_stopping,
        listener,
        runs: HashMap::new(),
        heard: VecDeque::new(),
    };
    let mut is_recovered = false;
    let mut told = None;
    while !hands.is_stopping() {
        let followed = Chain::open(opened.journal(), zone.clone()).and_then(|mut chain| {
            if !is_recovered {
                chain.recover(clock(), &mut hands)?;
                is_recovered = true;
            }
            follow(&mut chain, &mut hands, clock)
        });
        if let Err(error) = followed {
            let error = error.to_string();
            // The same again is no news.
            if told.as_ref() != Some(&error) {
                log.error(Part::Chain, format!("segments wait: {error}"));
                told = Some(error);
            }
            hands.rest(RETRY_AFTER);
        }
    }
}

/// Takes whatever comes until it is to end.
fn follow(chain: &mut Chain, hands: &mut Working, clock: fn() -> Time) -> Result<(), ChainError> {
    while !hands.is_stopping() {
        let page = chain.page()?;
        if !page.is_empty() {
            if chain.take(&page, clock(), hands)? == Went::Stopped {
                return Ok(());
            }
            continue;
        }
        while let Some(message) = hands.heard.pop_front() {
            chain.hear(&message, hands)?;
        }
        chain.tick(clock(), hands)?;
        hands.hear(LOOK_EVERY);
    }
    Ok(())
}

/// The bus and the supervisor, as the chain uses them.
struct Working {
    bus: Handle,
    supervisor: Arc<Supervisor>,
    is_stopping: Arc<AtomicBool>,
    listener: Arc<Listener>,
    /// Runs that were started and nobody has asked for the end of: whether each has a process,
    /// and its exit code.
    runs: HashMap<String, (bool, Option<i32>)>,
    /// What was said about segments and is not handled yet.
    heard: VecDeque<Value>,
}

impl Working {
    /// Takes in what is said, until the time is over or something about a segment was.
    fn hear(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        while self.heard.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let Some(message) = self.listener.next(left) else { return };
            self.keep(&message);
        }
    }

    /// Lets some time pass, whatever is said meanwhile.
    fn rest(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        while let left = until.saturating_duration_since(Instant::now())
            && let Some(message) = self.listener.next(left)
        {
            self.keep(&message);
        }
    }

    /// Notes what a message says of a run of ours, and holds one that is about a segment.
    fn keep(&mut self, message: &Message) {
        let is_of_supervisor = message.tract().is_some_and(|tract| tract == "supervisor");
        if !is_of_supervisor {
            if self.heard.len() < HEARD_MAX {
                self.heard.push_back(message.to_json());
            }
            return;
        }
        let run = message.field("ref").and_then(Field::text);
        let Some(run) = run.and_then(|run| self.runs.get_mut(run.as_ref())) else { return };
        if message.is("supervisor", "started") {
            run.0 = true;
        } else if message.is("supervisor", "stopped") {
            let code = message.field("exit_code").and_then(Field::integer).unwrap_or(-1);
            run.1 = Some(i32::try_from(code).unwrap_or(-1));
        }
    }

    /// Waits until `is_enough` of what is known of a run; `None` if all this is to end.
    fn wait_for(
        &mut self,
        run: &str,
        is_enough: fn(&(bool, Option<i32>)) -> bool,
    ) -> Option<(bool, Option<i32>)> {
        while !self.is_stopping() {
            let known = self.runs.get(run).copied().unwrap_or_default();
            if is_enough(&known) {
                return Some(known);
            }
            if let Some(message) = self.listener.next(LOOK_EVERY) {
                self.keep(&message);
            }
        }
        None
    }
}

impl Hands for Working {
    fn is_stopping(&self) -> bool {
        // A bus that has ended takes everything else along.
        self.is_stopping.load(Ordering::Relaxed) || !self.listener.is_open()
    }

    fn publish(&mut self, message: &Value) {
        // A bus that takes nothing more is about to end; the step is written down.
        if let Ok(message) = Message::parse(message.to_string().as_bytes()) {
            let _ = self.bus.publish(message);
        }
    }

    fn handlers(&self, file: &str) -> Vec<String> {
        let configuration = self.supervisor.configuration();
        let fitting = configuration.handlers.iter().filter(|handler| fits(&handler.files, file));
        fitting.map(|handler| handler.name.clone()).collect()
    }

    fn start(&mut self, segment: &Segment, handler: &str) -> Result<Begun, HandsError> {
        let meta = serde_json::to_string(&segment.meta).map_err(failed)?;
        let configuration = self.supervisor.configuration();
        let own = configuration.handlers.iter().find(|own| own.name == handler);
        let cmd = match own {
            Some(own) => own.cmd.clone(),
            None => vec!["hansard".to_owned(), handler.to_owned()],
        };
        let task = Task {
            day: Day::parse(&segment.meta.day),
            cwd: Some(segment.folder().to_owned()),
            env: vec![("SEGMENT_META".to_owned(), meta)],
            timeout: own.and_then(|own| own.timeout).or(Some(HANDLER_TIMEOUT)),
            ..Task::new(cmd)
        };
        let run = self.supervisor.enqueue(task).map_err(failed)?;
        self.runs.insert(run.as_str().to_owned(), (false, None));
        Ok(match self.wait_for(run.as_str(), |(is_there, code)| *is_there || code.is_some()) {
            None => Begun::Stopped,
            Some((true, _)) => Begun::Running(run.as_str().to_owned()),
            Some((false, code)) => {
                self.runs.remove(run.as_str());
                Begun::Ended(code.unwrap_or(-1))
            }
        })
    }

    fn finish(&mut self, run: &str) -> Option<i32> {
        let known = self.wait_for(run, |(_, code)| code.is_some())?;
        self.runs.remove(run);
        known.1
    }

    fn dream(&mut self, dream: &Dream) -> Result<(), HandsError> {
        let configuration = self.supervisor.configuration();
        let chain = &configuration.chain;
        let (replaced, usual) = match dream {
            Dream::Segment(_) => {
                (&chain.segment, "dream --day {day} --segment {segment} --stream {stream}")
            }
            Dream::Segments(_) => (&None, "dream --day {day} --segments"),
            Dream::Activity { .. } => {
                (&chain.activity, "dream --day {day} --activity {id} --facet {facet}")
            }
            Dream::Flush(_) => {
                (&chain.flush, "dream --day {day} --segment {segment} --stream {stream} --flush")
            }
            Dream::Daily(_) => (&chain.daily, "dream --day {day}"),
        };
        let usual = || {
            let words = usual.split_whitespace().map(str::to_owned);
            std::iter::once("hansard".to_owned()).chain(words).collect()
        };
        let words: Vec<String> = replaced.clone().unwrap_or_else(usual);
        let (key, activity) = match dream {
            Dream::Segment(key) | Dream::Flush(key) => (Some(key), None),
            Dream::Activity { facet, id, .. } => (None, Some((facet, id))),
            Dream::Segments(_) | Dream::Daily(_) => (None, None),
        };
        let cmd = fill(&words, |name| match name {
            "day" => json!(dream.day()),
            "segment" => json!(key.map(SegmentKey::segment)),
            "stream" => json!(key.map(SegmentKey::stream)),
            "facet" => json!(activity.map(|(facet, _)| facet)),
            "id" => json!(activity.map(|(_, id)| id)),
            _ => Value::Null,
        });
        let day = Day::parse(&dream.day().to_string());
        let task = Task { day, keep: true, ..Task::new(cmd.map_err(failed)?) };
        self.supervisor.enqueue(task).map(drop).map_err(failed)
    }
}

/// Whether a name fits a pattern: `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    let has_stars = parts.peek().is_some();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    !has_stars && rest.is_empty()
}

fn failed(error: impl std::fmt::Display) -> HandsError {
    HandsError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for pattern in ["segment.json", "*", "*.json", "seg*", "s*g*.json", "segment.json*"] {
            assert!(fits(pattern, "segment.json"), "{pattern}");
        }
        for pattern in ["", "segment", "json", "*.jsonl", "x*", "segment.json?", "s*x*n"] {
            assert!(!fits(pattern, "segment.json"), "{pattern}");
        }
    }
}
