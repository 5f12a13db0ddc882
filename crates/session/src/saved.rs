//! The state of a session, saved beside the log so that opening it need not read the log.
//!
//! Not an event: it can be deleted at any time and is made again. It holds references, never
//! text, so it stays a small share of what it covers.

use serde::{Deserialize, Serialize};

use crate::reader::SessionReader;
use crate::view::{SavedView, View, ViewOptions};
use crate::{LiveState, SessionError};

/// The name the state is saved under.
const NAME: &str = "session";

/// Raised when the saved form changes its meaning; another number is made anew.
const VERSION: u32 = 1;

/// Events behind the saved state that make saving again worth while.
const EVENTS_MIN: u64 = 256;

#[derive(Serialize, Deserialize)]
struct SavedState {
    version: u32,
    live: LiveState,
}

/// Whether enough has happened since: so much, and an eighth of what was covered, so that saving
/// stays a constant share of the work.
pub(crate) fn is_due(up_to_seq: u64, saved_up_to: u64) -> bool {
    let since = up_to_seq - saved_up_to.min(up_to_seq);
    since >= EVENTS_MIN && since >= saved_up_to / 8
}

/// Saves the state.
pub(crate) fn save(
    reader: &SessionReader,
    live: &LiveState,
    view: &View,
) -> Result<(), SessionError> {
    let head = SavedState { version: VERSION, live: live.clone() };
    let head = serde_json::to_vec(&head).expect("plain data always encodes");
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend(head);
    bytes.extend(view.save().to_bytes());
    let (journal, id) = (reader.journal(), reader.session_id());
    journal.save_view(id, NAME, live.up_to_seq(), &bytes)?;
    Ok(())
}

/// The saved state, if there is one that can be used. The log decides: what cannot be read, or
/// does not fit, is as if it were not there.
pub(crate) fn load(reader: &SessionReader) -> Result<Option<(LiveState, View)>, SessionError> {
    let saved = reader.journal().saved_view(reader.session_id(), NAME);
    let Ok(Some((up_to_seq, bytes))) = saved else { return Ok(None) };
    if up_to_seq > reader.to_seq() {
        return Ok(None);
    }
    let Some((live, saved)) = decode(&bytes) else { return Ok(None) };
    let is_of_session = live.open_work.session_id() == reader.session_id();
    if !is_of_session || live.up_to_seq() != up_to_seq || saved.up_to_seq() != up_to_seq {
        return Ok(None);
    }
    let view = View::restore(&saved, ViewOptions::default(), reader)?;
    Ok(view.map(|view| (live, view)))
}

fn decode(bytes: &[u8]) -> Option<(LiveState, SavedView)> {
    let (len, rest) = bytes.split_at_checked(8)?;
    let len = u64::from_le_bytes(len.try_into().ok()?);
    let (head, view) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    let saved: SavedState = serde_json::from_slice(head).ok()?;
    let view = SavedView::from_bytes(view)?;
    (saved.version == VERSION).then_some((saved.live, view))
}
