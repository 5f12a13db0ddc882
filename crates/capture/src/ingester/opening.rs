//! Reads the opening of a new source: how much of it other sessions have recorded already.

use event::{EventId, SessionId};

use super::{IngestFailure, Ingester};
use crate::agent::{Agent, LineageHint, SourceRole};
use crate::event_builder::session_id;
use crate::limit::COPIED_EVENTS_MAX;
use crate::lineage::{Opening, RepeatedPart, named_parent};
use crate::sink::Sink;
use crate::source::Source;
use crate::tailer::Tailer;

/// Events of a source that one session has recorded, from the first on without a gap.
struct RecordedRun {
    session: SessionId,
    seqs: Vec<u64>,
}

impl Ingester<'_> {
    /// Reads a source until an event comes that is recorded nowhere.
    pub(super) fn read_opening(
        &self,
        agent: &dyn Agent,
        source: &Source,
        hint: &LineageHint,
        sink: &dyn Sink,
    ) -> Result<Opening, IngestFailure> {
        // A tailer of its own: nothing that the scout reads is recorded, and the real one begins
        // anew.
        let mut scout = Tailer::open(agent, source, None, &self.look())?;
        let mut part: Option<RepeatedPart> = None;
        let mut compared = 0;
        let mut has_spoken = false;
        loop {
            let now = (self.clock)();
            // Most sources repeat nothing, and the first record with an identity shows it. So
            // records are read one by one up to there, and in chunks behind.
            let parsed = match compared {
                0 => scout.next_record(now)?,
                _ => scout.next_chunk(now)?.map(|chunk| chunk.parsed),
            };
            let Some(parsed) = parsed else {
                let all = part.map(|part| RepeatedPart { is_all: true, ..part });
                return Ok(all.map_or(Opening::Unnamed { has_spoken }, Opening::Repeated));
            };
            has_spoken |= parsed.drafts.iter().any(|draft| draft.kind.is_shown());
            let named = parent_in(source, &scout, hint);
            if let Some(part) = &mut part {
                part.named.clone_from(&named);
            }
            let placed = parsed.drafts.iter().zip(&parsed.places);
            let copies: Vec<_> = placed.filter(|(_, place)| place.is_everywhere).collect();
            compared += copies.len();
            let mut rest = &copies[..];
            // One session may have recorded the first events and another the following ones.
            while !rest.is_empty() {
                let ids: Vec<EventId> = rest.iter().map(|(draft, _)| draft.id).collect();
                let run = self.recorded_run(source, named.as_deref(), &ids, sink)?;
                let Some(RecordedRun { session, seqs }) = run else { return Ok(opening(part)) };
                let (copied, own) = rest.split_at(seqs.len());
                rest = own;
                let before = part.as_ref();
                // A copy may hold the same events in another order: the last place counts.
                let known = before.filter(|before| before.recorder == session).map(|it| it.seq);
                // An event that was held back stands before the record that completed it.
                let ends = copied.iter().map(|(_, place)| place.end);
                let times = copied.iter().map(|(draft, _)| draft.created_at);
                part = Some(RepeatedPart {
                    seq: seqs.into_iter().chain(known).max().unwrap_or_default(),
                    end: ends.chain(before.map(|it| it.end)).max().unwrap_or_default(),
                    last_at: times.chain(before.and_then(|it| it.last_at)).max(),
                    is_all: false,
                    named: named.clone(),
                    recorder: session,
                });
            }
            if compared >= COPIED_EVENTS_MAX {
                return Ok(opening(part));
            }
        }
    }

    /// The session that recorded the first of these events, and how many of those behind it.
    ///
    /// An id contains a time. Where a copy has other times than its original, the id is found only
    /// by asking a session for it, so just the sessions are asked that are related to the source.
    fn recorded_run(
        &self,
        source: &Source,
        named: Option<&str>,
        ids: &[EventId],
        sink: &dyn Sink,
    ) -> Result<Option<RecordedRun>, IngestFailure> {
        let Source { provider, session: own, .. } = source;
        let run_in = |session: SessionId| -> Result<Option<RecordedRun>, IngestFailure> {
            let seqs: Vec<u64> =
                sink.find_events(&session, ids)?.into_iter().map_while(|it| it).collect();
            Ok((!seqs.is_empty()).then_some(RecordedRun { session, seqs }))
        };
        if let Some(named) = named
            && let Some(run) = run_in(session_id(provider, named))?
        {
            return Ok(Some(run));
        }
        if let Some((session, _)) = sink.find_event(ids[0])? {
            // What the session itself recorded is no copy.
            return if session == session_id(provider, own) { Ok(None) } else { run_in(session) };
        }
        let near: Vec<&str> = named.into_iter().chain([own.as_str()]).collect();
        for name in self.source_index.related_sessions(provider, &near, sink)? {
            let is_asked = name == *own || Some(&*name) == named;
            if !is_asked && let Some(run) = run_in(session_id(provider, &name))? {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// The session that recorded the first event of a source that a copy would keep.
    pub(super) fn first_recorder(
        &self,
        agent: &dyn Agent,
        source: &Source,
        sink: &dyn Sink,
    ) -> Result<Option<SessionId>, IngestFailure> {
        let mut scout = Tailer::open(agent, source, None, &self.look())?;
        while let Some(parsed) = scout.next_record((self.clock)())? {
            let first = parsed.places.iter().position(|place| place.is_everywhere);
            if let Some(first) = first {
                let found = sink.find_event(parsed.drafts[first].id)?;
                return Ok(found.map(|(session, _)| session));
            }
        }
        Ok(None)
    }
}

fn opening(part: Option<RepeatedPart>) -> Opening {
    part.map_or(Opening::Own, Opening::Repeated)
}

/// The parent that a source names in what was read of it.
fn parent_in(source: &Source, scout: &Tailer<'_>, hint: &LineageHint) -> Option<String> {
    let thread = scout.checkpoint.threads.get(&source.session);
    let from_records = thread.and_then(|thread| thread.parent.as_ref());
    named_parent(&source.session, source.role == SourceRole::Main, from_records, hint)
}
