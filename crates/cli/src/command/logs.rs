//! `hansard logs`: what services and tasks have printed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bus::{Client, ClientEvent, ClientSettings, Filter, Message};
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

/// What is taken from the bus before the files are looked at again.
const ITEMS_MAX: usize = 1_000;

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
        let mut reading = Reading::of(found.newest());
        reading.print_more(output)?;
        output.flush()?;
        if self.follow {
            let path = self.at.path(global)?;
            let filter = Filter { tracts: vec!["logs".to_owned()], ..Filter::default() };
            let settings = ClientSettings { filter, ..ClientSettings::default() };
            let client = Client::start(&path, settings)?;
            let signaled = end_on_signal(&client)?;
            let followed = follow(&found, name, &mut reading, &client, output);
            signaled.close();
            followed?;
        }
        Ok(Done::Yes)
    }
}

/// Prints what is added, also when the name leads to another run meanwhile.
fn follow(
    found: &Found,
    name: &str,
    reading: &mut Reading,
    client: &Client,
    output: &mut Output,
) -> Result<(), CliError> {
    loop {
        // What was said matters less than that something was: the files have it all. Only where a
        // run begins has to be known of every one of them.
        let mut begun = Vec::new();
        let mut item = client.next(LOOK_EVERY);
        if item.is_none() && client.is_stopped() {
            return Ok(());
        }
        for _ in 0..ITEMS_MAX {
            let Some(said) = item else { break };
            if let ClientEvent::Message(message) = said {
                begun.extend(log_of(&message, name).filter(|_| found.is_by_name));
            }
            item = client.next(Duration::ZERO);
        }
        for log in begun.into_iter().chain([found.newest()]) {
            reading.print_more(output)?;
            if log != reading.log {
                *reading = Reading::of(log);
                reading.print_more(output)?;
            }
        }
        output.flush()?;
    }
}

/// The log of a run of that name that begins.
fn log_of(message: &Message, name: &str) -> Option<PathBuf> {
    let text = |field: &str| Some(message.field(field)?.text()?.into_owned());
    let is_it = message.is_event("logs", "exec") && text("name")? == name;
    let log = PathBuf::from(text("log_path").filter(|_| is_it)?);
    Some(log.canonicalize().unwrap_or(log))
}

/// Where a log was found.
struct Found {
    path: PathBuf,
    /// It leads to the newest log of a name; else it is the log of one run.
    is_by_name: bool,
}

impl Found {
    /// The first part of the log it leads to now.
    fn newest(&self) -> PathBuf {
        first_part(&self.path.canonicalize().unwrap_or_else(|_| self.path.clone()))
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
        return Some(Found { path: newest, is_by_name: true });
    }
    let mut days: Vec<String> = match day {
        Some(day) => vec![day.to_string()],
        None => names(journal).into_iter().filter(|name| Day::parse(name).is_some()).collect(),
    };
    days.sort();
    days.iter().rev().find_map(|day| {
        let logs = names(&folder(day)).into_iter();
        let mut logs = logs.map(|log| folder(day).join(log));
        let path = logs.find(|log| is_of(log, &safe))?;
        Some(Found { path, is_by_name: false })
    })
}

/// Whether a log is that of a ref. Refs and names may both have a `_`; the first line says where
/// the name begins. One without a line says nothing either way.
fn is_of(log: &Path, reference: &str) -> bool {
    let file_name = log.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let rest = file_name.strip_prefix(reference).and_then(|rest| rest.strip_prefix('_'));
    let Some(name) = rest.and_then(|rest| rest.strip_suffix(".log")) else { return false };
    let mut line = Vec::new();
    let read = File::open(log).and_then(|file| BufReader::new(file).read_until(b'\n', &mut line));
    let line = String::from_utf8_lossy(&line);
    read.is_ok() && (line.is_empty() || safe_form(Line::of(&line).name) == name)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The first part of a log, the one given being any of them.
fn first_part(log: &Path) -> PathBuf {
    let name = log.to_string_lossy();
    match name.rsplit_once(".log") {
        Some((base, _)) => PathBuf::from(format!("{base}.log")),
        None => log.to_owned(),
    }
}

/// How far a log was read.
struct Reading {
    /// Its first part.
    log: PathBuf,
    part: u32,
    offset: u64,
}

impl Reading {
    fn of(log: PathBuf) -> Reading {
        Reading { log, part: 0, offset: 0 }
    }

    /// Prints whole lines that were not printed yet, part after part.
    fn print_more(&mut self, output: &mut Output) -> Result<(), CliError> {
        loop {
            // Looked for first: nothing is added to a part once there is another.
            let has_next = self.path(self.part + 1).is_file();
            self.print_part(output)?;
            if !has_next {
                return Ok(());
            }
            (self.part, self.offset) = (self.part + 1, 0);
        }
    }

    fn print_part(&mut self, output: &mut Output) -> Result<(), CliError> {
        let mut file = File::open(self.path(self.part))?;
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

    fn path(&self, part: u32) -> PathBuf {
        match part {
            0 => self.log.clone(),
            part => PathBuf::from(format!("{}.{part}", self.log.display())),
        }
    }
}

/// A line as it stands in a log: `2025-02-13T10:30:45 [name:stdout] text`.
struct Line<'a> {
    time: &'a str,
    name: &'a str,
    stream: &'a str,
    text: &'a str,
}

impl Line<'_> {
    fn of(line: &str) -> Line<'_> {
        let (time, rest) = line.split_once(" [").unwrap_or(("", line));
        let (tag, text) = rest.split_once("] ").unwrap_or(("", rest));
        let (name, stream) = tag.rsplit_once(':').unwrap_or((tag, ""));
        Line { time, name, stream, text }
    }
}

fn print(line: &str, output: &mut Output) -> Result<(), CliError> {
    if output.json() {
        let Line { time, name, stream, text } = Line::of(line);
        let value = json!({"time": time, "name": name, "stream": stream, "line": text});
        return output.json_line(&value);
    }
    output.printed_line(line)
}

fn day(text: &str) -> Result<Day, String> {
    Day::parse(text).ok_or_else(|| "it is no day such as 20250213".to_owned())
}
