//! What a journal must be: sessions as plain lists of events, and the rules of the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use event::payload::{SessionMode, SessionStarted};
use event::{Cost, Draft, Event, EventId, FORK_ORIGIN, ForkOrigin, Kind, Raw, SessionId, Time};
use journal::{
    Ancestry, AppendMode, AppendOutcome, EventReceipt, ForkPolicy, Journal, Recorded, Selection,
    Sighting, SourceMove,
};

/// How far a source was read before and after a batch.
pub(super) type Reading = SourceMove;

/// What was answered; of a refusal, its name.
pub(super) type Answer<T> = Result<T, String>;

/// The name of an error's variant, whatever family carries it.
pub(super) fn answer<T>(answer: Result<T, impl Debug>) -> Answer<T> {
    answer.map_err(|error| {
        let text = format!("{error:?}");
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        let families = ["Ancestry", "Append", "Read", ""];
        words.find(|word| !families.contains(word)).unwrap_or_default().to_owned()
    })
}

#[derive(Clone, Default)]
pub(super) struct Model {
    sessions: BTreeMap<SessionId, Session>,
    pub(super) gone: BTreeMap<SessionId, Time>,
    pub(super) sources: BTreeMap<String, String>,
    pub(super) consumers: BTreeMap<String, u64>,
    tail: u64,
}

#[derive(Clone)]
pub(super) struct Session {
    /// Everything it shows, in order.
    pub(super) events: Vec<Event>,
    /// The position of each.
    pub(super) positions: Vec<u64>,
    /// How many of them are inherited.
    pub(super) inherited: usize,
    /// Whether their ids, or the positions of copies, are still to be learned.
    to_learn: Option<Lesson>,
    pub(super) ancestry: Ancestry,
    /// What was recorded here: not what is inherited or was copied.
    pub(super) recorded: u64,
    pub(super) cost: Cost,
    pub(super) last_at: Time,
    sightings: BTreeMap<u64, Vec<Sighting>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lesson {
    Ids,
    Positions,
}

impl Model {
    pub(super) fn sessions(&self) -> impl Iterator<Item = (&SessionId, &Session)> {
        self.sessions.iter()
    }

    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    pub(super) fn tail_of(&self, id: &SessionId) -> u64 {
        self.events(id).len() as u64
    }

    pub(super) fn events(&self, id: &SessionId) -> &[Event] {
        self.sessions.get(id).map_or(&[], |session| &session.events)
    }

    /// Every event of every session, and whether it is its own.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&Event, bool)> {
        self.sessions.values().flat_map(|session| {
            let events = session.events.iter().enumerate();
            events.map(|(place, event)| (event, place >= session.inherited))
        })
    }

    /// What is stored, in the order of positions.
    pub(super) fn log(&self) -> Vec<Recorded> {
        let own = self.sessions.values().flat_map(|session| {
            let own = session.positions.iter().zip(&session.events).skip(session.inherited);
            own.map(|(position, event)| Recorded { position: *position, event: event.clone() })
        });
        let mut log: Vec<Recorded> = own.collect();
        log.sort_by_key(|recorded| recorded.position);
        log
    }

    /// Whether an event that was delivered is still there.
    pub(super) fn knows(&self, recorded: &Recorded) -> bool {
        self.sessions.contains_key(&recorded.event.session_id)
    }

    pub(super) fn append(
        &mut self,
        door: AppendMode,
        drafts: &[Draft],
        expected: Option<&(SessionId, u64)>,
        reading: Option<&Reading>,
    ) -> Answer<Vec<EventReceipt>> {
        let mut trial = self.clone();
        if expected.is_some_and(|(id, seq)| self.tail_of(id) != *seq) {
            return Err("Conflict".to_owned());
        }
        if let Some(reading) = reading {
            if self.sources.get(&reading.source_id) != reading.from.as_ref() {
                return Err("SourceMoved".to_owned());
            }
            trial.sources.insert(reading.source_id.clone(), reading.to.clone());
        }
        let answers: Answer<Vec<EventReceipt>> =
            drafts.iter().map(|draft| trial.add(door, draft, reading)).collect();
        let answers = answers?;
        *self = trial;
        Ok(answers)
    }

