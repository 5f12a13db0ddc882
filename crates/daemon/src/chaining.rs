//! The chain as a part of the daemon: fed by the journal, its handlers and dreams run by the
//! supervisor, its steps told on the bus.

mod busy; // what handlers are at

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use bus::{Filter, Handle, Listener, Message, PublishError};
use event::Time;
use journal::Journal;
use serde_json::{Value, json};
use supervise::{DaemonTask, EnqueueError, RunEvent, Supervisor, TaskRun, fill_placeholders};

use crate::capturing::{Farewell, give_way};
use crate::health::Health;
use crate::log::{Log, Part};
use crate::opened::Opened;
use busy::{Busy, Handling};
use segments::Dream;
use segments::SegmentKey;
use segments::Zone;
use segments::{
    Chain, ChainError, ChainFlow, ChainRuntime, HandlerStart, HandlerTarget, REVISION, TaskError,
};

/// How often the journal is looked at while nothing is said; more and more rarely while it has
/// nothing new either. An epoch is over after minutes of silence: nobody waits for these seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(8);

/// How long to wait after a failure, as of a disk that is full.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long the chain is waited for at the end.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// How long a handler may take.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long a bus may have no room for what is told.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// How often it is looked whether all this is to end, while a handler runs.
const STOP_EVERY: Duration = Duration::from_millis(200);

/// The thread the chain runs on.
pub(crate) struct Chaining {
    is_stopping: Arc<AtomicBool>,
    listener: Arc<Listener>,
    /// Ends a rest.
    wake: SyncSender<()>,
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
    pub health: Health,
}

impl Chaining {
    /// Begins to take epochs. `farewell` is said when it is over, however it ended.
    pub(crate) fn start(tools: Tools, farewell: Farewell) -> Result<Chaining, ChainingError> {
        let tracts = ["observe", "dream", "activity"].map(str::to_owned).to_vec();
        let listener = Arc::new(tools.bus.listen(Filter { tracts, ..Filter::default() })?);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (end, ended) = mpsc::sync_channel(1);
        let (wake, woken) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("chain".to_owned());
        let (asked, heard) = (Arc::clone(&is_stopping), Arc::clone(&listener));
        let run = move || {
            let _farewell = farewell;
            run(tools, asked, heard, woken);
            drop(end);
        };
        thread.spawn(run).map_err(ChainingError::Thread)?;
        Ok(Chaining { is_stopping, listener, wake, ended })
    }

    /// Ends it. An epoch it is at is taken up again next time, so one that takes long is not
    /// waited for.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.listener.close();
        // One that waits already needs no second word.
        let _ = self.wake.try_send(());
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

fn run(tools: Tools, is_stopping: Arc<AtomicBool>, listener: Arc<Listener>, woken: Receiver<()>) {
    give_way();
    let Tools { opened, bus, supervisor, clock, zone, log, health } = tools;
    let mut inbox = Inbox { listener: Arc::clone(&listener), held: None };
    let (runs, busy) = (HashMap::new(), Busy::default());
    let mut runtime =
        Working { bus, supervisor, is_stopping, listener, log, clock, woken, runs, busy };
    let mut is_recovered = false;
    let mut told = None;
    let mut chain = None;
    while !runtime.is_stopping() {
        let followed = go_on(&mut chain, opened.journal(), &zone).and_then(|chain| {
            if !is_recovered {
                chain.recover(clock(), &mut runtime)?;
                is_recovered = true;
            }
            follow(chain, &mut inbox, &mut runtime, clock, &health)
        });
        if let Err(error) = followed {
            health.set_part("chain", "failing");
            let error = error.to_string();
            // The same again is no news.
            if told.as_ref() != Some(&error) {
                runtime.log.error(Part::Chain, format!("segments wait: {error}"));
                told = Some(error);
            }
            // One that is woken is about to end.
            let _ = runtime.woken.recv_timeout(RETRY_AFTER);
        } else {
            // What was not heard may have left something undone that segments can tell.
            is_recovered = false;
        }
    }
    health.set_part("chain", "stopped");
}

/// The chain as it was before something failed, or the one that is on disk.
fn go_on<'a>(
    chain: &'a mut Option<Chain>,
    journal: Journal,
    zone: &Zone,
) -> Result<&'a mut Chain, ChainError> {
    match chain {
        Some(chain) => {
            chain.reopen(journal);
            Ok(chain)
        }
        None => Ok(chain.insert(Chain::open(journal, zone.clone())?)),
    }
}

