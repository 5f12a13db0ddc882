//! Removes the segments of a deleted session and the daily files that were derived from them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use event::SessionId;
use journal::Journal;
use serde_json::Value;
use supervise::Day;

use super::folder::{folders_in, remove_path, write_durably};
use super::{META, Segment, SegmentError, SegmentLock, find_meta, storage_error};

/// The event log in the folder of a segment.
const EVENTS: &str = "events.jsonl";

/// Removes the segments of a deleted session and the daily files derived from them. The digest of
/// a day is computed again on request.
pub fn forget_segments(journal: &Path, session: &SessionId) -> Result<(), SegmentError> {
    let _lock = SegmentLock::for_removal(journal)?;
    // The folder of the journal has others: backups, health, originals.
    let is_day = |folder: &PathBuf| {
        folder.file_name().and_then(|name| name.to_str()).and_then(Day::parse).is_some()
    };
    let days: Vec<PathBuf> = folders_in(journal)?.into_iter().filter(is_day).collect();
    // The digest of a day may mention a session that has no segment on that day. The digests of all
    // days go before the first segment: after a crash, `forget_deleted` finds the session by that.
    for day in &days {
        let digest = day.join("digest.json");
        if mentions(&digest, session)? {
            remove_path(&digest)?;
        }
    }
    for day in days {
        let (own, others) = folders_of_day(&day, session)?;
        if own.is_empty() {
            continue;
        }
        // Derived files are removed before the segments: after a crash in between, the remaining
        // segments lead the next attempt to this day again.
        let made = ["activities.json", "digest.json", "activities"];
        // A crash may have left these, with text of the session inside.
        let half_made = [".activities.json.tmp", ".digest.json.tmp"];
        for name in made.iter().chain(&half_made) {
            remove_path(&day.join(name))?;
        }
        for folder in others {
            forget_activities(&folder)?;
        }
        for folder in own {
            // `segment.json` names the session and is removed last, for the same reason.
            for name in ["transcript.jsonl", "digest.jsonl", EVENTS] {
                remove_path(&folder.join(name))?;
            }
            remove_path(&folder)?;
        }
    }
    Ok(())
}

/// Splits the segment folders of a day into those of a session and all others. A damaged folder
/// that names no epoch belongs to the session if one of its files mentions it.
fn folders_of_day(
    day: &Path,
    session: &SessionId,
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), SegmentError> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for stream in folders_in(day)? {
        for folder in folders_in(&stream)? {
            let is_own = match find_meta(&folder)? {
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

/// Finishes the removal of segments after deletions that were interrupted.
pub(crate) fn forget_deleted(journal: &Journal, root: &Path) -> Result<(), SegmentError> {
    let mut sessions = BTreeSet::new();
    for day in folders_in(root)? {
        let name = day.file_name().and_then(|name| name.to_str()).and_then(Day::parse);
        let Some(name) = name else { continue };
        let segments = Segment::list_of_day(root, name)?.into_iter();
        sessions.extend(segments.map(|segment| segment.meta.session_id));
    }
    for session in sessions {
        if journal.deleted_at(&session)?.is_some() {
            forget_segments(root, &session)?;
        }
    }
    Ok(())
}

/// Removes activity events from the log of a segment. An activity spans several sessions, so its
/// text may come from the deleted one.
fn forget_activities(folder: &Path) -> Result<(), SegmentError> {
    let path = folder.join(EVENTS);
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| storage_error(&path, error))?,
    };
    let text = String::from_utf8_lossy(&text);
    let is_activity = |line: &&str| {
        serde_json::from_str::<Value>(line).is_ok_and(|event| event["tract"] == "activity")
    };
    // Written only if needed: most logs hold no activity.
    if !text.lines().any(|line| is_activity(&line)) {
        return Ok(());
    }
    let left = text.lines().filter(|line| !is_activity(line)).map(|line| format!("{line}\n"));
    write_durably(folder, EVENTS, left.collect::<String>().as_bytes())
}

/// Returns whether a file contains the id of a session. A missing file does not.
fn mentions(path: &Path, session: &SessionId) -> Result<bool, SegmentError> {
    // With its quotes, so that the id `a` is not found inside the id `ab`.
    let quoted = serde_json::to_string(session).expect("a name always encodes");
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).contains(&quoted)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(storage_error(path, error)),
    }
}
