//! Where a session leaves the one it repeats: copied events are the parent's, not news.

use std::io;

use event::payload::SessionMode;
use event::{EventId, SessionId, Time};

use crate::agent::{Agent, LineageHint, SourceRole};
use crate::event_builder::session_id;
use crate::ingester::{IngestFailure, Ingester};
use crate::late_parent::Late;
use crate::limit::COPIED_EVENTS_MAX;
use crate::lineage::left;
use crate::sink::Sink;
use crate::source::Source;
use crate::tailer::Tailer;
use crate::thread_state::{ParentLink, ThreadState};

/// What a new source begins with.
pub(crate) enum Beginning {
    /// Nothing that a copy would be known by.
    Unnamed {
        /// Something was said in it all the same.
        has_spoken: bool,
    },
    /// What nobody has told.
    Own,
    Told(Origin),
}

/// The part of a new source that others have told already.
pub(crate) struct Origin {
    /// Who told the last of it, and where.
    pub session: SessionId,
    seq: u64,
    /// Behind the last record that is repeated.
    end: u64,
    /// When the newest of it was said.
    pub last_at: Option<Time>,
    /// It says nothing else yet.
    pub is_all: bool,
    /// The session it says it comes from.
    pub named: Option<String>,
}

/// Facts of a new source that one session has told: who, and where it has each of them.
struct Run {
    session: SessionId,
    seqs: Vec<u64>,
}

