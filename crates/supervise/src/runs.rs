//! Running processes: their start, their threads, and their end.
//!
//! A run ends in three steps: its main process exits, its output is read to the end, its group is
//! empty. The first two, or [`DRAIN_WAIT`] after the first, make the end known; the run is forgotten
//! only after the third.
//!
//! The kill ladder is three times of a run, each optional:
//!
//! ```text
//! term_at     send SIGTERM to the group
//! kill_at     send SIGKILL to the group
//! give_up_at  the kernel did not end it: report it as killed and forget it
//! ```
//!
//! Not here: why a run is started or ended, and what is published about it.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::Builder;
use std::time::Duration;

use bus::Handle;
use rustix::process::Signal;

use crate::announce::{RunLabel, RunSummary};
use crate::children::Children;
use crate::clock::{Clock, Moment};
use crate::day::Day;
use crate::group;
use crate::keeper_input::KeeperInput;
use crate::log_file::LogFile;
use crate::output::OutputSink;
use crate::process::{self, LaunchSpec};
use crate::program::Program;
use crate::queue::RunId;
use crate::run_ref::Ref;
use crate::settings::SupervisorSettings;

/// How long the end of a run waits for output that its children may still print.
const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// How long other processes of a group may live after the main process has exited, and how long
/// they have after SIGTERM.
const LEFTOVER_WAIT: Duration = Duration::from_secs(2);
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end a killed process. Then the run is given up.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// Longer than a killed group lives.
const WATCH_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What to start.
pub(crate) struct RunSpec<'a> {
    pub name: &'a str,
    pub reference: &'a Ref,
    /// All refs that wait for its end.
    pub refs: &'a [Ref],
    pub program: &'a Program,
    pub cmd: &'a [String],
    pub cwd: Option<&'a Path>,
    pub env: &'a [(String, String)],
    pub place: LogPlace,
}

/// Which day's folder has the log of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogPlace {
    /// The folder of this day.
    Day(Day),
    /// The folder of the day on which the run started.
    Today,
    /// Each day's folder in turn.
    EachDay,
}

/// All running processes.
pub(crate) struct Runs {
    settings: SupervisorSettings,
    clock: Clock,
    bus: Handle,
    inputs: SyncSender<KeeperInput>,
    children: Children,
    runs: BTreeMap<RunId, RunState>,
    /// The log error of the run that ended last, if any.
    last_log_error: Option<String>,
}

struct RunState {
    label: RunLabel,
    cmd: Vec<String>,
    log_path: String,
    output: OutputSink,
    began: Moment,
    exit: Option<(i32, Moment)>,
    is_drained: bool,
    is_reported: bool,
    summary: RunSummary,
    term_at: Option<Moment>,
    kill_at: Option<Moment>,
    give_up_at: Option<Moment>,
}

/// A process that was just started and has no threads yet.
pub(crate) struct StartedProcess {
    run: RunId,
    child: Child,
}

impl Runs {
    pub(crate) fn new(
        settings: SupervisorSettings,
        clock: Clock,
        bus: Handle,
        inputs: SyncSender<KeeperInput>,
        children: Children,
    ) -> Runs {
        let runs = BTreeMap::new();
        Runs { settings, clock, bus, inputs, children, runs, last_log_error: None }
    }

