//! The spool: calls of hooks that nobody took, each a file in `spool/` of the journal's folder.
//!
//! Only what stands in no record of an agent is kept here. What comes of a call is known by the
//! call's name, so that one that is handled again after a crash has no second effect.

use std::fs;
use std::io;
use std::path::Path;

use capture::{CaptureError, Heeded};
use event::Time;
use wire::hook::{CALL_BYTES_MAX, HookCall};

use crate::tray::{KEPT_MILLIS, Lasting, Refused, Round, Tray, is_older};

/// Calls handled in one round. When there are more, the rest waits for the next one.
const ROUND_MAX: usize = 1_000;

/// Calls that wait at most, and their bytes. With more the newest is not kept.
const CALLS_MAX: usize = 10_000;
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The folder of calls that wait.
#[derive(Debug)]
pub struct Spool {
    tray: Tray,
}

impl Spool {
    /// The spool of the journal in this folder.
    pub fn of(journal: &Path) -> Spool {
        Spool { tray: Tray::new(journal.join("spool")) }
    }

    pub fn folder(&self) -> &Path {
        self.tray.folder()
    }

    /// Leaves a call; `false` if so many wait that there is no room for it.
    pub fn leave(&self, call: &HookCall) -> io::Result<bool> {
        let line = call.encode();
        let (calls, bytes) = self.size();
        if calls >= CALLS_MAX || bytes + line.len() as u64 > BYTES_MAX {
            return Ok(false);
        }
        // What a power cut takes of it is a question that went with the machine.
        let name = format!("{}-{}.json", call.name, line.len());
        self.tray.leave(&name, &line, Lasting::Unsynced)?;
        Ok(true)
    }

    /// Handles what waits, in the order it came. A call stays until `hear` is done with it.
    pub fn handle(
        &mut self,
        now: Time,
        hear: &mut dyn FnMut(&HookCall) -> Result<Heeded, CaptureError>,
    ) -> Result<Round, CaptureError> {
        let mut round = Round::default();
        let names = self.tray.names(now, |_, name| Some(name));
        for name in names.into_iter().take(ROUND_MAX) {
            let parse = |text: &[u8]| {
                let call = HookCall::parse(text).ok_or(Refused("it is no call of a hook"))?;
                let at = call.at;
                Ok((call, at))
            };
            let call = match self.tray.read(&name, CALL_BYTES_MAX as u64, now, parse) {
                Ok(Some((_, at))) if is_older(at, now, KEPT_MILLIS) => {
                    round.orphaned += 1;
                    self.tray.remove(&name);
                    continue;
                }
                Ok(Some((call, _))) => call,
                Ok(None) => continue,
                Err(Refused(why)) => {
                    self.tray.refuse(name, why, now, &mut round);
                    continue;
                }
            };
            match hear(&call)? {
                Heeded::Done => {
                    round.handled += 1;
                    self.tray.remove(&name);
                }
                Heeded::Unknown | Heeded::Waits => self.tray.put_off(&name, now),
            }
        }
        Ok(round)
    }

    /// How many calls wait, and their bytes, which stand in their names.
    fn size(&self) -> (usize, u64) {
        let Ok(entries) = fs::read_dir(self.folder()) else { return (0, 0) };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let sizes = names.filter_map(|name| {
            let (_, size) = name.strip_suffix(".json")?.rsplit_once('-')?;
            size.parse::<u64>().ok()
        });
        sizes.fold((0, 0), |(calls, bytes), size| (calls + 1, bytes + size))
    }
}