    fn add(
        &mut self,
        door: AppendMode,
        draft: &Draft,
        reading: Option<&Reading>,
    ) -> Answer<EventReceipt> {
        let id = &draft.session_id;
        let started = draft.payload::<SessionStarted>().unwrap().unwrap_or_default();
        let is_hosted = door == AppendMode::Hosted;
        let parent = started.parent.as_ref().filter(|_| is_hosted);
        if parent.is_some_and(|parent| parent.session_id == *id) {
            return Err("SameSession".to_owned());
        }
        if self.gone.contains_key(id) {
            let ignored =
                EventReceipt { id: draft.id, seq: 0, position: 0, outcome: AppendOutcome::Ignored };
            return if is_hosted { Err("Deleted".to_owned()) } else { Ok(ignored) };
        }
        let mut session = match self.sessions.get(id) {
            Some(session) => session.clone(),
            None => self.begin(is_hosted, draft, &started)?,
        };
        if let Some(place) = session.place_of(draft) {
            return self.retold(is_hosted, id.clone(), place, draft, reading);
        }
        if parent.is_some() && session.events.len() > session.inherited {
            return Err("SessionExists".to_owned());
        }
        if let Some((owner, place)) = self.owner(draft) {
            return self.retold(is_hosted, owner, place, draft, reading);
        }
        self.tail += 1;
        let appended = session.record(draft, self.tail);
        self.sessions.insert(id.clone(), session);
        Ok(appended)
    }

    /// A second telling of what stands at a place of a session.
    fn retold(
        &mut self,
        is_hosted: bool,
        mut id: SessionId,
        place: usize,
        draft: &Draft,
        reading: Option<&Reading>,
    ) -> Answer<EventReceipt> {
        let session = &self.sessions[&id];
        let (first, position) = (session.events[place].clone(), session.positions[place]);
        let differs = !first.has_same_content(draft);
        if is_hosted && differs {
            return Err("DuplicateId".to_owned());
        }
        let is_other =
            differs || (&first.source, first.observed_at) != (&draft.source, draft.observed_at);
        if !is_hosted && is_other {
            // It is kept where the event is.
            while let Some(parent) = self.sessions[&id].source_of(place) {
                id = parent.clone();
            }
            let session = self.sessions.get_mut(&id).expect("just seen");
            session.sightings.entry(first.seq).or_default().push(Sighting {
                source: draft.source.as_str().to_owned(),
                observed_at: draft.observed_at,
                source_position: reading.map(|reading| reading.to.clone()),
                differs,
            });
        }
        let outcome = AppendOutcome::AlreadyRecorded { differs };
        Ok(EventReceipt { id: first.id, seq: first.seq, position, outcome })
    }

    /// Other tellings of an event that a session shows.
    pub(super) fn sightings(&self, id: &SessionId, seq: u64) -> Vec<Sighting> {
        let mut session = &self.sessions[id];
        while let Some(parent) = session.source_of(seq as usize - 1) {
            session = &self.sessions[parent];
        }
        session.sightings.get(&seq).cloned().unwrap_or_default()
    }

    /// A session before its first event.
    fn begin(&self, is_hosted: bool, draft: &Draft, started: &SessionStarted) -> Answer<Session> {
        let mut session = Session::new(Ancestry::root(draft.session_id.clone(), draft.created_at));
        let Some(parent) = &started.parent else { return Ok(session) };
        session.ancestry.parent_session_id = Some(parent.session_id.clone());
        session.ancestry.mode = started.mode.clone();
        session.ancestry.fork_point_seq = parent.seq;
        session.ancestry.label = started.label.clone();
        match self.inherit(&mut session) {
            Err(refusal) if is_hosted => Err(refusal),
            _ => Ok(session),
        }
    }

    /// Gives a descendant what it shows of its parent.
    fn inherit(&self, session: &mut Session) -> Answer<()> {
        session.ancestry.depth = 1;
        let parent = session.ancestry.parent_session_id.as_ref().expect("a descendant");
        if *parent == session.ancestry.session_id {
            return Ok(());
        }
        let parent = self.sessions.get(parent).ok_or("SessionNotFound")?;
        let point = session.ancestry.fork_point_seq as usize;
        if point > parent.events.len() {
            return Err("PointOutOfRange".to_owned());
        }
        session.ancestry.depth = parent.ancestry.depth + 1;
        if session.ancestry.mode == Some(SessionMode::Fork) && point > 0 {
            session.events = parent.events[..point].to_vec();
            session.positions = parent.positions[..point].to_vec();
            session.inherited = point;
            session.to_learn = Some(Lesson::Ids);
        }
        Ok(())
    }

