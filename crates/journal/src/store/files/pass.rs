//! Gives the lines of a session's file their rows, in two passes.
//!
//! The first pass takes the lines that have their numbers. The others are lines that a user wrote
//! by hand without numbers, and damaged lines, which keep their place. They wait for the second
//! pass, when all taken numbers are known. The numbers they get are written to the ledger, so that
//! the next rebuild gives them the same.

use std::fs::File;

use event::{Draft, EventId, Kind, Raw};

use super::event_line::{self, EventLine};
use super::ledger_state::NumberRun;
use super::line_scanner::{LineScanner, LineSpan, ScannedLine, read_up_to};
use super::reindex::Reindexer;
use super::session_file::SessionHeader;
use crate::StorageError;
use crate::prepare::json_size;
use crate::store::{CommitError, SessionRow};

/// What the first pass over a file left.
pub(super) struct FilePass {
    pub unnumbered: Vec<UnnumberedLine>,
    pub end: FileEnd,
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileEnd {
    /// With a line break, or empty, at this length.
    Whole(u64),
    /// With a whole line that lacks its line break, at this length.
    Unended(u64),
    /// With a piece of a line, from a write that was cut off.
    Torn(LineSpan),
}

/// A line that lacks a number, or has one that is taken.
pub(super) struct UnnumberedLine {
    span: LineSpan,
    seq: Option<u64>,
    position: Option<u64>,
    is_readable: bool,
    /// The `seq` of the line before; `None` if that one is unnumbered too.
    after: Option<u64>,
}

impl Reindexer<'_, '_> {
    /// First pass: takes the numbered lines from `offset` on. `row` covers the lines before.
    pub(super) fn pass(
        &mut self,
        row: &mut SessionRow,
        file: &File,
        offset: u64,
    ) -> Result<FilePass, CommitError> {
        let failed = self.store.sessions.failed("read", &row.id);
        let mut scan = LineScanner::new(file, offset);
        let mut passed = FilePass { unnumbered: Vec::new(), end: FileEnd::Whole(offset) };
        let mut after = Some(row.tail_seq);
        // The run of numbers in the ledger that the present line belongs to, if any.
        let mut run = None;
        while let Some(scanned) = scan.next().map_err(&failed)? {
            let line = event_line::read(scanned.bytes).ok();
            // An event of another session in this file counts as damaged.
            let line = line.filter(|line| line.draft.session_id == row.id);
            // Only the last line can lack its break. If it cannot be read either, a crash cut the
            // write off. A damaged line with its break was acknowledged, and keeps its place.
            if line.is_none() && !scanned.is_ended {
                passed.end = FileEnd::Torn(scanned.span);
                break;
            }
            passed.end = scanned.end();
            // A header stands before all events. The same text further down is a line like any
            // other.
            if row.tail_seq == row.base_seq && passed.unnumbered.is_empty() && is_header(&scanned) {
                continue;
            }
            // Numbers from the ledger win over those in the line: an earlier rebuild gave them, and
            // readers know the event by them.
            run = self.ledger_state.run_at(&row.id, scanned.span.offset).or(run);
            match self.numbers(run.as_mut(), &scanned, line.as_ref()) {
                (Some(seq), Some(position)) if !self.has_position(position)? => {
                    // A user copied a line. The copy that was read first keeps the number.
                    if self.is_taken(row.number, seq, line.as_ref())? {
                        self.report_skipped(
                            row,
                            scanned.span,
                            "its number or its event is there already",
                        );
                        continue;
                    }
                    self.put_line(row, line, (seq, position), scanned.span)?;
                    after = Some(seq);
                }
                (seq, position) => {
                    let is_readable = line.is_some();
                    let span = scanned.span;
                    // Only the first of several unnumbered lines has a numbered one before it.
                    let after = after.take();
                    passed.unnumbered.push(UnnumberedLine {
                        span,
                        seq,
                        position,
                        is_readable,
                        after,
                    });
                }
            }
        }
        Ok(passed)
    }

