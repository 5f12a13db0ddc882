//! The chronicle of a session, with the digest of its open epoch so far.

use event::SessionId;
use journal::{Journal, ReadError, SessionInfo};
use projection::Chronicle;

use crate::saved::{current_if_exists, load_current};

/// The chronicle of a session as of now.
pub fn chronicle_of(journal: &Journal, session: &SessionInfo) -> Result<Chronicle, ReadError> {
    load_current(journal, session).map(flush_digest)
}

/// The chronicle of a session that may be deleted, before or meanwhile: then `None`.
pub fn chronicle_if_exists(
    journal: &Journal,
    session: &SessionId,
) -> Result<Option<Chronicle>, ReadError> {
    Ok(current_if_exists(journal, session)?.map(flush_digest))
}

/// The saved state must stay without the digest of the open epoch, which more events may change;
/// so the digest is made only for the copy that is handed out.
fn flush_digest(mut chronicle: Chronicle) -> Chronicle {
    chronicle.flush();
    chronicle
}
