//! The chain of segments as a part of the daemon. The journal feeds it, the supervisor runs its
//! handlers and dreams, and it publishes its steps on the bus.

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

use crate::context::DaemonContext;
use crate::health::Health;
use crate::history_import::{HistoryImport, note_segment_output};
use crate::log::part;
use crate::threads::{ExitGuard, lower_priority};
use segments::Dream;
use segments::Zone;
use segments::{
    Chain, ChainError, ChainFlow, ChainRuntime, HandlerEvent, HandlerTarget, REVISION, TaskError,
};
use segments::{SegmentKey, SegmentOutput};

/// How often the journal is read while no message comes, more and more rarely while it has nothing
/// new. An epoch ends after minutes of silence, so these seconds delay nothing that matters.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(8);

/// How long to wait after a failure, such as a full disk.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long a stop waits for the thread. An unfinished epoch is taken up at the next start.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// How long a handler may take.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long to wait for room on the bus.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// How often the thread looks whether handlers have ended, while any are under way.
const HANDLERS_EVERY: Duration = Duration::from_millis(100);

/// The thread the chain runs on.
pub(crate) struct ChainThread {
    is_stopping: Arc<AtomicBool>,
    listener: Arc<Listener>,
    /// Ends a pause.
    wake: SyncSender<()>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl ChainThread {
    /// Begins to take epochs. The guard is dropped when the thread ends, however it ends.
    pub(crate) fn start(
        context: DaemonContext,
        supervisor: Arc<Supervisor>,
        exit_guard: ExitGuard,
    ) -> Result<ChainThread, ChainThreadError> {
        // Only these tracts concern segments; a listener to all would lose messages to bulk
        // traffic.
        let tracts = ["observe", "dream", "activity"].map(str::to_owned).to_vec();
        // Listens before the thread runs, so that no message of this moment is missed.
        let listener = Arc::new(context.bus.listen(Filter { tracts, ..Filter::default() })?);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (end, ended) = mpsc::sync_channel(1);
        let (wake, woken) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("chain".to_owned());
        let runtime = DaemonRuntime {
            bus: context.bus.clone(),
            supervisor,
            is_stopping: Arc::clone(&is_stopping),
            listener: Arc::clone(&listener),
            clock: context.clock,
            host: host_name(),
            import: context.import.clone(),
            woken,
            runs: HashMap::new(),
        };
        let run = move || {
            // Dropped with the thread, also by a panic: the daemon then stops.
            let _exit_guard = exit_guard;
            run(&context, runtime);
            // After `run`: the closed channel is what `stop` waits for.
            drop(end);
        };
        thread.spawn(run).map_err(ChainThreadError::Thread)?;
        Ok(ChainThread { is_stopping, listener, wake, ended })
    }

    /// Stops the thread. It does not wait for a long epoch: that is taken up again at the next
    /// start.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.listener.close();
        // A full channel holds a wake-up already.
        let _ = self.wake.try_send(());
        let _ = self.ended.recv_timeout(STOP_WITHIN);
    }
}

