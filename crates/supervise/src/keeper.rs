//! The one thread that decides: it takes what happens, asks the pure parts what follows, and does
//! it.
//!
//! It never waits for a process, a client or a disk beyond its own small files.

mod listening; // who hears the bus for it
mod state; // what survives it, on disk
#[cfg(test)]
mod tests; // what it does as time goes by

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use bus::{Handle, Message};

use crate::announce::{self, LineMaker, Who};
use crate::children::{self, Children};
use crate::clock::{Clock, Moment};
use crate::heartbeat::{Change, Heartbeats, Sender};
use crate::incoming::Incoming;
use crate::log_file::LogFile;
use crate::output::Output;
use crate::program::{self, Judged};
use crate::queue::{self, Kept, Queue, Reason, Request, RunId, Stopped, Work};
use crate::reaction;
use crate::request::{Asked, AskedRef};
use crate::run::{RunNews, Watcher};
use crate::run_ref::{Ref, RefSource};
use crate::runs::{LogPlace, Runs, Start};
use crate::schedule::{LastRuns, Schedules};
use crate::services::{self, Instance, Services};
use crate::services_file::{FileError, IfBusy, ServicesFile, Stale, check_words};
use crate::settings::Settings;
use crate::state_file::{self, Sync};
use crate::status::Look;
use crate::supervisor::{EnqueueError, NAME, Shared, StartError, Task};
use crate::sweep;
use crate::voice::Voice;

use listening::Listening;
use state::{Files, next_ref};

/// Time between two looks at the clock, the silent and the whole.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// How long a task that was asked to end may take.
const TASK_GRACE: Duration = Duration::from_secs(10);

/// Time until a bus without room is tried again.
const VOICE_RETRY: Duration = Duration::from_millis(20);

/// Time between two looks for old logs.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// What is taken in one turn before files are written and the clock is looked at.
const TURN_MAX: usize = 256;

/// Runs of services are numbered from here, those of tasks from 1.
const SERVICE_RUNS: u64 = 1 << 63;

/// What the supervisor is doing about its own end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Working,
    EndingTasks,
    EndingServices,
}

pub(crate) struct Keeper {
    settings: Settings,
    files: Files,
    clock: Clock,
    shared: Arc<Shared>,
    file: Arc<ServicesFile>,
    own: Who,
    voice: Voice,
    listening: Listening,
    queue: Queue,
    services: Services,
    runs: Runs,
    schedules: Schedules,
    heartbeats: Heartbeats,
    refs: RefSource,
    next_service_run: u64,
    phase: Phase,
    is_hurried: bool,
    status_due: Moment,
    sweep_due: Moment,
    sweeper: Option<JoinHandle<()>>,
    /// Messages that asked for nothing that can be done.
    ignored: u64,
    faults: Vec<String>,
    /// Who waits until the queue is on disk.
    enqueued: Vec<(SyncSender<Result<Ref, EnqueueError>>, Ref)>,
    /// Parts of the daemon that wait for a run of theirs.
    watchers: HashMap<Ref, Watcher>,
    kept: Option<Vec<u8>>,
    /// Why it could not be written the last time.
    save_error: Option<std::io::ErrorKind>,
}

