//! The chronicles of sessions, without secrets, folded when needed and kept beside the log.
//!
//! What is kept may be behind or gone: the rest is read from the log.

use event::SessionId;
use journal::{Journal, ReadError, Selection, SessionInfo};
use projection::{Chronicle, Projection, redacted};
use redact::Redactor;

/// Events that are worth to be kept as folded; fewer are folded again.
const EVENTS_MIN: u64 = 256;

/// The chronicle of a session as of now. The open epoch has its digest so far.
pub fn chronicle_of(journal: &Journal, session: &SessionInfo) -> Result<Chronicle, ReadError> {
    let mut chronicle = kept(journal, session)?.unwrap_or_default();
    let before = chronicle.seq();
    if before < session.tail_seq {
        let mut redactor = Redactor::new();
        for event in journal.events(&session.id, Selection::after(before))? {
            chronicle.apply(&redacted(&event?, &mut |text| redactor.redact(text)));
        }
        if chronicle.seq() - before >= EVENTS_MIN
            && let Some(bytes) = chronicle.save()
        {
            // Where it cannot be kept it is folded again, as in a journal that is only read.
            let _ = journal.save_view(&session.id, Chronicle::NAME, chronicle.seq(), &bytes);
        }
    }
    chronicle.flush();
    Ok(chronicle)
}

/// The same of a session that may be deleted, before or meanwhile: then there is none.
pub fn chronicle_if_any(
    journal: &Journal,
    session: &SessionId,
) -> Result<Option<Chronicle>, ReadError> {
    match journal.stat(session).and_then(|session| chronicle_of(journal, &session)) {
        Err(ReadError::SessionNotFound(_)) => Ok(None),
        chronicle => chronicle.map(Some),
    }
}

fn kept(journal: &Journal, session: &SessionInfo) -> Result<Option<Chronicle>, ReadError> {
    let Some((_, bytes)) = journal.saved_view(&session.id, Chronicle::NAME)? else {
        return Ok(None);
    };
    // One that is ahead belongs to a log that was put back.
    Ok(Chronicle::load(&bytes).filter(|chronicle| chronicle.seq() <= session.tail_seq))
}
