//! Where a source that holds only its own records leaves the history it goes on with.
//!
//! Its first record says which number it has in that history; what comes before stands in a
//! source of the session it left, or in an earlier source of its own session.

use std::io;

use event::{EventId, Time};

use crate::agent::{Agent, LineageHint};
use crate::discover::discover;
use crate::environment::Environment;
use crate::ingester::lineage_hint;
use crate::limit::LINEAGE_MAX;
use crate::source::Source;
use crate::tailer::Tailer;
use crate::thread_state::ThreadState;

/// The end of the part that a source goes on with.
pub(crate) struct Left {
    /// The agent's id of the session it stands in.
    pub session: String,
    /// The last event of that part.
    pub event_id: EventId,
    /// What was known of the session there.
    pub thread: ThreadState,
}

/// Looks for the record before number `begins_at` in the sources of the session that was left.
/// `None` if they are gone: then only the name of that session is known.
pub(crate) fn left(
    agent: &dyn Agent,
    environment: &Environment,
    source: &Source,
    hint: &LineageHint,
    now: Time,
) -> io::Result<Option<Left>> {
    let Some(begins_at) = hint.begins_at else { return Ok(None) };
    let mut sources: Vec<Source> = discover(agent, environment, &mut Vec::new())
        .into_iter()
        .map(|found| found.source)
        .collect();
    sources.sort_by(|one, other| one.file_name().cmp(other.file_name()));
    let mut before = source;
    let mut parent = hint.parent.clone();
    for _ in 0..LINEAGE_MAX {
        let own = sources.iter().rev().find(|other| {
            other.session == before.session && other.file_name() < before.file_name()
        });
        let earlier = own
            .or_else(|| sources.iter().rev().find(|other| Some(&other.session) == parent.as_ref()));
        let Some(earlier) = earlier else { return Ok(None) };
        let its_hint = lineage_hint(agent, earlier);
        let first = its_hint.begins_at.unwrap_or(0);
        if first < begins_at {
            return read_to(agent, earlier, begins_at - first, now);
        }
        before = earlier;
        parent = its_hint.parent;
    }
    Ok(None)
}

/// Reads so many records of a source, and remembers only the end.
fn read_to(
    agent: &dyn Agent,
    source: &Source,
    records: u64,
    now: Time,
) -> io::Result<Option<Left>> {
    let mut tailer = Tailer::open(agent, source, None)?;
    let mut last = None;
    while tailer.checkpoint.records < records {
        let Some(parsed) = tailer.step(now)? else { break };
        last = parsed.drafts.last().map(|draft| draft.id).or(last);
    }
    let thread = tailer.checkpoint.threads.remove(&source.session);
    let left = last.zip(thread);
    Ok(left.map(|(event_id, thread)| Left { session: source.session.clone(), event_id, thread }))
}