    /// Which session has recorded this id, and where.
    fn owner(&self, draft: &Draft) -> Option<(SessionId, usize)> {
        self.sessions.iter().find_map(|(id, session)| {
            let place = session.events.iter().position(|event| event.id == draft.id)?;
            (place >= session.inherited).then(|| (id.clone(), place))
        })
    }

    pub(super) fn import(&mut self, ancestry: &Ancestry) -> Answer<()> {
        let parent = ancestry.parent_session_id.as_ref().expect("a descendant is imported");
        if *parent == ancestry.session_id {
            return Err("Cycle".to_owned());
        }
        let known = self.sessions.get(&ancestry.session_id).map(|session| &session.ancestry);
        if let Some(known) = known {
            // What is recorded counts its own generations.
            let same = Ancestry { depth: known.depth, ..ancestry.clone() };
            if *known != same {
                return Err("AncestryDiffers".to_owned());
            }
        }
        if !self.sessions.contains_key(parent) {
            return Err("DanglingParent".to_owned());
        }
        if known.is_none() && !self.gone.contains_key(&ancestry.session_id) {
            let mut session = Session::new(ancestry.clone());
            // Without the parent's events there is nothing to inherit.
            let _ = self.inherit(&mut session);
            self.sessions.insert(ancestry.session_id.clone(), session);
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, id: &SessionId, at: Time, forks: ForkPolicy) -> Answer<()> {
        if !self.sessions.contains_key(id) {
            return Err("SessionNotFound".to_owned());
        }
        let stands_on = |session: &&mut Session| {
            session.inherited > 0 && session.ancestry.parent_session_id.as_ref() == Some(id)
        };
        let heirs: Vec<&mut Session> = self.sessions.values_mut().filter(stands_on).collect();
        if forks == ForkPolicy::Refuse && !heirs.is_empty() {
            return Err("HasForks".to_owned());
        }
        for heir in heirs {
            self.tail += heir.inherited as u64;
            heir.inherited = 0;
            heir.to_learn = Some(Lesson::Positions);
        }
        self.sessions.remove(id);
        self.gone.insert(id.clone(), at);
        Ok(())
    }

    /// Takes over what only the journal can know, if it is what it has to be.
    pub(super) fn learn(&mut self, journal: &Journal) {
        let mut pupils: Vec<(SessionId, Lesson)> = self
            .sessions
            .iter()
            .filter_map(|(id, session)| Some((id.clone(), session.to_learn?)))
            .collect();
        // Parents first: what a fork inherits is what its parent shows.
        pupils.sort_by_key(|(id, _)| self.sessions[id].ancestry.depth);
        let before = self.sessions.values().flat_map(|session| &session.positions);
        let known: BTreeSet<u64> = before.copied().collect();
        for (id, lesson) in pupils {
            let found = journal.events(&id, Selection::all()).unwrap().recorded();
            let found: Vec<Recorded> = found.map(Result::unwrap).collect();
            match lesson {
                Lesson::Ids => self.learn_ids(&id, &found),
                Lesson::Positions => self.learn_positions(&id, &found, &known),
            }
            self.sessions.get_mut(&id).expect("a pupil").to_learn = None;
        }
        self.share_positions();
    }

    fn learn_ids(&mut self, id: &SessionId, found: &[Recorded]) {
        let session = &self.sessions[id];
        let parent = session.ancestry.parent_session_id.clone().expect("a fork");
        let sources = &self.sessions[&parent].events[..session.inherited];
        let fresh: BTreeMap<EventId, EventId> =
            sources.iter().map(|event| event.id).zip(found.iter().map(|r| r.event.id)).collect();
        let distinct: BTreeSet<&EventId> = fresh.values().chain(fresh.keys()).collect();
        assert_eq!(distinct.len(), 2 * sources.len(), "fresh ids are fresh and distinct");
        let is_dated = |(old, new): (&EventId, &EventId)| old.bytes()[..6] == new.bytes()[..6];
        assert!(fresh.iter().all(is_dated), "fresh ids keep their time");
        let inherited: Vec<Event> =
            sources.iter().map(|event| shown_as(event, id, &parent, &fresh)).collect();
        let session = self.sessions.get_mut(id).expect("just seen");
        session.events.splice(..inherited.len(), inherited);
    }

    /// Copies are put behind everything, each session's in its order.
    fn learn_positions(&mut self, id: &SessionId, found: &[Recorded], known: &BTreeSet<u64>) {
        let tail = self.tail;
        let session = self.sessions.get_mut(id).expect("a pupil");
        let count = session.ancestry.fork_point_seq as usize;
        let copies: Vec<u64> = found.iter().take(count).map(|r| r.position).collect();
        assert!(copies.is_sorted_by(|a, b| a < b));
        let is_new = |position: &u64| !known.contains(position) && *position <= tail;
        assert!(copies.iter().all(is_new), "{copies:?}");
        session.positions.splice(..count, copies);
    }

    /// What is inherited stands where the parent has it, also after that was copied.
    fn share_positions(&mut self) {
        let mut ids: Vec<SessionId> = self.sessions.keys().cloned().collect();
        ids.sort_by_key(|id| self.sessions[id].ancestry.depth);
        for id in ids {
            let session = &self.sessions[&id];
            let count = session.inherited;
            if let Some(parent) = session.ancestry.parent_session_id.clone().filter(|_| count > 0) {
                let positions = self.sessions[&parent].positions[..count].to_vec();
                let session = self.sessions.get_mut(&id).expect("just seen");
                session.positions.splice(..count, positions);
            }
        }
    }
}

impl Session {
    fn new(ancestry: Ancestry) -> Session {
        Session {
            events: Vec::new(),
            positions: Vec::new(),
            inherited: 0,
            to_learn: None,
            recorded: 0,
            cost: Cost::ZERO,
            last_at: ancestry.created_at,
            ancestry,
            sightings: BTreeMap::new(),
        }
    }

