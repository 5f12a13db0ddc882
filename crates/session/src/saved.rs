//! The folded state of a session, saved beside the log so that opening need not read the log.
//!
//! It is not an event: it can be deleted at any time and is built again. It holds references and
//! no text, so it stays small compared with the log.

use journal::ReadError;
use serde::{Deserialize, Serialize};

use crate::reader::SessionReader;
use crate::view::{SavedView, View, ViewOptions};
use crate::{LiveState, SessionError};

/// The name of the saved view in the journal.
const NAME: &str = "session";

/// The version of the saved form. A state of another version is built again from the log.
const VERSION: u32 = 2;

/// Generations of forks that are looked through for a saved state; the journal allows no more.
const GENERATIONS_MAX: usize = 1_024;

/// The minimum number of new events before the state is saved again. Fewer are folded faster than a
/// state is written.
const EVENTS_MIN: u64 = 256;

/// Bytes of a saved state for each event that has to come before it is saved again: folding an event
/// takes about as long as writing so many. A session with very many rewinds or amendments has a
/// large state, and more events are folded when it is opened.
const BYTES_PER_EVENT: u64 = 512;

/// The last save of a session's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LastSave {
    pub(crate) up_to_seq: u64,
    pub(crate) bytes: u64,
}

impl LastSave {
    /// Whether there are enough new events. Their number does not grow with the log, so that opening
    /// folds few of them at any length; and all saves together write at most so many bytes per event.
    pub(crate) fn is_due_again(self, up_to_seq: u64) -> bool {
        let since = up_to_seq.saturating_sub(self.up_to_seq);
        since >= EVENTS_MIN.max(self.bytes / BYTES_PER_EVENT)
    }
}

/// A state that was saved, and its save.
pub(crate) struct LoadedState {
    pub(crate) live: LiveState,
    pub(crate) view: View,
    pub(crate) save: LastSave,
}

#[derive(Serialize, Deserialize)]
struct SavedState {
    version: u32,
    live: LiveState,
}

/// Saves the state and returns its size in bytes.
pub(crate) fn save_state(
    reader: &SessionReader,
    live: &LiveState,
    view: &View,
) -> Result<u64, SessionError> {
    let head = SavedState { version: VERSION, live: live.clone() };
    let head = serde_json::to_vec(&head).expect("plain data always encodes");
    // Length of the head in 8 bytes, the head as JSON, then the packed view.
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend(head);
    bytes.extend(view.save().to_bytes());
    let (journal, id) = (reader.journal(), reader.session_id());
    journal.save_view(id, NAME, live.up_to_seq(), &bytes)?;
    Ok(bytes.len() as u64)
}

/// Loads the saved state, if it can be used. A state that is damaged or does not fit the log is
/// ignored. A fork that has none begins with that of its parent.
pub(crate) fn load_state(reader: &SessionReader) -> Result<Option<LoadedState>, SessionError> {
    let saved = read_state(reader);
    let (live, saved, bytes) = match saved {
        Some(saved) => saved,
        None => match inherited_state(reader)? {
            Some((live, view)) => (live, view, 0),
            None => return Ok(None),
        },
    };
    let save = LastSave { up_to_seq: live.up_to_seq(), bytes };
    let view = View::restore(&saved, ViewOptions::default(), reader)?;
    Ok(view.map(|view| LoadedState { live, view, save }))
}

/// Saves what a new fork inherits, if its parent has a saved state. A failure is ignored: then the
/// first one to open the fork looks for a state, or folds the log.
pub(crate) fn save_inherited(fork: &SessionReader) {
    if let Ok(Some(LoadedState { live, view, .. })) = load_state(fork) {
        let _ = save_state(fork, &live, &view);
    }
}

/// Reads the state that was saved for a session, with its size in bytes.
fn read_state(reader: &SessionReader) -> Option<(LiveState, SavedView, u64)> {
    let saved = reader.journal().saved_view(reader.session_id(), NAME);
    // A read error is no reason to fail: the log has everything.
    let (up_to_seq, bytes) = saved.ok().flatten()?;
    // A read-only handle on an earlier state cannot start from a later one.
    if up_to_seq > reader.to_seq() {
        return None;
    }
    let (live, saved) = decode_state(&bytes)?;
    let is_of_session = live.open_work.session_id() == reader.session_id();
    // Both halves must stop at the same event, or events would be folded into one of them only.
    let is_whole = live.up_to_seq() == up_to_seq && saved.up_to_seq() == up_to_seq;
    (is_of_session && is_whole).then_some((live, saved, bytes.len() as u64))
}

/// Returns what a fork inherits of the saved state of its parent, or of the nearest ancestor that
/// has one. `None` if the states there are newer than the fork point.
fn inherited_state(reader: &SessionReader) -> Result<Option<(LiveState, SavedView)>, SessionError> {
    let journal = reader.journal();
    let mut forks = Vec::new();
    let mut at = SessionReader::new(journal.clone(), reader.session_id().clone());
    at = at.limited_to(reader.to_seq());
    let (mut live, mut view) = loop {
        let info = match journal.stat(at.session_id()) {
            // The session has no event yet.
            Err(ReadError::SessionNotFound(_)) => return Ok(None),
            info => info?,
        };
        let parent = info.ancestry.parent_session_id.filter(|_| info.inherited_seq > 0);
        // Reading such a lineage reports a circle or a gap in it.
        let Some(parent) = parent.filter(|_| forks.len() < GENERATIONS_MAX) else {
            return Ok(None);
        };
        forks.push(info.id);
        let to_seq = at.to_seq().min(info.inherited_seq);
        at = SessionReader::new(journal.clone(), parent).limited_to(to_seq);
        if let Some((live, view, _)) = read_state(&at) {
            break (live, view);
        }
    };
    for fork in forks.into_iter().rev() {
        let shown = |id| journal::inherited_id(&fork, id);
        live = live.inherit(fork.clone(), &shown);
        view = view.inherit(&shown);
    }
    Ok(Some((live, view)))
}

fn decode_state(bytes: &[u8]) -> Option<(LiveState, SavedView)> {
    let (len, rest) = bytes.split_at_checked(8)?;
    let len = u64::from_le_bytes(len.try_into().ok()?);
    let (head, view) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    let saved: SavedState = serde_json::from_slice(head).ok()?;
    let view = SavedView::from_bytes(view)?;
    (saved.version == VERSION).then_some((saved.live, view))
}
