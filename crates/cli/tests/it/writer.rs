//! Agents at work: transcripts that grow piece by piece, some of the pieces ending in a line.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{Dice, Transcripts};

/// Writes the files of a tree again, several at a time, in the order they were finished in.
pub(crate) struct Writer {
    waiting: VecDeque<Growing>,
    at_work: Vec<Growing>,
}

/// A file and what is still to be written to it.
struct Growing {
    path: PathBuf,
    bytes: Vec<u8>,
    written: usize,
    /// It repeats what others have said, so they have to be done.
    is_fork: bool,
}

/// Sessions that are written to at once.
const AT_ONCE: usize = 4;

/// The longest piece.
const PIECE_MAX: u64 = 24 * 1_024;

impl Writer {
    /// Takes every transcript of a tree out of its file. What lies beside them stays.
    pub(crate) fn new(transcripts: &Transcripts) -> Writer {
        let mut sessions = transcripts.sessions();
        sessions.sort_by_key(|session| session["last"].as_str().unwrap().to_owned());
        let growing = |session: &Value| {
            let path = transcripts.root().join(session["file"].as_str().unwrap());
            let bytes = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            Growing { path, bytes, written: 0, is_fork: session["role"] == "forked" }
        };
        Writer { waiting: sessions.iter().map(growing).collect(), at_work: Vec::new() }
    }

    /// Writes one more piece; `false` when everything is written.
    pub(crate) fn write(&mut self, dice: &mut Dice) -> bool {
        while self.at_work.len() < AT_ONCE
            && let Some(next) = self.waiting.front()
            && (self.at_work.is_empty() || !(next.is_fork || self.at_work[0].is_fork))
        {
            self.at_work.extend(self.waiting.pop_front());
        }
        if self.at_work.is_empty() {
            return false;
        }
        let number = dice.below(self.at_work.len() as u64) as usize;
        let growing = &mut self.at_work[number];
        let length = 1 + dice.below(PIECE_MAX) as usize;
        let mut end = (growing.written + length).min(growing.bytes.len());
        if dice.below(2) == 0 {
            let rest = &growing.bytes[end..];
            end +=
                rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |place| place + 1);
        }
        append(&growing.path, &growing.bytes[growing.written..end]);
        growing.written = end;
        if end == growing.bytes.len() {
            self.at_work.remove(number);
        }
        true
    }
}

impl Writer {
    /// Does to one of the files what happens to files: it loses its end, another one with the same
    /// bytes takes its place, or it is gone for a while. What is missing is written again.
    pub(crate) fn meddle(&mut self, dice: &mut Dice) {
        if self.at_work.is_empty() {
            return;
        }
        let number = dice.below(self.at_work.len() as u64) as usize;
        let Growing { path, bytes, written, .. } = &mut self.at_work[number];
        if *written == 0 {
            return;
        }
        match dice.below(3) {
            0 => {
                *written = dice.below(*written as u64) as usize;
                File::options().write(true).open(path).unwrap().set_len(*written as u64).unwrap();
            }
            1 => {
                let beside = path.with_extension("new");
                fs::write(&beside, &bytes[..*written]).unwrap();
                fs::rename(beside, path).unwrap();
            }
            _ => {
                fs::remove_file(path).unwrap();
                *written = 0;
            }
        }
    }
}

/// Appends to a file; makes it, and the folders around it, if there is none.
pub(crate) fn append(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::options().create(true).append(true).open(path);
    file.unwrap().write_all(bytes).unwrap();
}
