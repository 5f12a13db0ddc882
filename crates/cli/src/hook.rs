//! `hansard hook AGENT EVENT`: takes the hook calls of agents.
//!
//! The agent waits for this program, so it does little and never fails. It reads one JSON object,
//! prints what a rule of the user answers to it, and hands it to the daemon, or leaves it on disk if
//! none runs. Without a rule it prints nothing. It exits with 0, opens no journal, and parses no
//! other options. A call that the daemon takes writes no file here.
//!
//! `docs/decisions/hook-fast-path.md` has the reasons.

mod gate; // what the rules of the user say about a tool call

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use capture::{Payload, has_hook_only_facts, read_hook};
use event::HookMessage;
use event::json::Nesting;
use hooks::{HookReport, Undelivered};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use wire::hook::{hook_socket, send_message};

use self::gate::Gate;
use crate::output::answer_agent;
use crate::world;

/// Bytes of a payload that are parsed. The rest of a longer one is read and dropped, so that the
/// agent's write does not fail.
const PAYLOAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long an agent may pause inside its payload, and how long the payload may take in all. In
/// this time we wait for the agent; it waits for us only when it has sent everything.
const PAUSE_MAX: Duration = Duration::from_millis(500);
const PAYLOAD_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the daemon may take to accept a call, the look at the calling process included. A stuck
/// daemon counts as none.
const DAEMON_TIMEOUT: Duration = Duration::from_millis(50);

/// How long that look may take of it. The kernel lets a reader wait while it changes the memory of
/// the process that is read; the call is then sent without its process.
const ANCESTORS_TIMEOUT: Duration = Duration::from_millis(20);

/// How long the agent waits for us at most if a disk hangs. A stuck daemon costs a tenth of it. The
/// writes after that are few and not synced, so only a hanging disk takes longer, and a call on a
/// busy machine is not lost.
const TOTAL_TIMEOUT: Duration = Duration::from_millis(500);

/// The payload of `hansard hooks test`. It is not recorded.
pub(crate) const TRIAL: &str = r#"{"hansard":"trial"}"#;

/// One hook call.
pub(crate) struct HookInvocation {
    agent: String,
    event: String,
    journal: Option<PathBuf>,
    /// The payload, if it does not come through stdin.
    payload: Option<String>,
}

/// What is left to do with a call.
enum HookResult {
    /// Nothing: the daemon has it.
    Accepted,
    /// No daemon took it.
    NotAccepted(Box<HookMessage>),
    /// It says nothing of interest.
    Irrelevant,
    /// It is a trial.
    Trial,
    /// It may be Cursor's. Its settings on disk decide.
    MaybeCursor(Payload),
    /// It could not be parsed.
    Failed(&'static str),
}

impl HookResult {
    /// Returns whether nothing is left to do or to record.
    fn is_done(&self) -> bool {
        matches!(self, HookResult::Accepted | HookResult::Trial)
    }
}

impl HookInvocation {
    /// Parses the arguments of a hook call; `None` if they are another command, or ask for help.
    pub(crate) fn from_arguments(
        arguments: impl Iterator<Item = OsString>,
    ) -> Option<HookInvocation> {
        // Lossy: an argument that is no UTF-8 must not end the call.
        let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
        let mut journal = std::env::var_os("HANSARD_JOURNAL").map(PathBuf::from);
        loop {
            // Only the options that our own entries in the settings use. Any other word is another
            // command.
            match arguments.next()?.as_str() {
                "hook" => break,
                "--journal" => journal = Some(PathBuf::from(arguments.next()?)),
                word => journal = Some(PathBuf::from(word.strip_prefix("--journal=")?)),
            }
        }
        let rest: Vec<String> = arguments.collect();
        // Only where agent and event stand: a payload may hold any word.
        if rest.iter().take(2).any(|word| word == "--help" || word == "-h") {
            return None;
        }
        let mut rest = rest.into_iter();
        let agent = rest.next().unwrap_or_default();
        let event = rest.next().unwrap_or_default();
        // Codex's older `notify` hands the payload over as the last argument.
        let payload = rest.next_back().filter(|last| last.trim_start().starts_with('{'));
        Some(HookInvocation { agent, event, journal, payload })
    }

