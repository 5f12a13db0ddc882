//! A session that appears after one that repeats it.
//!
//! What it would tell first is told already, in the other one. Which of the two comes from which
//! does not depend on who was read first: the files say so, by the names in them, by when they
//! were begun, and by one being no more than the beginning of the other.

use std::fs::Metadata;

use event::payload::SessionMode;

use crate::admission::admit;
use crate::age::ages;
use crate::agent::{Agent, Kin};
use crate::discover::discover_at;
use crate::limit::LINEAGE_MAX;
use crate::origin::Origin;
use crate::position::Position;
use crate::pump::{Failed, Pump, Summary, kin};
use crate::sink::{Batch, Sink};
use crate::source::Source;
use crate::thread::Parent;
use crate::told::Told;

/// A source that is read for the first time and repeats what others have told.
pub(crate) struct Newcomer<'a> {
    pub agent: &'a dyn Agent,
    pub source: &'a Source,
    pub metadata: &'a Metadata,
    pub kin: &'a Kin,
    pub origin: &'a Origin,
}

/// What is known of a session that was repeated before it was read.
pub(crate) struct Late {
    /// Where it comes from itself.
    pub parent: Option<Parent>,
}

/// A session that was read before.
struct Reader {
    /// The provider's id of the session.
    name: String,
    key: String,
    position: Position,
    recorded: String,
}

impl Pump<'_> {
    /// Whether others go on with what the newcomer says, though they were read before it. Then one
    /// that does not know yet where it comes from is told; one that does keeps its parent.
    pub(crate) fn late(
        &self,
        newcomer: &Newcomer<'_>,
        sink: &mut dyn Sink,
        summary: &mut Summary,
    ) -> Result<Option<Late>, Failed> {
        let Newcomer { source, kin, origin, .. } = *newcomer;
        let own = &source.session;
        let named = kin.parent.as_ref().filter(|parent| *parent != own);
        let (_, first) = origin.session.as_str().split_once(':').unwrap_or_default();
        if named.is_some_and(|named| named == first) {
            return Ok(None);
        }
        sink.settle()?;
        let line = self.line(source.provider, first, sink)?;
        let parents = || line.iter().filter_map(Reader::parent);
        let by_name = || named.map(String::as_str).map(Parent::unseen);
        if parents().any(|parent| parent.session == *own) {
            return Ok(Some(Late { parent: by_name() }));
        }
        // Both come from the same: it shows as much of it as the one that told the rest first.
        if let Some(same) = parents().find(|parent| Some(&parent.session) == named) {
            return Ok(Some(Late { parent: Some(same.clone()) }));
        }
        // Forks of this agent say whose they are.
        if kin.family.is_none() && named.is_none() {
            return Ok(Some(Late { parent: None }));
        }
        let younger = line.iter().take_while(|reader| self.is_older(newcomer, reader)).count();
        let Some(heir) = younger.checked_sub(1) else { return Ok(None) };
        let parent = match line[heir].parent() {
            // It comes in between, or beside.
            Some(parent) if younger < line.len() => Some(parent.clone()),
            Some(_) => by_name(),
            // It works for somebody, and stays whose it is.
            None if line[heir].works() => by_name(),
            None => {
                let heir = line.into_iter().nth(heir).expect("it was counted");
                self.tell_parent(newcomer, heir, sink, summary)?;
                by_name()
            }
        };
        Ok(Some(Late { parent }))
    }

    /// A session and those it comes from, as far as they were read, youngest first.
    fn line(&self, provider: &str, first: &str, sink: &dyn Sink) -> Result<Vec<Reader>, Failed> {
        let mut line: Vec<Reader> = Vec::new();
        let mut next = Some(first.to_owned());
        while let Some(name) = next.take().filter(|_| line.len() < LINEAGE_MAX) {
            if line.iter().any(|reader| reader.name == name) {
                break;
            }
            let known = self.tellers.find(provider, &name, sink)?;
            let Some((key, position, recorded)) = known else { break };
            let reader = Reader { name, key, position, recorded };
            next = reader.parent().map(|parent| parent.session.clone());
            line.push(reader);
        }
        Ok(line)
    }

    /// Whether the newcomer was there before one that was read before it.
    fn is_older(&self, newcomer: &Newcomer<'_>, reader: &Reader) -> bool {
        let Newcomer { agent, source, metadata, kin: own, origin } = *newcomer;
        let path = &reader.position.path;
        let found = discover_at(agent, self.environment, path, &mut Vec::new());
        let Some(found) = found.into_iter().find(|found| found.source.session == reader.name)
        else {
            // Nothing is left to compare with.
            return false;
        };
        let its = found.kin.unwrap_or_else(|| kin(agent, &found.source));
        let ages = ages(&[(own, metadata), (&its, &found.metadata)]);
        if ages[0].since != ages[1].since {
            return ages[0].since < ages[1].since;
        }
        // A file that was only copied calls itself what the other is called.
        let calls_itself_so = own.named.as_ref() == Some(&source.session);
        let last_at = reader.position.threads.get(&reader.name).and_then(|thread| thread.last_at);
        let is_beginning = origin.is_all && calls_itself_so && origin.last_at < last_at;
        is_beginning || ages[0] < ages[1]
    }

    /// Records of a session that it comes from the newcomer.
    fn tell_parent(
        &self,
        newcomer: &Newcomer<'_>,
        heir: Reader,
        sink: &mut dyn Sink,
        summary: &mut Summary,
    ) -> Result<(), Failed> {
        let provider = newcomer.source.provider;
        let Reader { name, key, mut position, recorded } = heir;
        let source = Source::known(provider, &key, &position.path);
        let nothing_beside = |_: &str| None;
        let (generation, now) = (position.generation, (self.clock)());
        let mut told = Told::new(&source, generation, &mut position.threads, &nothing_beside, now);
        told.session(&name);
        told.comes_from(&newcomer.source.session);
        let mut drafts = told.finish().drafts;
        // It stands in no record.
        drafts.iter_mut().for_each(|draft| drop(draft.metadata.remove("record")));
        admit(provider, &position.threads, &mut drafts, sink);
        summary.add(provider, &drafts);
        sink.put(Batch { source: key, from: Some(recorded), to: position.encode(), drafts })?;
        Ok(sink.settle()?)
    }
}

impl Reader {
    /// Whether it works for another session.
    fn works(&self) -> bool {
        self.position.threads.get(&self.name).is_some_and(|thread| thread.works().is_some())
    }

    /// The session it goes on with.
    fn parent(&self) -> Option<&Parent> {
        let parent = self.position.threads.get(&self.name)?.parent.as_ref();
        parent.filter(|parent| parent.mode == SessionMode::Fork)
    }
}
