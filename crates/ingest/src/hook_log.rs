//! Calls of hooks that were taken and are not heard yet, written down.
//!
//! Whoever brought a call was told that it is held, and keeps nothing of it: so it must outlive the
//! daemon, also one that is killed the moment after. Two pages, each a file: calls are written on
//! one while those on the other are being heard. It is never synced: what outlives every process
//! is enough, as for what hooks leave themselves.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use wire::hook::{CALL_BYTES_MAX, HookCall};

/// The pages.
const NAMES: [&str; 2] = ["calls.0", "calls.1"];

#[derive(Debug)]
pub(crate) struct HookLog {
    /// The one that is written on, and the other.
    pages: [File; 2],
    /// The other has calls that are not heard yet.
    is_owed: bool,
    /// Something was written since everything before it is being heard.
    is_fresh: bool,
}

impl HookLog {
    /// Opens the book in this folder, and gives back what was written down by a daemon that did not
    /// live to hear it. It stays in the book, as it is, until it is heard.
    pub(crate) fn open(folder: &Path) -> io::Result<(HookLog, Vec<HookCall>)> {
        let open = |name| {
            let mut options = File::options();
            options.read(true).append(true).create(true).mode(0o600).open(folder.join(name))
        };
        let pages = [open(NAMES[0])?, open(NAMES[1])?];
        let mut calls = Vec::new();
        for page in &pages {
            let (whole, bytes) = calls_on(page)?;
            calls.extend(whole);
            page.set_len(bytes)?;
        }
        // What came first is heard first, whichever page it stands on.
        calls.sort_by(|one: &HookCall, other| one.name.cmp(&other.name));
        let is_owed = pages[1].metadata()?.len() > 0;
        Ok((HookLog { pages, is_owed, is_fresh: false }, calls))
    }

    /// Writes a call down: the whole of it or nothing.
    pub(crate) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.is_fresh = true;
        let page = &mut self.pages[0];
        let bytes = page.metadata()?.len();
        page.write_all(line).inspect_err(|_| {
            // The next call would be glued to half a line; one that stays is not taken for a call.
            let _ = page.set_len(bytes);
        })
    }

    /// Everything that was written down is being heard now. Where something before it is still to
    /// be heard, it stays on its page, and what comes meanwhile is written behind the rest.
    pub(crate) fn turn(&mut self) {
        if !self.is_owed {
            self.pages.swap(0, 1);
        }
        self.is_owed = true;
        self.is_fresh = false;
    }

    /// What was being heard was heard. What cannot be crossed out is heard again, without effect.
    pub(crate) fn cross_out(&mut self) {
        let [written, other] = &self.pages;
        self.is_owed = other.set_len(0).is_err();
        if !self.is_fresh {
            let _ = written.set_len(0);
        }
    }
}

/// The calls on a page, and its bytes up to the end of the last whole line. A call that was half
/// written was not taken.
fn calls_on(page: &File) -> io::Result<(Vec<HookCall>, u64)> {
    let mut lines = BufReader::new(page);
    let mut calls = Vec::new();
    let (mut read, mut whole) = (0, 0);
    loop {
        let mut line = Vec::new();
        // With the end that every line was given.
        let bytes_max = CALL_BYTES_MAX as u64 + 1;
        let count = (&mut lines).take(bytes_max).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok((calls, whole));
        }
        read += count as u64;
        if line.ends_with(b"\n") {
            whole = read;
            calls.extend(HookCall::parse(&line));
        }
    }
}
