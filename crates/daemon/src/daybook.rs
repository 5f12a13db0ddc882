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
pub(crate) struct Daybook {
    /// The one that is written on, and the other.
    pages: [File; 2],
}

impl Daybook {
    /// Opens the book in this folder, and gives back what was written down by a daemon that did not
    /// live to hear it. It stays in the book until it is heard.
    pub(crate) fn open(folder: &Path) -> io::Result<(Daybook, Vec<HookCall>)> {
        let open = |name| {
            let mut options = File::options();
            options.read(true).append(true).create(true).mode(0o600).open(folder.join(name))
        };
        let mut pages = [open(NAMES[0])?, open(NAMES[1])?];
        let mut calls = Vec::new();
        for page in &pages {
            calls.extend(calls_on(page));
        }
        // What came first is heard first, whichever page it stands on.
        calls.sort_by(|one: &HookCall, other| one.name.cmp(&other.name));
        let [written, other] = &mut pages;
        written.set_len(0)?;
        calls.iter().try_for_each(|call| written.write_all(&call.encode()))?;
        other.set_len(0)?;
        Ok((Daybook { pages }, calls))
    }

    /// Writes a call down.
    pub(crate) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.pages[0].write_all(line)
    }

    /// Everything that was written down is being heard now.
    pub(crate) fn turn(&mut self) {
        self.pages.swap(0, 1);
    }

    /// What was being heard was heard. What cannot be crossed out is heard again, without effect.
    pub(crate) fn cross_out(&mut self) {
        let _ = self.pages[1].set_len(0);
    }
}

/// The calls on a page. One that was half written was not taken.
fn calls_on(page: &File) -> Vec<HookCall> {
    let mut lines = BufReader::new(page);
    let mut calls = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(CALL_BYTES_MAX as u64).read_until(b'\n', &mut line);
        if !read.is_ok_and(|count| count > 0) {
            return calls;
        }
        calls.extend(HookCall::parse(&line));
    }
}
