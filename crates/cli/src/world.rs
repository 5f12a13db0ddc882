//! The journal, the clock and the dice of this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use capture::Environment;
use daemon::Running;
use event::Time;
use journal::{Access, Journal, Options};
use session::{Host, Stamps};

use crate::command::Global;
use crate::error::CliError;
use crate::output::Output;

/// Opens the journal to read it. There has to be one.
pub(crate) fn journal_to_read(global: &Global, output: &mut Output) -> Result<Journal, CliError> {
    let options = Options { access: Access::ReadOnly, ..Options::default() };
    Ok(tell(Journal::open(&folder(global)?, &options)?, output))
}

/// Opens the journal to write to it. There has to be one.
pub(crate) fn journal_to_write(global: &Global, output: &mut Output) -> Result<Journal, CliError> {
    Ok(tell(Journal::open(&folder(global)?, &Options::default())?, output))
}

/// Opens the journal to write to it, and makes it if there is none.
pub(crate) fn journal_to_fill(
    global: &Global,
    options: &Options,
    output: &mut Output,
) -> Result<Journal, CliError> {
    Ok(tell(Journal::open_or_create(&folder(global)?, options)?, output))
}

/// Says what opening found damaged: nothing is lost silently.
fn tell(journal: Journal, output: &mut Output) -> Journal {
    for finding in journal.open_findings() {
        output.warn(format!("warning: {}; {}", finding.damage, finding.remedy));
    }
    journal
}

pub(crate) fn host(journal: Journal) -> Host {
    Host::new(journal, Arc::new(System))
}

/// What the clock says.
pub(crate) fn now() -> Time {
    let nanos = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i128::try_from(since.as_nanos()).unwrap_or(i128::MAX),
        Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX),
    };
    // Whole milliseconds are what people compare and agents write.
    Time::from_millis(i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX))
}

/// The folder of the journal: as asked for, else the platform's place for a user's data.
pub(crate) fn folder(global: &Global) -> Result<PathBuf, CliError> {
    folder_of(global.journal.as_deref())
}

/// The same for one who has no options but this.
pub(crate) fn folder_of(asked_for: Option<&Path>) -> Result<PathBuf, CliError> {
    if let Some(journal) = asked_for {
        return Ok(journal.to_owned());
    }
    let data = if cfg!(target_os = "macos") {
        home()?.join("Library/Application Support")
    } else {
        match absolute("XDG_DATA_HOME") {
            Some(data) => data,
            None => home()?.join(".local/share"),
        }
    };
    Ok(data.join(Path::new("hansard")))
}

pub(crate) fn home() -> Result<PathBuf, CliError> {
    absolute("HOME").ok_or_else(|| {
        CliError::new("no_home", "it is not known where your home folder is")
            .hint("set HOME, or name the folders with `--journal DIR` and `--home DIR`")
    })
}

/// The folder of a user's settings.
pub(crate) fn config_home() -> Result<PathBuf, CliError> {
    absolute("XDG_CONFIG_HOME").map_or_else(|| Ok(home()?.join(".config")), Ok)
}

/// Whose agents are read, and what their variables say.
pub(crate) fn environment(given: Option<&Path>) -> Result<Environment, CliError> {
    let home = match given {
        Some(home) => home.canonicalize().map_err(|error| {
            CliError::new("io", format!("cannot look into `{}`: {error}", home.display()))
        })?,
        None => home()?,
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Environment::new(home, variables))
}

/// The daemon of the journal. There has to be one.
pub(crate) fn daemon(global: &Global) -> Result<Running, CliError> {
    let folder = folder(global)?;
    Running::find(&folder).ok_or_else(|| {
        let told = format!("no daemon runs on the journal `{}`", folder.display());
        CliError::new("no_daemon", told).hint("`hansard up` starts one").absent()
    })
}

/// A variable that names an absolute path.
fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// What this process has computed so far, in milliseconds; only Linux tells.
pub(crate) fn cpu_millis() -> Option<u64> {
    /// The kernel counts in hundredths of a second, whatever its own pace.
    const MILLIS_PER_TICK: u64 = 10;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may hold anything, so the fields are counted from behind it.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |place: usize| fields.split_whitespace().nth(place)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * MILLIS_PER_TICK)
}

/// Dice, for names.
pub(crate) fn dice() -> [u8; 4] {
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