/// Takes whatever comes until it is to end, or something was not heard.
fn follow(
    chain: &mut Chain,
    inbox: &mut Inbox,
    runtime: &mut Working,
    clock: fn() -> Time,
    health: &Health,
) -> Result<(), ChainError> {
    let mut rest = LOOK_EVERY;
    while !runtime.is_stopping() {
        health.set_part("chain", if chain.is_behind() { "retrying" } else { "running" });
        // First: what is owed makes room for what comes.
        if chain.retry_pending(clock(), runtime)? == ChainFlow::Stop {
            return Ok(());
        }
        let page = chain.next_page()?;
        if chain.process_page(&page, clock(), runtime)? == ChainFlow::Stop {
            return Ok(());
        }
        let mut limit = rest;
        rest = (rest * 2).min(LOOK_EVERY_MAX);
        if !page.is_empty() {
            // While there is more to take, nothing is waited for.
            limit = Duration::ZERO;
            rest = LOOK_EVERY;
        }
        while let Some(heard) = inbox.first(limit) {
            let before = chain.unhandled_count();
            if !heard.is_noted {
                chain.log_message(&heard.message)?;
                heard.is_noted = true;
            }
            chain.handle_message(&heard.message, clock(), runtime)?;
            inbox.handled();
            runtime.count(before, chain.unhandled_count());
            limit = Duration::ZERO;
        }
        chain.run_schedule(clock(), runtime)?;
        let missed = inbox.listener.missed();
        if missed > 0 {
            let words = format!("{missed} messages about segments found no room");
            runtime.alarm("Messages were lost", &words);
            return Ok(());
        }
    }
    Ok(())
}

/// What others say of segments. The bus keeps it while a handler runs, and tells what found no
/// room; what was begun and not finished is the first again.
struct Inbox {
    listener: Arc<Listener>,
    held: Option<Heard>,
}

struct Heard {
    message: Message,
    /// Whether it is written down.
    is_noted: bool,
}

impl Inbox {
    /// The next message, if one comes in time. It stays the next until it is handled.
    fn first(&mut self, limit: Duration) -> Option<&mut Heard> {
        if self.held.is_none() {
            let heard = |message| Heard { message, is_noted: false };
            self.held = self.listener.next(limit).map(heard);
        }
        self.held.as_mut()
    }

    fn handled(&mut self) {
        self.held = None;
    }
}

/// The bus and the supervisor, as the chain uses them.
struct Working {
    bus: Handle,
    supervisor: Arc<Supervisor>,
    is_stopping: Arc<AtomicBool>,
    listener: Arc<Listener>,
    log: Log,
    clock: fn() -> Time,
    woken: Receiver<()>,
    /// Runs that were started and nobody has asked for the end of.
    runs: HashMap<String, TaskRun>,
    busy: Busy,
}

impl Working {
    /// Waits for news of a run; `None` if all this is to end.
    fn wait_for(&mut self, run: &TaskRun) -> Option<RunEvent> {
        while !self.is_stopping() {
            self.say_what_is_due();
            let news = run.next(STOP_EVERY);
            // A run that ends because everything does has not failed.
            if news.is_some() && !self.is_stopping() {
                return news;
            }
        }
        None
    }

    fn say_what_is_due(&mut self) {
        if let Some(status) = self.busy.due(Instant::now()) {
            self.say(status);
        }
    }

    /// What the user wants to be run instead of a dream.
    fn replacement(&self, dream: &Dream) -> Option<Vec<String>> {
        let configuration = self.supervisor.configuration();
        let chain = &configuration.chain;
        match dream {
            Dream::Segment(_) => chain.segment.clone(),
            Dream::Segments(_) => None,
            Dream::Activity { .. } => chain.activity.clone(),
            Dream::Flush(_) => chain.flush.clone(),
            Dream::Daily(_) => chain.daily.clone(),
        }
    }

