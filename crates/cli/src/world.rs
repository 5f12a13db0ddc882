//! The journal, the clock, randomness and the environment of this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use capture::Environment;
use daemon::{LogFilter, LogFilterError, RunningDaemon};
use event::{SessionId, Time};
use journal::{Access, Journal, Options};
use session::{Host, Stamps};

use crate::command::Global;
use crate::error::CliError;
use crate::output::CliOutput;

/// Opens an existing journal for reading.
pub(crate) fn journal_to_read(
    global: &Global,
    output: &mut CliOutput,
) -> Result<Journal, CliError> {
    Ok(warn_of_damage(Journal::open(&journal_folder(global)?, &read_only())?, output))
}

/// The options of a command that only looks: it works beside the daemon.
pub(crate) fn read_only() -> Options {
    Options { access: Access::ReadOnly, ..Options::default() }
}

/// Opens an existing journal for writing.
pub(crate) fn journal_to_write(
    global: &Global,
    output: &mut CliOutput,
) -> Result<Journal, CliError> {
    Ok(warn_of_damage(Journal::open(&journal_folder(global)?, &Options::default())?, output))
}

/// Opens an existing journal for a repair, also one that is too damaged for anything else.
pub(crate) fn journal_to_repair(
    global: &Global,
    output: &mut CliOutput,
) -> Result<Journal, CliError> {
    Ok(warn_of_damage(
        Journal::open_to_repair(&journal_folder(global)?, &Options::default())?,
        output,
    ))
}

/// Opens the journal for writing, and creates it if there is none.
pub(crate) fn journal_to_fill(
    global: &Global,
    options: &Options,
    output: &mut CliOutput,
) -> Result<Journal, CliError> {
    Ok(warn_of_damage(Journal::open_or_create(&journal_folder(global)?, options)?, output))
}

/// Warns of damage found on opening: nothing may be lost silently.
pub(crate) fn warn_of_damage(journal: Journal, output: &mut CliOutput) -> Journal {
    for finding in journal.open_findings() {
        output.warn(format!("warning: {}; {}", finding.damage, finding.remedy));
    }
    journal
}

/// Returns the shortest beginning that names a session, for lists.
pub(crate) fn short_id(journal: &Journal, id: &SessionId) -> Result<String, CliError> {
    let info = journal.stat(id)?;
    Ok(journal.short_id(id, info.provider_session_id.as_deref())?)
}

pub(crate) fn host(journal: Journal) -> Host {
    Host::new(journal, Arc::new(System))
}

/// Returns the present time.
pub(crate) fn now() -> Time {
    let nanos = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i128::try_from(since.as_nanos()).unwrap_or(i128::MAX),
        // A clock before 1970 is wrong, but no reason to fail.
        Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX),
    };
    // Whole milliseconds, because agents write them and people compare them.
    Time::from_millis(i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX))
}

/// Returns the journal's folder: `--journal`, else the platform's data folder.
pub(crate) fn journal_folder(global: &Global) -> Result<PathBuf, CliError> {
    folder_of(global.journal.as_deref())
}

/// Returns the journal's folder for a caller without parsed options.
pub(crate) fn folder_of(asked_for: Option<&Path>) -> Result<PathBuf, CliError> {
    if let Some(journal) = asked_for {
        return Ok(journal.to_owned());
    }
    let data = if cfg!(target_os = "macos") {
        home_folder()?.join("Library/Application Support")
    } else {
        match absolute("XDG_DATA_HOME") {
            Some(data) => data,
            None => home_folder()?.join(".local/share"),
        }
    };
    Ok(data.join(Path::new("hansard")))
}

pub(crate) fn home_folder() -> Result<PathBuf, CliError> {
    absolute("HOME").ok_or_else(|| {
        CliError::new("no_home", "cannot find your home folder")
            .hint("set HOME, or name the folders with `--journal DIR` and `--home DIR`")
    })
}

/// Returns the folder for settings.
pub(crate) fn config_home() -> Result<PathBuf, CliError> {
    absolute("XDG_CONFIG_HOME").map_or_else(|| Ok(home_folder()?.join(".config")), Ok)
}

/// Returns the home folder of the agents and the environment variables.
pub(crate) fn environment(given: Option<&Path>) -> Result<Environment, CliError> {
    let home = match given {
        Some(home) => home.canonicalize().map_err(|error| {
            CliError::new("io", format!("cannot open `{}`: {error}", home.display()))
        })?,
        None => home_folder()?,
    };
    let variables = std::env::vars_os()
        // A variable that is no UTF-8 cannot name a folder of an agent.
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Environment::new(home, variables))
}

/// Returns what the daemon logs.
pub(crate) fn log_filter() -> Result<LogFilter, CliError> {
    let text = std::env::var_os("HANSARD_LOG").unwrap_or_default();
    text.to_string_lossy().parse().map_err(|error: LogFilterError| {
        CliError::new("usage", format!("HANSARD_LOG cannot be used: {error}"))
            .hint("write a level, or a part and its level, such as `capture=debug`")
            .wrong_usage()
    })
}

/// Finds the running daemon of the journal.
pub(crate) fn find_daemon(global: &Global) -> Result<RunningDaemon, CliError> {
    let folder = journal_folder(global)?;
    RunningDaemon::find(&folder).ok_or_else(|| {
        let told = format!("no daemon is running on the journal `{}`", folder.display());
        CliError::new("no_daemon", told).hint("`hansard up` starts one").not_running()
    })
}

/// Returns an environment variable if it is an absolute path.
fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the CPU time of this process in milliseconds; Linux only.
pub(crate) fn cpu_millis() -> Option<u64> {
    /// `/proc` counts in hundredths of a second on every kernel.
    const MILLIS_PER_TICK: u64 = 10;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name may hold spaces and parentheses, so fields are counted behind the last `)`.
    let (_, fields) = stat.rsplit_once(')')?;
    // Field 3 comes first behind the `)`, so these are fields 14 and 15: user and system time.
    let ticks = |place: usize| fields.split_whitespace().nth(place)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * MILLIS_PER_TICK)
}

/// Returns random bytes for names.
pub(crate) fn random_bytes() -> [u8; 4] {
    let mut dice = [0; 4];
    getrandom::fill(&mut dice).expect("the system has random bytes");
    dice
}

struct System;

impl Stamps for System {
    fn now(&self) -> Time {
        now()
    }

    fn tail(&self) -> [u8; 10] {
        let mut tail = [0; 10];
        getrandom::fill(&mut tail).expect("the system has random bytes");
        tail
    }
}
