//! A session that appears after one that repeats it.
//!
//! What it would tell first is told already, in the other one. Which of the two comes from which
//! does not depend on who was read first. The names in their records say so. Where there are none,
//! the one that was begun first is the parent, by its own marks; else the one that is no more than
//! the beginning of the other: people fork a session and leave it rather than fork it and leave the
//! fork. Only then their files are asked, which may have been brought here in any order.

use std::fs::Metadata;

use event::payload::SessionMode;

use crate::admission::admit;
use crate::age::ages;
use crate::agent::{Agent, LineageHint, SourceRole};
use crate::checkpoint::Checkpoint;
use crate::discover::discover_at;
use crate::event_builder::EventBuilder;
use crate::ingester::{IngestFailure, IngestSummary, Ingester, lineage_hint};
use crate::limit::LINEAGE_MAX;
use crate::origin::Origin;
use crate::sink::{Batch, Sink};
use crate::source::Source;
use crate::thread_state::{ParentLink, ThreadState};

/// A source that is read for the first time and repeats what others have told.
pub(crate) struct LateParent<'a> {
    pub agent: &'a dyn Agent,
    pub source: &'a Source,
    pub metadata: &'a Metadata,
    pub hint: &'a LineageHint,
    pub origin: &'a Origin,
}

/// What is known of a session that was repeated before it was read.
pub(crate) struct Late {
    /// Where it comes from itself.
    pub parent: Option<ParentLink>,
}

/// A session that was read before.
struct Reader {
    /// The provider's id of the session.
    name: String,
    key: String,
    checkpoint: Checkpoint,
    recorded: String,
}

