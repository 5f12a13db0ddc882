//! The keeper: the one thread that takes all inputs, asks the pure parts what to do, and does it.
//!
//! It never blocks on a process, a client, or a disk beyond its own small files.

mod bus_listeners; // forwards bus messages to the keeper
mod state; // what survives a restart, on disk
#[cfg(test)]
mod tests; // the keeper under a test clock

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use bus::{Handle, Message};

use crate::announce::{self, LineMaker, RunLabel};
use crate::children::{self, Children};
use crate::clock::{Clock, Moment};
use crate::heartbeat::{HeartbeatChange, Heartbeats, Sender};
use crate::keeper_input::KeeperInput;
use crate::log_file::LogFile;
use crate::output::OutputSink;
use crate::program::{self, ResolvedCommand};
use crate::publisher::Publisher;
use crate::queue::{self, Reason, RunId, SavedTasks, Stopped, TaskCommand, TaskQueue, TaskRequest};
use crate::reaction;
use crate::request::{ParsedRequest, RequestRef};
use crate::run::{RunEvent, Watcher};
use crate::run_ref::{Ref, RefGenerator};
use crate::runs::{LogPlace, RunSpec, Runs};
use crate::schedule::{LastRuns, Schedules};
use crate::services::{self, Instance, Services};
use crate::services_file::{FileError, IfBusy, ServicesFile, Stale, check_words};
use crate::settings::SupervisorSettings;
use crate::state_file::{self, SyncMode};
use crate::status::StatusReport;
use crate::supervisor::{DaemonTask, EnqueueError, NAME, StartError, SupervisorShared};
use crate::sweep;

use bus_listeners::BusListeners;
use state::{StateFiles, next_ref};

/// The interval of `supervisor.status`, schedules and heartbeat checks.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// How long a task has to end after SIGTERM.
const TASK_GRACE: Duration = Duration::from_secs(10);

/// The delay before a full bus is tried again.
const PUBLISH_RETRY: Duration = Duration::from_millis(20);

/// The interval of removing old logs.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// Inputs taken in one turn before files are saved and timers are checked.
const TURN_MAX: usize = 256;

/// Runs of services are numbered from here, runs of tasks from 1.
const SERVICE_RUNS: u64 = 1 << 63;

/// How far the supervisor's own shutdown has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Working,
    EndingTasks,
    EndingServices,
}

pub(crate) struct Keeper {
    settings: SupervisorSettings,
    files: StateFiles,
    clock: Clock,
    shared: Arc<SupervisorShared>,
    file: Arc<ServicesFile>,
    own: RunLabel,
    publisher: Publisher,
    listening: BusListeners,
    queue: TaskQueue,
    services: Services,
    runs: Runs,
    schedules: Schedules,
    heartbeats: Heartbeats,
    refs: RefGenerator,
    next_service_run: u64,
    phase: Phase,
    is_hurried: bool,
    status_due: Moment,
    sweep_due: Moment,
    sweeper: Option<JoinHandle<()>>,
    /// Messages that could not be acted on.
    ignored: u64,
    faults: Vec<String>,
    /// Callers that wait until the queue is on disk.
    enqueued: Vec<(SyncSender<Result<Ref, EnqueueError>>, Ref)>,
    /// Parts of the daemon that wait for one of their runs.
    watchers: HashMap<Ref, Watcher>,
    kept: Option<Vec<u8>>,
    /// The error of the last failed save, so that it is logged once.
    save_error: Option<std::io::ErrorKind>,
}

