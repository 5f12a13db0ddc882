//! The segments of a session, gone, with what days say that was made of them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use event::SessionId;
use journal::Journal;
use serde_json::Value;
use supervise::Day;

use super::folder::{folders_in, remove, write_whole};
use super::{Hold, META, Segment, SegmentError, failed, meta_of};

/// What happened to a segment, in its folder.
const EVENTS: &str = "events.jsonl";

/// Removes the segments of a session that is deleted, and what days say that was made of them. A
/// day is digested again when somebody asks for it.
pub fn forget_segments(journal: &Path, session: &SessionId) -> Result<(), SegmentError> {
    let _hold = Hold::to_forget(journal)?;
    for day in folders_in(journal)? {
        let name = day.file_name().and_then(|name| name.to_str()).and_then(Day::parse);
        if name.is_none() {
            continue;
        }
        // A session may be told of on a day on which none of its epochs has ended.
        let digest = day.join("digest.json");
        if mentions(&digest, session)? {
            remove(&digest)?;
        }
        let (own, others) = folders_of_day(&day, session)?;
        if own.is_empty() {
            continue;
        }
        // What was made of them goes first: after a crash the segments still lead here.
        let made = ["activities.json", "digest.json", "activities"];
        let half_made = [".activities.json.tmp", ".digest.json.tmp"];
        for name in made.iter().chain(&half_made) {
            remove(&day.join(name))?;
        }
        for folder in others {
            forget_activities(&folder)?;
        }
        for folder in own {
            // What says whose it is goes last, for the same reason.
            for name in ["transcript.jsonl", "digest.jsonl", EVENTS] {
                remove(&folder.join(name))?;
            }
            remove(&folder)?;
        }
    }
    Ok(())
}

/// The folders of a day's segments: those of a session, and all others. One that is damaged and says
/// of no epoch what it is goes with whoever it names.
fn folders_of_day(
    day: &Path,
    session: &SessionId,
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), SegmentError> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for stream in folders_in(day)? {
        for folder in folders_in(&stream)? {
            let is_own = match meta_of(&folder)? {
                Some(meta) => meta.session_id == *session,
                None => {
                    mentions(&folder.join(META), session)?
                        || mentions(&folder.join(EVENTS), session)?
                }
            };
            if is_own { &mut own } else { &mut others }.push(folder);
        }
    }
    Ok((own, others))
}

/// Removes the segments of sessions that are deleted, as far as a deletion was cut off.
pub(crate) fn forget_deleted(journal: &Journal, root: &Path) -> Result<(), SegmentError> {
    let mut sessions = BTreeSet::new();
    for day in folders_in(root)? {
        let name = day.file_name().and_then(|name| name.to_str()).and_then(Day::parse);
        let Some(name) = name else { continue };
        let segments = Segment::of_day(root, name)?.into_iter();
        sessions.extend(segments.map(|segment| segment.meta.session_id));
    }
    for session in sessions {
        if journal.deleted_at(&session)?.is_some() {
            forget_segments(root, &session)?;
        }
    }
    Ok(())
}

/// Drops what the events of a segment say of activities: those are of several sessions.
fn forget_activities(folder: &Path) -> Result<(), SegmentError> {
    let path = folder.join(EVENTS);
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| failed(&path, error))?,
    };
    let text = String::from_utf8_lossy(&text);
    let is_activity = |line: &&str| {
        serde_json::from_str::<Value>(line).is_ok_and(|event| event["tract"] == "activity")
    };
    if !text.lines().any(|line| is_activity(&line)) {
        return Ok(());
    }
    let left = text.lines().filter(|line| !is_activity(line)).map(|line| format!("{line}\n"));
    write_whole(folder, EVENTS, left.collect::<String>().as_bytes())
}

/// Whether a file names a session; not if it is not there.
fn mentions(path: &Path, session: &SessionId) -> Result<bool, SegmentError> {
    let quoted = serde_json::to_string(session).expect("a name always encodes");
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).contains(&quoted)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(path, error)),
    }
}