    fn say(&mut self, mut message: Value) {
        message["rev"] = json!(REVISION);
        self.publish(&message);
    }

    /// Says how many messages could not be acted upon, whenever they have doubled.
    fn count(&self, before: u64, now: u64) {
        if now > before && now.is_power_of_two() {
            let words = format!("{now} messages named no segment and no activity that can be");
            self.log.warn(Part::Chain, words);
        }
    }
}

impl ChainRuntime for Working {
    fn now(&self) -> Time {
        (self.clock)()
    }

    fn is_stopping(&self) -> bool {
        // A bus that has ended takes everything else along.
        self.is_stopping.load(Ordering::Relaxed) || !self.listener.is_open()
    }

    fn publish(&mut self, message: &Value) {
        let Ok(message) = Message::parse(message.to_string().as_bytes()) else { return };
        let told = self.bus.publish_within(message, ROOM_WITHIN);
        // A bus that has stopped tells nobody anything; the step is written down.
        if told == Err(PublishError::Full) {
            self.log.error(Part::Chain, "a step is written down and found no room on the bus");
        }
    }

    fn warn(&mut self, words: &str) {
        self.log.warn(Part::Chain, words);
    }

    fn alarm(&mut self, title: &str, words: &str) {
        self.log.error(Part::Chain, words);
        self.say(json!({"tract": "notification", "event": "show", "title": title,
            "message": words, "app": "hansard"}));
    }

    fn handlers_for(&self, file: &str) -> Vec<String> {
        let configuration = self.supervisor.configuration();
        let fitting = configuration.handlers.iter().filter(|handler| fits(&handler.files, file));
        fitting.map(|handler| handler.name.clone()).collect()
    }

    fn start_handler(
        &mut self,
        target: &HandlerTarget,
        handler: &str,
        file: &str,
    ) -> Result<HandlerStart, TaskError> {
        let configuration = self.supervisor.configuration();
        let own = configuration.handlers.iter().find(|own| own.name == handler);
        let cmd = match own {
            Some(own) => fill_placeholders(&own.cmd, |name| match name {
                "file" => json!(file),
                "day" => json!(target.key.day()),
                "segment" => json!(target.key.segment()),
                "stream" => json!(target.key.stream()),
                _ => target.meta.get(name).cloned().unwrap_or_default(),
            })
            .map_err(never)?,
            None => vec!["hansard".to_owned(), handler.to_owned()],
        };
        let task = DaemonTask {
            day: Some(target.key.day()),
            cwd: Some(target.folder.clone()),
            env: vec![("SEGMENT_META".to_owned(), target.meta.to_string())],
            timeout: own.and_then(|own| own.timeout).or(Some(HANDLER_TIMEOUT)),
            ..DaemonTask::new(cmd)
        };
        let run = self.supervisor.run(task).map_err(refused)?;
        Ok(match self.wait_for(&run) {
            None => HandlerStart::Stopped,
            Some(RunEvent::Ended(code)) => HandlerStart::Ended(code),
            Some(RunEvent::Started) => {
                let reference = run.reference().as_str().to_owned();
                self.busy.began(Handling {
                    handler: handler.to_owned(),
                    file: file.to_owned(),
                    stream: target.key.stream().to_owned(),
                    run: reference.clone(),
                    since: Instant::now(),
                });
                self.runs.insert(reference.clone(), run);
                HandlerStart::Running(reference)
            }
        })
    }

    fn wait_for_any(&mut self, runs: &[&str]) -> Option<(usize, i32)> {
        while !self.is_stopping() {
            self.say_what_is_due();
            for (number, name) in runs.iter().enumerate() {
                // The first is waited for, the others are looked at every now and then.
                let limit = if number == 0 { STOP_EVERY } else { Duration::ZERO };
                let Some(RunEvent::Ended(code)) = self.runs.get(*name)?.next(limit) else {
                    continue;
                };
                // One that ends because everything does has not failed.
                if self.is_stopping() {
                    return None;
                }
                self.runs.remove(*name);
                if let Some(idle) = self.busy.ended(name) {
                    self.say(idle);
                }
                return Some((number, code));
            }
        }
        None
    }