impl Keeper {
    /// Ends orphans, reads `services.toml` and restores saved tasks.
    pub(crate) fn open(
        settings: SupervisorSettings,
        bus: Handle,
        inputs: SyncSender<KeeperInput>,
        clock: Clock,
    ) -> Result<Keeper, StartError> {
        let health = settings.journal.join("health");
        let state = |path: &Path| {
            let path = path.to_owned();
            move |source| StartError::State { path, source }
        };
        crate::safe::folder_below(&settings.journal, &["health"]).map_err(state(&health))?;
        let children_path = health.join("children.json");
        // Before anything is started: an orphan may hold the port or the lock of its successor.
        let orphans = children::end_orphans(&children_path, &settings.journal);
        let files = StateFiles {
            services: settings.journal.join("services.toml"),
            tasks: health.join("tasks.json"),
            schedules: health.join("schedules.json"),
            last_ref: health.join("last_ref.json"),
        };
        // An unreadable file ends the start: going on would overwrite tasks that must not be lost.
        let kept: SavedTasks = state_file::read_json(&files.tasks).map_err(state(&files.tasks))?;
        let last_runs: LastRuns =
            state_file::read_json(&files.schedules).map_err(state(&files.schedules))?;
        let reserved: u64 =
            state_file::read_json(&files.last_ref).map_err(state(&files.last_ref))?;
        let mut refs = RefGenerator::above(reserved);
        let reference = next_ref(&mut refs, &clock, &files.last_ref);
        let own = RunLabel { reference, name: NAME.to_owned(), pid: std::process::id() };
        let log = LogFile::open(&settings.journal, &own.reference, NAME, None, &clock);
        let log = OutputSink::new(log, bus.clone());
        let file = Arc::new(ServicesFile::default());
        let shared = SupervisorShared::new(Arc::clone(&file), log, LineMaker::new(&own, "log"));
        // Before the rest is built: requests that arrive from now on wait in the listener's queue.
        let listening = BusListeners::begin(bus.clone(), inputs.clone())?;
        let children = Children::new(children_path);
        let runs = Runs::new(settings.clone(), clock.clone(), bus.clone(), inputs, children);
        let mut keeper = Keeper {
            queue: TaskQueue::new(file.tasks),
            services: Services::default(),
            schedules: Schedules::new(last_runs),
            heartbeats: Heartbeats::default(),
            publisher: Publisher::new(bus),
            shared: Arc::new(shared),
            next_service_run: SERVICE_RUNS,
            phase: Phase::Working,
            is_hurried: false,
            status_due: Moment::ZERO,
            sweep_due: Moment::ZERO,
            sweeper: None,
            ignored: 0,
            faults: Vec::new(),
            enqueued: Vec::new(),
            watchers: HashMap::new(),
            kept: None,
            save_error: None,
            settings,
            files,
            clock,
            file,
            own,
            listening,
            runs,
            refs,
        };
        // Before the tasks: the file says how many of them may run at once, and a task may need a
        // service. The error was reported, and there is no earlier file to fall back to.
        let _ = keeper.load_file();
        keeper.restore_tasks(kept, orphans);
        keeper.save();
        Ok(keeper)
    }

    pub(crate) fn shared(&self) -> &Arc<SupervisorShared> {
        &self.shared
    }

