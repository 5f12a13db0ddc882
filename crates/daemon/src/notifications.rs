//! Tells people of sessions that need them: on the desktop, by a command of theirs, and on the bus.
//!
//! Off until asked for. While it is off, nothing is watched for it. What was told is kept beside the
//! journal, so that a restart says nothing again.

mod rules; // when somebody is to be told

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bus::{Draft, Handle};
use capture::Environment;
use event::Time;
use serde_json::{Value, json};
use serve::Board;
use supervise::{DaemonTask, Supervisor, fill_placeholders};

use crate::cortex::{REV, compact};
use crate::live::Live;
use crate::log::{Log, Part};
use crate::opened::Opened;
use rules::{Doing, Notice, Told, Watch};
use segments::Zone;
use segments::write_atomic;
use wire::health_dir;

pub(crate) use rules::Notifications;

/// How often it is looked whether somebody is to be told.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The file with what was told.
const TOLD: &str = "notified.json";

/// How long a program may take to tell somebody.
const TELL_WITHIN: Duration = Duration::from_secs(30);

/// The running part.
pub(crate) struct Notifying {
    wanted: Arc<Mutex<Notifications>>,
    live: Arc<Live>,
    /// Wakes it; dropped, it ends it.
    wake: SyncSender<()>,
    threads: [JoinHandle<()>; 2],
}

/// What it works with.
pub(crate) struct Tools {
    pub opened: Opened,
    pub environment: Environment,
    pub clock: fn() -> Time,
    pub zone: Zone,
    pub bus: Handle,
    pub supervisor: Arc<Supervisor>,
    pub log: Log,
}

impl Notifying {
    pub(crate) fn start(tools: Tools, wanted: Notifications) -> io::Result<Notifying> {
        let board = Board::default();
        let Tools { opened, environment, clock, .. } = &tools;
        let live = Live::new(opened.clone(), environment.clone(), *clock, board.clone());
        let live = Arc::new(live);
        live.watched_by(usize::from(wanted.is_wanted()));
        let wanted = Arc::new(Mutex::new(wanted));
        let (wake, woken) = mpsc::sync_channel(1);
        let asked = Arc::clone(&wanted);
        let thread = std::thread::Builder::new().name("notifications".to_owned());
        let thread = thread.spawn(move || run(&tools, &asked, &board, &woken))?;
        let threads = [live.start()?, thread];
        Ok(Notifying { wanted, live, wake, threads })
    }

    /// Goes on with other settings.
    pub(crate) fn reload(&self, wanted: Notifications) {
        self.live.watched_by(usize::from(wanted.is_wanted()));
        *lock(&self.wanted) = wanted;
        // One that is about to wake needs no second word.
        let _ = self.wake.try_send(());
    }

