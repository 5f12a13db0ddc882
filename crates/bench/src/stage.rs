//! Where measurements happen: sizes, a folder, and journals that several measures share.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use event::SessionId;
use journal::{Journal, Options};
use tempfile::TempDir;
use testkit::corpus::Corpus;

use crate::Outcome;
use crate::floor::RawTable;
use crate::load::{self, Load};

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Events in a journal that has grown as far as we go.
    pub(crate) events: usize,
    /// Sessions in one that has many.
    pub(crate) sessions: usize,
    /// Events in the longest session that views, forks and reads are measured on.
    pub(crate) session_events: usize,
    /// Events in one round of appends in batches; and one by one.
    pub(crate) batched: usize,
    pub(crate) single: usize,
    pub(crate) rounds: u32,
}

impl Scale {
    pub(crate) const FULL: Scale = Scale {
        events: 1_000_000,
        sessions: 100_000,
        session_events: 100_000,
        batched: 10_000,
        single: 500,
        rounds: 5,
    };

    pub(crate) const QUICK: Scale = Scale {
        events: 10_000,
        sessions: 1_000,
        session_events: 5_000,
        batched: 1_000,
        single: 100,
        rounds: 2,
    };
}

pub(crate) struct Stage {
    pub(crate) scale: Scale,
    folder: TempDir,
    made: u32,
    ladder: Vec<Rung>,
}

/// One session of some length, alone in a journal.
pub(crate) struct Rung {
    pub(crate) events: usize,
    pub(crate) dir: PathBuf,
    pub(crate) journal: Journal,
    pub(crate) session_id: SessionId,
    /// The same events in a plain table, as session 1.
    pub(crate) raw: RawTable,
}

/// A journal that is removed with its folder.
pub(crate) struct Scratch {
    pub(crate) journal: Journal,
    dir: PathBuf,
}

impl Stage {
    pub(crate) fn new(scale: Scale, dir: Option<&Path>) -> Outcome<Stage> {
        let folder = match dir {
            Some(dir) => TempDir::with_prefix_in("hansard-bench-", dir)?,
            None => TempDir::with_prefix("hansard-bench-")?,
        };
        Ok(Stage { scale, folder, made: 0, ladder: Vec::new() })
    }

    /// Prints the current measurement on stderr.
    pub(crate) fn announce(&self, what: &str) -> Outcome<()> {
        writeln!(io::stderr(), "{what} …")?;
        Ok(())
    }

    /// Returns a path that is not in use.
    pub(crate) fn fresh_path(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.path().join(self.made.to_string())
    }

    /// An empty journal with the default settings.
    pub(crate) fn make_scratch(&mut self) -> Outcome<Scratch> {
        let dir = self.fresh_path();
        Ok(Scratch { journal: open_journal(&dir)?, dir })
    }

    /// Sessions of a hundredth, a tenth and all of the longest length; made once.
    pub(crate) fn make_ladder(&mut self) -> Outcome<&[Rung]> {
        if self.ladder.is_empty() {
            self.announce("making one session of each length")?;
            let longest = self.scale.session_events;
            for events in [longest / 100, longest / 10, longest] {
                let rung = self.make_rung(events)?;
                self.ladder.push(rung);
            }
        }
        Ok(&self.ladder)
    }

    fn make_rung(&mut self, events: usize) -> Outcome<Rung> {
        let (dir, raw) = (self.fresh_path(), self.fresh_path());
        let (journal, raw) = (open_journal(&dir)?, RawTable::create(&raw)?);
        // The same seed on every rung: the shorter sessions are beginnings of the longest.
        let load = Load::new(Corpus::one_session(21).events(events));
        let session_id = load.drafts[0].session_id.clone();
        load::fill_journal(&journal, &mut load.drafts.into_iter(), events, |_| Ok(()))?;
        raw.insert_rows(&load.rows)?;
        Ok(Rung { events, dir, journal, session_id, raw })
    }
}

impl Scratch {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Closed first: the indexer may still write into the folder.
        self.journal.close();
        // What stays goes with the folder around it.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Opens or makes a journal as a user gets it.
pub(crate) fn open_journal(dir: &Path) -> Outcome<Journal> {
    Ok(Journal::open_or_create(dir, &Options::default())?)
}

/// Bytes of all files in a folder and below, if `counts` accepts the name.
pub(crate) fn disk_bytes(dir: &Path, counts: &dyn Fn(&str) -> bool) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            bytes += disk_bytes(&entry.path(), counts)?;
        } else if counts(&entry.file_name().to_string_lossy()) {
            bytes += metadata.len();
        }
    }
    Ok(bytes)
}