    /// Runs until it was told to stop and everything has ended.
    pub(crate) fn run(mut self, incoming: &Receiver<KeeperInput>) {
        loop {
            // The timers first, then the files, then the wait: what a turn has changed is on disk
            // before the keeper sleeps, and callers of `enqueue` are answered.
            self.tick();
            self.save();
            if self.is_done() {
                break;
            }
            let wait = self.next_due().saturating_sub(self.clock.moment());
            match incoming.recv_timeout(wait) {
                Ok(first) => {
                    self.handle_input(first);
                    // Without the limit a flood of messages would hold up timeouts and saving.
                    for next in incoming.try_iter().take(TURN_MAX) {
                        self.handle_input(next);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Dropping the handle stops us first, so this cannot lose work.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.finish();
    }

    fn handle_input(&mut self, incoming: KeeperInput) {
        let now = self.clock.moment();
        match incoming {
            KeeperInput::Request(message) => self.handle_bus_request(&message),
            KeeperInput::Message(message) => self.run_reactions(&message),
            // The three steps in which a run ends. `tick` draws the conclusions.
            KeeperInput::Exited { run, exit_code } => self.runs.exited(run, exit_code, now),
            KeeperInput::Drained { run } => self.runs.drained(run),
            KeeperInput::GroupGone { run } => self.runs.group_gone(run),
            KeeperInput::Reload { done } => {
                let loaded = self.load_file();
                // The caller may be gone.
                let _ = done.send(loaded);
            }
            KeeperInput::Enqueue { task, watcher, done } => self.enqueue(task, watcher, done),
            KeeperInput::Stop => self.begin_stop(),
            KeeperInput::KillAll => {
                self.is_hurried = true;
                // Stop before killing, or a killed service would be restarted.
                self.begin_stop();
                self.stop_services(now);
                self.runs.kill_all(now);
            }
        }
    }

    /// Handles everything that is due by the clock.
    fn tick(&mut self) {
        self.publisher.flush();
        let now = self.clock.moment();
        // Runs first: an exit may free the room that the queue and the services start into.
        for (run, exit_code) in self.runs.tick(now) {
            // The number of a run tells whether the queue or the services own it.
            if run.0 >= SERVICE_RUNS {
                let effects = self.services.exited(run, exit_code, now);
                self.apply_service_effects(effects);
            } else {
                let effects = self.queue.exited(run, exit_code);
                self.apply_task_effects(effects);
            }
        }
        self.runs.remove_finished();
        let effects = self.queue.tick(now);
        self.apply_task_effects(effects);
        let effects = self.services.tick(now);
        self.apply_service_effects(effects);
        // Does nothing unless the supervisor is ending its tasks. The queue may be idle while
        // children of a task still run; they may need a service too.
        if self.queue.is_idle() && self.has_no_task_run() {
            self.stop_services(now);
        }
        if self.status_due <= now {
            self.status_due = now + STATUS_EVERY;
            self.run_periodic(now);
        }
    }

    /// Returns when [`Keeper::tick`] has work again.
    fn next_due(&self) -> Moment {
        // The bus does not say when it has room again, so it is tried after a short pause.
        let retry = self.publisher.has_pending().then(|| self.clock.moment() + PUBLISH_RETRY);
        let dues = [self.queue.next_due(), self.services.next_due(), self.runs.next_due(), retry];
        dues.into_iter().flatten().fold(self.status_due, Moment::min)
    }

    fn is_done(&self) -> bool {
        // Also the runs: members of a group may live after its service has exited.
        self.phase == Phase::EndingServices && self.services.is_idle() && self.runs.is_empty()
    }

    fn has_no_task_run(&self) -> bool {
        self.runs.highest_below(RunId(SERVICE_RUNS)).is_none()
    }

    /// Every few seconds: runs schedules, checks heartbeats, sweeps logs, publishes the status.
    fn run_periodic(&mut self, now: Moment) {
        // While it stops, nothing new is started. The status is published to the end.
        if self.phase == Phase::Working {
            self.run_schedules();
            for change in self.heartbeats.tick(now) {
                self.handle_heartbeat(change);
            }
            if self.sweep_due <= now {
                self.sweep_due = now + SWEEP_EVERY;
                self.start_sweep();
            }
        }
        let missed = self.listening.missed();
        if missed > 0 {
            self.ignored += missed;
            self.alert_user(
                "Requests were lost",
                &format!("{missed} messages did not fit into the queue"),
            );
        }
        let report = StatusReport {
            own: &self.own,
            clock: &self.clock,
            services: &self.services,
            queue: &self.queue,
            heartbeats: &self.heartbeats,
            schedules: &self.schedules,
            health: self.shared.health(),
            log_error: self.runs.log_error().or_else(|| self.shared.log_error()),
            clients: self.publisher.clients(),
            faults: &self.faults,
            // One number for the user: messages that had no effect, whatever the reason.
            ignored: self.ignored + self.heartbeats.unwatched + self.publisher.lost,
        };
        let status = report.build();
        self.publisher.publish(status);
    }

    // Requests.

    fn handle_bus_request(&mut self, message: &Message) {
        let (tract, event) = (message.tract(), message.event());
        match (tract.as_deref(), event.as_deref()) {
            (Some(NAME), Some("request")) => self.queue_request(message),
            (Some(NAME), Some("cancel")) => match RequestRef::read(message) {
                RequestRef::Valid(reference) => {
                    let effects = self.queue.cancel(&reference);
                    self.apply_task_effects(effects);
                }
                RequestRef::Absent | RequestRef::Invalid => self.ignored += 1,
            },
            (Some(NAME), Some("restart")) => {
                let name = message.field("service").and_then(|field| field.text());
                let (is_known, effects) = self.services.restart(&name.unwrap_or_default());
                self.ignored += u64::from(!is_known);
                self.apply_service_effects(effects);
            }
            (Some(NAME), Some("reload")) => {
                let reference = match RequestRef::read(message) {
                    RequestRef::Valid(reference) => Some(reference),
                    RequestRef::Absent | RequestRef::Invalid => None,
                };
                let error = self.load_file().err().map(|error| error.to_string());
                self.publisher.publish(announce::reloaded(reference.as_ref(), error.as_deref()));
            }
            (Some(tract), Some("status")) if tract != NAME => {
                let Some(sender) = Sender::from_message(message) else { return };
                let is_idle = message.field("idle").is_some_and(|idle| idle.raw() == b"true");
                let change = self.heartbeats.record_status(sender, is_idle, self.clock.moment());
                if let Some(change) = change {
                    self.handle_heartbeat(change);
                }
            }
            _ => {}
        }
    }

    fn queue_request(&mut self, message: &Message) {
        let asked = ParsedRequest::read(message);
        let reference = match RequestRef::read(message) {
            RequestRef::Valid(reference) => reference,
            // An answer needs a valid ref.
            RequestRef::Invalid => return self.ignored += 1,
            // The sender of a faulty request without a ref could not recognise the answer.
            RequestRef::Absent if asked.is_err() => return self.ignored += 1,
            RequestRef::Absent => self.new_ref(),
        };
        let mut refuse = |service: &str, reason: Reason, error: String| {
            let stopped = Stopped::never_ran(service, reference.clone(), reason);
            self.publisher.publish(announce::stopped(&Stopped { error: Some(error), ..stopped }));
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(why) => return refuse("unknown", Reason::BadRequest, why),
        };
        let judged = program::resolve_allowed(&self.file.allow, &self.settings.program, &asked.cmd);
        let ResolvedCommand { program, name } = match judged {
            Ok(judged) => judged,
            Err(why) => {
                let own = &self.settings.program;
                let name = program::resolve_trusted(&self.file.allow, own, &asked.cmd).name;
                return refuse(&name, Reason::NotAllowed, why);
            }
        };
        let work = TaskCommand { name, program, cmd: asked.cmd, cwd: None, env: Vec::new() };
        let effects = self.queue.request(TaskRequest {
            reference,
            work,
            day: asked.day,
            timeout: asked.timeout,
            if_busy: asked.if_busy,
            rerun: asked.rerun,
            keep: false,
        });
        self.apply_task_effects(effects);
    }

    fn enqueue(
        &mut self,
        task: DaemonTask,
        watcher: Option<Watcher>,
        done: SyncSender<Result<Ref, EnqueueError>>,
    ) {
        let DaemonTask { cmd, name: own_name, reference, day, cwd, env, timeout, keep } = task;
        // Results of `send` are ignored below: the caller may be gone.
        if let Err(why) = check_words(&cmd) {
            let _ = done.send(Err(EnqueueError::BadCommand(why)));
            return;
        }
        let reference = reference.unwrap_or_else(|| self.new_ref());
        let own = &self.settings.program;
        let ResolvedCommand { program, name } =
            program::resolve_trusted(&self.file.allow, own, &cmd);
        let name = own_name.unwrap_or(name);
        let effects = self.queue.request(TaskRequest {
            reference: reference.clone(),
            work: TaskCommand { name, program, cmd, cwd, env },
            day,
            timeout,
            if_busy: IfBusy::Queue,
            rerun: keep,
            keep,
        });
        // The queue answers a refused ref on the bus. The caller inside the daemon gets an error as
        // well.
        let refusal = effects.iter().find_map(|effect| match effect {
            queue::Effect::Stopped(stopped) if stopped.reference == reference => stopped.reason,
            _ => None,
        });
        match refusal {
            Some(Reason::QueueFull) => drop(done.send(Err(EnqueueError::Full))),
            Some(Reason::Stopping) => drop(done.send(Err(EnqueueError::Stopping))),
            _ => {
                // Before the effects are applied, which may start the task and notify its watcher.
                // The caller is answered by the next `save`.
                self.watchers.extend(watcher.map(|watcher| (reference.clone(), watcher)));
                self.enqueued.push((done, reference));
            }
        }
        self.apply_task_effects(effects);
    }

    fn run_reactions(&mut self, message: &Message) {
        if self.phase != Phase::Working {
            return;
        }
        let file = Arc::clone(&self.file);
        for (reaction, cmd) in reaction::answers(&file.reactions, message) {
            // A field of the message could be read as an option or holds control characters.
            let Ok(cmd) = cmd else {
                self.ignored += 1;
                continue;
            };
            let ResolvedCommand { program, name } =
                program::resolve_trusted(&file.allow, &self.settings.program, &cmd);
            let work = TaskCommand { name, program, cmd, cwd: None, env: Vec::new() };
            let reference = self.new_ref();
            let pid_file = reaction.unless_pid_file.as_deref();
            if pid_file.is_some_and(|file| reaction::is_held(&self.settings.journal, file)) {
                self.publisher.publish(announce::skipped(&reference, None, &work, "pid_file"));
                continue;
            }
            let if_busy = reaction.if_busy;
            self.run_trusted(reference, work, if_busy);
        }
    }

    fn run_schedules(&mut self) {
        let now_ms = self.clock.now_ms();
        let due = self.schedules.take_due(now_ms, &self.clock.zone);
        if due.is_empty() {
            return;
        }
        // Save before running: after a crash a missed run is better than a double one.
        self.save_schedules();
        for schedule in due {
            let own = &self.settings.program;
            let ResolvedCommand { program, name } =
                program::resolve_trusted(&self.file.allow, own, &schedule.cmd);
            let work = TaskCommand { name, program, cmd: schedule.cmd, cwd: None, env: Vec::new() };
            let reference = Ref::text(format!("sched:{}:{now_ms}", schedule.name));
            // The file allows 64 bytes for a name, and a ref has 256.
            let reference = reference.expect("names in the file are short");
            self.run_trusted(reference, work, IfBusy::Queue);
        }
    }

    fn run_trusted(&mut self, reference: Ref, work: TaskCommand, if_busy: IfBusy) {
        let (day, timeout) = (None, None);
        let request =
            TaskRequest { reference, work, day, timeout, if_busy, rerun: false, keep: false };
        let effects = self.queue.request(request);
        self.apply_task_effects(effects);
    }

    // Effects.

    fn apply_task_effects(&mut self, effects: Vec<queue::Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                queue::Effect::Start(run) => {
                    // What follows from the start goes to the front: a task that could not start is
                    // answered before the effects that came after it.
                    for next in self.start_task(run).into_iter().rev() {
                        effects.push_front(next);
                    }
                }
                queue::Effect::End(run) => self.end_run(run, TASK_GRACE),
                // The watcher first: its channel is never full, while the bus may hold the message
                // back.
                queue::Effect::Stopped(stopped) => {
                    if let Some(watcher) = self.watchers.remove(&stopped.reference) {
                        notify_watcher(&watcher, RunEvent::Ended(stopped.exit_code));
                    }
                    self.runs.ref_answered(&stopped.reference);
                    self.publisher.publish(announce::stopped(&stopped));
                }
                queue::Effect::Over(run) => self.publish_exit(run),
                queue::Effect::Skipped { reference, active, work } => {
                    self.publisher.publish(announce::skipped(
                        &reference,
                        active.as_ref(),
                        &work,
                        "busy",
                    ));
                }
                queue::Effect::Queue(name) => {
                    let queue = announce::queue(&name, &self.queue.snapshot(&name));
                    self.publisher.publish(queue);
                }
            }
        }
    }

    fn start_task(&mut self, run: RunId) -> Vec<queue::Effect> {
        let Some(entry) = self.queue.entry(run).cloned() else { return Vec::new() };
        let place = entry.day.map_or(LogPlace::Today, LogPlace::Day);
        let started = self.start_run(
            run,
            &RunSpec {
                name: &entry.work.name,
                reference: &entry.refs[0],
                refs: &entry.refs,
                program: &entry.work.program,
                cmd: &entry.work.cmd,
                cwd: entry.work.cwd.as_deref(),
                env: &entry.work.env,
                place,
            },
        );
        match started {
            Ok(pid) => {
                self.queue.started(run, pid, self.clock.moment());
                for watcher in entry.refs.iter().filter_map(|it| self.watchers.get(it)) {
                    notify_watcher(watcher, RunEvent::Started);
                }
                Vec::new()
            }
            Err(error) => self.queue.start_failed(run, &error),
        }
    }

    fn apply_service_effects(&mut self, effects: Vec<services::Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                services::Effect::Start(name) => {
                    for next in self.start_service(&name).into_iter().rev() {
                        effects.push_front(next);
                    }
                }
                // A service that was stopped on purpose is silent from now on, and must not be
                // reported stale.
                services::Effect::End { run, grace } => {
                    if let Some((label, ..)) = self.runs.describe(run) {
                        self.heartbeats.forget_service(&label.name);
                    }
                    self.end_run(run, grace);
                }
                services::Effect::Kill(run) => self.runs.kill(run, self.clock.moment()),
                services::Effect::Restarting(instance) => {
                    self.publisher.publish(announce::restarting(&instance));
                }
                services::Effect::Stopped(stopped) => {
                    self.publisher.publish(announce::stopped(&stopped))
                }
                services::Effect::Over(run) => self.publish_exit(run),
                services::Effect::Alert { name, attempts } => {
                    let text = format!("`{name}` ended again: {attempts} attempts in a row");
                    self.alert_user("A service does not stay up", &text);
                }
            }
        }
    }