impl Ingester<'_> {
    /// Whether others go on with what the newcomer says, though they were read before it. Then one
    /// that does not know yet where it comes from is told; one that does keeps its parent.
    pub(crate) fn late(
        &self,
        newcomer: &LateParent<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<Option<Late>, IngestFailure> {
        let LateParent { source, hint, origin, .. } = *newcomer;
        let named = origin.named.as_deref();
        sink.settle()?;
        let line = self.line(source.provider, origin.name(), sink)?;
        let elders = match named {
            Some(named) => self.line(source.provider, named, sink)?,
            None => Vec::new(),
        };
        let is_below = |line: &[Reader]| line.iter().any(|it| it.comes_from(&source.session));
        // Nobody comes from one that comes from it.
        let by_name = || named.filter(|_| !is_below(&elders)).map(ParentLink::unseen);
        if is_below(&line) {
            return Ok(Some(Late { parent: by_name() }));
        }
        if named == Some(origin.name()) {
            return Ok(None);
        }
        // Both come from the same: it shows as much of it as the one that told the rest first.
        if let Some(same) = named.and_then(|named| line.iter().find(|it| it.comes_from(named))) {
            return Ok(Some(Late { parent: same.forked_from().cloned().or_else(by_name) }));
        }
        // Of whom it names it could show nothing. It goes on behind one that does not come from it.
        let is_named_silent = named.is_some() && !elders.first().is_some_and(Reader::has_told);
        let goes_behind = is_named_silent && line.last().is_some_and(|it| it.parent().is_none());
        // Forks of this agent say whose they are.
        if hint.family.is_none() {
            return Ok((!goes_behind).then(|| Late { parent: by_name() }));
        }
        // Whom it comes from by name is not its heir, whatever else is known of them.
        let is_elder = |reader: &Reader| elders.iter().any(|elder| elder.name == reader.name);
        let younger = line.iter().take_while(|it| !is_elder(it) && self.is_older(newcomer, it));
        let younger = younger.count();
        let Some(heir) = younger.checked_sub(1) else {
            let parent = by_name().filter(|_| !goes_behind);
            return Ok(parent.map(|parent| Late { parent: Some(parent) }));
        };
        // It comes in between, or beside.
        let before = line[heir].forked_from().filter(|_| younger < line.len()).cloned();
        let heir = line.into_iter().nth(heir).expect("it was counted");
        if heir.parent().is_none() {
            self.tell_parent(newcomer, heir, sink, summary)?;
        }
        Ok(Some(Late { parent: by_name().or(before) }))
    }

    /// A session and those it comes from, as far as they were read, youngest first.
    fn line(
        &self,
        provider: &str,
        first: &str,
        sink: &dyn Sink,
    ) -> Result<Vec<Reader>, IngestFailure> {
        let mut line: Vec<Reader> = Vec::new();
        let mut next = Some(first.to_owned());
        while let Some(name) = next.take().filter(|_| line.len() < LINEAGE_MAX) {
            if line.iter().any(|reader| reader.name == name) {
                break;
            }
            let known = self.source_index.find(provider, &name, sink)?;
            let Some((key, checkpoint, recorded)) = known else { break };
            let reader = Reader { name, key, checkpoint, recorded };
            next = reader.forked_from().map(|parent| parent.session.clone());
            line.push(reader);
        }
        Ok(line)
    }

    /// Whether the newcomer was there before one that was read before it, where neither says that it
    /// comes from the other.
    fn is_older(&self, newcomer: &LateParent<'_>, reader: &Reader) -> bool {
        let LateParent { agent, source, metadata, hint: own, origin } = *newcomer;
        let path = &reader.checkpoint.path;
        let found = discover_at(agent, self.environment, path, &mut Vec::new());
        let found = found.into_iter().find(|found| found.source.session == reader.name);
        let mut is_older_file = false;
        if let Some(found) = found {
            let its = found.hint.unwrap_or_else(|| lineage_hint(agent, &found.source));
            // A file that was only copied calls itself what the other is called.
            if its.named.as_ref() == Some(&source.session) && found.source.role == SourceRole::Main
            {
                return true;
            }
            let ages = ages(&[(own, metadata), (&its, &found.metadata)]);
            if ages[0].since != ages[1].since {
                return ages[0].since < ages[1].since;
            }
            is_older_file = ages[0] < ages[1];
        }
        let goes_on = reader.thread().and_then(|it| it.last_at) > origin.last_at;
        match (goes_on, !origin.is_all) {
            // One of them says nothing but what the other goes on with.
            (true, false) => true,
            (false, true) => false,
            _ => is_older_file,
        }
    }

    /// Records of a session that it comes from the newcomer.
    fn tell_parent(
        &self,
        newcomer: &LateParent<'_>,
        heir: Reader,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), IngestFailure> {
        let provider = newcomer.source.provider;
        let Reader { name, key, mut checkpoint, recorded } = heir;
        let source = Source::known(provider, &key, &checkpoint.path);
        let nothing_beside = |_: &str| None;
        let (generation, now) = (checkpoint.generation, (self.clock)());
        let mut builder =
            EventBuilder::new(&source, generation, &mut checkpoint.threads, &nothing_beside, now);
        builder.session(&name);
        builder.comes_from(&newcomer.source.session);
        let mut drafts = builder.finish().drafts;
        // It stands in no record.
        drafts.iter_mut().for_each(|draft| drop(draft.metadata.remove("record")));
        admit(provider, &checkpoint.threads, &mut drafts, sink);
        summary.add(provider, &drafts);
        self.source_index.put(&key, &checkpoint);
        sink.put(Batch { source: key, from: Some(recorded), to: checkpoint.encode(), drafts })?;
        Ok(sink.settle()?)
    }
}

impl Reader {
    fn thread(&self) -> Option<&ThreadState> {
        self.checkpoint.threads.get(&self.name)
    }

    fn has_told(&self) -> bool {
        self.thread().is_some_and(|thread| thread.is_started)
    }

    /// Whether it goes on with this one, or works for it.
    fn comes_from(&self, session: &str) -> bool {
        self.parent().is_some_and(|parent| parent.session == session)
    }

    /// The session it goes on with, or works for.
    fn parent(&self) -> Option<&ParentLink> {
        self.thread()?.parent.as_ref()
    }

    /// The session it goes on with.
    fn forked_from(&self) -> Option<&ParentLink> {
        self.parent().filter(|parent| parent.mode == SessionMode::Fork)
    }
}
