//! Processes that run: started with their threads, told to end in time, watched until the last of
//! their group is gone.
//!
//! A run goes through three ends: its main process exits, its output is read to the end, its group
//! is empty. The first two, or a little patience, make its end known; only the third forgets it.
//!
//! Not here: why something is started or ended, and what is said of it.

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

use crate::announce::{Account, Who};
use crate::children::Children;
use crate::clock::{Clock, Moment};
use crate::day::Day;
use crate::group;
use crate::incoming::Incoming;
use crate::log_file::LogFile;
use crate::output::Output;
use crate::process::{self, Launch};
use crate::program::Program;
use crate::queue::RunId;
use crate::run_ref::Ref;
use crate::settings::Settings;

/// How long the end of a run waits for what its children may still print.
const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// How long what is left of a group may live when its main process has ended, and how long it has
/// after it was asked to end.
const LEFTOVER_WAIT: Duration = Duration::from_secs(2);
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end what was killed. Then it is given up.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// Longer than any group lives that was killed.
const WATCH_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What to start.
pub(crate) struct Start<'a> {
    pub name: &'a str,
    pub reference: &'a Ref,
    /// Everybody who waits for its end.
    pub refs: &'a [Ref],
    pub program: &'a Program,
    pub cmd: &'a [String],
    pub cwd: Option<&'a Path>,
    pub env: &'a [(String, String)],
    pub place: LogPlace,
}

/// Where the log of a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogPlace {
    /// In the folder of a day.
    Day(Day),
    /// In the folder of the day it was begun in.
    Today,
    /// In each day's folder.
    EachDay,
}

/// All processes of ours.
pub(crate) struct Runs {
    settings: Settings,
    clock: Clock,
    bus: Handle,
    news: SyncSender<Incoming>,
    children: Children,
    runs: BTreeMap<RunId, Run>,
    /// Why the log of the run that ended last could not be written, if it was so.
    last_trouble: Option<String>,
}

struct Run {
    who: Who,
    cmd: Vec<String>,
    log_path: String,
    output: Output,
    began: Moment,
    exit: Option<(i32, Moment)>,
    is_drained: bool,
    is_told: bool,
    account: Account,
    term_at: Option<Moment>,
    kill_at: Option<Moment>,
    give_up_at: Option<Moment>,
}

/// A process that was just started and nobody listens to yet.
pub(crate) struct Newborn {
    run: RunId,
    child: Child,
}

impl Runs {
    pub(crate) fn new(
        settings: Settings,
        clock: Clock,
        bus: Handle,
        news: SyncSender<Incoming>,
        children: Children,
    ) -> Runs {
        let runs = BTreeMap::new();
        Runs { settings, clock, bus, news, children, runs, last_trouble: None }
    }

    /// Starts a process; the error says why there is none. It is heard after [`Runs::attend`].
    pub(crate) fn start(&mut self, run: RunId, start: &Start<'_>) -> Result<Newborn, String> {
        let program = self.file(start.program)?;
        let today = self.clock.today();
        let day = match start.place {
            LogPlace::Day(day) => day,
            LogPlace::Today | LogPlace::EachDay => today,
        };
        let day_name = day.to_string();
        let mut env: Vec<(&str, &OsStr)> =
            start.env.iter().map(|(name, value)| (name.as_str(), OsStr::new(value))).collect();
        env.extend([
            ("HANSARD_JOURNAL", self.settings.journal.as_os_str()),
            ("HANSARD_BUS", self.settings.socket.as_os_str()),
            ("HANSARD_REF", OsStr::new(start.reference.as_str())),
            ("HANSARD_DAY", OsStr::new(&day_name)),
        ]);
        let launch = Launch { program: &program, cmd: start.cmd, cwd: start.cwd, env: &env };
        let child = process::spawn(&launch)
            .map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
        let pid = child.id();
        let who = Who { reference: start.reference.clone(), name: start.name.to_owned(), pid };
        // Without the list a crash would leave it running; it is still worth running now.
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
        let entry = Run {
            who,
            cmd: start.cmd.to_vec(),
            log_path,
            output: Output::new(log, self.bus.clone()),
            began: self.clock.moment(),
            exit: None,
            is_drained: false,
            is_told: false,
            account: Account::default(),
            term_at: None,
            kill_at: None,
            give_up_at: None,
        };
        self.runs.insert(run, entry);
        Ok(Newborn { run, child })
    }

