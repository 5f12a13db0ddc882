//! `hansard task`: have something run by the daemon, in turn.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::bus::At;
use super::talk::{Talk, answers, own_ref, text};
use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, Style, one_line};

/// Have something run by the daemon: one task of a name at a time, equal ones once.
///
/// What may be run besides hansard itself is listed in `services.toml`; see docs/supervisor.md.
/// Exit codes: 0 done, 1 it failed or is not so, 2 wrong usage, 3 no daemon.
#[derive(Args)]
pub(crate) struct Task {
    #[command(flatten)]
    at: At,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Put a command into the queue
    Run(Run),
    /// Tell what runs and what waits
    List,
    /// Take a task back, or end it if nobody else waits for it
    Cancel {
        /// The ref that it was asked for by
        #[arg(value_name = "REF")]
        reference: String,
    },
}

#[derive(Args)]
struct Run {
    /// What to call this run [default: made up]
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// The day whose folder gets the log
    #[arg(long, value_name = "YYYYMMDD")]
    day: Option<String>,
    /// Wait for its end; exit code 0 only if its own was
    #[arg(long)]
    wait: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, last = true)]
    cmd: Vec<String>,
}

/// Letters of a ref and of a name in the list.
const REF_MAX: usize = 24;
const NAME_MAX: usize = 20;

impl Task {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let path = self.at.path(global)?;
        match &self.verb {
            Verb::Run(run) => run.run(Talk::open(path, &["stopped"])?, output),
            Verb::List => list(&Talk::open(path, &[])?.status()?, output),
            Verb::Cancel { reference } => {
                let talk = Talk::open(path, &[])?;
                talk.say("cancel", &[("ref", json!(reference))])?;
                output.note("asked to cancel it");
                Ok(Done::Yes)
            }
        }
    }
}

impl Run {
    fn run(&self, talk: Talk, output: &mut Output) -> Result<Done, CliError> {
        let reference = self.reference.clone().unwrap_or_else(own_ref);
        let mut fields = vec![("ref", json!(reference)), ("cmd", json!(self.cmd))];
        if let Some(day) = &self.day {
            fields.push(("day", json!(day)));
        }
        talk.say("request", &fields)?;
        if !self.wait {
            return print(&json!({"ref": reference}), &reference, Done::Yes, output);
        }
        let stopped = talk.wait(|it| answers(it, "stopped", &reference).then(|| it.to_json()))?;
        let done = if stopped["exit_code"] == 0 { Done::Yes } else { Done::NotSo };
        let mut words = format!("exit {}", stopped["exit_code"]);
        for field in ["reason", "error"] {
            if let Some(text) = stopped[field].as_str() {
                words = format!("{words}: {text}");
            }
        }
        print(&stopped, &words, done, output)
    }
}

fn print(value: &Value, words: &str, done: Done, output: &mut Output) -> Result<Done, CliError> {
    if output.json() {
        output.json_line(value)?;
    } else {
        output.line(crate::output::plain(words))?;
    }
    output.flush()?;
    Ok(done)
}

fn list(status: &Value, output: &mut Output) -> Result<Done, CliError> {
    if output.json() {
        output.json_line(&json!({"tasks": status["tasks"], "queues": status["queues"]}))?;
        output.flush()?;
        return Ok(Done::Yes);
    }
    let head =
        format!("{:<NAME_MAX$} {:<REF_MAX$} {:>8} {:>8}", "name", "ref", "seconds", "waiting");
    output.line(output.styled(Style::Bold, head))?;
    let waiting = |name: &str| status["queues"][name].as_u64().unwrap_or(0);
    let tasks = status["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    for task in tasks {
        let name = text(task, "name");
        let reference = task["ref"].as_str().map_or_else(|| task["ref"].to_string(), str::to_owned);
        output.line(format!(
            "{:<NAME_MAX$} {:<REF_MAX$} {:>8} {:>8}",
            one_line(name, NAME_MAX),
            one_line(&reference, REF_MAX),
            task["duration_seconds"].as_u64().unwrap_or(0),
            waiting(name),
        ))?;
    }
    // More may run than at once: some names only wait.
    let only_wait = status["queues"].as_object().into_iter().flatten();
    for (name, _) in only_wait.filter(|(name, _)| !tasks.iter().any(|it| text(it, "name") == *name))
    {
        let name_shown = one_line(name, NAME_MAX);
        output.line(format!(
            "{name_shown:<NAME_MAX$} {:<REF_MAX$} {:>8} {:>8}",
            "-",
            "-",
            waiting(name)
        ))?;
    }
    output.flush()?;
    Ok(Done::Yes)
}
