//! The lines of a session's file, and which rows they are.
//!
//! Lines that bring their numbers are taken as they come. The others are strays: lines that
//! somebody wrote by hand without numbers, and lines that can no longer be read and keep their
//! place. They wait until all numbers that are taken are known; those they get are written to the
//! ledger, so that they are the same next time.

use std::fs::File;

use event::{Draft, EventId, Kind, Raw};

use super::index::Index;
use super::line::{self, Line};
use super::remembered::Run;
use super::scan::{Place, Scan, Scanned, read_up_to};
use super::session_file::Header;
use crate::StorageError;
use crate::intake::size;
use crate::store::{CommitError, SessionRow};

/// What a pass over a file left.
pub(super) struct Passed {
    pub strays: Vec<Stray>,
    pub end: FileEnd,
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileEnd {
    /// With a line break, or with nothing, at this length.
    Whole(u64),
    /// With a line that lacks its break, at this length.
    Unended(u64),
    /// With a piece of a line.
    Torn(Place),
}

/// A line without numbers of its own.
pub(super) struct Stray {
    place: Place,
    seq: Option<u64>,
    position: Option<u64>,
    is_readable: bool,
    /// The `seq` of the line before; `None` if that is a stray too.
    after: Option<u64>,
}

impl Index<'_, '_> {
    /// Takes the numbered lines of a file from `offset` on, where `row` is what came before.
    pub(super) fn pass(
        &mut self,
        row: &mut SessionRow,
        file: &File,
        offset: u64,
    ) -> Result<Passed, CommitError> {
        let failed = self.store.sessions.failed("read", &row.id);
        let mut scan = Scan::from(file, offset);
        let mut passed = Passed { strays: Vec::new(), end: FileEnd::Whole(offset) };
        let mut after = Some(row.tail_seq);
        let mut run = None;
        while let Some(scanned) = scan.next().map_err(&failed)? {
            let line = line::read(scanned.bytes).ok();
            let line = line.filter(|line| line.draft.session_id == row.id);
            if line.is_none() && !scanned.is_ended {
                passed.end = FileEnd::Torn(scanned.place);
                break;
            }
            passed.end = scanned.end();
            if row.tail_seq == row.base_seq && passed.strays.is_empty() && is_header(&scanned) {
                continue;
            }
            run = self.remembered.run_at(&row.id, scanned.place.offset).or(run);
            match self.numbers(run.as_mut(), &scanned, line.as_ref()) {
                (Some(seq), Some(position)) if !self.is_given(position)? => {
                    if self.is_taken(row.number, seq, line.as_ref())? {
                        self.refuse(row, scanned.place, "its number or its event is there already");
                        continue;
                    }
                    self.put(row, line, (seq, position), scanned.place)?;
                    after = Some(seq);
                }
                (seq, position) => {
                    let is_readable = line.is_some();
                    let place = scanned.place;
                    let after = after.take();
                    passed.strays.push(Stray { place, seq, position, is_readable, after });
                }
            }
        }
        Ok(passed)
    }

    /// Gives numbers to the strays of a file, now that all that are taken are known.
    pub(super) fn take_strays(
        &mut self,
        row: &mut SessionRow,
        file: &File,
        strays: Vec<Stray>,
    ) -> Result<(), CommitError> {
        self.flush()?;
        let mut expected = row.base_seq + 1;
        let mut follows = false;
        for stray in strays {
            expected = stray.after.map_or(expected, |after| after + 1);
            follows &= stray.after.is_none();
            let line = match stray.is_readable {
                true => Some(self.read_again(row, file, stray.place)?),
                false => None,
            };
            let wanted = stray.seq.unwrap_or(expected);
            let is_free = !self.is_taken(row.number, wanted, None)?;
            let seq = match (is_free, &line, stray.seq) {
                (true, _, _) => wanted,
                // Written between others without a number: it goes behind them.
                (false, Some(_), None) => row.tail_seq + 1,
                (false, ..) => {
                    self.refuse(row, stray.place, "its number is taken");
                    follows = false;
                    continue;
                }
            };
            if self.is_taken(row.number, seq, line.as_ref())? {
                self.refuse(row, stray.place, "its event is there already");
                follows = false;
                continue;
            }
            let position = match stray.position {
                Some(position) if !self.is_given(position)? => position,
                _ => self.next_position(),
            };
            self.adopt(row, stray.place, (seq, position), follows);
            self.put(row, line, (seq, position), stray.place)?;
            (expected, follows) = (seq + 1, true);
        }
        Ok(())
    }

    /// The numbers a line has: given to it before, or its own, or what is left of them.
    fn numbers(
        &self,
        run: Option<&mut Run>,
        scanned: &Scanned<'_>,
        line: Option<&Line>,
    ) -> (Option<u64>, Option<u64>) {
        match (run.and_then(Run::next), line) {
            (Some((seq, position)), _) => (Some(seq), Some(position)),
            (None, Some(line)) => (line.seq, line.position),
            (None, None) => (None, line::position_of_damaged(scanned.bytes)),
        }
    }

    fn put(
        &mut self,
        row: &mut SessionRow,
        line: Option<Line>,
        (seq, position): (u64, u64),
        place: Place,
    ) -> Result<(), CommitError> {
        let (mut draft, payload) = match line {
            Some(line) => (line.draft, line.payload),
            None => (stand_in(row, place), None),
        };
        if let Some(digest) = &payload {
            // One that cannot be read counts with what is there.
            draft.data = self.store.payloads.read(digest).unwrap_or_default();
        }
        let (tail_seq, last_position) = (row.tail_seq, row.last_position);
        row.take(&draft, seq, position, size(&draft));
        // Lines need not stand in the order of their numbers.
        row.tail_seq = tail_seq.max(seq);
        row.last_position = last_position.max(position);
        self.push(row.number, draft, payload, (seq, position), place)
    }

    fn read_again(
        &self,
        row: &SessionRow,
        file: &File,
        place: Place,
    ) -> Result<Line, StorageError> {
        let failed = self.store.sessions.failed("read", &row.id);
        let mut bytes = vec![0; place.length as usize];
        let read = read_up_to(file, &mut bytes, place.offset).map_err(&failed)?;
        line::read(&bytes[..read]).map_err(|error| failed(std::io::Error::other(error)))
    }
}

impl Scanned<'_> {
    fn end(&self) -> FileEnd {
        let end = self.place.offset + self.place.length;
        if self.is_ended { FileEnd::Whole(end + 1) } else { FileEnd::Unended(end) }
    }
}

/// Whether a line is the first of a file, as we write it, or was.
fn is_header(scanned: &Scanned<'_>) -> bool {
    Header::read(scanned.bytes).is_some() || scanned.bytes.trim_ascii().starts_with(b"{\"format\":")
}

/// What takes the row of a line that cannot be read. Reading the row shows the line.
fn stand_in(row: &SessionRow, place: Place) -> Draft {
    let identity = format!("line at {}", place.offset);
    let id = EventId::derived(row.last_at, super::NAME, row.id.as_str(), identity.as_bytes());
    Draft::with_data(id, row.id.clone(), row.last_at, Kind::Unknown, Raw::null())
}
