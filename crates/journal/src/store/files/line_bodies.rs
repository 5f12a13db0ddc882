//! From a row of the catalogue to the event in its line.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use event::{Draft, SessionId};

use super::FilesStore;
use super::event_line;
use super::line_scanner::{LineSpan, line_number, read_up_to};
use crate::StorageError;
use crate::store::catalogue::{BodyDecoder, BodyError, BodyLocation, EventRecord};

/// Decodes bodies that are line spans in the files of sessions.
pub(crate) struct LineBodies<'a> {
    pub(super) store: &'a FilesStore,
    /// The window that was used last comes first.
    windows: RefCell<VecDeque<ReadWindow>>,
}

/// The piece of a file that was read last: the next event is probably in it too.
struct ReadWindow {
    session: u32,
    file: Arc<File>,
    offset: u64,
    bytes: Vec<u8>,
}

/// Bytes read at once. Longer lines are read whole, and alone.
const WINDOW_BYTES: u64 = 128 * 1024;

/// Windows that are kept. Reading by position jumps between the sessions that were busy at the
/// same time.
const WINDOWS_MAX: usize = 8;

impl<'a> LineBodies<'a> {
    pub(super) fn new(store: &'a FilesStore) -> LineBodies<'a> {
        LineBodies { store, windows: RefCell::default() }
    }
}

impl BodyDecoder for LineBodies<'_> {
    fn draft(
        &self,
        record: &EventRecord<'_>,
        session_id: &SessionId,
        _payload: Option<&[u8]>,
    ) -> Result<Draft, BodyError> {
        let span = LineSpan::decode(record.body)
            .ok_or_else(|| BodyError { why: "it has no place".to_owned(), location: None })?;
        let path = self.store.sessions.path(session_id);
        let no_bytes = |why: String| BodyError {
            why,
            location: Some(BodyLocation {
                file: path.clone(),
                line: None,
                byte: Some(span.offset),
                bytes: Vec::new(),
            }),
        };
        let mut windows = self.windows.borrow_mut();
        let opened = self.window_of(&mut windows, record.key.session(), session_id);
        let window = opened.map_err(|error| no_bytes(error.to_string()))?;
        let window = window.ok_or_else(|| no_bytes("the file is missing".to_owned()))?;
        let file = Arc::clone(&window.file);
        let bytes = window.read(span).map_err(|error| no_bytes(error.to_string()))?;
        // Decoded even if the file has fewer bytes than the span: the error then carries what is
        // left.
        let decoded = self.decode_line(bytes, record, session_id);
        decoded.map_err(|why| BodyError {
            why,
            location: Some(BodyLocation {
                file: path.clone(),
                line: line_number(&file, span.offset).ok(),
                byte: Some(span.offset),
                bytes: bytes.to_vec(),
            }),
        })
    }
}

impl LineBodies<'_> {
    /// Returns the window on a session's file; `None` if there is no file.
    fn window_of<'w>(
        &self,
        windows: &'w mut VecDeque<ReadWindow>,
        session: u32,
        session_id: &SessionId,
    ) -> Result<Option<&'w mut ReadWindow>, StorageError> {
        let known = windows.iter().position(|window| window.session == session);
        // Taken out and put in front again: the list is short, and its order is the order of use.
        let window = match known.and_then(|index| windows.remove(index)) {
            Some(window) => window,
            None => {
                let Some(file) = self.store.sessions.get(session_id)? else { return Ok(None) };
                ReadWindow { session, file, offset: 0, bytes: Vec::new() }
            }
        };
        windows.truncate(WINDOWS_MAX - 1);
        windows.push_front(window);
        Ok(windows.front_mut())
    }

    /// Decodes a line, and checks that it is the event of the row.
    fn decode_line(
        &self,
        bytes: &[u8],
        record: &EventRecord<'_>,
        session_id: &SessionId,
    ) -> Result<Draft, String> {
        let line = event_line::read(bytes).map_err(|error| error.to_string())?;
        let mut draft = line.draft;
        // The row has only a place. If the file was edited since, another whole line may stand
        // there, with a checksum that fits.
        let is_it = *draft.id.bytes() == record.id
            && draft.session_id == *session_id
            && line.seq.is_none_or(|seq| seq == record.key.seq());
        if !is_it {
            return Err("another event stands here".to_owned());
        }
        if let Some(digest) = line.payload {
            let read = self.store.payloads.read(&digest);
            draft.data = read.map_err(|error| error.to_string())?;
        }
        Ok(draft)
    }
}

impl ReadWindow {
    /// Returns the bytes of a span, or as many of them as there are.
    fn read(&mut self, span: LineSpan) -> io::Result<&[u8]> {
        let end = span.offset.saturating_add(span.length);
        let window_end = self.offset + self.bytes.len() as u64;
        if span.offset < self.offset || end > window_end {
            // A read before the window means newest first: the next span stands before this one,
            // so the window ends with it.
            let start = match span.offset < self.offset {
                true => end.saturating_sub(WINDOW_BYTES).min(span.offset),
                false => span.offset,
            };
            self.fill(start, (end - start).max(WINDOW_BYTES))?;
        }
        let from = (span.offset - self.offset) as usize;
        let to = (from + span.length as usize).min(self.bytes.len());
        Ok(self.bytes.get(from..to).unwrap_or_default())
    }

    fn fill(&mut self, offset: u64, length: u64) -> io::Result<()> {
        // The length of the file bounds the buffer: a user may have cut the file since its lines
        // got their rows.
        let left = self.file.metadata()?.len().saturating_sub(offset);
        self.offset = offset;
        self.bytes.resize(length.min(left) as usize, 0);
        let read = read_up_to(&self.file, &mut self.bytes, offset)?;
        self.bytes.truncate(read);
        Ok(())
    }
}
