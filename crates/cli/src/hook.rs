//! `hansard hook AGENT EVENT`: takes what an agent tells its hooks.
//!
//! An agent waits for this program, so it does little and never fails: it reads one JSON object,
//! hands what it says to the daemon, or leaves it on disk if there is none, prints nothing and
//! exits with 0, whatever happens. It opens no journal and parses no options but these. What the
//! daemon takes touches no file: that such a call came is noted there.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use capture::{Payload, hooked};
use daemon::{HookLog, Signals, Spool, hook_call, signal_of};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use wire::hook::{HookCall, hand_over, socket};

use crate::world;

/// Bytes of a payload that are looked at. The rest of a longer one is read and forgotten, so that
/// whoever writes it is not cut off.
const PAYLOAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long an agent may be silent before it is taken to have said everything.
const SILENCE: Duration = Duration::from_secs(1);

/// How long the daemon may take to hold a call. One that is stuck is as good as none.
const TAKEN_WITHIN: Duration = Duration::from_millis(50);

/// How long the whole of it may take, whatever hangs: a disk, or an agent that goes on talking.
/// Agents give a call 5 s and tell people of one that took longer.
const OVER_WITHIN: Duration = Duration::from_secs(3);

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
    /// It could not be understood.
    Lost(&'static str),
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
        let until = Instant::now() + OVER_WITHIN;
        let Ok(folder) = world::folder_of(self.journal.as_deref()) else {
            return ExitCode::SUCCESS;
        };
        let told = panic::catch_unwind(AssertUnwindSafe(|| self.tell(&folder, until)));
        let told = told.unwrap_or(Told::Lost("it panicked"));
        if !matches!(told, Told::Taken) {
            // A disk may hang: what still does then ends with this program.
            let (done, is_done) = mpsc::sync_channel(1);
            let _ = thread::Builder::new().spawn(move || {
                let _ = panic::catch_unwind(AssertUnwindSafe(|| self.note(&folder, told)));
                let _ = done.send(());
            });
            let _ = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
        ExitCode::SUCCESS
    }

    fn tell(&self, folder: &Path, until: Instant) -> Told {
        let text = match &self.payload {
            Some(payload) => payload.clone(),
            None => {
                let bytes = said(PAYLOAD_BYTES_MAX, until);
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        let Ok(payload) = Payload::parse(&text) else {
            return Told::Lost("what it was given is no JSON object");
        };
        let Some((agent, event)) = self.meant(&payload) else { return Told::Nothing };
        let Some(hooked) = hooked(agent, &event, &payload) else { return Told::Nothing };
        let is_untold = hooked.is_untold;
        let call = hook_call(hooked, &event, world::now(), world::dice());
        match hand_over(&socket(folder), &call, TAKEN_WITHIN) {
            true => Told::Taken,
            false => Told::Untaken(Box::new(call), is_untold),
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
            Told::Taken | Told::Nothing => Ok(()),
            Told::Lost(why) => Err(why),
        };
        let log = HookLog::of(folder);
        match left {
            Ok(()) => log.called(&self.agent, world::now()),
            Err(why) => log.failed(&self.agent, &self.event, why, world::now()),
        }
    }

    /// Whose hook it really is, and the event in its words; `None` if another of ours tells it.
    ///
    /// Cursor runs the hooks of Claude Code, too, and says so in the payload.
    fn meant(&self, payload: &Payload) -> Option<(&str, String)> {
        let is_cursor = self.agent == "claude"
            && (payload.text(&["cursor_version"]).is_some()
                || std::env::var_os("CURSOR_VERSION").is_some());
        if !is_cursor {
            return Some((&self.agent, self.event.clone()));
        }
        let own = world::home().ok()?.join(".cursor/hooks.json");
        let has_own = std::fs::read_to_string(own).is_ok_and(|text| text.contains(" hook cursor "));
        (!has_own).then(|| ("cursor", in_cursors_words(&self.event)))
    }
}

/// Leaves a call on disk, as far as there is something that nobody else tells.
fn leave(folder: &Path, call: &HookCall, is_untold: bool) -> Result<(), &'static str> {
    let signaled = signal_of(call)
        .map_or(Ok(()), |signal| Signals::of(folder).leave(&signal, world::now(), world::dice()));
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

/// Everything that is said on stdin, to its end or to a long silence; the beginning of it.
fn said(bytes_max: usize, until: Instant) -> Vec<u8> {
    let stdin = io::stdin();
    let mut said = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let mut heard_at = Instant::now();
    while heard_at.elapsed() < SILENCE && Instant::now() < until {
        let pause = Timespec { tv_sec: SILENCE.as_secs() as i64, tv_nsec: 0 };
        let mut ready = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        // A read that nobody said is ready might wait for ever.
        match rustix::event::poll(&mut ready, Some(&pause)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => break,
        }
        match stdin.lock().read(&mut piece) {
            Ok(0) => break,
            Ok(count) => {
                let room = bytes_max.saturating_sub(said.len());
                said.extend_from_slice(&piece[..count.min(room)]);
                heard_at = Instant::now();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    said
}
