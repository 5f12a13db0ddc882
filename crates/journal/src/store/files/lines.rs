//! From a row of the catalogue to the event in its line.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use event::{Draft, SessionId};

use super::FilesStore;
use super::line;
use super::scan::{Place, line_number, read_up_to};
use crate::StorageError;
use crate::store::catalogue::{Bodies, BodyPlace, EventRecord, Unreadable};

/// Bodies that are places in the files of sessions.
pub(crate) struct Lines<'a> {
    pub(super) store: &'a FilesStore,
    /// The one used last comes first.
    windows: RefCell<VecDeque<Window>>,
}

/// The piece of a file that was read last: the next event is probably in it.
struct Window {
    session: u32,
    file: Arc<File>,
    offset: u64,
    bytes: Vec<u8>,
}

/// Bytes read at once. Longer lines are read whole, and alone.
const WINDOW_BYTES: u64 = 128 * 1024;

/// Sessions read at once without losing the piece that was read: those that were busy at the
/// same time.
const WINDOWS_MAX: usize = 8;

impl<'a> Lines<'a> {
    pub(super) fn of(store: &'a FilesStore) -> Lines<'a> {
        Lines { store, windows: RefCell::default() }
    }
}

impl Bodies for Lines<'_> {
    fn draft(
        &self,
        record: &EventRecord<'_>,
        session_id: &SessionId,
        _payload: Option<&[u8]>,
    ) -> Result<Draft, Unreadable> {
        let place = Place::decode(record.body)
            .ok_or_else(|| Unreadable { why: "it has no place".to_owned(), place: None })?;
        let path = self.store.sessions.path(session_id);
        let nowhere = |why: String| Unreadable {
            why,
            place: Some(BodyPlace {
                file: path.clone(),
                line: None,
                byte: Some(place.offset),
                bytes: Vec::new(),
            }),
        };
        let mut windows = self.windows.borrow_mut();
        let opened = self.turn_to(&mut windows, record.key.session(), session_id);
        let window = opened.map_err(|error| nowhere(error.to_string()))?;
        let window = window.ok_or_else(|| nowhere("the file is missing".to_owned()))?;
        let file = Arc::clone(&window.file);
        let bytes = window.read(place).map_err(|error| nowhere(error.to_string()))?;
        let believed = self.believe(bytes, record, session_id);
        believed.map_err(|why| Unreadable {
            why,
            place: Some(BodyPlace {
                file: path.clone(),
                line: line_number(&file, place.offset).ok(),
                byte: Some(place.offset),
                bytes: bytes.to_vec(),
            }),
        })
    }
}

impl Lines<'_> {
    /// The window on a session's file; `None` if there is no file.
    fn turn_to<'w>(
        &self,
        windows: &'w mut VecDeque<Window>,
        session: u32,
        session_id: &SessionId,
    ) -> Result<Option<&'w mut Window>, StorageError> {
        let known = windows.iter().position(|window| window.session == session);
        let window = match known.and_then(|place| windows.remove(place)) {
            Some(window) => window,
            None => {
                let Some(file) = self.store.sessions.get(session_id)? else { return Ok(None) };
                Window { session, file, offset: 0, bytes: Vec::new() }
            }
        };
        windows.truncate(WINDOWS_MAX - 1);
        windows.push_front(window);
        Ok(windows.front_mut())
    }

    /// The event of a line, if it is the one the row is about.
    fn believe(
        &self,
        bytes: &[u8],
        record: &EventRecord<'_>,
        session_id: &SessionId,
    ) -> Result<Draft, String> {
        let line = line::read(bytes).map_err(|error| error.to_string())?;
        let mut draft = line.draft;
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

impl Window {
    /// The bytes at a place, or as many of them as there are.
    fn read(&mut self, place: Place) -> io::Result<&[u8]> {
        let end = place.offset.saturating_add(place.length);
        let window_end = self.offset + self.bytes.len() as u64;
        if place.offset < self.offset || end > window_end {
            // Reading backwards, what comes next stands before.
            let start = match place.offset < self.offset {
                true => end.saturating_sub(WINDOW_BYTES).min(place.offset),
                false => place.offset,
            };
            self.fill(start, (end - start).max(WINDOW_BYTES))?;
        }
        let from = (place.offset - self.offset) as usize;
        let to = (from + place.length as usize).min(self.bytes.len());
        Ok(self.bytes.get(from..to).unwrap_or_default())
    }

    fn fill(&mut self, offset: u64, length: u64) -> io::Result<()> {
        let left = self.file.metadata()?.len().saturating_sub(offset);
        self.offset = offset;
        self.bytes.resize(length.min(left) as usize, 0);
        let read = read_up_to(&self.file, &mut self.bytes, offset)?;
        self.bytes.truncate(read);
        Ok(())
    }
}