/// Why the chain could not start.
#[derive(Debug, thiserror::Error)]
pub enum ChainThreadError {
    #[error(transparent)]
    Bus(#[from] PublishError),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

fn run(context: &DaemonContext, mut runtime: DaemonRuntime) {
    lower_priority();
    let DaemonContext { journal, zone, health, import, .. } = context;
    let clock = context.clock;
    let mut inbox = Inbox { listener: Arc::clone(&runtime.listener), pending: None };
    let mut is_recovered = false;
    let mut last_failure = None;
    let mut chain = None;
    while !runtime.is_stopping() {
        let followed = open_chain(&mut chain, journal.current(), zone).and_then(|chain| {
            // Once per start and after lost messages: recovery reads the logs of two days.
            if !is_recovered {
                chain.recover(clock(), &mut runtime)?;
                is_recovered = true;
            }
            follow(chain, &mut inbox, &mut runtime, clock, health)
        });
        if let Err(error) = followed {
            health.set_part("chain", "failing");
            let error = error.to_string();
            import.fail_writing(&error);
            // The same failure is logged once.
            if last_failure.as_ref() != Some(&error) {
                tracing::error!(target: part::CHAIN, "segments wait: {error}");
                last_failure = Some(error);
            }
            // A wake-up means that the thread is to end.
            let _ = runtime.woken.recv_timeout(RETRY_AFTER);
        } else {
            // Lost messages may have left steps undone; the segments on disk show which.
            is_recovered = false;
        }
    }
    import.interrupt();
    health.set_part("chain", "stopped");
}

/// The chain as it was before the failure, or the one on disk.
fn open_chain<'a>(
    chain: &'a mut Option<Chain>,
    journal: Journal,
    zone: &Zone,
) -> Result<&'a mut Chain, ChainError> {
    match chain {
        // The chain in memory knows more than the disk if a full disk prevented its last save.
        Some(chain) => {
            chain.reopen(journal);
            Ok(chain)
        }
        None => Ok(chain.insert(Chain::open(journal, zone.clone())?)),
    }
}

/// Takes events and messages until the thread is to end, or until a message was lost.
fn follow(
    chain: &mut Chain,
    inbox: &mut Inbox,
    runtime: &mut DaemonRuntime,
    clock: fn() -> Time,
    health: &Health,
) -> Result<(), ChainError> {
    let mut rest = LOOK_EVERY;
    while !runtime.is_stopping() {
        health.set_part("chain", if chain.is_behind() { "retrying" } else { "running" });
        // First the handlers, then the steps that failed before: they free room for new ones.
        chain.advance_handlers(clock(), runtime)?;
        chain.publish_status(Instant::now(), runtime);
        if chain.retry_pending(clock(), runtime)? == ChainFlow::Stop {
            return Ok(());
        }
        let page = chain.next_page()?;
        if chain.process_page(&page, clock(), runtime)? == ChainFlow::Stop {
            return Ok(());
        }
        runtime.import.note_written(chain.position()?);
        // Waits longer and longer while nothing happens; any message ends the wait.
        let mut limit = rest;
        rest = (rest * 2).min(LOOK_EVERY_MAX);
        if !page.is_empty() {
            // There may be another page, so do not wait.
            limit = Duration::ZERO;
            rest = LOOK_EVERY;
        }
        if chain.is_busy() {
            limit = limit.min(HANDLERS_EVERY);
        }
        while let Some(pending) = inbox.first(limit) {
            let before = chain.unhandled_count();
            // Written down before it is acted upon: after a crash it is acted upon again.
            if !pending.is_noted {
                chain.log_message(&pending.message)?;
                pending.is_noted = true;
            }
            chain.handle_message(&pending.message, clock(), runtime)?;
            inbox.handled();
            runtime.log_unusable(before, chain.unhandled_count());
            // Further messages are taken without a pause, until none waits.
            limit = Duration::ZERO;
        }
        chain.run_schedule(clock(), runtime)?;
        // After the messages: those that arrived were handled, and only the lost ones are missing.
        let missed = inbox.listener.missed();
        if missed > 0 {
            let words = format!("{missed} messages about segments found no room");
            runtime.alarm("Messages were lost", &words);
            return Ok(());
        }
    }
    Ok(())
}

/// Messages of others about segments. The bus queues them and counts those that found no room.
struct Inbox {
    listener: Arc<Listener>,
    /// The message in work. After a failure it is the first again.
    pending: Option<PendingMessage>,
}

struct PendingMessage {
    message: Message,
    /// Whether the chain has written it down.
    is_noted: bool,
}

impl Inbox {
    /// The next message, if one comes in time. It stays the first until it is handled.
    fn first(&mut self, limit: Duration) -> Option<&mut PendingMessage> {
        if self.pending.is_none() {
            let pending = |message| PendingMessage { message, is_noted: false };
            self.pending = self.listener.next(limit).map(pending);
        }
        self.pending.as_mut()
    }

    fn handled(&mut self) {
        self.pending = None;
    }
}