    /// Handles the call. No failure may reach the agent.
    pub(crate) fn handle(self) -> ExitCode {
        // A panic must not print: agents read what a hook prints.
        panic::set_hook(Box::new(|_| {}));
        // Without a folder nothing can be stored, and the agent must not learn of it.
        let Ok(folder) = world::folder_of(self.journal.as_deref()) else {
            return ExitCode::SUCCESS;
        };
        let result = catch_panic(|| self.read_and_send(&folder));
        if result.is_done() {
            return ExitCode::SUCCESS;
        }
        // From here on the disk is used and may hang. The thread then ends with the process.
        // Room for the one message, so that the thread never waits for this one.
        let (done, is_done) = mpsc::sync_channel(1);
        let _ = thread::Builder::new().spawn(move || {
            let result = catch_panic(|| self.resolve_cursor(&folder, result));
            if !result.is_done() {
                let _ =
                    panic::catch_unwind(AssertUnwindSafe(|| self.record_result(&folder, result)));
            }
            // If the time is up, the receiver is gone.
            let _ = done.send(());
        });
        // Returning ends the process, and with it a thread that hangs on the disk.
        let _ = is_done.recv_timeout(TOTAL_TIMEOUT);
        ExitCode::SUCCESS
    }

    /// Reads the payload and hands it to the daemon.
    fn read_and_send(&self, folder: &Path) -> HookResult {
        let text = self.payload.clone().unwrap_or_else(|| {
            String::from_utf8_lossy(&read_stdin(PAYLOAD_BYTES_MAX)).into_owned()
        });
        // Compared as a whole: an agent never sends exactly this.
        if text == TRIAL {
            return HookResult::Trial;
        }
        match Payload::parse(&text) {
            Ok(payload) if self.is_from_cursor(&payload) => HookResult::MaybeCursor(payload),
            Ok(payload) => send_call(&self.agent, &self.event, folder, &payload),
            Err(_) => HookResult::Failed("the payload is not a JSON object"),
        }
    }

    /// Returns whether Cursor runs this hook: it also runs the hooks of Claude Code, and says so.
    fn is_from_cursor(&self, payload: &Payload) -> bool {
        self.agent == "claude"
            && (payload.find_text(&["cursor_version"]).is_some()
                || std::env::var_os("CURSOR_VERSION").is_some())
    }

    /// Reports Cursor's call in Cursor's words, unless Cursor has a hook of its own for it.
    fn resolve_cursor(&self, folder: &Path, result: HookResult) -> HookResult {
        let HookResult::MaybeCursor(payload) = result else { return result };
        let Ok(home) = world::home_folder() else { return HookResult::Irrelevant };
        // A text search is enough: an entry of ours there runs `hansard hook cursor EVENT`.
        let own = std::fs::read_to_string(home.join(".cursor/hooks.json"));
        match own.is_ok_and(|text| text.contains(" hook cursor ")) {
            true => HookResult::Irrelevant,
            false => send_call("cursor", &cursor_event_name(&self.event), folder, &payload),
        }
    }