    /// Starts a process. Its output is read after [`Runs::watch_process`].
    pub(crate) fn start(
        &mut self,
        run: RunId,
        start: &RunSpec<'_>,
    ) -> Result<StartedProcess, String> {
        let program = self.resolve_program(start.program)?;
        let today = self.clock.today();
        let day = match start.place {
            LogPlace::Day(day) => day,
            LogPlace::Today | LogPlace::EachDay => today,
        };
        let day_name = day.to_string();
        let mut env: Vec<(&str, &OsStr)> =
            start.env.iter().map(|(name, value)| (name.as_str(), OsStr::new(value))).collect();
        // Behind the variables of the file, so that those cannot replace ours: after a crash
        // orphans are recognised by them.
        env.extend([
            ("HANSARD_JOURNAL", self.settings.journal.as_os_str()),
            ("HANSARD_BUS", self.settings.socket.as_os_str()),
            ("HANSARD_REF", OsStr::new(start.reference.as_str())),
            ("HANSARD_DAY", OsStr::new(&day_name)),
        ]);
        let launch = LaunchSpec { program: &program, cmd: start.cmd, cwd: start.cwd, env: &env };
        // In this order: the list of children right after the process, because a crash in between
        // would leave it unknown.
        let child = process::spawn(&launch)
            .map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
        let pid = child.id();
        let label =
            RunLabel { reference: start.reference.clone(), name: start.name.to_owned(), pid };
        // If the list cannot be saved, a crash would leave the process running. Run it anyway.
        let _ = self.children.add(run, pid, start.name, start.reference, start.refs);
        let kept_day = (start.place != LogPlace::EachDay).then_some(day);
        let log = LogFile::open(
            &self.settings.journal,
            start.reference,
            start.name,
            kept_day,
            &self.clock,
        );
        let log_path = log.path().to_string_lossy().into_owned();
        let entry = RunState {
            label,
            cmd: start.cmd.to_vec(),
            log_path,
            output: OutputSink::new(log, self.bus.clone()),
            began: self.clock.moment(),
            exit: None,
            is_drained: false,
            is_reported: false,
            summary: RunSummary::default(),
            term_at: None,
            kill_at: None,
            give_up_at: None,
        };
        self.runs.insert(run, entry);
        Ok(StartedProcess { run, child })
    }

    /// Starts the threads that read the output and wait for the exit. They end with the pipes and the
    /// process, so they are not joined.
    pub(crate) fn watch_process(&mut self, started_process: StartedProcess) {
        let StartedProcess { run, mut child } = started_process;
        let Some(entry) = self.runs.get_mut(&run) else { return };
        let pid = entry.label.pid;
        let streams = [
            child.stdout.take().map(|pipe| (std::os::fd::OwnedFd::from(pipe), "stdout")),
            child.stderr.take().map(|pipe| (std::os::fd::OwnedFd::from(pipe), "stderr")),
        ];
        // The reader that ends last reports for both streams.
        let open = Arc::new(AtomicUsize::new(streams.len()));
        let mut is_heard = true;
        for (pipe, stream) in streams.into_iter().flatten() {
            let (output, label, inputs) =
                (entry.output.clone(), entry.label.clone(), self.inputs.clone());
            let open = Arc::clone(&open);
            let reader = Builder::new().name(format!("{stream}-{pid}")).spawn(move || {
                output.drain(std::fs::File::from(pipe), &label, stream);
                if open.fetch_sub(1, Ordering::AcqRel) == 1 {
                    // The send fails only after the supervisor has ended.
                    let _ = inputs.send(KeeperInput::Drained { run });
                }
            });
            is_heard &= reader.is_ok();
        }
        let inputs = self.inputs.clone();
        let waiter = Builder::new().name(format!("wait-{pid}")).spawn(move || {
            let exit_code = child.wait().map_or(-1, process::exit_code);
            let _ = inputs.send(KeeperInput::Exited { run, exit_code });
        });
        if waiter.is_err() {
            // Dropping the closure dropped the child, so its exit code is lost.
            is_heard = false;
            entry.exit = Some((-Signal::KILL.as_raw(), self.clock.moment()));
        }
        if !is_heard {
            // The machine has no threads left. A process that is not watched must not run.
            group::send_signal(pid, Signal::KILL);
            entry.is_drained = true;
        }
    }

    /// Returns what every message about a run names: its label, its command, its log.
    pub(crate) fn describe(&self, run: RunId) -> Option<(&RunLabel, &[String], &str)> {
        self.runs.get(&run).map(|run| (&run.label, run.cmd.as_slice(), run.log_path.as_str()))
    }

