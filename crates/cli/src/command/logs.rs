//! `hansard logs`: the logs of services and tasks.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bus::{Client, ClientEvent, ClientSettings, Filter, Message};
use clap::Args;
use serde_json::json;
use supervise::{Day, safe_form};

use super::bus::{SocketArgs, end_on_signal};
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::times::DayArg;
use crate::world;

/// Print the log of a service or a task
///
/// Works without a daemon.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    at: SocketArgs,
    /// Name of a service or a task, or the ref of one run [default: the daemon itself]
    #[arg(value_name = "NAME|REF")]
    name: Option<String>,
    /// The log of this day: today, yesterday or 2026-11-16
    #[arg(long, value_name = "DAY")]
    day: Option<DayArg>,
    /// Keep printing new lines, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
}

/// How often the file is checked. With a bus, a message triggers the check at once.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Messages taken from the bus before the files are checked again.
const ITEMS_MAX: usize = 1_000;

/// The name of the daemon's own log.
const OWN: &str = "supervisor";

impl LogsArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_folder(global)?;
        let name = self.name.as_deref().unwrap_or(OWN);
        let day = self.day.map(|day| day.resolve(world::now(), output.zone()));
        let Some(found) = find_log(&journal, name, day.as_ref()) else {
            let told = format!("there is no log of `{name}`");
            return Err(CliError::new("no_log", told)
                .hint("`hansard service list` and `hansard task list` show what is running"));
        };
        // Printed from its start: without `--follow` this is all.
        let mut reading = LogReader::new(found.newest_part());
        reading.print_more(output)?;
        output.flush()?;
        if self.follow {
            let path = self.at.path(global)?;
            let filter = Filter { tracts: vec!["logs".to_owned()], ..Filter::default() };
            let settings = ClientSettings { filter, ..ClientSettings::default() };
            // Starts also without a bus, and then the files are checked every half second.
            let client = Client::start(&path, settings)?;
            let signaled = end_on_signal(&client)?;
            let followed = follow_log(&found, name, &mut reading, &client, output);
            signaled.close();
            followed?;
        }
        Ok(Completion::Success)
    }
}

/// Prints new lines, also when the name comes to mean another run.
fn follow_log(
    found: &LogSource,
    name: &str,
    reading: &mut LogReader,
    client: &Client,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    loop {
        // A message only triggers a look at the files, which have everything. But every `exec` counts:
        // a short run in between would otherwise be skipped.
        let mut begun = Vec::new();
        let mut item = client.next(LOOK_EVERY);
        if item.is_none() && client.is_stopped() {
            return Ok(());
        }
        for _ in 0..ITEMS_MAX {
            let Some(said) = item else { break };
            if let ClientEvent::Message(message) = said {
                // The ref of one run means only that run.
                begun.extend(started_log(&message, name).filter(|_| found.is_by_name));
            }
            item = client.next(Duration::ZERO);
        }
        for log in begun.into_iter().chain([found.newest_part()]) {
            // The rest of the former run first, so that lines stay in order.
            reading.print_more(output)?;
            if log != reading.log {
                *reading = LogReader::new(log);
                reading.print_more(output)?;
            }
        }
        output.flush()?;
    }
}

/// Returns the log of a run with that name that is just starting.
fn started_log(message: &Message, name: &str) -> Option<PathBuf> {
    let text = |field: &str| Some(message.field(field)?.text()?.into_owned());
    let is_it = message.is_event("logs", "exec") && text("name")? == name;
    let log = PathBuf::from(text("log_path").filter(|_| is_it)?);
    // Links resolved, so that the comparison with the present log holds.
    Some(log.canonicalize().unwrap_or(log))
}

/// A log that was found.
struct LogSource {
    path: PathBuf,
    /// Whether the path is a link to the newest log of a name; else it is the log of one run.
    is_by_name: bool,
}

impl LogSource {
    /// Returns the first part of the log that the path leads to now.
    fn newest_part(&self) -> PathBuf {
        first_part(&self.path.canonicalize().unwrap_or_else(|_| self.path.clone()))
    }
}

