//! Notifies the user of sessions that need attention: on the desktop, by a command of the user, and
//! on the bus.
//!
//! Off by default, and then no session is watched for it. What was sent is stored beside the journal,
//! so that a restart does not send it again.

mod rules; // decides what is sent and when
mod activity_watch; // reads the board after news
mod budget_watch; // adds up the money after news

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bus::Draft;
use projection::{BudgetUse, Budgets};
use serde_json::{Value, json};
use supervise::{DaemonTask, Supervisor, fill_placeholders};

use crate::context::DaemonContext;
use crate::log::part;
use crate::publish::REV;
use crate::settings::Settings;
use crate::status::BoardWatch;
use activity_watch::ActivityWatch;
use budget_watch::BudgetWatch;
use rules::{NoticeTracker, SentNotice, SessionNotice};
use segments::write_atomic;
use wire::{health_dir, percent_encode};

pub(crate) use rules::NotificationSettings;

/// How often the rules are applied.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the money is added up: often enough to stop in time, and too seldom to be felt.
const ADD_UP_EVERY: Duration = Duration::from_secs(60);

/// The file with the notices that were sent.
const SENT_FILE: &str = "notified.json";

/// How long a notification program may run.
const PROGRAM_WITHIN: Duration = Duration::from_secs(30);

/// The thread that looks at the statuses and sends notices.
pub(crate) struct Notifier {
    settings: Arc<Mutex<NotifierSettings>>,
    /// A message wakes the thread; dropping the sender ends it.
    wake: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// The parts of the settings that decide about notices.
#[derive(Clone)]
struct NotifierSettings {
    notifications: NotificationSettings,
    budgets: Budgets,
}

impl NotifierSettings {
    fn from_settings(settings: &Settings) -> NotifierSettings {
        let notifications = settings.notifications.clone();
        NotifierSettings { notifications, budgets: settings.budgets().clone() }
    }
}

/// Sends notices.
struct NoticeSender {
    context: DaemonContext,
    supervisor: Arc<Supervisor>,
}

impl Notifier {
    pub(crate) fn start(
        context: DaemonContext,
        supervisor: Arc<Supervisor>,
        settings: &Settings,
    ) -> io::Result<Notifier> {
        let settings = Arc::new(Mutex::new(NotifierSettings::from_settings(settings)));
        let (wake, woken) = mpsc::sync_channel(1);
        let sender = NoticeSender { context, supervisor };
        let current = Arc::clone(&settings);
        let thread = std::thread::Builder::new().name("notifications".to_owned());
        let thread = thread.spawn(move || run(&sender, &current, &woken))?;
        Ok(Notifier { settings, wake, thread })
    }

    /// Continues with other settings.
    pub(crate) fn reload(&self, settings: &Settings) {
        *lock(&self.settings) = NotifierSettings::from_settings(settings);
        // A full channel holds a wake-up already.
        let _ = self.wake.try_send(());
    }

