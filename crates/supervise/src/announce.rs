//! Builds the messages that the supervisor publishes.

use bus::{Draft, Json, Message};

use crate::queue::{QueueSnapshot, Stopped, TaskCommand};
use crate::run_ref::Ref;
use crate::services::Instance;

const SUPERVISOR: &str = "supervisor";
const LOGS: &str = "logs";

/// The version of this build, in every message of the daemon.
const REV: &str = env!("CARGO_PKG_VERSION");

/// Starts a message of the daemon.
pub(crate) fn draft(tract: &str, event: &str) -> Draft {
    Draft::new(tract, event).with("rev", REV)
}

/// A process as every message about it names it.
#[derive(Clone, Debug)]
pub(crate) struct RunLabel {
    pub reference: Ref,
    pub name: String,
    pub pid: u32,
}

/// What `logs.exit` adds to `logs.exec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RunSummary {
    pub duration_ms: u64,
    pub lines: u64,
    pub bytes: u64,
    /// Lines that could not be written to the log file.
    pub unwritten: u64,
    /// Lines that are in the log file but found no room on the bus.
    pub unpublished: u64,
}

pub(crate) fn started(label: &RunLabel) -> Draft {
    lifecycle("started", label)
}

pub(crate) fn restarting(instance: &Instance) -> Draft {
    let Instance { name, pid, reference, .. } = instance.clone();
    lifecycle("restarting", &RunLabel { reference, name, pid })
}

fn lifecycle(event: &str, label: &RunLabel) -> Draft {
    draft(SUPERVISOR, event)
        .with("service", &label.name)
        .with("pid", label.pid)
        .with_json("ref", label.reference.json())
}

pub(crate) fn stopped(stopped: &Stopped) -> Draft {
    let mut draft = draft(SUPERVISOR, "stopped")
        .with("service", &stopped.service)
        .with("pid", stopped.pid)
        .with_json("ref", stopped.reference.json())
        .with("exit_code", stopped.exit_code);
    if let Some(reason) = stopped.reason {
        draft = draft.with("reason", reason.word());
    }
    if let Some(error) = &stopped.error {
        draft = draft.with("error", error);
    }
    draft
}

pub(crate) fn queue(command: &str, snapshot: &QueueSnapshot<'_>) -> Draft {
    let shown = snapshot.shown.iter().map(|entry| {
        let refs = entry.refs.iter().map(|reference| reference.json().clone());
        let mut shown =
            vec![("refs", Json::list(refs)), ("cmd", Json::from_value(&entry.work.cmd))];
        shown.extend(entry.day.map(|day| ("day", Json::from_value(day))));
        Json::object(shown)
    });
    draft(SUPERVISOR, "queue")
        .with("command", command)
        .with_json("running", &ref_or_null(snapshot.running))
        .with("queued", snapshot.queued)
        .with_json("queue", &Json::list(shown))
}

/// Returns a run's ref, or `null` if there is none.
fn ref_or_null(reference: Option<&Ref>) -> Json {
    reference.map_or_else(|| Json::from_value(()), |reference| reference.json().clone())
}

pub(crate) fn skipped(
    reference: &Ref,
    active: Option<&Ref>,
    work: &TaskCommand,
    reason: &str,
) -> Draft {
    draft(SUPERVISOR, "skipped")
        .with("service", &work.name)
        .with_json("ref", reference.json())
        .with_json("active_ref", &ref_or_null(active))
        .with("cmd", &work.cmd)
        .with("reason", reason)
}

/// The answer to `supervisor.reload`.
pub(crate) fn reloaded(reference: Option<&Ref>, error: Option<&str>) -> Draft {
    let mut draft = draft(SUPERVISOR, "reloaded");
    if let Some(reference) = reference {
        draft = draft.with_json("ref", reference.json());
    }
    if let Some(error) = error {
        draft = draft.with("error", error);
    }
    draft
}

pub(crate) fn exec(label: &RunLabel, cmd: &[String], log_path: &str) -> Draft {
    about_run("exec", label, cmd, log_path)
}

pub(crate) fn exit(
    label: &RunLabel,
    cmd: &[String],
    log_path: &str,
    exit_code: i32,
    account: &RunSummary,
) -> Draft {
    let mut draft = about_run("exit", label, cmd, log_path)
        .with("exit_code", exit_code)
        .with("duration_ms", account.duration_ms)
        .with("lines", account.lines)
        .with("bytes", account.bytes);
    if account.unwritten > 0 {
        draft = draft.with("unwritten", account.unwritten);
    }
    if account.unpublished > 0 {
        draft = draft.with("untold", account.unpublished);
    }
    draft
}

fn about_run(event: &str, label: &RunLabel, cmd: &[String], log_path: &str) -> Draft {
    draft(LOGS, event)
        .with_json("ref", label.reference.json())
        .with("name", &label.name)
        .with("pid", label.pid)
        .with("cmd", cmd)
        .with("log_path", log_path)
}

/// A card that a person should see.
pub(crate) fn notice(title: &str, message: &str) -> Draft {
    draft("notification", "show")
        .with("title", title)
        .with("message", message)
        .with("app", SUPERVISOR)
}

/// Builds `logs.line` messages of one stream. All fields but the line are encoded once.
#[derive(Clone, Debug)]
pub(crate) struct LineMaker {
    head: String,
}

impl LineMaker {
    pub(crate) fn new(label: &RunLabel, stream: &str) -> LineMaker {
        LineMaker {
            head: format!(
                "{{\"tract\":\"logs\",\"event\":\"line\",\"rev\":\"{REV}\",\"ref\":{},\
                 \"name\":{},\"pid\":{},\"stream\":{},\"line\":",
                label.reference.json().as_str(),
                Json::from_value(&label.name).as_str(),
                label.pid,
                Json::from_value(stream).as_str(),
            ),
        }
    }

    pub(crate) fn line(&self, text: &[u8], part: Option<u32>) -> Option<Message> {
        let mut line = Vec::with_capacity(self.head.len() + text.len() + 32);
        line.extend_from_slice(self.head.as_bytes());
        // Programs print any bytes, and a message is UTF-8.
        serde_json::to_writer(&mut line, &String::from_utf8_lossy(text)).ok()?;
        if let Some(part) = part {
            line.extend_from_slice(format!(",\"part\":{part}").as_bytes());
        }
        line.push(b'}');
        Message::parse(&line).ok()
    }
}
