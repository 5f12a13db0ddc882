//! The spool: calls of hooks that nobody took, each a file in `spool/` of the journal's folder.
//!
//! Only what stands in no record of an agent is kept here. What comes of a call is known by the
//! call's name, so that one that is handled again after a crash has no second effect.
//!
//! Whoever leaves a call must know whether there is room, and has no time to look at thousands of
//! files: so the length of one more file, `.taken`, says how much room is taken. Whoever handles
//! calls sets it right.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use capture::{CaptureError, SignalOutcome};
use event::Time;
use wire::hook::{CALL_BYTES_MAX, HookCall};

use crate::spool_dir::{KEPT_MILLIS, Rejection, SpoolDir, SpoolSummary, is_older};

/// Calls handled in one round. When there are more, the rest waits for the next one.
const ROUND_MAX: usize = 1_000;

/// Calls that wait at most, and their bytes. With more the newest is not kept.
const CALLS_MAX: u64 = 10_000;
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The file that is as long as room is taken.
const TAKEN: &str = ".taken";

/// The folder of calls that wait.
#[derive(Debug)]
pub struct Spool {
    spool_dir: SpoolDir,
}

impl Spool {
    /// The spool of the journal in this folder.
    pub fn of(journal: &Path) -> Spool {
        Spool { spool_dir: SpoolDir::new(journal.join("spool")) }
    }

    pub fn folder(&self) -> &Path {
        self.spool_dir.folder()
    }

    /// Makes the folder, for its owner only.
    pub fn make(&self) -> io::Result<()> {
        self.spool_dir.make()
    }

    /// Leaves a call; `false` if so many wait that there is no room for it.
    pub fn leave(&self, call: &HookCall) -> io::Result<bool> {
        let line = call.encode();
        let room = room(line.len() as u64);
        let mut taken = self.taken()?;
        if taken.metadata()?.len() + room > CALLS_MAX {
            return Ok(false);
        }
        // Before it is there: one who is killed in between takes room for nothing until somebody
        // sets it right, which is better than the other way round.
        taken.write_all(&vec![b'.'; usize::try_from(room).unwrap_or_default()])?;
        self.spool_dir.leave(&format!("{}-{}.json", call.name, line.len()), &line)?;
        Ok(true)
    }

    /// Handles what waits, in the order it came. A call stays until `ingest_hook` is done with it.
    pub fn handle(
        &mut self,
        now: Time,
        ingest_hook: &mut dyn FnMut(&HookCall) -> Result<SignalOutcome, CaptureError>,
    ) -> Result<SpoolSummary, CaptureError> {
        let mut round = SpoolSummary::default();
        let names = self.spool_dir.names(now, |_, name| Some(name));
        let has_calls = !names.is_empty();
        let handled = self.handle_each(names, now, ingest_hook, &mut round);
        // Also where no file waits: whoever was killed, or found the disk full, took room for none.
        if has_calls || self.has_taken() {
            // Where it cannot be set right now, somebody is turned away too early.
            let _ = self.taken().and_then(|taken| taken.set_len(self.room_taken()));
        }
        handled.map(|()| round)
    }

    fn handle_each(
        &mut self,
        names: Vec<String>,
        now: Time,
        ingest_hook: &mut dyn FnMut(&HookCall) -> Result<SignalOutcome, CaptureError>,
        round: &mut SpoolSummary,
    ) -> Result<(), CaptureError> {
        for name in names.into_iter().take(ROUND_MAX) {
            let parse = |text: &[u8]| {
                let call = HookCall::parse(text).ok_or(Rejection("it is no call of a hook"))?;
                let at = call.at;
                Ok((call, at))
            };
            let call = match self.spool_dir.read(&name, CALL_BYTES_MAX as u64, now, parse) {
                Ok(Some((_, at))) if is_older(at, now, KEPT_MILLIS) => {
                    round.orphaned += 1;
                    self.spool_dir.remove(&name);
                    continue;
                }
                Ok(Some((call, _))) => call,
                Ok(None) => continue,
                Err(Rejection(why)) => {
                    self.spool_dir.refuse(name, why, now, round);
                    continue;
                }
            };
            match ingest_hook(&call)? {
                SignalOutcome::Done => {
                    round.handled += 1;
                    self.spool_dir.remove(&name);
                }
                SignalOutcome::UnknownSession | SignalOutcome::Pending => {
                    self.spool_dir.put_off(&name, now)
                }
            }
        }
        Ok(())
    }

    /// The file that is as long as room is taken, opened to be made longer.
    fn taken(&self) -> io::Result<File> {
        let path = self.folder().join(TAKEN);
        let mut open = File::options();
        open.append(true).mode(0o600);
        match open.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.spool_dir.make()?;
                let file = open.create(true).open(&path)?;
                file.set_len(self.room_taken())?;
                Ok(file)
            }
            opened => opened,
        }
    }

    fn has_taken(&self) -> bool {
        fs::metadata(self.folder().join(TAKEN)).is_ok_and(|taken| taken.len() > 0)
    }

    /// How much room the calls take that wait, whose bytes stand in their names.
    fn room_taken(&self) -> u64 {
        let Ok(entries) = fs::read_dir(self.folder()) else { return 0 };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let sizes = names.filter_map(|name| {
            let (_, size) = name.strip_suffix(".json")?.rsplit_once('-')?;
            size.parse().ok()
        });
        sizes.map(room).sum()
    }
}

/// The room that a call takes, of which there is `CALLS_MAX`: one place, or as many as its bytes
/// are of `BYTES_MAX`.
fn room(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_MAX / CALLS_MAX).max(1)
}