/// The bus and the supervisor, as the chain uses them.
struct DaemonRuntime {
    bus: Handle,
    supervisor: Arc<Supervisor>,
    is_stopping: Arc<AtomicBool>,
    listener: Arc<Listener>,
    clock: fn() -> Time,
    host: String,
    import: HistoryImport,
    woken: Receiver<()>,
    /// Runs of handlers whose ends the chain has not asked for yet.
    runs: HashMap<String, TaskRun>,
}

impl DaemonRuntime {
    /// The command that the user has configured instead of a dream.
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

    fn publish_own(&mut self, mut message: Value) {
        // Every message carries the version that sent it.
        message["rev"] = json!(REVISION);
        self.publish(&message);
    }

    /// Logs how many messages could not be acted upon, each time the number has doubled.
    fn log_unusable(&self, before: u64, now: u64) {
        // Powers of two: a sender that fails for hours fills no log.
        if now > before && now.is_power_of_two() {
            tracing::warn!(
                target: part::CHAIN,
                "{now} messages named no segment and no activity that can be"
            );
        }
    }
}

impl ChainRuntime for DaemonRuntime {
    fn now(&self) -> Time {
        (self.clock)()
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn is_stopping(&self) -> bool {
        // When the bus has ended, the daemon ends.
        self.is_stopping.load(Ordering::Relaxed) || !self.listener.is_open()
    }

    fn publish(&mut self, message: &Value) {
        tracing::debug!(target: part::CHAIN, "publishes {message}");
        let Ok(message) = Message::parse(message.to_string().as_bytes()) else { return };
        let published = self.bus.publish_within(message, ROOM_WITHIN);
        // After the stop of the bus nothing is lost: the step is written down.
        if published == Err(PublishError::Full) {
            tracing::error!(
                target: part::CHAIN,
                "a step was written down but found no room on the bus"
            );
        }
    }

    fn warn(&mut self, words: &str) {
        tracing::warn!(target: part::CHAIN, "{words}");
    }

    fn alarm(&mut self, title: &str, words: &str) {
        tracing::error!(target: part::CHAIN, "{words}");
        self.publish_own(json!({"tract": "notification", "event": "show", "title": title,
            "message": words, "app": "hansard"}));
    }

    fn handlers_for(&self, file: &str) -> Vec<String> {
        let configuration = self.supervisor.configuration();
        let fitting =
            configuration.handlers.iter().filter(|handler| matches_pattern(&handler.files, file));
        fitting.map(|handler| handler.name.clone()).collect()
    }

    fn start_handler(
        &mut self,
        target: &HandlerTarget,
        handler: &str,
        file: &str,
    ) -> Result<String, TaskError> {
        let configuration = self.supervisor.configuration();
        let own = configuration.handlers.iter().find(|own| own.name == handler);
        let cmd = match own {
            // A handler of the user may take the fields of the segment and of its metadata.
            Some(own) => fill_placeholders(&own.cmd, |name| match name {
                "file" => json!(file),
                "day" => json!(target.key.day()),
                "segment" => json!(target.key.segment()),
                "stream" => json!(target.key.stream()),
                _ => target.meta.get(name).cloned().unwrap_or_default(),
            })
            .map_err(invalid_task)?,
            // Not configured means built in: `hansard transcribe` and `hansard describe`.
            None => vec!["hansard".to_owned(), handler.to_owned()],
        };
        let mut env = vec![("SEGMENT_META".to_owned(), target.meta.to_string())];
        // The protocol's name for it.
        env.extend(target.remote.clone().map(|remote| ("REMOTE_NAME".to_owned(), remote)));
        let task = DaemonTask {
            // Two handlers may be scripts of one program and must not wait for each other.
            name: Some(handler.to_owned()),
            day: Some(target.key.day()),
            cwd: Some(target.folder.clone()),
            env,
            timeout: own.and_then(|own| own.timeout).or(Some(HANDLER_TIMEOUT)),
            ..DaemonTask::new(cmd)
        };
        let run = self.supervisor.run(task).map_err(enqueue_error)?;
        let reference = run.reference().as_str().to_owned();
        self.runs.insert(reference.clone(), run);
        Ok(reference)
    }

    fn poll_handler(&mut self, run: &str) -> Option<HandlerEvent> {
        let (event, at) = self.runs.get(run)?.next_timed(Duration::ZERO)?;
        // A run that the stopping supervisor ended has not failed.
        if self.is_stopping() {
            return None;
        }
        Some(match event {
            RunEvent::Started => HandlerEvent::Started { at },
            RunEvent::Ended(exit_code) => {
                self.runs.remove(run);
                HandlerEvent::Ended { exit_code, at }
            }
        })
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
            "stream" => json!(key.and_then(SegmentKey::stream)),
            "facet" => json!(activity.map(|(facet, _)| facet)),
            "id" => json!(activity.map(|(_, id)| id)),
            _ => Value::Null,
        });
        let task = DaemonTask {
            day: Some(dream.day()),
            // Dreams are stored by the supervisor: a queued one survives a crash.
            keep: true,
            ..DaemonTask::new(cmd.map_err(invalid_task)?)
        };
        self.supervisor.enqueue(task).map(drop).map_err(enqueue_error)
    }

    fn note_history(&mut self, key: &SegmentKey, output: SegmentOutput, is_new: bool) {
        self.import.with(|import| note_segment_output(import, key, output, is_new));
    }

    fn has_replacement(&self, dream: &Dream) -> bool {
        self.replacement(dream).is_some()
    }
}

