//! `hansard logs`: what services and tasks have printed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bus::{Client, ClientSettings, Filter};
use clap::Args;
use serde_json::json;
use supervise::{Day, safe_form};

use super::bus::{At, end_on_signal};
use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// Print what a service or a task has printed. No daemon is needed.
#[derive(Args)]
pub(crate) struct Logs {
    #[command(flatten)]
    at: At,
    /// The name of a service or a task, or the ref of one run [default: the daemon itself]
    #[arg(value_name = "NAME|REF")]
    name: Option<String>,
    /// The log of that day
    #[arg(long, value_name = "YYYYMMDD", value_parser = day)]
    day: Option<Day>,
    /// Go on as more is printed, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
}

/// A new line is noticed at once when the bus tells of it, and after this long in any case.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What the daemon's own log is called.
const OWN: &str = "supervisor";

impl Logs {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::folder(global)?;
        let name = self.name.as_deref().unwrap_or(OWN);
        let Some(found) = find(&journal, name, self.day.as_ref()) else {
            let told = format!("there is no log of `{name}`");
            return Err(CliError::new("no_log", told)
                .hint("`hansard service list` and `hansard task list` tell what runs"));
        };
        let mut reading = Reading::default();
        for part in parts(&found.resolved()) {
            reading.print_more(&part, output)?;
        }
        output.flush()?;
        if self.follow {
            let path = self.at.path(global)?;
            let filter = Filter { tracts: vec!["logs".to_owned()], ..Filter::default() };
            let settings = ClientSettings { filter, ..ClientSettings::default() };
            let client = Client::start(&path, settings)?;
            let signaled = end_on_signal(&client)?;
            let followed = follow(&found, &mut reading, &client, output);
            signaled.close();
            followed?;
        }
        Ok(Done::Yes)
    }
}

/// Prints what is added, also when the name leads to another run meanwhile.
fn follow(
    found: &Found,
    reading: &mut Reading,
    client: &Client,
    output: &mut Output,
) -> Result<(), CliError> {
    loop {
        // What was said matters less than that something was; the file has it all.
        if client.next(LOOK_EVERY).is_none() && client.is_stopped() {
            return Ok(());
        }
        let before = reading.path.clone();
        reading.print_more(&before, output)?;
        for part in parts(&found.resolved()).into_iter().filter(|part| *part > before) {
            reading.print_more(&part, output)?;
        }
        output.flush()?;
    }
}

/// Where a log was found: a name that leads to the newest, or one file.
struct Found(PathBuf);

impl Found {
    fn resolved(&self) -> PathBuf {
        self.0.canonicalize().unwrap_or_else(|_| self.0.clone())
    }
}

fn find(journal: &Path, name: &str, day: Option<&Day>) -> Option<Found> {
    let safe = safe_form(name);
    let folder = |day: &str| journal.join(day).join("health");
    let newest = match day {
        Some(day) => folder(&day.to_string()).join(format!("{safe}.log")),
        None => journal.join("health").join(format!("{safe}.log")),
    };
    if newest.is_file() {
        return Some(Found(newest));
    }
    let mut days: Vec<String> = match day {
        Some(day) => vec![day.to_string()],
        None => names(journal).into_iter().filter(|name| Day::parse(name).is_some()).collect(),
    };
    days.sort();
    let start = format!("{safe}_");
    days.iter().rev().find_map(|day| {
        let mut logs = names(&folder(day)).into_iter();
        let log = logs.find(|log| log.starts_with(&start) && log.ends_with(".log"))?;
        Some(Found(folder(day).join(log)))
    })
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// All parts of a log, the one given being any of them.
fn parts(log: &Path) -> Vec<PathBuf> {
    let name = log.to_string_lossy();
    let base = match name.rsplit_once(".log") {
        Some((base, _)) => format!("{base}.log"),
        None => name.into_owned(),
    };
    let later = (1..).map(|part| PathBuf::from(format!("{base}.{part}")));
    std::iter::once(PathBuf::from(&base)).chain(later).take_while(|part| part.is_file()).collect()
}

/// How far a log was read.
#[derive(Default)]
struct Reading {
    path: PathBuf,
    offset: u64,
}

impl Reading {
    /// Prints whole lines that were not printed yet.
    fn print_more(&mut self, path: &Path, output: &mut Output) -> Result<(), CliError> {
        if self.path != path {
            *self = Reading { path: path.to_owned(), offset: 0 };
        }
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            self.offset += line.len() as u64;
            print(&String::from_utf8_lossy(&line[..line.len() - 1]), output)?;
            line.clear();
        }
        Ok(())
    }
}

fn print(line: &str, output: &mut Output) -> Result<(), CliError> {
    if output.json() {
        let (time, rest) = line.split_once(" [").unwrap_or(("", line));
        let (tag, text) = rest.split_once("] ").unwrap_or(("", rest));
        let (name, stream) = tag.rsplit_once(':').unwrap_or((tag, ""));
        let value = json!({"time": time, "name": name, "stream": stream, "line": text});
        return output.json_line(&value);
    }
    output.printed_line(line)
}

fn day(text: &str) -> Result<Day, String> {
    Day::parse(text).ok_or_else(|| "it is no day such as 20250213".to_owned())
}
