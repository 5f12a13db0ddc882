//! The segments of a session, gone, with what days say that was made of them.

use std::path::Path;

use event::SessionId;

use super::folder::{folders_in, remove};
use super::{Hold, Segment, SegmentError, failed};
use supervise::Day;

/// Removes the segments of a session that is deleted, and what days say that was made of them. A
/// day is digested again when somebody asks for it.
pub(crate) fn forget_segments(journal: &Path, session: &SessionId) -> Result<(), SegmentError> {
    let _hold = Hold::to_forget(journal)?;
    for day in folders_in(journal)? {
        let name = day.file_name().and_then(|name| name.to_str()).and_then(Day::parse);
        let Some(name) = name else { continue };
        // A session may be told of on a day on which none of its epochs has ended.
        let digest = day.join("digest.json");
        if mentions(&digest, session)? {
            remove(&digest)?;
        }
        let segments = Segment::of_day(journal, name)?.into_iter();
        let own: Vec<Segment> =
            segments.filter(|segment| segment.meta.session_id == *session).collect();
        if own.is_empty() {
            continue;
        }
        // What was made of them goes first: after a crash the segments still lead here.
        for made in ["activities.json", "digest.json", "activities"] {
            remove(&day.join(made))?;
        }
        for segment in own {
            // What says whose it is goes last, for the same reason.
            for name in ["transcript.jsonl", "digest.jsonl", "events.jsonl"] {
                remove(&segment.folder().join(name))?;
            }
            remove(segment.folder())?;
        }
    }
    Ok(())
}

/// Whether a file names a session; not if it is not there.
fn mentions(path: &Path, session: &SessionId) -> Result<bool, SegmentError> {
    let quoted = serde_json::to_string(session).expect("a name always encodes");
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).contains(&quoted)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(path, error)),
    }
}
