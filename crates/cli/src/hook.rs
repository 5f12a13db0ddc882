//! `hansard hook AGENT EVENT`: takes what an agent tells its hooks.
//!
//! An agent waits for this program, so it does little and never fails: it reads one JSON object,
//! hands what it says to the daemon, or leaves it on disk if there is none, prints nothing and
//! exits with 0, whatever happens. It opens no journal and parses no options but these. What the
//! daemon takes touches no file: that such a call came is noted there.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use capture::{Payload, hooked};
use hooks::{HookLog, Signals, Spool};
use ingest::{hook_call, signal_of};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use wire::hook::{HookCall, hand_over, socket};

use crate::world;

/// Bytes of a payload that are looked at. The rest of a longer one is read and forgotten, so that
/// whoever writes it is not cut off.
const PAYLOAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long an agent may be silent in the middle of what it says, and how long it may go on. That
/// is time in which we wait for the agent; it waits for us when it has said everything.
const SILENCE: Duration = Duration::from_millis(500);
const SAID_WITHIN: Duration = Duration::from_secs(3);

/// How long the daemon may take to hold a call. One that is stuck is as good as none.
const TAKEN_WITHIN: Duration = Duration::from_millis(50);

/// How long an agent waits for us at most, whatever hangs: a disk, or the folder of its settings.
/// A daemon that is stuck costs a tenth of it; what else is done are a few writes that no disk is
/// asked to sync, so that only one that hangs takes longer, and a busy machine loses nothing.
const OVER_WITHIN: Duration = Duration::from_millis(500);

/// What somebody says who only tries whether a hook can be called. It is noted nowhere.
pub(crate) const TRIAL: &str = r#"{"hansard":"trial"}"#;

/// One call, as an agent writes it.
pub(crate) struct Call {
    agent: String,
    event: String,
    journal: Option<PathBuf>,
    /// The payload, where it does not come through stdin.
    payload: Option<String>,
}

/// What is to be done with a call.
enum Told {
    /// Nothing: the daemon holds it.
    Taken,
    /// Nobody took it; whether it tells something that nobody else tells.
    Untaken(Box<HookCall>, bool),
    /// It says nothing.
    Nothing,
    /// Nobody called: it is tried out.
    Trial,
    /// It may be Cursor's: that is asked of its settings, on a disk.
    Cursors(Payload),
    /// It could not be understood.
    Lost(&'static str),
}

impl Told {
    /// Whether there is nothing left to do, and nothing to note.
    fn is_done(&self) -> bool {
        matches!(self, Told::Taken | Told::Trial)
    }
}

impl Call {
    /// The call in these arguments; `None` if they are something else, or ask for help.
    pub(crate) fn in_arguments(arguments: impl Iterator<Item = OsString>) -> Option<Call> {
        let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
        let mut journal = std::env::var_os("HANSARD_JOURNAL").map(PathBuf::from);
        loop {
            match arguments.next()?.as_str() {
                "hook" => break,
                "--journal" => journal = Some(PathBuf::from(arguments.next()?)),
                word => journal = Some(PathBuf::from(word.strip_prefix("--journal=")?)),
            }
        }
        let rest: Vec<String> = arguments.collect();
        if rest.iter().take(2).any(|word| word == "--help" || word == "-h") {
            return None;
        }
        let mut rest = rest.into_iter();
        let agent = rest.next().unwrap_or_default();
        let event = rest.next().unwrap_or_default();
        let payload = rest.next_back().filter(|last| last.trim_start().starts_with('{'));
        Some(Call { agent, event, journal, payload })
    }

