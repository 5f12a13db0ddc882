//! The folded state of a session, saved beside the log so that opening need not read the log.
//!
//! It is not an event: it can be deleted at any time and is built again. It holds references and
//! no text, so it stays small compared with the log.

use serde::{Deserialize, Serialize};

use crate::reader::SessionReader;
use crate::view::{SavedView, View, ViewOptions};
use crate::{LiveState, SessionError};

/// The name of the saved view in the journal.
const NAME: &str = "session";

/// The version of the saved form. A state of another version is built again from the log.
const VERSION: u32 = 2;

/// The minimum number of new events before the state is saved again.
const EVENTS_MIN: u64 = 256;

#[derive(Serialize, Deserialize)]
struct SavedState {
    version: u32,
    live: LiveState,
}

/// Whether there are enough new events: the minimum, and an eighth of the covered ones. The
/// geometric growth keeps the total cost of saving linear in the length of the log.
pub(crate) fn is_save_due(up_to_seq: u64, saved_up_to: u64) -> bool {
    let since = up_to_seq - saved_up_to.min(up_to_seq);
    since >= EVENTS_MIN && since >= saved_up_to / 8
}

/// Saves the state.
pub(crate) fn save_state(
    reader: &SessionReader,
    live: &LiveState,
    view: &View,
) -> Result<(), SessionError> {
    let head = SavedState { version: VERSION, live: live.clone() };
    let head = serde_json::to_vec(&head).expect("plain data always encodes");
    // Length of the head in 8 bytes, the head as JSON, then the packed view.
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend(head);
    bytes.extend(view.save().to_bytes());
    let (journal, id) = (reader.journal(), reader.session_id());
    journal.save_view(id, NAME, live.up_to_seq(), &bytes)?;
    Ok(())
}

/// Loads the saved state, if it can be used. A state that is damaged or does not fit the log is
/// ignored.
pub(crate) fn load_state(
    reader: &SessionReader,
) -> Result<Option<(LiveState, View)>, SessionError> {
    let saved = reader.journal().saved_view(reader.session_id(), NAME);
    // A read error is no reason to fail: the log has everything.
    let Ok(Some((up_to_seq, bytes))) = saved else { return Ok(None) };
    // A read-only handle on an earlier state cannot start from a later one.
    if up_to_seq > reader.to_seq() {
        return Ok(None);
    }
    let Some((live, saved)) = decode_state(&bytes) else { return Ok(None) };
    let is_of_session = live.open_work.session_id() == reader.session_id();
    // Both halves must stop at the same event, or events would be folded into one of them only.
    if !is_of_session || live.up_to_seq() != up_to_seq || saved.up_to_seq() != up_to_seq {
        return Ok(None);
    }
    let view = View::restore(&saved, ViewOptions::default(), reader)?;
    Ok(view.map(|view| (live, view)))
}

fn decode_state(bytes: &[u8]) -> Option<(LiveState, SavedView)> {
    let (len, rest) = bytes.split_at_checked(8)?;
    let len = u64::from_le_bytes(len.try_into().ok()?);
    let (head, view) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    let saved: SavedState = serde_json::from_slice(head).ok()?;
    let view = SavedView::from_bytes(view)?;
    (saved.version == VERSION).then_some((saved.live, view))
}