    /// Returns the exit code and the summary of a run that is known to have ended.
    pub(crate) fn summary(&self, run: RunId) -> Option<(i32, RunSummary)> {
        let run = self.runs.get(&run)?;
        Some((run.exit?.0, run.summary))
    }

    /// Returns why a log cannot be written, if so. The error of an ended run stands until another run
    /// has logged without one.
    pub(crate) fn log_error(&self) -> Option<String> {
        let living = self.runs.values().find_map(|run| run.output.last_error());
        living.or_else(|| self.last_log_error.clone())
    }

    /// Sends SIGTERM to the group of a run, and SIGKILL after the grace time.
    pub(crate) fn end(&mut self, run: RunId, grace: Duration, now: Moment) {
        let Some(run) = self.runs.get_mut(&run) else { return };
        group::send_signal(run.label.pid, Signal::TERM);
        run.term_at = None;
        run.schedule_kill(now + grace);
    }

    /// Sends SIGKILL to the group of a run.
    pub(crate) fn kill(&mut self, run: RunId, now: Moment) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.kill(now);
        }
    }

    pub(crate) fn kill_all(&mut self, now: Moment) {
        for run in self.runs.values_mut() {
            run.kill(now);
        }
    }

    /// Sends SIGTERM now to what is left of runs after the exit of their main process.
    pub(crate) fn end_leftovers(&mut self, grace: Duration, now: Moment) {
        for run in self.runs.values_mut().filter(|run| run.exit.is_some()) {
            // Only those that still wait for their SIGTERM: others are past it.
            if run.term_at.take().is_some() {
                group::send_signal(run.label.pid, Signal::TERM);
                run.schedule_kill(now + grace);
            }
        }
    }

    /// Takes note that the main process has exited. Others of its group may live.
    pub(crate) fn exited(&mut self, id: RunId, exit_code: i32, now: Moment) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.exit = Some((exit_code, now));
        // The usual case: the group ended with its leader, and needs neither signals nor a watcher.
        if !group::is_alive(run.label.pid) {
            run.clear_signals();
            return;
        }
        // A group that is being ended already keeps its earlier kill time.
        if run.kill_at.is_none() {
            run.term_at = Some(now + LEFTOVER_WAIT);
        }
        run.schedule_kill(now + LEFTOVER_WAIT + LEFTOVER_GRACE);
        let (pid, inputs) = (run.label.pid, self.inputs.clone());
        // Without a thread the group is killed at its time and then forgotten.
        let _ = Builder::new().name(format!("group-{pid}")).spawn(move || {
            group::wait_until_gone(pid, WATCH_MAX);
            let _ = inputs.send(KeeperInput::GroupGone { run: id });
        });
    }

    pub(crate) fn drained(&mut self, run: RunId) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.is_drained = true;
        }
    }

    pub(crate) fn group_gone(&mut self, run: RunId) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.clear_signals();
        }
    }

    /// Sends the signals that are due; returns the runs that are known to have ended.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<(RunId, i32)> {
        let mut over = Vec::new();
        for (id, run) in &mut self.runs {
            // The ladder, see the top of this file. Several of its times may have come since the
            // last look.
            if run.term_at.is_some_and(|at| at <= now) {
                run.term_at = None;
                group::send_signal(run.label.pid, Signal::TERM);
            }
            if run.kill_at.is_some_and(|at| at <= now) {
                run.kill(now);
            }
            if run.give_up_at.is_some_and(|at| at <= now) {
                run.clear_signals();
                // A process in uninterruptible sleep does not even die of SIGKILL. Refs that wait
                // for it get their answer nevertheless.
                run.exit.get_or_insert((-Signal::KILL.as_raw(), now));
                run.is_drained = true;
            }
            if let Some((exit_code, at)) = run.exit
                && !run.is_reported
                // A child that inherited the pipe may hold it open for hours. The end is not held
                // up by it.
                && (run.is_drained || at + DRAIN_WAIT <= now)
            {
                run.finish_output(now);
                // A run without output says nothing about the disk.
                if run.summary.lines > 0 {
                    self.last_log_error = run.output.last_error();
                }
                over.push((*id, exit_code));
            }
        }
        over
    }

    /// Takes note that a ref is answered.
    pub(crate) fn ref_answered(&mut self, reference: &Ref) {
        self.children.ref_answered(reference);
    }

    /// Saves the list of processes if it has changed.
    pub(crate) fn save(&mut self) {
        // A list with ended processes is harmless, and is saved again soon.
        let _ = self.children.save();
    }

    /// Forgets runs that are reported and have an empty group.
    pub(crate) fn remove_finished(&mut self) {
        let is_over =
            |run: &RunState| run.is_reported && run.kill_at.is_none() && run.give_up_at.is_none();
        let over = self.runs.iter().filter(|(_, run)| is_over(run)).map(|(id, _)| *id);
        for id in over.collect::<Vec<RunId>>() {
            self.runs.remove(&id);
            self.children.remove(id);
        }
    }

    /// Returns when [`Runs::tick`] has work again.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let dues = self.runs.values().flat_map(|run| {
            let told_by = run
                .exit
                .filter(|_| !run.is_reported)
                // `ZERO` lies in the past: the end is due at once.
                .map(|(_, at)| if run.is_drained { Moment::ZERO } else { at + DRAIN_WAIT });
            [run.term_at, run.kill_at, run.give_up_at, told_by]
        });
        dues.flatten().min()
    }

    /// Returns the names of all logs that are being written.
    pub(crate) fn log_names(&self) -> HashSet<String> {
        let names = self.runs.values();
        names.map(|run| LogFile::file_name(&run.label.reference, &run.label.name)).collect()
    }

    /// Returns the last run numbered below another.
    pub(crate) fn highest_below(&self, run: RunId) -> Option<RunId> {
        self.runs.range(..run).next_back().map(|(id, _)| *id)
    }

    /// Returns whether no process is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn resolve_program(&self, program: &Program) -> Result<PathBuf, String> {
        match program {
            Program::Own => Ok(self.settings.program.clone()),
            Program::File(file) => Ok(file.clone()),
            Program::Word(word) => {
                let search_path: Option<&OsString> = self.settings.search_path.as_ref();
                process::find_in_path(word, search_path.map(OsString::as_os_str))
                    .ok_or_else(|| format!("there is no `{word}` in the daemon's PATH"))
            }
        }
    }
}