    fn start_service(&mut self, name: &str) -> Vec<services::Effect> {
        let Some(service) = self.services.service(name).cloned() else { return Vec::new() };
        let reference = self.new_ref();
        let run = RunId(self.next_service_run);
        self.next_service_run += 1;
        let own = &self.settings.program;
        let program = program::resolve_trusted(&self.file.allow, own, &service.cmd).program;
        let started = self.start_run(
            run,
            &RunSpec {
                name,
                reference: &reference,
                refs: &[],
                program: &program,
                cmd: &service.cmd,
                cwd: service.cwd.as_deref(),
                env: &service.env,
                place: LogPlace::EachDay,
            },
        );
        let since = self.clock.moment();
        match started {
            Ok(pid) => {
                let name = name.to_owned();
                self.services.started(Instance { name, run, pid, reference, since });
                Vec::new()
            }
            Err(error) => {
                self.shared.log(&format!("{name}: {error}"));
                self.services.start_failed(name, reference, &error, since)
            }
        }
    }

    /// Starts a process and publishes `exec` and `started` before any of its output.
    fn start_run(&mut self, run: RunId, start: &RunSpec<'_>) -> Result<u32, String> {
        let started_process = self.runs.start(run, start)?;
        let Some((label, cmd, log_path)) = self.runs.describe(run) else {
            return Err("the process is not in the list of runs".to_owned());
        };
        let (exec, started, pid) =
            (announce::exec(label, cmd, log_path), announce::started(label), label.pid);
        // Published before the threads read a byte, so that no client sees a line of an unknown
        // run.
        self.publisher.publish(exec);
        self.publisher.publish(started);
        self.runs.watch_process(started_process);
        Ok(pid)
    }