    fn queue_dream(&mut self, dream: &Dream) -> Result<(), TaskError> {
        let usual = match dream {
            Dream::Segment(_) => "hansard dream --day {day} --segment {segment} --stream {stream}",
            Dream::Segments(_) => "hansard dream --day {day} --segments",
            Dream::Activity { .. } => "hansard dream --day {day} --activity {id} --facet {facet}",
            Dream::Flush(_) => {
                "hansard dream --day {day} --segment {segment} --stream {stream} --flush"
            }
            Dream::Daily(_) => "hansard dream --day {day}",
        };
        let usual = || usual.split_whitespace().map(str::to_owned).collect();
        let words: Vec<String> = self.replacement(dream).unwrap_or_else(usual);
        let (key, activity) = match dream {
            Dream::Segment(key) | Dream::Flush(key) => (Some(key), None),
            Dream::Activity { facet, id, .. } => (None, Some((facet, id))),
            Dream::Segments(_) | Dream::Daily(_) => (None, None),
        };
        let cmd = fill_placeholders(&words, |name| match name {
            "day" => json!(dream.day()),
            "segment" => json!(key.map(SegmentKey::segment)),
            "stream" => json!(key.map(SegmentKey::stream)),
            "facet" => json!(activity.map(|(facet, _)| facet)),
            "id" => json!(activity.map(|(_, id)| id)),
            _ => Value::Null,
        });
        let task = DaemonTask {
            day: Some(dream.day()),
            keep: true,
            ..DaemonTask::new(cmd.map_err(never)?)
        };
        self.supervisor.enqueue(task).map(drop).map_err(refused)
    }

    fn has_replacement(&self, dream: &Dream) -> bool {
        self.replacement(dream).is_some()
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

fn never(error: impl std::fmt::Display) -> TaskError {
    TaskError::Invalid(error.to_string())
}

fn refused(error: EnqueueError) -> TaskError {
    match error {
        EnqueueError::BadCommand(_) => never(error),
        EnqueueError::Full | EnqueueError::Stopping | EnqueueError::NotKept { .. } => {
            TaskError::Unavailable(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use supervise::SupervisorSettings;

    use super::*;

    #[test]
    fn what_somebody_has_to_know_is_a_card_and_in_the_log() {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let socket = dir.path().join("bus.sock");
        let server =
            bus::Server::bind(&socket, bus::ServerSettings::default()).expect("it is bound");
        let bus = server.handle();
        let thread = std::thread::spawn(move || server.run());
        let clock = || Time::from_millis(0);
        let log = Log::open(dir.path(), bus.clone(), clock, Box::new(|_| {}));
        let settings = SupervisorSettings::new(dir.path().to_owned(), "/bin/false".into());
        let supervisor = Supervisor::start(settings, bus.clone()).expect("it starts");
        let tracts = vec!["notification".to_owned()];
        let heard = bus.listen(Filter { tracts, ..Filter::default() }).expect("it listens");
        let mut runtime = Working {
            listener: Arc::new(bus.listen(Filter::default()).expect("it listens")),
            bus: bus.clone(),
            supervisor: Arc::new(supervisor),
            is_stopping: Arc::default(),
            log,
            clock,
            woken: mpsc::sync_channel(1).1,
            runs: HashMap::new(),
            busy: Busy::default(),
        };
        runtime.alarm("A segment was not described", "20261116/claude/080001_5: describe exit 1");
        let card = heard.next(Duration::from_secs(60)).expect("somebody is told").to_json();
        assert_eq!(bus::registry::fault(&card), None);
        assert_eq!(
            (&card["event"], &card["title"]),
            (&"show".into(), &"A segment was not described".into())
        );
        let logged = std::fs::read_to_string(dir.path().join("daemon.log")).expect("it is there");
        assert!(logged.contains("describe exit 1"), "{logged}");
        drop(runtime);
        bus.stop();
        thread.join().expect("it ends").expect("it ends well");
    }

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
