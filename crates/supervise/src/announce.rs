//! What the supervisor says on the bus, message by message.

use bus::{Draft, Json, Message};

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
        .with_json("ref", who.reference.json())
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

pub(crate) fn queue(command: &str, snapshot: &Snapshot<'_>) -> Draft {
    let shown = snapshot.shown.iter().map(|entry| {
        let refs = entry.refs.iter().map(|reference| reference.json().clone());
        let mut shown =
            vec![("refs", Json::list(refs)), ("cmd", Json::from_value(&entry.work.cmd))];
        shown.extend(entry.day.map(|day| ("day", Json::from_value(day))));
        Json::object(shown)
    });
    draft(SUPERVISOR, "queue")
        .with("command", command)
        .with_json("running", &name_of(snapshot.running))
        .with("queued", snapshot.queued)
        .with_json("queue", &Json::list(shown))
}

/// A run, or nothing where there is none.
fn name_of(reference: Option<&Ref>) -> Json {
    reference.map_or_else(|| Json::from_value(()), |reference| reference.json().clone())
}

pub(crate) fn skipped(reference: &Ref, active: Option<&Ref>, work: &Work, reason: &str) -> Draft {
    draft(SUPERVISOR, "skipped")
        .with("service", &work.name)
        .with_json("ref", reference.json())
        .with_json("active_ref", &name_of(active))
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
        .with_json("ref", who.reference.json())
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
        LineMaker {
            head: format!(
                "{{\"tract\":\"logs\",\"event\":\"line\",\"rev\":\"{REV}\",\"ref\":{},\
                 \"name\":{},\"pid\":{},\"stream\":{},\"line\":",
                who.reference.json().as_str(),
                Json::from_value(&who.name).as_str(),
                who.pid,
                Json::from_value(stream).as_str(),
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