impl Drop for Runs {
    /// Kills everything that is left: no process may outlive the supervisor.
    fn drop(&mut self) {
        // Not a run that has fully ended: its process number may belong to another group by now.
        let is_left = |run: &&RunState| run.exit.is_none() || run.term_at.or(run.kill_at).is_some();
        for run in self.runs.values().filter(is_left) {
            group::send_signal(run.label.pid, Signal::KILL);
        }
    }
}

impl RunState {
    fn schedule_kill(&mut self, at: Moment) {
        // A killed group gets no second kill time; an earlier kill time wins over a later one.
        if self.give_up_at.is_none() {
            self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
        }
    }

    fn kill(&mut self, now: Moment) {
        group::send_signal(self.label.pid, Signal::KILL);
        self.term_at = None;
        self.kill_at = None;
        self.give_up_at.get_or_insert(now + KILLED_WITHIN);
    }

    fn clear_signals(&mut self) {
        self.term_at = None;
        self.kill_at = None;
        self.give_up_at = None;
    }

    fn finish_output(&mut self, now: Moment) {
        let counts = self.output.stop_publishing();
        self.is_reported = true;
        let life = now.saturating_sub(self.began);
        self.summary = RunSummary {
            duration_ms: u64::try_from(life.as_millis()).unwrap_or(u64::MAX),
            lines: counts.lines,
            bytes: counts.bytes,
            unwritten: counts.unwritten,
            unpublished: counts.unpublished,
        };
    }
}