    fn end_run(&mut self, run: RunId, grace: Duration) {
        let now = self.clock.moment();
        if self.is_hurried {
            self.runs.kill(run, now);
        } else {
            self.runs.end(run, grace, now);
        }
    }

    fn publish_exit(&mut self, run: RunId) {
        let told = self.runs.describe(run).zip(self.runs.summary(run));
        if let Some(((label, cmd, log_path), (exit_code, account))) = told {
            let exit = announce::exit(label, cmd, log_path, exit_code, &account);
            self.publisher.publish(exit);
        }
    }

    fn handle_heartbeat(&mut self, change: HeartbeatChange) {
        match change {
            HeartbeatChange::CameBack(sender) => {
                self.shared.log(&format!("{} reports its status again", sender.name()));
                let text = format!("`{}` says again how it is", sender.name());
                self.publisher.publish(announce::notice("Heard again", &text));
            }
            HeartbeatChange::StillStale(sender) => self.report_stale(&sender),
            HeartbeatChange::TurnedStale(sender) => {
                self.report_stale(&sender);
                let service =
                    sender.origin.as_deref().and_then(|label| self.services.service(label));
                // Only for a service that asks for it in the file. All others are just reported.
                let wanted = service.filter(|service| service.stale == Stale::Restart);
                if let Some(name) = wanted.map(|service| service.name.clone()) {
                    let (_, effects) = self.services.restart(&name);
                    self.apply_service_effects(effects);
                }
            }
        }
    }