    /// Begins to listen to a process, and to wait for its end. The threads that do so end with its
    /// pipes and with itself; nobody has to wait for them.
    pub(crate) fn attend(&mut self, newborn: Newborn) {
        let Newborn { run, mut child } = newborn;
        let Some(entry) = self.runs.get_mut(&run) else { return };
        let pid = entry.who.pid;
        let streams = [
            child.stdout.take().map(|pipe| (std::os::fd::OwnedFd::from(pipe), "stdout")),
            child.stderr.take().map(|pipe| (std::os::fd::OwnedFd::from(pipe), "stderr")),
        ];
        let open = Arc::new(AtomicUsize::new(streams.len()));
        let mut is_heard = true;
        for (pipe, stream) in streams.into_iter().flatten() {
            let (output, who, news) = (entry.output.clone(), entry.who.clone(), self.news.clone());
            let open = Arc::clone(&open);
            let reader = Builder::new().name(format!("{stream}-{pid}")).spawn(move || {
                output.drain(std::fs::File::from(pipe), &who, stream);
                if open.fetch_sub(1, Ordering::AcqRel) == 1 {
                    // Nobody to tell: the supervisor has ended.
                    let _ = news.send(Incoming::Drained { run });
                }
            });
            is_heard &= reader.is_ok();
        }
        let news = self.news.clone();
        let waiter = Builder::new().name(format!("wait-{pid}")).spawn(move || {
            let exit_code = child.wait().map_or(-1, process::exit_code);
            let _ = news.send(Incoming::Exited { run, exit_code });
        });
        if waiter.is_err() {
            // The child went with the thread that there is none of: nobody can wait for it.
            is_heard = false;
            entry.exit = Some((-Signal::KILL.as_raw(), self.clock.moment()));
        }
        if !is_heard {
            // A machine without threads left: what nobody listens to is not left running.
            group::signal(pid, Signal::KILL);
            entry.is_drained = true;
        }
    }

    /// What every message about a run says of it.
    pub(crate) fn about(&self, run: RunId) -> Option<(&Who, &[String], &str)> {
        self.runs.get(&run).map(|run| (&run.who, run.cmd.as_slice(), run.log_path.as_str()))
    }

    /// The exit code and the account of a run whose end is known.
    pub(crate) fn account(&self, run: RunId) -> Option<(i32, Account)> {
        let run = self.runs.get(&run)?;
        Some((run.exit?.0, run.account))
    }

    /// Why a log cannot be written, if one cannot. That of a run that is over counts until
    /// another run has ended well.
    pub(crate) fn trouble(&self) -> Option<String> {
        let living = self.runs.values().find_map(|run| run.output.trouble());
        living.or_else(|| self.last_trouble.clone())
    }

    /// Asks everybody in the group of a run to end, and makes them after a while.
    pub(crate) fn end(&mut self, run: RunId, grace: Duration, now: Moment) {
        let Some(run) = self.runs.get_mut(&run) else { return };
        group::signal(run.who.pid, Signal::TERM);
        run.term_at = None;
        run.kill_by(now + grace);
    }

    /// Ends everybody in the group of a run now.
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

    /// Asks what is left of runs that are over to end, now.
    pub(crate) fn end_leftovers(&mut self, grace: Duration, now: Moment) {
        for run in self.runs.values_mut().filter(|run| run.exit.is_some()) {
            if run.term_at.take().is_some() {
                group::signal(run.who.pid, Signal::TERM);
                run.kill_by(now + grace);
            }
        }
    }

