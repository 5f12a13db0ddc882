//! A session with its ancestors and descendants.

use std::collections::BTreeSet;

use event::SessionId;
use journal::{Journal, LineageError, ReadError, SessionInfo};

/// Sessions of a family that are listed; with more, those nearest to its first session.
const MEMBERS_MAX: usize = 500;

/// Finds the first ancestor, then all its descendants, level by level.
pub(crate) fn family(journal: &Journal, of: SessionInfo) -> Result<Vec<SessionInfo>, ReadError> {
    let mut first = of;
    let mut above = BTreeSet::from([first.id.clone()]);
    while let Some(parent) = first.ancestry.parent_session_id.clone()
        && above.insert(parent.clone())
        && journal.exists(&parent)?
    {
        first = journal.stat(&parent)?;
    }
    let mut members = vec![first];
    let mut known: BTreeSet<SessionId> = members.iter().map(|member| member.id.clone()).collect();
    let mut at = 0;
    while at < members.len() && members.len() < MEMBERS_MAX {
        for child in journal.children(&members[at].id).map_err(read_error)? {
            if members.len() < MEMBERS_MAX && known.insert(child.session_id.clone()) {
                members.push(journal.stat(&child.session_id)?);
            }
        }
        at += 1;
    }
    Ok(members)
}

fn read_error(error: LineageError) -> ReadError {
    match error {
        LineageError::Read(error) => error,
        error => {
            let argument = error.to_string();
            ReadError::BadArgument { argument, expected: "an ancestry that can be followed" }
        }
    }
}
