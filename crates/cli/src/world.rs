//! The journal, the clock and the dice of this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

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
    for finding in journal.found_on_opening() {
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
    if let Some(journal) = &global.journal {
        return Ok(journal.clone());
    }
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = if cfg!(target_os = "macos") {
        absolute("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join(Path::new("hansard"))).ok_or_else(|| {
        CliError::new("no_home", "there is no home folder to keep a journal in")
            .hint("set HOME, or say where with `--journal DIR`")
    })
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
