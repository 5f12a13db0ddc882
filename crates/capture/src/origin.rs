//! Where a session leaves the one it repeats: copied events are the parent's, not news.

use std::io;

use event::payload::SessionMode;
use event::{EventId, SessionId, Time};

use crate::agent::{Agent, Kin};
use crate::late::Late;
use crate::limit::COPIED_EVENTS_MAX;
use crate::lineage::left;
use crate::pump::{Failed, Pump};
use crate::reading::Reading;
use crate::sink::Sink;
use crate::source::Source;
use crate::thread::{Parent, Thread};
use crate::told::session_id;

/// Where a session leaves the one it repeats.
pub(crate) struct Origin {
    pub session: SessionId,
    seq: u64,
    /// Behind the last record that is repeated.
    end: u64,
    /// It says nothing else yet.
    pub is_all: bool,
    /// When the last of it was said, then.
    pub last_at: Option<Time>,
}

impl Pump<'_> {
    /// Connects a source with the history that it goes on with and does not repeat.
    pub(crate) fn go_on(
        &self,
        agent: &dyn Agent,
        reading: &mut Reading<'_>,
        source: &Source,
        kin: &Kin,
        sink: &dyn Sink,
    ) -> Result<(), Failed> {
        let now = (self.clock)();
        let Some(left) = left(agent, self.environment, source, kin, now)? else { return Ok(()) };
        let thread = reading.position.threads.entry(source.session.clone()).or_default();
        if left.session == source.session {
            *thread = Thread { rewound_to: Some(left.event_id), ..left.thread };
            return Ok(());
        }
        let session = session_id(source.provider, &left.session);
        if let Some(Some(seq)) = sink.find_in(&session, &[left.event_id])?.first() {
            let mode = SessionMode::Fork;
            thread.parent = Some(Parent { session: left.session, mode, seq: *seq, label: None });
        }
        Ok(())
    }

    /// Whether a new source begins with what another session has said already, and how far.
    pub(crate) fn origin(
        &self,
        agent: &dyn Agent,
        source: &Source,
        kin: &Kin,
        sink: &dyn Sink,
    ) -> Result<Option<Origin>, Failed> {
        let own = session_id(source.provider, &source.session);
        let parent = match kin.parent.as_ref().filter(|parent| **parent != source.session) {
            Some(parent) => Some(session_id(source.provider, parent)),
            None => match self.first_teller(agent, source, sink)? {
                // One that says it comes from this one may repeat it under other times.
                None => {
                    let heir = self.tellers.heir(source.provider, &source.session, sink)?;
                    heir.map(|heir| session_id(source.provider, &heir))
                }
                first => first,
            },
        };
        let Some(mut session) = parent.filter(|session| *session != own) else { return Ok(None) };
        let mut scout = Reading::open(agent, source, None)?;
        let mut origin: Option<Origin> = None;
        let mut looked_at = 0;
        while let Some(chunk) = scout.chunk((self.clock)())? {
            let told = chunk.telling.drafts.iter().zip(&chunk.telling.places);
            let copies: Vec<(EventId, u64)> = told
                .filter(|(_, place)| place.is_everywhere)
                .map(|(draft, place)| (draft.id, place.end))
                .collect();
            looked_at += copies.len();
            let mut rest = &copies[..];
            while !rest.is_empty() {
                let ids: Vec<EventId> = rest.iter().map(|(id, _)| *id).collect();
                let seqs = sink.find_in(&session, &ids)?;
                let common = seqs.iter().take_while(|seq| seq.is_some()).count();
                for (seq, (_, end)) in seqs.iter().flatten().zip(&rest[..common]) {
                    // What was held back stands before the record that made it known.
                    let end = origin.as_ref().map_or(*end, |origin| origin.end.max(*end));
                    // A copy may tell the same facts in another order.
                    let before = origin.as_ref().filter(|origin| origin.session == session);
                    let seq = before.map_or(*seq, |origin| origin.seq.max(*seq));
                    let session = session.clone();
                    origin = Some(Origin { session, seq, end, is_all: false, last_at: None });
                }
                rest = &rest[common..];
                let Some((id, _)) = rest.first() else { break };
                // Whom it repeats may have repeated another and then gone on by itself.
                match sink.find(*id)? {
                    Some((next, _)) if next != session && next != own => session = next,
                    _ => return Ok(origin),
                }
            }
            if looked_at >= COPIED_EVENTS_MAX {
                return Ok(origin);
            }
        }
        let last_at = scout.position.threads.get(&source.session).and_then(|it| it.last_at);
        Ok(origin.map(|origin| Origin { is_all: true, last_at, ..origin }))
    }

    /// The session that has said the first thing of a source before.
    pub(crate) fn first_teller(
        &self,
        agent: &dyn Agent,
        source: &Source,
        sink: &dyn Sink,
    ) -> Result<Option<SessionId>, Failed> {
        let mut scout = Reading::open(agent, source, None)?;
        while let Some(telling) = scout.step((self.clock)())? {
            let first = telling.places.iter().position(|place| place.is_everywhere);
            if let Some(first) = first {
                let found = sink.find(telling.drafts[first].id)?;
                return Ok(found.map(|(session, _)| session));
            }
        }
        Ok(None)
    }

    /// Passes over what the parent has, so that only the session's own events are told.
    pub(crate) fn begin_behind(
        &self,
        reading: &mut Reading<'_>,
        source: &Source,
        kin: &Kin,
        origin: Origin,
    ) -> io::Result<()> {
        let own = reading.skip_to(origin.end, (self.clock)())?;
        // A file that was only copied calls itself what the other is called.
        if origin.is_all && kin.named.as_ref() == Some(&source.session) {
            reading.open_with(format!("all of it is told in {}", origin.session), own);
        }
        let thread = reading.position.threads.entry(source.session.clone()).or_default();
        let parent = origin.session.as_str().split_once(':').map_or("", |(_, session)| session);
        thread.leave(thread.works().or_else(|| {
            let session = parent.to_owned();
            Some(Parent { session, mode: SessionMode::Fork, seq: origin.seq, label: None })
        }));
        Ok(())
    }

    /// Passes over what a copy has told already that was read first. The copy comes from this one,
    /// and two cannot each begin with the other.
    pub(crate) fn begin_after(
        &self,
        reading: &mut Reading<'_>,
        source: &Source,
        origin: Origin,
        late: Late,
    ) -> io::Result<()> {
        let own = reading.skip_to(origin.end, (self.clock)())?;
        let words = format!("its beginning is told in {}, which was read first", origin.session);
        reading.open_with(words, own);
        let thread = reading.position.threads.entry(source.session.clone()).or_default();
        thread.leave(thread.works().or(late.parent));
        Ok(())
    }
}