    fn report_stale(&mut self, sender: &Sender) {
        let text = format!("`{}` has reported no status for a minute or more", sender.name());
        self.alert_user("Gone silent", &text);
    }

    /// Reports a problem to the user, in the log and on the bus.
    fn alert_user(&mut self, title: &str, text: &str) {
        self.shared.log(text);
        self.publisher.publish(announce::notice(title, text));
    }

    // Start, reload, stop.

    /// Restores the tasks of an earlier daemon and answers the refs of tasks that died with it.
    fn restore_tasks(&mut self, kept: SavedTasks, orphans: Vec<children::ChildRecord>) {
        let entries = kept.running.iter().chain(&kept.waiting);
        // A kept task that was running is in both files. Its refs must not be answered twice.
        let known: HashSet<Ref> = entries.flat_map(|entry| entry.refs.iter().cloned()).collect();
        let effects = self.queue.restore(kept);
        // Refs of saved tasks are answered by the queue. The list of children names the others.
        for orphan in orphans {
            for reference in orphan.refs.into_iter().filter(|it| !known.contains(it)) {
                let stopped = Stopped::never_ran(&orphan.name, reference, Reason::DaemonDied);
                self.publisher.publish(announce::stopped(&stopped));
            }
        }
        self.apply_task_effects(effects);
    }