fn find_log(journal: &Path, name: &str, day: Option<&Day>) -> Option<LogSource> {
    // Names may hold characters that no file name can; the writer uses the same form.
    let safe = safe_form(name);
    let folder = |day: &str| journal.join(day).join("health");
    let newest = match day {
        Some(day) => folder(&day.to_string()).join(format!("{safe}.log")),
        None => journal.join("health").join(format!("{safe}.log")),
    };
    // A link to the newest run of this name.
    if newest.is_file() {
        return Some(LogSource { path: newest, is_by_name: true });
    }
    let mut days: Vec<String> = match day {
        Some(day) => vec![day.to_string()],
        None => file_names(journal).into_iter().filter(|name| Day::parse(name).is_some()).collect(),
    };
    days.sort();
    // The newest day first: the user most likely means a recent run.
    days.iter().rev().find_map(|day| {
        let logs = file_names(&folder(day)).into_iter();
        let mut logs = logs.map(|log| folder(day).join(log));
        let path = logs.find(|log| belongs_to_ref(log, &safe))?;
        Some(LogSource { path, is_by_name: false })
    })
}

/// Returns whether a log belongs to a ref. Both refs and names may contain `_`, so the first line
/// decides where the name begins. An empty log counts as a match.
fn belongs_to_ref(log: &Path, reference: &str) -> bool {
    let file_name = log.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // A log of a run is `REF_NAME.log`.
    let rest = file_name.strip_prefix(reference).and_then(|rest| rest.strip_prefix('_'));
    let Some(name) = rest.and_then(|rest| rest.strip_suffix(".log")) else { return false };
    let mut line = Vec::new();
    let read = File::open(log).and_then(|file| BufReader::new(file).read_until(b'\n', &mut line));
    let line = String::from_utf8_lossy(&line);
    read.is_ok() && (line.is_empty() || safe_form(LogLine::parse_line(&line).name) == name)
}

fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Returns the first part of a log, given any part.
fn first_part(log: &Path) -> PathBuf {
    let name = log.to_string_lossy();
    // `name.log.2` is the third part of `name.log`.
    match name.rsplit_once(".log") {
        Some((base, _)) => PathBuf::from(format!("{base}.log")),
        None => log.to_owned(),
    }
}

/// How far a log was printed.
struct LogReader {
    /// The first part.
    log: PathBuf,
    part: u32,
    offset: u64,
}

impl LogReader {
    fn new(log: PathBuf) -> LogReader {
        LogReader { log, part: 0, offset: 0 }
    }

    /// Prints complete lines that were not printed yet, part after part.
    fn print_more(&mut self, output: &mut CliOutput) -> Result<(), CliError> {
        loop {
            // Check for the next part first: once it exists, this part is complete.
            let has_next = self.path(self.part + 1).is_file();
            self.print_part(output)?;
            if !has_next {
                return Ok(());
            }
            (self.part, self.offset) = (self.part + 1, 0);
        }
    }

    fn print_part(&mut self, output: &mut CliOutput) -> Result<(), CliError> {
        let mut file = File::open(self.path(self.part))?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        // A line without its end is still being written; it is printed once it is whole.
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            self.offset += line.len() as u64;
            print_line(&String::from_utf8_lossy(&line[..line.len() - 1]), output)?;
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

/// A line of a log: `2025-02-13T10:30:45 [name:stdout] text`.
struct LogLine<'a> {
    time: &'a str,
    name: &'a str,
    stream: &'a str,
    text: &'a str,
}

impl LogLine<'_> {
    fn parse_line(line: &str) -> LogLine<'_> {
        // A line of another form is all text.
        let (time, rest) = line.split_once(" [").unwrap_or(("", line));
        let (tag, text) = rest.split_once("] ").unwrap_or(("", rest));
        let (name, stream) = tag.rsplit_once(':').unwrap_or((tag, ""));
        LogLine { time, name, stream, text }
    }
}

fn print_line(line: &str, output: &mut CliOutput) -> Result<(), CliError> {
    if output.json() {
        let LogLine { time, name, stream, text } = LogLine::parse_line(line);
        let value = json!({"time": time, "name": name, "stream": stream, "line": text});
        return output.json_line(&value);
    }
    output.printed_line(line)
}