    /// The main process has ended; others of its group may not have.
    pub(crate) fn exited(&mut self, id: RunId, exit_code: i32, now: Moment) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.exit = Some((exit_code, now));
        if !group::lives(run.who.pid) {
            run.forget_signals();
            return;
        }
        if run.kill_at.is_none() {
            run.term_at = Some(now + LEFTOVER_WAIT);
        }
        run.kill_by(now + LEFTOVER_WAIT + LEFTOVER_GRACE);
        let (pid, news) = (run.who.pid, self.news.clone());
        // Without a thread the group is killed in its time, and then forgotten.
        let _ = Builder::new().name(format!("group-{pid}")).spawn(move || {
            group::wait_gone(pid, WATCH_MAX);
            let _ = news.send(Incoming::Gone { run: id });
        });
    }

    pub(crate) fn drained(&mut self, run: RunId) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.is_drained = true;
        }
    }

    pub(crate) fn gone(&mut self, run: RunId) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.forget_signals();
        }
    }

    /// Sends the signals that are due, and says which runs are over by now.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<(RunId, i32)> {
        let mut over = Vec::new();
        for (id, run) in &mut self.runs {
            if run.term_at.is_some_and(|at| at <= now) {
                run.term_at = None;
                group::signal(run.who.pid, Signal::TERM);
            }
            if run.kill_at.is_some_and(|at| at <= now) {
                run.kill(now);
            }
            if run.give_up_at.is_some_and(|at| at <= now) {
                run.forget_signals();
                run.exit.get_or_insert((-Signal::KILL.as_raw(), now));
                run.is_drained = true;
            }
            if let Some((exit_code, at)) = run.exit
                && !run.is_told
                && (run.is_drained || at + DRAIN_WAIT <= now)
            {
                run.tell(now);
                // One that printed nothing has tried nothing.
                if run.account.lines > 0 {
                    self.last_trouble = run.output.trouble();
                }
                over.push((*id, exit_code));
            }
        }
        over
    }

    /// One who waited for a run is answered.
    pub(crate) fn answered(&mut self, reference: &Ref) {
        self.children.answered(reference);
    }

    /// Writes down who lives and who waits for it, if that has changed.
    pub(crate) fn save(&mut self) {
        // A list that is too long ends nobody who is not ours, and is written again soon.
        let _ = self.children.save();
    }

    /// Forgets those that are over and of which nothing lives.
    pub(crate) fn bury(&mut self) {
        let is_over = |run: &Run| run.is_told && run.kill_at.is_none() && run.give_up_at.is_none();
        let over = self.runs.iter().filter(|(_, run)| is_over(run)).map(|(id, _)| *id);
        for id in over.collect::<Vec<RunId>>() {
            self.runs.remove(&id);
            self.children.remove(id);
        }
    }

    /// When [`Runs::tick`] has something to do.
    pub(crate) fn due(&self) -> Option<Moment> {
        let dues = self.runs.values().flat_map(|run| {
            let told_by = run
                .exit
                .filter(|_| !run.is_told)
                .map(|(_, at)| if run.is_drained { Moment::ZERO } else { at + DRAIN_WAIT });
            [run.term_at, run.kill_at, run.give_up_at, told_by]
        });
        dues.flatten().min()
    }

    /// The names of all logs that are being written.
    pub(crate) fn log_names(&self) -> HashSet<String> {
        let names = self.runs.values();
        names.map(|run| LogFile::name_of(&run.who.reference, &run.who.name)).collect()
    }

    /// The last of the runs that are numbered below another.
    pub(crate) fn highest_below(&self, run: RunId) -> Option<RunId> {
        self.runs.range(..run).next_back().map(|(id, _)| *id)
    }

    /// Whether nothing of ours lives.
    pub(crate) fn is_quiet(&self) -> bool {
        self.runs.is_empty()
    }

    fn file(&self, program: &Program) -> Result<PathBuf, String> {
        match program {
            Program::Own => Ok(self.settings.program.clone()),
            Program::File(file) => Ok(file.clone()),
            Program::Word(word) => {
                let search_path: Option<&OsString> = self.settings.search_path.as_ref();
                process::find(word, search_path.map(OsString::as_os_str))
                    .ok_or_else(|| format!("there is no `{word}` in the daemon's PATH"))
            }
        }
    }
}

impl Drop for Runs {
    /// However the supervisor ends, nobody lives on whom it has started.
    fn drop(&mut self) {
        let is_left = |run: &&Run| run.exit.is_none() || run.term_at.or(run.kill_at).is_some();
        for run in self.runs.values().filter(is_left) {
            group::signal(run.who.pid, Signal::KILL);
        }
    }
}

impl Run {
    fn kill_by(&mut self, at: Moment) {
        if self.give_up_at.is_none() {
            self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
        }
    }

    fn kill(&mut self, now: Moment) {
        group::signal(self.who.pid, Signal::KILL);
        self.term_at = None;
        self.kill_at = None;
        self.give_up_at.get_or_insert(now + KILLED_WITHIN);
    }

    fn forget_signals(&mut self) {
        self.term_at = None;
        self.kill_at = None;
        self.give_up_at = None;
    }

    fn tell(&mut self, now: Moment) {
        let counts = self.output.mute();
        self.is_told = true;
        let life = now.saturating_sub(self.began);
        self.account = Account {
            duration_ms: u64::try_from(life.as_millis()).unwrap_or(u64::MAX),
            lines: counts.lines,
            bytes: counts.bytes,
            unwritten: counts.unwritten,
            untold: counts.untold,
        };
    }
}