    /// Reads `services.toml` and applies it. A faulty file changes nothing.
    fn load_file(&mut self) -> Result<(), FileError> {
        if self.phase != Phase::Working {
            return Ok(());
        }
        let file = match ServicesFile::read(&self.files.services) {
            Ok(file) => Arc::new(file),
            Err(error) => {
                self.faults = vec![error.to_string()];
                self.alert_user("services.toml is not used", &error.to_string());
                return Err(error);
            }
        };
        // Above this line a faulty file has changed nothing. From here on the new one holds.
        self.faults.clear();
        self.file = Arc::clone(&file);
        self.shared.set_file(Arc::clone(&file));
        self.listening.set_reactions(reaction::filter(&file.reactions));
        self.schedules.load(&file.schedules, self.clock.now_ms());
        self.save_schedules();
        let effects = self.queue.set_limits(file.tasks);
        self.apply_task_effects(effects);
        let effects = self.services.load(&file.services);
        self.apply_service_effects(effects);
        Ok(())
    }

    fn begin_stop(&mut self) {
        if self.phase != Phase::Working {
            return;
        }
        self.phase = Phase::EndingTasks;
        // Tasks end before services, because a task may need a service until its end.
        let effects = self.queue.stop();
        self.apply_task_effects(effects);
        self.runs.end_leftovers(TASK_GRACE, self.clock.moment());
    }

    /// Goes on to stop services once tasks are being stopped.
    fn stop_services(&mut self, now: Moment) {
        if self.phase == Phase::EndingTasks {
            self.phase = Phase::EndingServices;
            let effects = self.services.stop(now);
            self.apply_service_effects(effects);
        }
    }

    /// Removes old logs on a separate thread, because there may be many.
    fn start_sweep(&mut self) {
        if self.sweeper.as_ref().is_some_and(|sweeper| !sweeper.is_finished()) {
            return;
        }
        // Taken on this thread. A log that is opened later is the youngest, so the sweep would come
        // to it last.
        let mut living = self.runs.log_names();
        let own = LogFile::file_name(&self.own.reference, NAME);
        living.insert(own);
        let journal = self.settings.journal.clone();
        let sweep = move || sweep::sweep(&journal, &living, SystemTime::now());
        // Without a thread the next sweep does it.
        self.sweeper = std::thread::Builder::new().name("sweep".to_owned()).spawn(sweep).ok();
    }

    /// Saves the last ref and stops listening.
    fn finish(mut self) {
        self.publisher.flush();
        // A failure only skips a few refs.
        let _ = state_file::write_json(&self.files.last_ref, &self.refs.last(), SyncMode::Unsynced);
        self.listening.end();
        if let Some(sweeper) = self.sweeper {
            // A panicked sweep has removed less, nothing else.
            let _ = sweeper.join();
        }
    }
}

/// Notifies a part of the daemon; it may have stopped waiting.
fn notify_watcher(watcher: &Watcher, event: RunEvent) {
    let _ = watcher.try_send((event, Instant::now()));
}