    /// Leaves on disk what the daemon has to know later.
    fn record_result(&self, folder: &Path, result: HookResult) {
        // Without a journal no daemon will ever read it.
        if !folder.is_dir() {
            return;
        }
        let stored = match result {
            HookResult::NotAccepted(message) => store_message(folder, *message),
            // These leave nothing on disk, but the call itself is noted.
            HookResult::Accepted
            | HookResult::Trial
            | HookResult::Irrelevant
            | HookResult::MaybeCursor(_) => Ok(()),
            HookResult::Failed(problem) => Err(problem.to_owned()),
        };
        let report = HookReport::in_journal(folder);
        match stored {
            Ok(()) => report.note_call(&self.agent, world::now()),
            Err(problem) => report.note_failure(&self.agent, &self.event, &problem, world::now()),
        }
    }
}

/// Runs a step and turns a panic into a result.
fn catch_panic(step: impl FnOnce() -> HookResult) -> HookResult {
    // Unwind safe: what a panic leaves half done is dropped with the process.
    panic::catch_unwind(AssertUnwindSafe(step)).unwrap_or(HookResult::Failed("the hook panicked"))
}

/// Answers a call, and sends its message to the daemon.
fn send_call(agent: &str, event: &str, folder: &Path, payload: &Payload) -> HookResult {
    let now = world::now();
    let gate = Gate::judge(agent, event, payload, folder, now);
    // Before anything that may take longer: the agent reads it when this process ends.
    if let Some(line) = gate.line {
        answer_agent(&line);
    }
    // The name makes the call unique: ids of events derive from it, also when it is delivered
    // twice.
    let name = HookMessage::name_for(now, world::random_bytes());
    let Some(mut message) = read_hook(agent, event, payload, name, now) else {
        return HookResult::Irrelevant;
    };
    message.facts.extend(gate.facts);
    let socket = hook_socket(folder);
    // A daemon removes its socket when it ends. What is stored instead may not name the process.
    if !socket.exists() {
        return HookResult::NotAccepted(Box::new(message));
    }
    let begun = Instant::now();
    let message = name_process(message);
    let left = DAEMON_TIMEOUT.saturating_sub(begun.elapsed());
    match send_message(&socket, &message, left) {
        true => HookResult::Accepted,
        false => HookResult::NotAccepted(Box::new(message)),
    }
}

/// An error with its causes, in one line.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// Adds the process that called. Only this program can tell: once it ends, its ancestors are
/// forgotten.
fn name_process(message: HookMessage) -> HookMessage {
    let program = message.provider.clone();
    let process = read_within(ANCESTORS_TIMEOUT, move || host::calling_agent(&program));
    HookMessage { process, ..message }
}

/// Makes a read on a thread of its own, which ends with the process if the read hangs; `None` if
/// it takes too long.
fn read_within<T: Send + 'static>(
    limit: Duration,
    read: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    // Room for the one result, so that the thread never waits.
    let (send, result) = mpsc::sync_channel(1);
    thread::Builder::new().spawn(move || send.send(read())).ok()?;
    result.recv_timeout(limit).ok()?
}

/// Stores a message in one place: in the spool if it has facts that no transcript has, otherwise as
/// a signal if it announces something. All else stands in the transcript, which is read anyway.
fn store_message(folder: &Path, message: HookMessage) -> Result<(), String> {
    let undelivered = Undelivered::in_journal(folder);
    let stored = match has_hook_only_facts(&message) {
        true if message.process.is_none() => undelivered.store_message(&name_process(message)),
        true => undelivered.store_message(&message),
        // A signal names no process.
        false => undelivered.store_signal(&message),
    };
    stored.map_err(|error| error.to_string())
}

/// Translates an event name of Claude Code to Cursor's.
fn cursor_event_name(event: &str) -> String {
    match event {
        // The one name that is not the same but for its first letter.
        "UserPromptSubmit" => "beforeSubmitPrompt".to_owned(),
        event => {
            let mut letters = event.chars();
            let first = letters.next().map(|letter| letter.to_ascii_lowercase());
            first.into_iter().chain(letters).collect()
        }
    }
}

/// Reads stdin up to the end of an object, the end of input, or a long pause; returns the beginning
/// of it. An agent may leave its pipe open, so a complete object ends the wait.
fn read_stdin(bytes_max: usize) -> Vec<u8> {
    let stdin = io::stdin();
    let mut said = Vec::new();
    let mut nesting = Nesting::default();
    // The usual size of a pipe on Linux: one read takes all that the agent could write.
    let mut piece = vec![0; 64 * 1024];
    let started = Instant::now();
    let mut last_read = started;
    while last_read.elapsed() < PAUSE_MAX && started.elapsed() < PAYLOAD_TIMEOUT {
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(PAUSE_MAX.subsec_nanos()) };
        let mut ready = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        // A blocking read could wait forever, so poll first.
        match rustix::event::poll(&mut ready, Some(&pause)) {
            // Interrupted or late; the condition of the loop ends the wait.
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => break,
        }
        match rustix::io::read(&stdin, &mut piece) {
            // The agent closed its end.
            Ok(0) => break,
            Ok(count) => {
                // What is too long is read and dropped: a closed pipe would be an error in the
                // agent.
                let room = bytes_max.saturating_sub(said.len());
                said.extend_from_slice(&piece[..count.min(room)]);
                if piece[..count].iter().any(|byte| nesting.take_byte(*byte)) {
                    break;
                }
                last_read = Instant::now();
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_that_hangs_is_given_up() {
        let (hold, held) = mpsc::sync_channel::<()>(0);
        let hanging = move || held.recv().ok();
        assert_eq!(read_within(Duration::from_millis(1), hanging), None);
        drop(hold);
        assert_eq!(read_within(Duration::from_secs(60), || Some(7)), Some(7));
    }
}