impl Keeper {
    /// Ends orphans, takes up what was left, and is ready to run.
    pub(crate) fn open(
        settings: Settings,
        bus: Handle,
        news: SyncSender<Incoming>,
        clock: Clock,
    ) -> Result<Keeper, StartError> {
        let health = settings.journal.join("health");
        let state = |path: &Path| {
            let path = path.to_owned();
            move |source| StartError::State { path, source }
        };
        crate::safe::folder_below(&settings.journal, &["health"]).map_err(state(&health))?;
        let children_path = health.join("children.json");
        let orphans = children::end_orphans(&children_path, &settings.journal);
        let files = Files {
            services: settings.journal.join("services.toml"),
            tasks: health.join("tasks.json"),
            schedules: health.join("schedules.json"),
            last_ref: health.join("last_ref.json"),
        };
        let kept: Kept = state_file::read(&files.tasks).map_err(state(&files.tasks))?;
        let last_runs: LastRuns =
            state_file::read(&files.schedules).map_err(state(&files.schedules))?;
        let reserved: u64 = state_file::read(&files.last_ref).map_err(state(&files.last_ref))?;
        let mut refs = RefSource::above(reserved);
        let reference = next_ref(&mut refs, &clock, &files.last_ref);
        let own = Who { reference, name: NAME.to_owned(), pid: std::process::id() };
        let log = LogFile::open(&settings.journal, &own.reference, NAME, None, &clock);
        let log = Output::new(log, bus.clone());
        let file = Arc::new(ServicesFile::default());
        let shared = Shared::new(Arc::clone(&file), log, LineMaker::new(&own, "log"));
        let listening = Listening::begin(bus.clone(), news.clone())?;
        let children = Children::new(children_path);
        let runs = Runs::new(settings.clone(), clock.clone(), bus.clone(), news, children);
        let mut keeper = Keeper {
            queue: Queue::new(file.tasks),
            services: Services::default(),
            schedules: Schedules::new(last_runs),
            heartbeats: Heartbeats::default(),
            voice: Voice::new(bus),
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
        keeper.take_up(kept, orphans);
        // A faulty file was told; there is nothing before it to go back to.
        let _ = keeper.load();
        keeper.save();
        Ok(keeper)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Works until it was told to stop and everything has ended.
    pub(crate) fn run(mut self, incoming: &Receiver<Incoming>) {
        loop {
            self.tick();
            self.save();
            if self.is_done() {
                break;
            }
            let wait = self.due().saturating_sub(self.clock.moment());
            match incoming.recv_timeout(wait) {
                Ok(first) => {
                    self.take(first);
                    for next in incoming.try_iter().take(TURN_MAX) {
                        self.take(next);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The handle is gone, and it stops us before it goes.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.finish();
    }

    fn take(&mut self, incoming: Incoming) {
        let now = self.clock.moment();
        match incoming {
            Incoming::Said(message) => self.said(&message),
            Incoming::Heard(message) => self.react(&message),
            Incoming::Exited { run, exit_code } => self.runs.exited(run, exit_code, now),
            Incoming::Drained { run } => self.runs.drained(run),
            Incoming::Gone { run } => self.runs.gone(run),
            Incoming::Reload { done } => {
                let loaded = self.load();
                // Whoever asked may have left.
                let _ = done.send(loaded);
            }
            Incoming::Enqueue { task, watcher, done } => self.enqueue(task, watcher, done),
            Incoming::Stop => self.stop(),
            Incoming::KillAll => {
                self.is_hurried = true;
                // Told first: a service that falls now is not to be started again.
                self.stop();
                self.stop_services(now);
                self.runs.kill_all(now);
            }
        }
    }

    /// Does what the clock asks for.
    fn tick(&mut self) {
        self.voice.go_on();
        let now = self.clock.moment();
        for (run, exit_code) in self.runs.tick(now) {
            if run.0 >= SERVICE_RUNS {
                let effects = self.services.exited(run, exit_code, now);
                self.do_services(effects);
            } else {
                let effects = self.queue.exited(run, exit_code);
                self.do_tasks(effects);
            }
        }
        self.runs.bury();
        let effects = self.queue.tick(now);
        self.do_tasks(effects);
        let effects = self.services.tick(now);
        self.do_services(effects);
        if self.queue.is_quiet() && self.has_no_task_left() {
            self.stop_services(now);
        }
        if self.status_due <= now {
            self.status_due = now + STATUS_EVERY;
            self.look_around(now);
        }
    }

    /// When [`Keeper::tick`] has something to do.
    fn due(&self) -> Moment {
        let retry = self.voice.is_waiting().then(|| self.clock.moment() + VOICE_RETRY);
        let dues = [self.queue.due(), self.services.due(), self.runs.due(), retry];
        dues.into_iter().flatten().fold(self.status_due, Moment::min)
    }

    fn is_done(&self) -> bool {
        self.phase == Phase::EndingServices && self.services.is_quiet() && self.runs.is_quiet()
    }

    fn has_no_task_left(&self) -> bool {
        self.runs.highest_below(RunId(SERVICE_RUNS)).is_none()
    }

    /// Every few seconds: schedules, the silent, old logs, and a word to everybody.
    fn look_around(&mut self, now: Moment) {
        if self.phase == Phase::Working {
            self.run_schedules();
            for change in self.heartbeats.tick(now) {
                self.tell_silence(change);
            }
            if self.sweep_due <= now {
                self.sweep_due = now + SWEEP_EVERY;
                self.sweep();
            }
        }
        let missed = self.listening.missed();
        if missed > 0 {
            self.ignored += missed;
            self.alarm("Requests were lost", &format!("{missed} messages found no room"));
        }
        let look = Look {
            own: &self.own,
            clock: &self.clock,
            services: &self.services,
            queue: &self.queue,
            heartbeats: &self.heartbeats,
            schedules: &self.schedules,
            health: self.shared.health(),
            log_error: self.runs.trouble().or_else(|| self.shared.log_trouble()),
            clients: self.voice.clients(),
            faults: &self.faults,
            ignored: self.ignored + self.heartbeats.unwatched + self.voice.lost,
        };
        let status = look.message();
        self.voice.say(status);
    }

    // What is asked for.

    fn said(&mut self, message: &Message) {
        let (tract, event) = (message.tract(), message.event());
        match (tract.as_deref(), event.as_deref()) {
            (Some(NAME), Some("request")) => self.request(message),
            (Some(NAME), Some("cancel")) => match AskedRef::read(message) {
                AskedRef::Good(reference) => {
                    let effects = self.queue.cancel(&reference);
                    self.do_tasks(effects);
                }
                AskedRef::Absent | AskedRef::Bad => self.ignored += 1,
            },
            (Some(NAME), Some("restart")) => {
                let name = message.field("service").and_then(|field| field.text());
                let (is_known, effects) = self.services.restart(&name.unwrap_or_default());
                self.ignored += u64::from(!is_known);
                self.do_services(effects);
            }
            (Some(NAME), Some("reload")) => {
                let reference = match AskedRef::read(message) {
                    AskedRef::Good(reference) => Some(reference),
                    AskedRef::Absent | AskedRef::Bad => None,
                };
                let error = self.load().err().map(|error| error.to_string());
                self.voice.say(announce::reloaded(reference.as_ref(), error.as_deref()));
            }
            (Some(tract), Some("status")) if tract != NAME => {
                let Some(sender) = Sender::of(message) else { return };
                let is_idle = message.field("idle").is_some_and(|idle| idle.raw() == b"true");
                let change = self.heartbeats.heard(sender, is_idle, self.clock.moment());
                if let Some(change) = change {
                    self.tell_silence(change);
                }
            }
            _ => {}
        }
    }

    fn request(&mut self, message: &Message) {
        let asked = Asked::read(message);
        let reference = match AskedRef::read(message) {
            AskedRef::Good(reference) => reference,
            // Nobody can be answered by a ref that is none.
            AskedRef::Bad => return self.ignored += 1,
            AskedRef::Absent if asked.is_err() => return self.ignored += 1,
            AskedRef::Absent => self.new_ref(),
        };
        let mut refuse = |service: &str, reason: Reason, error: String| {
            let stopped = Stopped::never_ran(service, reference.clone(), reason);
            self.voice.say(announce::stopped(&Stopped { error: Some(error), ..stopped }));
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(why) => return refuse("unknown", Reason::BadRequest, why),
        };
        let judged = program::judge(&self.file.allow, &self.settings.program, &asked.cmd);
        let Judged { program, name } = match judged {
            Ok(judged) => judged,
            Err(why) => {
                let own = &self.settings.program;
                let name = program::trust(&self.file.allow, own, &asked.cmd).name;
                return refuse(&name, Reason::NotAllowed, why);
            }
        };
        let work = Work { name, program, cmd: asked.cmd, cwd: None, env: Vec::new() };
        let effects = self.queue.request(Request {
            reference,
            work,
            day: asked.day,
            timeout: asked.timeout,
            if_busy: asked.if_busy,
            rerun: asked.rerun,
            keep: false,
        });
        self.do_tasks(effects);
    }

    fn enqueue(
        &mut self,
        task: Task,
        watcher: Option<Watcher>,
        done: SyncSender<Result<Ref, EnqueueError>>,
    ) {
        let Task { cmd, reference, day, cwd, env, timeout, keep } = task;
        // Whoever asked may have left.
        if let Err(why) = check_words(&cmd) {
            let _ = done.send(Err(EnqueueError::BadCommand(why)));
            return;
        }
        let reference = reference.unwrap_or_else(|| self.new_ref());
        let own = &self.settings.program;
        let Judged { program, name } = program::trust(&self.file.allow, own, &cmd);
        let effects = self.queue.request(Request {
            reference: reference.clone(),
            work: Work { name, program, cmd, cwd, env },
            day,
            timeout,
            if_busy: IfBusy::Queue,
            rerun: keep,
            keep,
        });
        let refusal = effects.iter().find_map(|effect| match effect {
            queue::Effect::Stopped(stopped) if stopped.reference == reference => stopped.reason,
            _ => None,
        });
        match refusal {
            Some(Reason::QueueFull) => drop(done.send(Err(EnqueueError::Full))),
            Some(Reason::Stopping) => drop(done.send(Err(EnqueueError::Stopping))),
            _ => {
                self.watchers.extend(watcher.map(|watcher| (reference.clone(), watcher)));
                self.enqueued.push((done, reference));
            }
        }
        self.do_tasks(effects);
    }

    fn react(&mut self, message: &Message) {
        if self.phase != Phase::Working {
            return;
        }
        let file = Arc::clone(&self.file);
        for (reaction, cmd) in reaction::answers(&file.reactions, message) {
            let Ok(cmd) = cmd else {
                self.ignored += 1;
                continue;
            };
            let Judged { program, name } =
                program::trust(&file.allow, &self.settings.program, &cmd);
            let work = Work { name, program, cmd, cwd: None, env: Vec::new() };
            let reference = self.new_ref();
            let pid_file = reaction.unless_pid_file.as_deref();
            if pid_file.is_some_and(|file| reaction::is_held(&self.settings.journal, file)) {
                self.voice.say(announce::skipped(&reference, None, &work, "pid_file"));
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
        // Written before anything runs: after a crash once is better than twice.
        self.save_schedules();
        for schedule in due {
            let own = &self.settings.program;
            let Judged { program, name } = program::trust(&self.file.allow, own, &schedule.cmd);
            let work = Work { name, program, cmd: schedule.cmd, cwd: None, env: Vec::new() };
            let reference = Ref::text(format!("sched:{}:{now_ms}", schedule.name));
            let reference = reference.expect("names in the file are short");
            self.run_trusted(reference, work, IfBusy::Queue);
        }
    }

    fn run_trusted(&mut self, reference: Ref, work: Work, if_busy: IfBusy) {
        let (day, timeout) = (None, None);
        let request = Request { reference, work, day, timeout, if_busy, rerun: false, keep: false };
        let effects = self.queue.request(request);
        self.do_tasks(effects);
    }

    // What follows from it.

    fn do_tasks(&mut self, effects: Vec<queue::Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                queue::Effect::Start(run) => {
                    for next in self.start_task(run).into_iter().rev() {
                        effects.push_front(next);
                    }
                }
                queue::Effect::End(run) => self.end(run, TASK_GRACE),
                queue::Effect::Stopped(stopped) => {
                    if let Some(watcher) = self.watchers.remove(&stopped.reference) {
                        tell(&watcher, RunNews::Ended(stopped.exit_code));
                    }
                    self.runs.answered(&stopped.reference);
                    self.voice.say(announce::stopped(&stopped));
                }
                queue::Effect::Over(run) => self.tell_exit(run),
                queue::Effect::Skipped { reference, active, work } => {
                    self.voice.say(announce::skipped(&reference, active.as_ref(), &work, "busy"));
                }
                queue::Effect::Queue(name) => {
                    let queue = announce::queue(&name, &self.queue.snapshot(&name));
                    self.voice.say(queue);
                }
            }
        }
    }

    fn start_task(&mut self, run: RunId) -> Vec<queue::Effect> {
        let Some(entry) = self.queue.entry(run).cloned() else { return Vec::new() };
        let place = entry.day.map_or(LogPlace::Today, LogPlace::Day);
        let started = self.start(
            run,
            &Start {
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
                    tell(watcher, RunNews::Started);
                }
                Vec::new()
            }
            Err(error) => self.queue.not_started(run, &error),
        }
    }

    fn do_services(&mut self, effects: Vec<services::Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                services::Effect::Start(name) => {
                    for next in self.start_service(&name).into_iter().rev() {
                        effects.push_front(next);
                    }
                }
                services::Effect::End { run, grace } => {
                    if let Some((who, ..)) = self.runs.about(run) {
                        self.heartbeats.ended(&who.name);
                    }
                    self.end(run, grace);
                }
                services::Effect::Kill(run) => self.runs.kill(run, self.clock.moment()),
                services::Effect::Restarting(instance) => {
                    self.voice.say(announce::restarting(&instance));
                }
                services::Effect::Stopped(stopped) => self.voice.say(announce::stopped(&stopped)),
                services::Effect::Over(run) => self.tell_exit(run),
                services::Effect::Alert { name, attempts } => {
                    let text = format!("`{name}` ended again: {attempts} attempts in a row");
                    self.alarm("A service does not stay up", &text);
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
        let program = program::trust(&self.file.allow, own, &service.cmd).program;
        let started = self.start(
            run,
            &Start {
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
                self.services.not_started(name, reference, &error, since)
            }
        }
    }

    /// Starts a process and says so before it can say anything itself.
    fn start(&mut self, run: RunId, start: &Start<'_>) -> Result<u32, String> {
        let newborn = self.runs.start(run, start)?;
        let Some((who, cmd, log_path)) = self.runs.about(run) else {
            return Err("it is not among those that run".to_owned());
        };
        let (exec, started, pid) =
            (announce::exec(who, cmd, log_path), announce::started(who), who.pid);
        self.voice.say(exec);
        self.voice.say(started);
        self.runs.attend(newborn);
        Ok(pid)
    }

    fn end(&mut self, run: RunId, grace: Duration) {
        let now = self.clock.moment();
        if self.is_hurried {
            self.runs.kill(run, now);
        } else {
            self.runs.end(run, grace, now);
        }
    }

    fn tell_exit(&mut self, run: RunId) {
        let told = self.runs.about(run).zip(self.runs.account(run));
        if let Some(((who, cmd, log_path), (exit_code, account))) = told {
            let exit = announce::exit(who, cmd, log_path, exit_code, &account);
            self.voice.say(exit);
        }
    }

    fn tell_silence(&mut self, change: Change) {
        match change {
            Change::CameBack(sender) => {
                self.shared.log(&format!("{} is heard again", sender.name()));
                let text = format!("`{}` says again how it is", sender.name());
                self.voice.say(announce::notice("Heard again", &text));
            }
            Change::StillStale(sender) => self.tell_stale(&sender),
            Change::TurnedStale(sender) => {
                self.tell_stale(&sender);
                let service = sender.who.as_deref().and_then(|who| self.services.service(who));
                let wanted = service.filter(|service| service.stale == Stale::Restart);
                if let Some(name) = wanted.map(|service| service.name.clone()) {
                    let (_, effects) = self.services.restart(&name);
                    self.do_services(effects);
                }
            }
        }
    }

    fn tell_stale(&mut self, sender: &Sender) {
        let text = format!("`{}` has said nothing for a minute or more", sender.name());
        self.alarm("Gone silent", &text);
    }

    /// Tells a person, in the log and on the bus.
    fn alarm(&mut self, title: &str, text: &str) {
        self.shared.log(text);
        self.voice.say(announce::notice(title, text));
    }

    // Beginning, settings, end.

    /// Takes up the tasks of an earlier daemon, and answers those that died with it.
    fn take_up(&mut self, kept: Kept, orphans: Vec<children::Orphan>) {
        let entries = kept.running.iter().chain(&kept.waiting);
        let known: HashSet<Ref> = entries.flat_map(|entry| entry.refs.iter().cloned()).collect();
        let effects = self.queue.restore(kept);
        for orphan in orphans {
            for reference in orphan.refs.into_iter().filter(|it| !known.contains(it)) {
                let stopped = Stopped::never_ran(&orphan.name, reference, Reason::DaemonDied);
                self.voice.say(announce::stopped(&stopped));
            }
        }
        self.do_tasks(effects);
    }

    /// Reads `services.toml` and does what it says; one with a fault changes nothing.
    fn load(&mut self) -> Result<(), FileError> {
        if self.phase != Phase::Working {
            return Ok(());
        }
        let file = match ServicesFile::read(&self.files.services) {
            Ok(file) => Arc::new(file),
            Err(error) => {
                self.faults = vec![error.to_string()];
                self.alarm("services.toml is not used", &error.to_string());
                return Err(error);
            }
        };
        self.faults.clear();
        self.file = Arc::clone(&file);
        self.shared.set_file(Arc::clone(&file));
        self.listening.set_reactions(reaction::filter(&file.reactions));
        self.schedules.load(&file.schedules, self.clock.now_ms());
        self.save_schedules();
        let effects = self.queue.set_limits(file.tasks);
        self.do_tasks(effects);
        let effects = self.services.load(&file.services);
        self.do_services(effects);
        Ok(())
    }

    fn stop(&mut self) {
        if self.phase != Phase::Working {
            return;
        }
        self.phase = Phase::EndingTasks;
        let effects = self.queue.stop();
        self.do_tasks(effects);
        self.runs.end_leftovers(TASK_GRACE, self.clock.moment());
    }

    /// Goes on to services, if tasks are being ended.
    fn stop_services(&mut self, now: Moment) {
        if self.phase == Phase::EndingTasks {
            self.phase = Phase::EndingServices;
            let effects = self.services.stop(now);
            self.do_services(effects);
        }
    }

    /// Removes old logs, on a thread of its own: there may be many.
    fn sweep(&mut self) {
        if self.sweeper.as_ref().is_some_and(|sweeper| !sweeper.is_finished()) {
            return;
        }
        let mut living = self.runs.log_names();
        let own = LogFile::name_of(&self.own.reference, NAME);
        living.insert(own);
        let journal = self.settings.journal.clone();
        let sweep = move || sweep::sweep(&journal, &living, SystemTime::now());
        // Without a thread it is done the next time.
        self.sweeper = std::thread::Builder::new().name("sweep".to_owned()).spawn(sweep).ok();
    }

    /// Stops listening, and leaves the files as they should be found.
    fn finish(mut self) {
        self.voice.go_on();
        // What fails here costs a few names that are never used.
        let _ = state_file::write(&self.files.last_ref, &self.refs.last(), Sync::No);
        self.listening.end();
        if let Some(sweeper) = self.sweeper {
            // One that panicked has removed less than it could.
            let _ = sweeper.join();
        }
    }
}

/// Tells a part of the daemon what it waits for; one that has left waits no more.
fn tell(watcher: &Watcher, news: RunNews) {
    let _ = watcher.try_send(news);
}