impl Ingester<'_> {
    /// Connects a source with the history that it goes on with and does not repeat.
    pub(crate) fn go_on(
        &self,
        agent: &dyn Agent,
        tailer: &mut Tailer<'_>,
        source: &Source,
        hint: &LineageHint,
        sink: &dyn Sink,
    ) -> Result<(), IngestFailure> {
        let now = (self.clock)();
        let Some(left) = left(agent, self.environment, source, hint, now)? else { return Ok(()) };
        let thread = tailer.checkpoint.threads.entry(source.session.clone()).or_default();
        if left.session == source.session {
            *thread = ThreadState { rewound_to: Some(left.event_id), ..left.thread };
            return Ok(());
        }
        let session = session_id(source.provider, &left.session);
        if let Some(Some(seq)) = sink.find_in(&session, &[left.event_id])?.first() {
            thread.parent = Some(ParentLink::shown(&left.session, *seq));
        }
        Ok(())
    }

    /// Whether a new source begins with what other sessions have said already, and how far.
    pub(crate) fn beginning(
        &self,
        agent: &dyn Agent,
        source: &Source,
        hint: &LineageHint,
        sink: &dyn Sink,
    ) -> Result<Beginning, IngestFailure> {
        let mut scout = Tailer::open(agent, source, None)?;
        let mut origin: Option<Origin> = None;
        let mut looked_at = 0;
        let mut has_spoken = false;
        loop {
            let now = (self.clock)();
            // Most repeat nobody, which the first record shows that has a name.
            let parsed = match looked_at {
                0 => scout.step(now)?,
                _ => scout.chunk(now)?.map(|chunk| chunk.parsed),
            };
            let Some(parsed) = parsed else {
                let all = origin.map(|origin| Origin { is_all: true, ..origin });
                return Ok(all.map_or(Beginning::Unnamed { has_spoken }, Beginning::Told));
            };
            has_spoken |= parsed.drafts.iter().any(|draft| draft.kind.is_shown());
            let named = named(source, &scout, hint);
            if let Some(origin) = &mut origin {
                origin.named.clone_from(&named);
            }
            let placed = parsed.drafts.iter().zip(&parsed.places);
            let copies: Vec<_> = placed.filter(|(_, place)| place.is_everywhere).collect();
            looked_at += copies.len();
            let mut rest = &copies[..];
            while !rest.is_empty() {
                let ids: Vec<EventId> = rest.iter().map(|(draft, _)| draft.id).collect();
                let run = self.told_before(source, named.as_deref(), &ids, sink)?;
                let Some(Run { session, seqs }) = run else { return Ok(Beginning::of(origin)) };
                let (copied, own) = rest.split_at(seqs.len());
                rest = own;
                let before = origin.as_ref();
                // A copy may tell the same facts in another order.
                let known = before.filter(|before| before.session == session).map(|it| it.seq);
                // What was held back stands before the record that made it known.
                let ends = copied.iter().map(|(_, place)| place.end);
                let times = copied.iter().map(|(draft, _)| draft.created_at);
                origin = Some(Origin {
                    seq: seqs.into_iter().chain(known).max().unwrap_or_default(),
                    end: ends.chain(before.map(|it| it.end)).max().unwrap_or_default(),
                    last_at: times.chain(before.and_then(|it| it.last_at)).max(),
                    is_all: false,
                    named: named.clone(),
                    session,
                });
            }
            if looked_at >= COPIED_EVENTS_MAX {
                return Ok(Beginning::of(origin));
            }
        }
    }

    /// Whom the first of these facts is known from, and how many of those that follow it. Where a
    /// copy has other times than what it repeats, only those are asked who have to do with it.
    fn told_before(
        &self,
        source: &Source,
        named: Option<&str>,
        ids: &[EventId],
        sink: &dyn Sink,
    ) -> Result<Option<Run>, IngestFailure> {
        let Source { provider, session: own, .. } = source;
        let run = |session: SessionId| -> Result<Option<Run>, IngestFailure> {
            let seqs: Vec<u64> =
                sink.find_in(&session, ids)?.into_iter().map_while(|it| it).collect();
            Ok((!seqs.is_empty()).then_some(Run { session, seqs }))
        };
        if let Some(named) = named
            && let Some(run) = run(session_id(provider, named))?
        {
            return Ok(Some(run));
        }
        if let Some((session, _)) = sink.find(ids[0])? {
            return if session == session_id(provider, own) { Ok(None) } else { run(session) };
        }
        let near: Vec<&str> = named.into_iter().chain([own.as_str()]).collect();
        for name in self.source_index.kindred(provider, &near, sink)? {
            let is_asked = name == *own || Some(&*name) == named;
            if !is_asked && let Some(run) = run(session_id(provider, &name))? {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// The session that has said the first thing of a source before.
    pub(crate) fn first_teller(
        &self,
        agent: &dyn Agent,
        source: &Source,
        sink: &dyn Sink,
    ) -> Result<Option<SessionId>, IngestFailure> {
        let mut scout = Tailer::open(agent, source, None)?;
        while let Some(parsed) = scout.step((self.clock)())? {
            let first = parsed.places.iter().position(|place| place.is_everywhere);
            if let Some(first) = first {
                let found = sink.find(parsed.drafts[first].id)?;
                return Ok(found.map(|(session, _)| session));
            }
        }
        Ok(None)
    }

    /// Passes over what the parent has, so that only the session's own events are told.
    pub(crate) fn begin_behind(
        &self,
        tailer: &mut Tailer<'_>,
        source: &Source,
        hint: &LineageHint,
        origin: Origin,
    ) -> io::Result<()> {
        let own = tailer.skip_to(origin.end, (self.clock)())?;
        // A file that was only copied calls itself what the other is called.
        if origin.is_all && hint.named.as_ref() == Some(&source.session) {
            tailer.open_with(format!("all of it is told in {}", origin.session), own);
        }
        let thread = tailer.checkpoint.threads.entry(source.session.clone()).or_default();
        let parent = ParentLink::shown(origin.name(), origin.seq);
        thread.leave(thread.works().or(Some(parent)));
        Ok(())
    }

    /// Passes over what a copy has told already that was read first. The copy comes from this one,
    /// and two cannot each begin with the other.
    pub(crate) fn begin_after(
        &self,
        tailer: &mut Tailer<'_>,
        source: &Source,
        origin: Origin,
        late: Late,
    ) -> io::Result<()> {
        let own = tailer.skip_to(origin.end, (self.clock)())?;
        let words = format!("its beginning is told in {}, which was read first", origin.session);
        tailer.open_with(words, own);
        let thread = tailer.checkpoint.threads.entry(source.session.clone()).or_default();
        thread.leave(thread.works().or(late.parent));
        Ok(())
    }
}

impl Beginning {
    fn of(origin: Option<Origin>) -> Beginning {
        origin.map_or(Beginning::Own, Beginning::Told)
    }
}

impl Origin {
    /// The provider's id of the session that told the last of it.
    pub(crate) fn name(&self) -> &str {
        self.session.as_str().split_once(':').map_or("", |(_, session)| session)
    }
}

/// The session a source says it comes from, by its records so far, or by what they are called: a
/// file that was only copied calls itself what the other is called.
fn named(source: &Source, scout: &Tailer<'_>, hint: &LineageHint) -> Option<String> {
    let parent = scout.checkpoint.threads.get(&source.session).and_then(|it| it.parent.as_ref());
    let forked_from = parent.filter(|parent| parent.mode == SessionMode::Fork);
    let called = hint.named.as_ref().filter(|_| source.role == SourceRole::Main);
    let named = forked_from.map(|parent| &parent.session).or(hint.parent.as_ref()).or(called);
    named.filter(|named| **named != source.session).cloned()
}