    pub(crate) fn close(self) {
        // The thread waits on this channel.
        drop(self.wake);
        // A panic ends only the notifications.
        let _ = self.thread.join();
    }
}

fn run(sender: &NoticeSender, settings: &Mutex<NotifierSettings>, woken: &Receiver<()>) {
    let mut tracker = NoticeTracker::from_sent(sender.load_sent());
    let status = &sender.context.status;
    let mut watch: Option<BoardWatch> = None;
    let mut added_up: Option<Instant> = None;
    let mut budget_watch = BudgetWatch::new();
    let mut activity_watch = ActivityWatch::default();
    loop {
        let NotifierSettings { notifications: settings, budgets } = lock(settings).clone();
        // Watched only while notifications are on: a watch costs a probe of the processes a second.
        match settings.is_wanted() {
            true => _ = watch.get_or_insert_with(|| status.watch()),
            false => watch = None,
        }
        // While notifications are off, only a reload or the end wakes the thread.
        let woken = match settings.is_wanted() {
            true => woken.recv_timeout(LOOK_EVERY),
            false => woken.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match woken {
            // The settings may be other ones now, and a rule may want what another one did not.
            Ok(()) => {
                budget_watch = BudgetWatch::new();
                activity_watch = ActivityWatch::default();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Sent notices are only added at the end, so a new last one means that there are any.
        let last = tracker.sent().last().cloned();
        let DaemonContext { clock, zone, .. } = &sender.context;
        let due = activity_watch.look(status.board());
        let mut notices = due
            .map(|activities| tracker.apply_rules(activities, &settings, clock(), zone))
            .unwrap_or_default();
        if added_up.is_none_or(|at| at.elapsed() >= ADD_UP_EVERY) {
            added_up = Some(Instant::now());
            let uses = sender.budget_uses(&mut budget_watch, &budgets);
            notices.extend(tracker.apply_budgets(&uses, &settings, clock(), zone));
        }
        // Stored before it is sent: after a crash one notice too few is better than one sent twice.
        // Notices held back in quiet hours are stored too, and not sent later.
        if tracker.sent().last() != last.as_ref() {
            sender.store_sent(&tracker);
        }
        notices.iter().for_each(|notice| sender.send(notice, &settings));
    }
}

impl NoticeSender {
    /// The notices that were sent before. If the file cannot be read, they are sent again.
    fn load_sent(&self) -> Vec<SentNotice> {
        let path = health_dir(self.context.journal.folder()).join(SENT_FILE);
        let text = std::fs::read(path).ok();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// What is used of the budgets today; nothing without news, and where that cannot be read.
    fn budget_uses(&self, watch: &mut BudgetWatch, budgets: &Budgets) -> Vec<BudgetUse> {
        let DaemonContext { journal, clock, zone, .. } = &self.context;
        let looked = watch.look(&journal.current(), budgets, clock(), zone);
        looked.map(Option::unwrap_or_default).unwrap_or_else(|error| {
            tracing::warn!(target: part::DAEMON, "the budgets were not added up: {error}");
            Vec::new()
        })
    }

    fn store_sent(&self, tracker: &NoticeTracker) {
        if let Ok(text) = serde_json::to_vec(tracker.sent()) {
            // On a full disk the notice is sent again after a restart.
            let _ = write_atomic(&health_dir(self.context.journal.folder()), SENT_FILE, &text);
        }
    }

    fn send(&self, notice: &SessionNotice, settings: &NotificationSettings) {
        let SessionNotice { session, title, message, project } = notice;
        // The card goes out in any case; desktop and command are the user's choice. A bus that takes
        // no message is full or about to stop, and a card that is late is of no use.
        let _ = card(notice).build().map(|message| self.context.bus.publish(message));
        if settings.desktop {
            self.enqueue(desktop_command(title, message));
        }
        if let Some(command) = &settings.command {
            // Each placeholder fills one argument. No shell reads the texts, which come from
            // transcripts.
            let filled = fill_placeholders(command, |name| match name {
                "title" => json!(title),
                "message" => json!(message),
                "session" => json!(session.as_str()),
                "project" => json!(project),
                _ => Value::Null,
            });
            match filled {
                Ok(command) => self.enqueue(command),
                Err(error) => self.warn_unsent(&error.to_string()),
            }
        }
    }

    fn enqueue(&self, command: Vec<String>) {
        let task = DaemonTask { timeout: Some(PROGRAM_WITHIN), ..DaemonTask::new(command) };
        if let Err(error) = self.supervisor.enqueue(task) {
            self.warn_unsent(&error.to_string());
        }
    }

    fn warn_unsent(&self, error: &str) {
        tracing::warn!(target: part::DAEMON, "a notification was not sent: {error}");
    }
}

fn lock(settings: &Mutex<NotifierSettings>) -> MutexGuard<'_, NotifierSettings> {
    settings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The message that pages show; it links to the session.
fn card(notice: &SessionNotice) -> Draft {
    Draft::new("notification", "show")
        .with("title", &notice.title)
        .with("message", &notice.message)
        .with("app", "hansard")
        .with("action", session_path(notice.session.as_str()))
        .with("rev", REV)
}

/// The path of a session's page.
fn session_path(session: &str) -> String {
    format!("/session/{}", percent_encode(session))
}

/// The command that shows a notification: over D-Bus, or with AppleScript on macOS.
fn desktop_command(title: &str, message: &str) -> Vec<String> {
    let words: &[&str] = if cfg!(target_os = "macos") {
        let script = "display notification (item 2 of argv) with title (item 1 of argv)";
        &["osascript", "-e", "on run argv", "-e", script, "-e", "end run", title, message]
    } else {
        // Behind `--` a title cannot become an option.
        &["notify-send", "--app-name=hansard", "--", title, &escape_markup(message)]
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Escapes a text: `notify-send` interprets backslashes, and desktops read the body as markup.
fn escape_markup(text: &str) -> String {
    // The backslash and the ampersand come before the marks that are written with them.
    let marks = [("\\", "\\\\"), ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")];
    marks.iter().fold(text.to_owned(), |text, (mark, written)| text.replace(mark, written))
}

#[cfg(test)]
mod tests {
    use event::SessionId;

    use super::*;

    #[test]
    fn card_links_to_its_session() {
        let notice = SessionNotice {
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
