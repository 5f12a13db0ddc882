//! The log of messages that were taken and are not ingested yet, on disk.
//!
//! The hook was told that the daemon holds its message, and keeps no copy. So the message must
//! survive the daemon, also one that is killed the moment after. There are two files: new messages
//! are appended to one while those in the other are ingested. Neither is synced: to survive every
//! process is enough, as for the files that hooks write themselves.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use event::HookMessage;

const FILE_NAMES: [&str; 2] = ["calls.0", "calls.1"];

#[derive(Debug)]
pub(crate) struct HookLog {
    /// The file that is appended to, and the one with the messages that are being ingested.
    files: [File; 2],
    /// The second file has messages that are not ingested yet.
    is_ingesting: bool,
    /// A message was appended since the last rotation.
    has_new: bool,
}

impl HookLog {
    /// Opens the log in this folder, and returns the messages that an earlier daemon took and did
    /// not ingest. They stay in the log until they are ingested.
    pub(crate) fn open(folder: &Path) -> io::Result<(HookLog, Vec<HookMessage>)> {
        let open = |name| {
            let mut options = File::options();
            options.read(true).append(true).create(true).mode(0o600).open(folder.join(name))
        };
        let files = [open(FILE_NAMES[0])?, open(FILE_NAMES[1])?];
        let mut messages = Vec::new();
        for file in &files {
            // Both may have messages: the daemon may have ended between a rotation and its end.
            let (complete, bytes) = read_messages(file)?;
            messages.extend(complete);
            // Cut off half a line, so that the next message is not glued to it.
            file.set_len(bytes)?;
        }
        // Which file is the older one is not known any more; names sort by time.
        messages.sort_by(|one: &HookMessage, other| one.name.cmp(&other.name));
        let is_ingesting = files[1].metadata()?.len() > 0;
        Ok((HookLog { files, is_ingesting, has_new: false }, messages))
    }

    /// Appends an encoded message: the whole line or nothing.
    pub(crate) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.has_new = true;
        let file = &mut self.files[0];
        // The length to cut back to if the write fails.
        let bytes = file.metadata()?.len();
        file.write_all(line).inspect_err(|_| {
            // Remove half a line. If that fails, the glued line is not parsed as a message.
            let _ = file.set_len(bytes);
        })
    }

    /// Starts to ingest all messages in the log. Later ones are appended to the other file.
    ///
    /// If the second file still has messages, the files stay as they are: both are cleared together
    /// once everything in them is ingested.
    pub(crate) fn rotate(&mut self) {
        if !self.is_ingesting {
            self.files.swap(0, 1);
        }
        self.is_ingesting = true;
        self.has_new = false;
    }

    /// Clears what was ingested. A file that cannot be cleared is ingested again, without effect.
    pub(crate) fn clear_ingested(&mut self) {
        let [appended, ingested] = &self.files;
        // If it cannot be cleared, the next rotation leaves both files as they are.
        self.is_ingesting = ingested.set_len(0).is_err();
        // New messages since the rotation wait in this file.
        if !self.has_new {
            let _ = appended.set_len(0);
        }
    }
}

/// The messages in a file, and its bytes up to the end of the last complete line. An incomplete
/// line was never acknowledged, so the hook has kept its message.
fn read_messages(file: &File) -> io::Result<(Vec<HookMessage>, u64)> {
    let mut lines = BufReader::new(file);
    let mut messages = Vec::new();
    let (mut read, mut complete) = (0, 0);
    loop {
        let mut line = Vec::new();
        // The listener adds a line end to the longest message that it accepts.
        let bytes_max = HookMessage::BYTES_MAX as u64 + 1;
        let count = (&mut lines).take(bytes_max).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok((messages, complete));
        }
        read += count as u64;
        if line.ends_with(b"\n") {
            complete = read;
            messages.extend(HookMessage::parse(&line));
        }
    }
}
