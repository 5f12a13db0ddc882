//! Finds where a numbered source leaves the history it goes on with.
//!
//! The first record of such a source says which number it has in a longer history. The records
//! before it stand in a source of the session that was left, or in an earlier file of the same
//! session.

use std::io;

use event::EventId;

use super::{IngestFailure, Ingester, lineage_hint};
use crate::agent::{Agent, LineageHint};
use crate::database_guard::Look;
use crate::discover::discover;
use crate::environment::Environment;
use crate::event_builder::session_id;
use crate::limit::LINEAGE_MAX;
use crate::lineage::HistoryPoint;
use crate::sink::Sink;
use crate::source::Source;
use crate::tailer::Tailer;
use crate::thread_state::ThreadState;

/// The end of the history that a source goes on with.
pub(super) struct HistoryEnd {
    /// The agent's id of the session it stands in.
    session: String,
    /// The last event before the source.
    pub event_id: EventId,
    /// What was known of the session there.
    pub thread: ThreadState,
}

impl Ingester<'_> {
    /// The end of the history before a source, and where the journal has it.
    pub(super) fn history_before(
        &self,
        agent: &dyn Agent,
        source: &Source,
        hint: &LineageHint,
        sink: &dyn Sink,
    ) -> Result<(HistoryPoint, Option<HistoryEnd>), IngestFailure> {
        let Some(end) = find_end(agent, self.environment, source, hint, &self.look())? else {
            return Ok((HistoryPoint::Missing, None));
        };
        if end.session == source.session {
            return Ok((HistoryPoint::OwnSession, Some(end)));
        }
        let parent = session_id(source.provider, &end.session);
        // The parent may be excluded by the user, or not be read yet: then there is no event to
        // link to.
        let seq = sink.find_events(&parent, &[end.event_id])?.first().copied().flatten();
        Ok((HistoryPoint::OtherSession { session: end.session, seq }, None))
    }
}

/// Looks for the record before number `begins_at` in the sources of the session that was left.
/// `None` if they are gone: then only the name of that session is known.
fn find_end(
    agent: &dyn Agent,
    environment: &Environment,
    source: &Source,
    hint: &LineageHint,
    look: &Look<'_>,
) -> io::Result<Option<HistoryEnd>> {
    let Some(begins_at) = hint.begins_at else { return Ok(None) };
    let mut sources: Vec<Source> = discover(agent, environment, look, &mut Vec::new())
        .into_iter()
        .map(|found| found.source)
        .collect();
    // Only Codex numbers its records, and its files sort by time: `rollout-<time>-<thread>.jsonl`.
    sources.sort_by(|one, other| one.file_name().cmp(other.file_name()));
    let mut before = source;
    let mut parent = hint.parent.clone();
    for _ in 0..LINEAGE_MAX {
        // An earlier file of the same session is nearer than any file of the parent.
        let own = sources.iter().rev().find(|other| {
            other.session == before.session && other.file_name() < before.file_name()
        });
        let earlier = own
            .or_else(|| sources.iter().rev().find(|other| Some(&other.session) == parent.as_ref()));
        let Some(earlier) = earlier else { return Ok(None) };
        let its_hint = lineage_hint(agent, earlier);
        let first = its_hint.begins_at.unwrap_or(0);
        if first < begins_at {
            return read_records(agent, earlier, begins_at - first, look);
        }
        // It begins even later in the history: the record stands further back.
        before = earlier;
        parent = its_hint.parent;
    }
    Ok(None)
}

/// Reads so many records of a source and returns the state behind the last.
fn read_records(
    agent: &dyn Agent,
    source: &Source,
    records: u64,
    look: &Look<'_>,
) -> io::Result<Option<HistoryEnd>> {
    let mut tailer = Tailer::open(agent, source, None, look)?;
    let mut last = None;
    while tailer.checkpoint.records < records {
        let Some(parsed) = tailer.next_record(look.now)? else { break };
        last = parsed.drafts.last().map(|draft| draft.id).or(last);
    }
    let thread = tailer.checkpoint.threads.remove(&source.session);
    let session = source.session.clone();
    Ok(last.zip(thread).map(|(event_id, thread)| HistoryEnd { session, event_id, thread }))
}