    /// Takes the call. Nothing that goes wrong is the agent's concern.
    pub(crate) fn answer(self) -> ExitCode {
        panic::set_hook(Box::new(|_| {}));
        let Ok(folder) = world::folder_of(self.journal.as_deref()) else {
            return ExitCode::SUCCESS;
        };
        let told = caught(|| self.told(&folder));
        if told.is_done() {
            return ExitCode::SUCCESS;
        }
        // What is done now touches a disk, and may hang. Then it ends with this program.
        let (done, is_done) = mpsc::sync_channel(1);
        let _ = thread::Builder::new().spawn(move || {
            let told = caught(|| self.asked(&folder, told));
            if !told.is_done() {
                let _ = panic::catch_unwind(AssertUnwindSafe(|| self.note(&folder, told)));
            }
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(OVER_WITHIN);
        ExitCode::SUCCESS
    }

    /// Hears what the agent says, and tells the daemon.
    fn told(&self, folder: &Path) -> Told {
        let text = self
            .payload
            .clone()
            .unwrap_or_else(|| String::from_utf8_lossy(&said(PAYLOAD_BYTES_MAX)).into_owned());
        if text == TRIAL {
            return Told::Trial;
        }
        match Payload::parse(&text) {
            Ok(payload) if self.is_cursors(&payload) => Told::Cursors(payload),
            Ok(payload) => tell(&self.agent, &self.event, folder, &payload),
            Err(_) => Told::Lost("what it was given is no JSON object"),
        }
    }

    /// Cursor runs the hooks of Claude Code, too, and says so in the payload.
    fn is_cursors(&self, payload: &Payload) -> bool {
        self.agent == "claude"
            && (payload.text(&["cursor_version"]).is_some()
                || std::env::var_os("CURSOR_VERSION").is_some())
    }

    /// What Cursor says is told in its words, unless a hook of its own tells it.
    fn asked(&self, folder: &Path, told: Told) -> Told {
        let Told::Cursors(payload) = told else { return told };
        let Ok(home) = world::home() else { return Told::Nothing };
        let own = std::fs::read_to_string(home.join(".cursor/hooks.json"));
        match own.is_ok_and(|text| text.contains(" hook cursor ")) {
            true => Told::Nothing,
            false => tell("cursor", &in_cursors_words(&self.event), folder, &payload),
        }
    }

    /// Leaves on disk what the daemon has to know of the call later.
    fn note(&self, folder: &Path, told: Told) {
        // Without a journal there is nobody to tell, now or later.
        if !folder.is_dir() {
            return;
        }
        let left = match told {
            Told::Untaken(call, is_untold) => leave(folder, &call, is_untold),
            Told::Taken | Told::Trial | Told::Nothing | Told::Cursors(_) => Ok(()),
            Told::Lost(why) => Err(why),
        };
        let log = HookLog::of(folder);
        match left {
            Ok(()) => log.called(&self.agent, world::now()),
            Err(why) => log.failed(&self.agent, &self.event, why, world::now()),
        }
    }
}

/// What came of it, also of one that panics.
fn caught(tell: impl FnOnce() -> Told) -> Told {
    panic::catch_unwind(AssertUnwindSafe(tell)).unwrap_or(Told::Lost("it panicked"))
}

/// Tells the daemon.
fn tell(agent: &str, event: &str, folder: &Path, payload: &Payload) -> Told {
    let Some(hooked) = hooked(agent, event, payload) else { return Told::Nothing };
    let is_untold = hooked.is_untold;
    let call = hook_call(hooked, event, world::now(), world::dice());
    match hand_over(&socket(folder), &call, TAKEN_WITHIN) {
        true => Told::Taken,
        false => Told::Untaken(Box::new(call), is_untold),
    }
}

/// Leaves a call on disk, as far as there is something that nobody else tells.
fn leave(folder: &Path, call: &HookCall, is_untold: bool) -> Result<(), &'static str> {
    let signaled =
        signal_of(call).map_or(Ok(()), |signal| Signals::of(folder).leave_as(&call.name, &signal));
    if is_untold {
        match Spool::of(folder).leave(call) {
            Ok(true) => {}
            Ok(false) => return Err("the spool is full"),
            Err(_) => return Err("the spool could not be written to"),
        }
    }
    signaled.map_err(|_| "no signal could be left")
}

/// What Cursor calls an event of Claude Code.
fn in_cursors_words(event: &str) -> String {
    match event {
        "UserPromptSubmit" => "beforeSubmitPrompt".to_owned(),
        event => {
            let mut letters = event.chars();
            let first = letters.next().map(|letter| letter.to_ascii_lowercase());
            first.into_iter().chain(letters).collect()
        }
    }
}

/// What is said on stdin, to the end of an object, to the end of all or to a long silence; the
/// beginning of it. An agent may leave its end open: whoever has heard an object waits for no more.
fn said(bytes_max: usize) -> Vec<u8> {
    let stdin = io::stdin();
    let mut said = Vec::new();
    let mut object = Object::default();
    let mut piece = vec![0; 64 * 1024];
    let begun = Instant::now();
    let mut heard_at = begun;
    while heard_at.elapsed() < SILENCE && begun.elapsed() < SAID_WITHIN {
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(SILENCE.subsec_nanos()) };
        let mut ready = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        // A read that nobody said is ready might wait for ever.
        match rustix::event::poll(&mut ready, Some(&pause)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => break,
        }
        match rustix::io::read(&stdin, &mut piece) {
            Ok(0) => break,
            Ok(count) => {
                let room = bytes_max.saturating_sub(said.len());
                said.extend_from_slice(&piece[..count.min(room)]);
                if object.ends_in(&piece[..count]) {
                    break;
                }
                heard_at = Instant::now();
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    said
}

/// Follows the brackets of an object as it comes in pieces.
#[derive(Default)]
struct Object {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl Object {
    /// Whether the object ends in this piece. What is none may end anywhere.
    fn ends_in(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = self.is_text,
                b'"' => self.is_text = !self.is_text,
                _ if self.is_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth <= 1 => return true,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_ends_with_its_last_bracket_however_it_is_cut() {
        let text = br#" {"a": "}\"]{", "b": [{"c": "\\"}, []], "d": {}} "#;
        let end = text.len() - 2;
        for cut in 0..text.len() {
            let mut object = Object::default();
            let (head, tail) = text.split_at(cut);
            assert_eq!(object.ends_in(head), cut > end, "{cut}");
            assert!(cut > end || object.ends_in(tail), "{cut}");
        }
        assert!(!Object::default().ends_in(&text[..end]));
    }
}