    /// Where the fact of a draft stands: an own event by its id without the time, an inherited
    /// one by all of it.
    fn place_of(&self, draft: &Draft) -> Option<usize> {
        self.events.iter().enumerate().position(|(place, event)| {
            if place < self.inherited {
                event.id == draft.id
            } else {
                event.id.tail() == draft.id.tail()
            }
        })
    }

    /// The session that has the event at a place, unless it is this one.
    fn source_of(&self, place: usize) -> Option<&SessionId> {
        self.ancestry.parent_session_id.as_ref().filter(|_| place < self.inherited)
    }

    fn record(&mut self, draft: &Draft, position: u64) -> EventReceipt {
        let seq = self.events.len() as u64 + 1;
        self.last_at =
            if self.recorded == 0 { draft.created_at } else { self.last_at.max(draft.created_at) };
        self.recorded += 1;
        self.cost += draft.cost.unwrap_or(Cost::ZERO);
        self.events.push(draft.clone().with_seq(seq));
        self.positions.push(position);
        EventReceipt { id: draft.id, seq, position, outcome: AppendOutcome::Recorded }
    }
}

/// An event of the parent as a fork shows it.
fn shown_as(
    event: &Event,
    fork: &SessionId,
    parent: &SessionId,
    fresh: &BTreeMap<EventId, EventId>,
) -> Event {
    let origin = ForkOrigin { session_id: parent.clone(), event_id: event.id };
    let mut shown = event.clone();
    let draft = &mut shown.draft;
    draft.session_id = fork.clone();
    draft.id = fresh[&event.id];
    draft.metadata.insert(FORK_ORIGIN.to_owned(), Raw::from_value(&origin).unwrap());
    if let Some(new) = draft.parent_id.and_then(|id| fresh.get(&id)) {
        draft.parent_id = Some(*new);
    }
    if let Some(new) = draft.amends().and_then(|id| fresh.get(&id)) {
        draft.metadata.insert("amends".to_owned(), Raw::from_value(new).unwrap());
    }
    if draft.kind == Kind::Compaction {
        let mut data = draft.data.get().to_owned();
        for (old, new) in fresh {
            data = data.replace(&old.to_string(), &new.to_string());
        }
        draft.data = Raw::parse(data).unwrap();
    }
    shown
}