    /// Second pass: numbers the other lines, now that all taken numbers are known.
    pub(super) fn number_lines(
        &mut self,
        row: &mut SessionRow,
        file: &File,
        unnumbered: Vec<UnnumberedLine>,
    ) -> Result<(), CommitError> {
        self.flush()?;
        // A line belongs where it stands: it wants the `seq` behind the line before it.
        let mut expected = row.base_seq + 1;
        // Whether this line continues the run of the one before, for a single ledger entry.
        let mut follows = false;
        for unnumbered_line in unnumbered {
            expected = unnumbered_line.after.map_or(expected, |after| after + 1);
            follows &= unnumbered_line.after.is_none();
            let line = match unnumbered_line.is_readable {
                true => Some(self.read_again(row, file, unnumbered_line.span)?),
                false => None,
            };
            let wanted = unnumbered_line.seq.unwrap_or(expected);
            // Without the line: a `seq` that is taken may move the line, an id that is taken drops
            // it.
            let is_free = !self.is_taken(row.number, wanted, None)?;
            let seq = match (is_free, &line, unnumbered_line.seq) {
                (true, _, _) => wanted,
                // Written by hand between numbered lines: it goes to the end of the session.
                (false, Some(_), None) => row.tail_seq + 1,
                (false, ..) => {
                    self.report_skipped(row, unnumbered_line.span, "its number is taken");
                    follows = false;
                    continue;
                }
            };
            if self.is_taken(row.number, seq, line.as_ref())? {
                self.report_skipped(row, unnumbered_line.span, "its event is there already");
                follows = false;
                continue;
            }
            let position = match unnumbered_line.position {
                // The position that is left of a damaged line keeps its place among all sessions.
                Some(position) if !self.has_position(position)? => position,
                _ => self.next_position(),
            };
            self.note_numbers(row, unnumbered_line.span, (seq, position), follows);
            self.put_line(row, line, (seq, position), unnumbered_line.span)?;
            (expected, follows) = (seq + 1, true);
        }
        Ok(())
    }

    /// Returns the numbers of a line: from the ledger, or its own, or what is left of a damaged
    /// line.
    fn numbers(
        &self,
        run: Option<&mut NumberRun>,
        scanned: &ScannedLine<'_>,
        line: Option<&EventLine>,
    ) -> (Option<u64>, Option<u64>) {
        match (run.and_then(NumberRun::next), line) {
            (Some((seq, position)), _) => (Some(seq), Some(position)),
            (None, Some(line)) => (line.seq, line.position),
            (None, None) => (None, event_line::position_of_damaged(scanned.bytes)),
        }
    }

    fn put_line(
        &mut self,
        row: &mut SessionRow,
        line: Option<EventLine>,
        (seq, position): (u64, u64),
        span: LineSpan,
    ) -> Result<(), CommitError> {
        let (mut draft, payload) = match line {
            Some(line) => (line.draft, line.payload),
            None => (stand_in(row, span), None),
        };
        if let Some(digest) = &payload {
            // An unreadable payload leaves the `null` of the line.
            draft.data = self.store.payloads.read(digest).unwrap_or_default();
        }
        let (tail_seq, last_position) = (row.tail_seq, row.last_position);
        row.apply_event(&draft, seq, position, json_size(&draft));
        // Lines need not stand in the order of their numbers, so the row keeps the largest.
        row.tail_seq = tail_seq.max(seq);
        row.last_position = last_position.max(position);
        self.push_row(row.number, draft, payload, (seq, position), span)
    }

    fn read_again(
        &self,
        row: &SessionRow,
        file: &File,
        span: LineSpan,
    ) -> Result<EventLine, StorageError> {
        let failed = self.store.sessions.failed("read", &row.id);
        let mut bytes = vec![0; span.length as usize];
        let read = read_up_to(file, &mut bytes, span.offset).map_err(&failed)?;
        event_line::read(&bytes[..read]).map_err(|error| failed(std::io::Error::other(error)))
    }
}

impl ScannedLine<'_> {
    fn end(&self) -> FileEnd {
        let end = self.span.offset + self.span.length;
        if self.is_ended { FileEnd::Whole(end + 1) } else { FileEnd::Unended(end) }
    }
}

/// Whether a line is the header of a file, perhaps damaged.
fn is_header(scanned: &ScannedLine<'_>) -> bool {
    SessionHeader::read(scanned.bytes).is_some()
        || scanned.bytes.trim_ascii().starts_with(b"{\"format\":")
}

/// Makes the event that stands for a damaged line in the catalogue. Reading the row reports the
/// line.
fn stand_in(row: &SessionRow, span: LineSpan) -> Draft {
    // The id follows from the place of the line: two damaged lines of a session must not share one.
    let identity = format!("line at {}", span.offset);
    let id = EventId::derived(row.last_at, super::NAME, row.id.as_str(), identity.as_bytes());
    Draft::with_data(id, row.id.clone(), row.last_at, Kind::Unknown, Raw::null())
}
