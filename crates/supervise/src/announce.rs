//! What the supervisor says on the bus, message by message.

use serde_json::{Map, Value, json};

use bus::{Draft, Message};

use crate::queue::{Snapshot, Stopped, Work};
use crate::run_ref::Ref;
use crate::services::Instance;

const SUPERVISOR: &str = "supervisor";
const LOGS: &str = "logs";

/// The build, in every message of the daemon.
const REV: &str = env!("CARGO_PKG_VERSION");

/// A message of ours.
pub(crate) fn draft(tract: &str, event: &str) -> Draft {
    Draft::new(tract, event).with("rev", REV)
}

/// A process, as every message about it names it.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub reference: Ref,
    pub name: String,
    pub pid: u32,
}

/// What `logs.exit` tells beyond `logs.exec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Account {
    pub duration_ms: u64,
    pub lines: u64,
    pub bytes: u64,
    /// Lines that are not in the file.
    pub unwritten: u64,
    /// Lines that are in the file and found no room on the bus.
    pub untold: u64,
}

pub(crate) fn started(who: &Who) -> Draft {
    life("started", who)
}

pub(crate) fn restarting(instance: &Instance) -> Draft {
    let Instance { name, pid, reference, .. } = instance.clone();
    life("restarting", &Who { reference, name, pid })
}

fn life(event: &str, who: &Who) -> Draft {
    draft(SUPERVISOR, event)
        .with("service", &who.name)
        .with("pid", who.pid)
        .with("ref", &who.reference)
}

pub(crate) fn stopped(stopped: &Stopped) -> Draft {
    let mut draft = draft(SUPERVISOR, "stopped")
        .with("service", &stopped.service)
        .with("pid", stopped.pid)
        .with("ref", &stopped.reference)
        .with("exit_code", stopped.exit_code);
    if let Some(reason) = stopped.reason {
        draft = draft.with("reason", reason.word());
    }
    if let Some(error) = &stopped.error {
        draft = draft.with("error", error);
    }
    draft
}

pub(crate) fn queue(command: &str, snapshot: &Snapshot<'_>) -> Draft {
    let shown = snapshot.shown.iter().map(|entry| {
        let mut shown = Map::new();
        shown.insert("refs".to_owned(), json!(entry.refs));
        shown.insert("cmd".to_owned(), json!(entry.work.cmd));
        if let Some(day) = &entry.day {
            shown.insert("day".to_owned(), json!(day));
        }
        Value::Object(shown)
    });
    draft(SUPERVISOR, "queue")
        .with("command", command)
        .with("running", snapshot.running)
        .with("queued", snapshot.queued)
        .with("queue", shown.collect::<Vec<Value>>())
}

pub(crate) fn skipped(reference: &Ref, active: Option<&Ref>, work: &Work, reason: &str) -> Draft {
    draft(SUPERVISOR, "skipped")
        .with("service", &work.name)
        .with("ref", reference)
        .with("active_ref", active)
        .with("cmd", &work.cmd)
        .with("reason", reason)
}

/// The answer to `supervisor.reload`.
pub(crate) fn reloaded(reference: Option<&Ref>, error: Option<&str>) -> Draft {
    let mut draft = draft(SUPERVISOR, "reloaded");
    if let Some(reference) = reference {
        draft = draft.with("ref", reference);
    }
    if let Some(error) = error {
        draft = draft.with("error", error);
    }
    draft
}

pub(crate) fn exec(who: &Who, cmd: &[String], log_path: &str) -> Draft {
    about_run("exec", who, cmd, log_path)
}

pub(crate) fn exit(
    who: &Who,
    cmd: &[String],
    log_path: &str,
    exit_code: i32,
    account: &Account,
) -> Draft {
    let mut draft = about_run("exit", who, cmd, log_path)
        .with("exit_code", exit_code)
        .with("duration_ms", account.duration_ms)
        .with("lines", account.lines)
        .with("bytes", account.bytes);
    if account.unwritten > 0 {
        draft = draft.with("unwritten", account.unwritten);
    }
    if account.untold > 0 {
        draft = draft.with("untold", account.untold);
    }
    draft
}

fn about_run(event: &str, who: &Who, cmd: &[String], log_path: &str) -> Draft {
    draft(LOGS, event)
        .with("ref", &who.reference)
        .with("name", &who.name)
        .with("pid", who.pid)
        .with("cmd", cmd)
        .with("log_path", log_path)
}

/// Something a person should see.
pub(crate) fn notice(title: &str, message: &str) -> Draft {
    draft("notification", "show")
        .with("title", title)
        .with("message", message)
        .with("app", SUPERVISOR)
}

/// Makes `logs.line` messages of one stream: everything but the line is the same each time.
#[derive(Clone, Debug)]
pub(crate) struct LineMaker {
    head: String,
}

impl LineMaker {
    pub(crate) fn new(who: &Who, stream: &str) -> LineMaker {
        let fields = json!([who.reference, who.name, who.pid, stream]);
        LineMaker {
            head: format!(
                "{{\"tract\":\"logs\",\"event\":\"line\",\"rev\":\"{REV}\",\"ref\":{},\
                 \"name\":{},\"pid\":{},\"stream\":{},\"line\":",
                fields[0], fields[1], fields[2], fields[3]
            ),
        }
    }

    pub(crate) fn line(&self, text: &[u8], part: Option<u32>) -> Option<Message> {
        let mut line = Vec::with_capacity(self.head.len() + text.len() + 32);
        line.extend_from_slice(self.head.as_bytes());
        serde_json::to_writer(&mut line, &String::from_utf8_lossy(text)).ok()?;
        if let Some(part) = part {
            line.extend_from_slice(format!(",\"part\":{part}").as_bytes());
        }
        line.push(b'}');
        Message::parse(&line).ok()
    }
}
