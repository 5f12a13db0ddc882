//! The spool: messages of hooks that no daemon took, each a file in `spool/` of the journal's
//! folder.
//!
//! A message is in the spool for its facts, where the agent's transcript lacks them. Its signal
//! waits there with it. Ids of events derive from the name of the message, so a file that is
//! handled again after a crash has no second effect.
//!
//! A hook must know whether the spool has room, and has no time to look at thousands of files. So
//! the length of one more file, `.taken`, is the room that is taken. Hooks append to it; the pass
//! that handles the files corrects it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use event::{HookMessage, Time};

use crate::spool_dir::{
    RETENTION_MILLIS, Rejection, SpoolDir, SpoolSummary, is_older, time_in_name,
};

/// The most messages that wait, and the most bytes. A message beyond that is dropped and counted.
const MESSAGES_MAX: u64 = 10_000;
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The length of this file is the room that is taken.
const TAKEN: &str = ".taken";

/// The folder of waiting messages.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) dir: SpoolDir,
}

impl Spool {
    /// The spool of the journal in this folder.
    pub(crate) fn in_journal(journal: &Path) -> Spool {
        Spool { dir: SpoolDir::new(journal.join("spool")) }
    }

    /// Adds a message; `false` if the spool is full.
    pub(crate) fn add(&self, message: &HookMessage) -> io::Result<bool> {
        let line = message.encode();
        let room = room_for(line.len() as u64);
        let mut taken = self.open_taken()?;
        // Not locked: two hooks at once may pass the limit by a message each, which does no harm.
        if taken.metadata()?.len() + room > MESSAGES_MAX {
            return Ok(false);
        }
        // The room is taken first. A hook that is killed in between leaves room taken for nothing
        // until the next pass; the other order could let the spool grow beyond its limit.
        taken.write_all(&vec![b'.'; usize::try_from(room).unwrap_or_default()])?;
        // The size stands in the name, so that a pass can sum up sizes without reading files.
        self.dir.write(&format!("{}-{}.json", message.name, line.len()), &line)?;
        Ok(true)
    }

    /// The oldest files that are due, with the times of their calls, and how many are due in all.
    pub(crate) fn due_files(
        &mut self,
        files_max: usize,
        now: Time,
    ) -> (Vec<(Time, String)>, usize) {
        let names = self.dir.due_names(now, |_, name| Some(name));
        let count = names.len();
        let names = names.into_iter().take(files_max);
        // A name without a time comes first, where it is found out not to be ours.
        let timed = names.map(|name| (time_in_name(&name).unwrap_or(Time::from_nanos(0)), name));
        (timed.collect(), count)
    }

    /// The message in a file; `None` if it cannot be read now, or is dropped.
    pub(crate) fn read(
        &mut self,
        name: &str,
        now: Time,
        summary: &mut SpoolSummary,
    ) -> Option<HookMessage> {
        let parse =
            |text: &[u8]| HookMessage::parse(text).ok_or(Rejection("it is no call of a hook"));
        let bytes_max = HookMessage::BYTES_MAX as u64;
        let message = self.dir.read(name, bytes_max, now, summary, parse)?;
        if is_older(message.at, now, RETENTION_MILLIS) {
            self.dir.remove_orphan(name, summary);
            return None;
        }
        Some(message)
    }

    /// Corrects what hooks believe about the room, after files were handled.
    pub(crate) fn correct_room(&self) {
        // Also without files: a hook that was killed, or found the disk full, took room for none.
        if self.has_taken() {
            // If this fails, hooks find the spool full too early until the next pass.
            let _ = self.open_taken().and_then(|taken| taken.set_len(self.room_taken()));
        }
    }

    /// Opens `.taken` to append to it. A missing one is made as long as the files require.
    fn open_taken(&self) -> io::Result<File> {
        let path = self.dir.path().join(TAKEN);
        let mut options = File::options();
        options.append(true).mode(0o600);
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.dir.create()?;
                let file = options.create(true).open(&path)?;
                // A user may have removed the file; the messages still take their room.
                file.set_len(self.room_taken())?;
                Ok(file)
            }
            opened => opened,
        }
    }

    fn has_taken(&self) -> bool {
        fs::metadata(self.dir.path().join(TAKEN)).is_ok_and(|taken| taken.len() > 0)
    }

    /// The room that the waiting files take, by the sizes in their names.
    fn room_taken(&self) -> u64 {
        let Ok(entries) = fs::read_dir(self.dir.path()) else { return 0 };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        // Temporary files begin with a dot and end in `.tmp`, so they do not count.
        let sizes = names.filter_map(|name| {
            let (_, size) = name.strip_suffix(".json")?.rsplit_once('-')?;
            size.parse().ok()
        });
        sizes.map(room_for).sum()
    }
}

/// The room that a message takes of `MESSAGES_MAX`: its share of `BYTES_MAX`, at least one place.
/// So one number bounds both the files and their bytes.
fn room_for(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_MAX / MESSAGES_MAX).max(1)
}