    pub(crate) fn close(self) {
        drop(self.wake);
        self.live.stop();
        for thread in self.threads {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn run(tools: &Tools, wanted: &Mutex<Notifications>, board: &Board, woken: &Receiver<()>) {
    let mut watch = Watch::behind(kept(tools));
    loop {
        let wanted = lock(wanted).clone();
        let woken = match wanted.is_wanted() {
            true => woken.recv_timeout(LOOK_EVERY),
            false => woken.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match woken {
            Ok(()) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let doings: Vec<Doing> = board.statuses().iter().map(doing).collect();
        let last = watch.told().last().cloned();
        let notices = watch.look(&doings, &wanted, (tools.clock)(), &tools.zone);
        // Before it is told: twice is worse than once too few. What is told to nobody, in quiet
        // hours, is over with them.
        if watch.told().last() != last.as_ref() {
            keep(&watch, tools);
        }
        notices.iter().for_each(|notice| tell(notice, &wanted, tools));
    }
}

/// What was told before. What cannot be read is told again.
fn kept(tools: &Tools) -> Vec<Told> {
    let journal = tools.opened.journal();
    let text = journal.dir().and_then(|dir| std::fs::read(health_dir(dir).join(TOLD)).ok());
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn keep(watch: &Watch, tools: &Tools) {
    let journal = tools.opened.journal();
    if let Some(dir) = journal.dir()
        && let Ok(text) = serde_json::to_vec(watch.told())
    {
        // On a full disk it is told again after a restart.
        let _ = write_atomic(&health_dir(dir), TOLD, &text);
    }
}

fn lock(wanted: &Mutex<Notifications>) -> MutexGuard<'_, Notifications> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner)
}

fn doing(status: &wire::Status) -> Doing {
    let title = status.title.as_deref().or(status.project.as_deref());
    Doing {
        session: status.session_id.clone(),
        title: shown(title.unwrap_or(status.session_id.as_str())),
        project: status.project.as_deref().map(shown),
        current: shown(&status.summary.current),
        needs: status
            .attention
            .as_ref()
            .filter(|wants| wants.want != "finished")
            .map(|wants| (wants.want, wants.since)),
        is_running: status.status == "running",
        since: status.since,
    }
}

/// Text of a transcript, for anybody: on one line, and no control over anything. Its secrets were
/// taken out before.
fn shown(text: &str) -> String {
    let text: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    compact(text.trim_start_matches(|letter: char| letter == '-' || letter.is_whitespace()).trim())
}

fn tell(notice: &Notice, wanted: &Notifications, tools: &Tools) {
    let Notice { session, title, message, project } = notice;
    // A bus that takes nothing more is about to end.
    let _ = card(notice).build().map(|told| tools.bus.publish(told));
    if wanted.desktop {
        enqueue(desktop(title, message), tools);
    }
    if let Some(command) = &wanted.command {
        let filled = fill_placeholders(command, |name| match name {
            "title" => json!(title),
            "message" => json!(message),
            "session" => json!(session.as_str()),
            "project" => json!(project),
            _ => Value::Null,
        });
        match filled {
            Ok(command) => enqueue(command, tools),
            Err(error) => tools.log.warn(Part::Daemon, format!("nobody was told: {error}")),
        }
    }
}

/// What pages show of it. It leads to the session.
fn card(notice: &Notice) -> Draft {
    Draft::new("notification", "show")
        .with("title", &notice.title)
        .with("message", &notice.message)
        .with("app", "hansard")
        .with("action", view_of(notice.session.as_str()))
        .with("rev", REV)
}

/// Where a page shows a session. What means something in an address is written as its bytes.
fn view_of(session: &str) -> String {
    let mut path = "/session/".to_owned();
    for byte in session.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => path.push(char::from(byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// The command that shows something on the desktop: over D-Bus, or as macOS does it.
fn desktop(title: &str, message: &str) -> Vec<String> {
    let words: &[&str] = if cfg!(target_os = "macos") {
        let script = "display notification (item 2 of argv) with title (item 1 of argv)";
        &["osascript", "-e", "on run argv", "-e", script, "-e", "end run", title, message]
    } else {
        &["notify-send", "--app-name=hansard", "--", title, &literal(message)]
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A text as it has to be given to `notify-send`, which undoes what is behind a backslash, and to
/// desktops, which take what is below a title for markup.
fn literal(text: &str) -> String {
    let marks = [("\\", "\\\\"), ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")];
    marks.iter().fold(text.to_owned(), |text, (mark, written)| text.replace(mark, written))
}

fn enqueue(command: Vec<String>, tools: &Tools) {
    let task = DaemonTask { timeout: Some(TELL_WITHIN), ..DaemonTask::new(command) };
    if let Err(error) = tools.supervisor.enqueue(task) {
        tools.log.warn(Part::Daemon, format!("nobody was told: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use event::SessionId;

    use super::*;

    #[test]
    fn a_card_leads_to_the_view_of_its_session() {
        let notice = Notice {
            session: SessionId::new("claude:0b1c/ä").unwrap(),
            title: "Needs you".to_owned(),
            message: "waits".to_owned(),
            project: None,
        };
        let told = card(&notice).build().unwrap().to_json();
        assert_eq!(told["action"], "/session/claude%3A0b1c%2F%C3%A4");
        assert_eq!((&told["tract"], &told["event"]), (&json!("notification"), &json!("show")));
    }
}