/// Whether a name matches a pattern, in which `*` stands for any text.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    let has_stars = parts.peek().is_some();
    while let Some(part) = parts.next() {
        // The last part has to end the name; a match further to the left would ignore the rest.
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

/// The name of this machine.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn invalid_task(error: impl std::fmt::Display) -> TaskError {
    TaskError::Invalid(error.to_string())
}

fn enqueue_error(error: EnqueueError) -> TaskError {
    match error {
        EnqueueError::BadCommand(_) => invalid_task(error),
        // These pass by themselves, so the chain tries again; a bad command never gets better.
        EnqueueError::Full | EnqueueError::Stopping | EnqueueError::NotKept { .. } => {
            TaskError::Unavailable(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use supervise::SupervisorSettings;

    use super::*;
    use crate::log::{DaemonLog, LogFilter};

    #[test]
    fn alarm_is_shown_and_logged() {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let socket = dir.path().join("bus.sock");
        let server =
            bus::Server::bind(&socket, bus::ServerSettings::default()).expect("it is bound");
        let bus = server.handle();
        let thread = std::thread::spawn(move || server.run());
        let clock = || Time::from_millis(0);
        let log = DaemonLog::open(dir.path(), bus.clone(), clock, Box::new(|_| {}));
        let _log = tracing::subscriber::set_default(log.subscriber(LogFilter::default()));
        let settings = SupervisorSettings::new(dir.path().to_owned(), "/bin/false".into());
        let supervisor = Supervisor::start(settings, bus.clone()).expect("it starts");
        let tracts = vec!["notification".to_owned()];
        let heard = bus.listen(Filter { tracts, ..Filter::default() }).expect("it listens");
        let mut runtime = DaemonRuntime {
            listener: Arc::new(bus.listen(Filter::default()).expect("it listens")),
            bus: bus.clone(),
            supervisor: Arc::new(supervisor),
            is_stopping: Arc::default(),
            clock,
            host: "dev".to_owned(),
            import: HistoryImport::default(),
            woken: mpsc::sync_channel(1).1,
            runs: HashMap::new(),
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
    fn star_matches_any_text() {
        for pattern in ["segment.json", "*", "*.json", "seg*", "s*g*.json", "segment.json*"] {
            assert!(matches_pattern(pattern, "segment.json"), "{pattern}");
        }
        for pattern in ["", "segment", "json", "*.jsonl", "x*", "segment.json?", "s*x*n"] {
            assert!(!matches_pattern(pattern, "segment.json"), "{pattern}");
        }
    }
}
