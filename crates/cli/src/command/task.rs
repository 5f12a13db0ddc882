//! `hansard task`: runs commands through the daemon's task queue.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::bus::SocketArgs;
use super::supervisor_client::{SupervisorClient, is_answer, own_ref, text_or_dash};
use super::{CommandResult, Completion, Global};
use crate::output::{CliOutput, Style, one_line};
use crate::times::DayArg;
use crate::world;

/// Run a command in the daemon's task queue
///
/// Of tasks with the same name one runs at a time, and equal ones run once. `services.toml` lists
/// the programs that are allowed besides hansard; docs/guide/supervisor.md describes it.
/// Exit codes: 0 success, 1 failure or a negative answer, 2 wrong usage, 3 no daemon is running.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    at: SocketArgs,
    #[command(subcommand)]
    verb: TaskVerb,
}

#[derive(Subcommand)]
enum TaskVerb {
    /// Add a command to the queue
    Run(TaskRunArgs),
    /// List running and waiting tasks
    List,
    /// Cancel a task; it ends if no other request waits for it
    Cancel {
        /// The ref of the request
        #[arg(value_name = "REF")]
        reference: String,
    },
}

#[derive(Args)]
struct TaskRunArgs {
    /// The ref of this run [default: generated]
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// The day whose folder gets the log: today, yesterday or 2026-11-16
    #[arg(long, value_name = "DAY")]
    day: Option<DayArg>,
    /// Wait for its end; exit code 0 only if its own was 0
    #[arg(long)]
    wait: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, last = true)]
    cmd: Vec<String>,
}

/// Characters of a ref and of a name in the list.
const REF_MAX: usize = 24;
const NAME_MAX: usize = 20;

impl TaskArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let path = self.at.path(global)?;
        match &self.verb {
            // Subscribed before the request is sent: a short task may end at once.
            TaskVerb::Run(run) => run.run(SupervisorClient::open(path, &["stopped"])?, output),
            TaskVerb::List => {
                list_tasks(&SupervisorClient::open(path, &[])?.next_status()?, output)
            }
            TaskVerb::Cancel { reference } => {
                let client = SupervisorClient::open(path, &[])?;
                client.send_request("cancel", &[("ref", json!(reference))])?;
                output.note("cancel requested");
                Ok(Completion::Success)
            }
        }
    }
}

impl TaskRunArgs {
    fn run(&self, client: SupervisorClient, output: &mut CliOutput) -> CommandResult {
        let reference = self.reference.clone().unwrap_or_else(own_ref);
        let mut fields = vec![("ref", json!(reference)), ("cmd", json!(self.cmd))];
        if let Some(day) = self.day {
            fields.push(("day", json!(day.resolve(world::now(), output.zone()))));
        }
        client.send_request("request", &fields)?;
        // Printed, so that the user can ask for this run later.
        if !self.wait {
            return print_task(&json!({"ref": reference}), &reference, Completion::Success, output);
        }
        let stopped =
            client.wait_for(|it| is_answer(it, "stopped", &reference).then(|| it.to_json()))?;
        let done =
            if stopped["exit_code"] == 0 { Completion::Success } else { Completion::Negative };
        let mut words = format!("exit {}", stopped["exit_code"]);
        for field in ["reason", "error"] {
            if let Some(text) = stopped[field].as_str() {
                words = format!("{words}: {text}");
            }
        }
        print_task(&stopped, &words, done, output)
    }
}

fn print_task(
    value: &Value,
    words: &str,
    done: Completion,
    output: &mut CliOutput,
) -> CommandResult {
    if output.json() {
        output.json_line(value)?;
    } else {
        output.line(crate::output::escape_controls(words))?;
    }
    output.flush()?;
    Ok(done)
}

fn list_tasks(status: &Value, output: &mut CliOutput) -> CommandResult {
    if output.json() {
        output.json_line(&json!({"tasks": status["tasks"], "queues": status["queues"]}))?;
        output.flush()?;
        return Ok(Completion::Success);
    }
    let has_none = |name: &str| status[name].as_array().is_none_or(Vec::is_empty);
    let has_queues = status["queues"].as_object().is_some_and(|queues| !queues.is_empty());
    if has_none("tasks") && !has_queues {
        output.note("no tasks are running or waiting; `hansard task run -- CMD` adds one");
        return Ok(Completion::Success);
    }
    let head =
        format!("{:<NAME_MAX$} {:<REF_MAX$} {:>8} {:>8}", "name", "ref", "seconds", "waiting");
    output.line(output.styled(Style::Bold, head))?;
    let waiting = |name: &str| status["queues"][name].as_u64().unwrap_or(0);
    let tasks = status["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    for task in tasks {
        let name = text_or_dash(task, "name");
        // A ref of another client may be any JSON.
        let reference = task["ref"].as_str().map_or_else(|| task["ref"].to_string(), str::to_owned);
        output.line(format!(
            "{:<NAME_MAX$} {:<REF_MAX$} {:>8} {:>8}",
            one_line(name, NAME_MAX),
            one_line(&reference, REF_MAX),
            task["duration_seconds"].as_u64().unwrap_or(0),
            waiting(name),
        ))?;
    }
    // Names without a running task only wait, because too many other tasks run.
    let only_wait = status["queues"].as_object().into_iter().flatten();
    for (name, _) in
        only_wait.filter(|(name, _)| !tasks.iter().any(|it| text_or_dash(it, "name") == *name))
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
    Ok(Completion::Success)
}
