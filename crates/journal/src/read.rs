//! Reads a session: its own events, and before them those it inherits.
//!
//! A fork stores only its own events. What it inherits is read from its ancestors and translated:
//!
//! ```text
//! root   1 2 3 4 5 6
//! fork       └ forked at 3:  1 2 3 (of root, under ids of the fork)  4' 5'
//! ```
//!
//! The log only grows, so a read is a range of `seq`: it ends with the last event that was
//! committed when it began, although later pages use later transactions.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use event::{Event, EventId, FORK_ORIGIN, ForkOrigin, Kind, Raw, SessionId, Time};

use crate::fork::ForkIds;
use crate::id_cache::IdSuffix;
use crate::limit::{GENERATIONS_MAX, PAGE_EVENTS_MAX};
use crate::recovery::salvage_event;
use crate::store::{BrokenEvent, Direction, SeqRange, SessionRow, Store, StoreReader, StoredEvent};
use crate::{Damage, ReadError, Recorded, StorageError};

/// What to do about a damaged event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadMode {
    /// Stop with an error that names the place.
    Strict,
    /// Return an `unknown` event with what is left of it, and go on.
    #[default]
    Salvage,
}

/// Which events of a session to read.
#[derive(Clone, Debug)]
pub struct Selection {
    /// First and last `seq`, both included.
    pub from_seq: u64,
    pub to_seq: u64,
    /// Instants of `created_at`, both included.
    pub since: Option<Time>,
    pub until: Option<Time>,
    /// Only these kinds; all if empty.
    pub kinds: BTreeSet<Kind>,
    pub order: Direction,
    pub mode: ReadMode,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection {
            from_seq: 1,
            to_seq: u64::MAX,
            since: None,
            until: None,
            kinds: BTreeSet::new(),
            order: Direction::OldestFirst,
            mode: ReadMode::Salvage,
        }
    }
}

impl Selection {
    pub fn all() -> Selection {
        Selection::default()
    }

    /// Selects the events behind `seq`.
    pub fn after(seq: u64) -> Selection {
        Selection { from_seq: seq.saturating_add(1), ..Selection::default() }
    }

    #[must_use]
    pub fn up_to(self, seq: u64) -> Selection {
        Selection { to_seq: seq, ..self }
    }

    #[must_use]
    pub fn newest_first(self) -> Selection {
        Selection { order: Direction::NewestFirst, ..self }
    }

    #[must_use]
    pub fn strict(self) -> Selection {
        Selection { mode: ReadMode::Strict, ..self }
    }

    #[must_use]
    pub fn of_kinds(self, kinds: impl IntoIterator<Item = Kind>) -> Selection {
        Selection { kinds: kinds.into_iter().collect(), ..self }
    }

    fn matches(&self, event: &Event) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.since.is_none_or(|since| event.created_at >= since)
            && self.until.is_none_or(|until| event.created_at <= until)
    }
}

/// A session and the ancestors that it inherits from, nearest first.
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    generations: Vec<Generation>,
}

#[derive(Clone, Debug)]
struct Generation {
    row: SessionRow,
    /// The ids that this session shows for what it inherits.
    ids: ForkIds,
}

impl Lineage {
    pub(crate) fn load(reader: &dyn StoreReader, id: &SessionId) -> Result<Lineage, ReadError> {
        let row = reader.session(id)?.ok_or_else(|| ReadError::SessionNotFound(id.clone()))?;
        Lineage::from_row(reader, row)
    }

    pub(crate) fn from_row(
        reader: &dyn StoreReader,
        row: SessionRow,
    ) -> Result<Lineage, ReadError> {
        let mut generations = vec![Generation { ids: ForkIds::for_fork(&row.id), row }];
        loop {
            let child = &generations[generations.len() - 1].row;
            // A session that inherits nothing ends the chain, even if it names a parent.
            let Some(link) = child.parent.as_ref().filter(|_| child.base_seq > 0) else { break };
            let parent = reader.session(&link.session_id)?.ok_or_else(|| {
                damage_error(&child.id, child.base_seq, "the parent it stands on is missing")
            })?;
            // A damaged catalogue may contain a circle, which would never end.
            if generations.len() > GENERATIONS_MAX as usize {
                return Err(damage_error(&child.id, 0, "its ancestry has no end"));
            }
            generations.push(Generation { ids: ForkIds::for_fork(&parent.id), row: parent });
        }
        Ok(Lineage { generations })
    }

    pub(crate) fn session(&self) -> &SessionRow {
        &self.generations[0].row
    }

    /// Lists the sessions that this one shows events of, nearest first, each with the last `seq`
    /// shown.
    pub(crate) fn visible_ranges(&self) -> Vec<(SessionId, u64)> {
        // What a grandparent shows is cut by each fork point on the way:
        //
        //   root    1 2 3 4 5 6 7
        //   fork    └─ at 5 ─┘ 6' 7'
        //   fork'   └ at 3 ┘ 4'' 5''      shows root up to 3, not up to 5
        let mut limit = u64::MAX;
        let mut shown = Vec::new();
        for generation in &self.generations {
            shown.push((generation.row.id.clone(), limit.min(generation.row.tail_seq)));
            limit = limit.min(generation.row.base_seq);
        }
        shown
    }

    /// Returns the `seq` of the event that this session shows under `id`.
    pub(crate) fn seq_of(
        &self,
        reader: &dyn StoreReader,
        id: EventId,
    ) -> Result<Option<u64>, StorageError> {
        self.seq_in(reader, 0, id)
    }

    fn seq_in(
        &self,
        reader: &dyn StoreReader,
        generation: usize,
        id: EventId,
    ) -> Result<Option<u64>, StorageError> {
        let mut id = id;
        // A session shows its parent's events only up to the fork point.
        let mut limit = u64::MAX;
        for generation in &self.generations[generation..] {
            // Only the generation that stores an event knows its id as it was recorded. Every step
            // up translates the id once more.
            if let Some((number, seq)) = reader.locate(&id)?
                && number == generation.row.number
            {
                return Ok(Some(seq).filter(|seq| *seq <= limit));
            }
            // The id under which the parent shows the same event.
            id = generation.ids.parent_id(id);
            limit = limit.min(generation.row.base_seq);
        }
        Ok(None)
    }

    /// Maps the id suffixes of all events that this session shows to their `seq`.
    pub(crate) fn ids_by_suffix(
        &self,
        reader: &dyn StoreReader,
    ) -> Result<HashMap<IdSuffix, u64>, StorageError> {
        let mut facts = HashMap::new();
        let mut limit = u64::MAX;
        for generation in &self.generations {
            // Suffixes as stored: a fact that capture reads again has the id it was recorded with.
            let ids = reader.ids(generation.row.number, generation.row.base_seq)?;
            let shown = ids.into_iter().filter(|(_, seq)| *seq <= limit);
            facts.extend(shown.map(|(id, seq)| (id.tail(), seq)));
            limit = limit.min(generation.row.base_seq);
        }
        Ok(facts)
    }

    /// Reads one page between two `seq`, both included, in the given order. A page never spans two
    /// generations, so it may be shorter than the range.
    ///
    /// Empty only if there is nothing at or behind the beginning of the range.
    pub(crate) fn page(
        &self,
        reader: &dyn StoreReader,
        range: SeqRange,
    ) -> Result<Vec<StoredEvent>, StorageError> {
        // The end at which reading begins decides the generation; the caller comes back for the
        // rest.
        let first = match range.order {
            Direction::OldestFirst => range.from,
            Direction::NewestFirst => range.to,
        };
        let (depth, low, high) = self.generation_of(first);
        let own = SeqRange { from: range.from.max(low), to: range.to.min(high), ..range };
        let mut page = reader.events(self.generations[depth].row.number, own)?;
        for stored in &mut page {
            if let Ok(event) = &mut stored.event {
                self.translate(reader, depth, event)?;
            }
        }
        Ok(page)
    }

    /// Returns the number of the session that stores the event at `seq`.
    pub(crate) fn stored_in(&self, seq: u64) -> u32 {
        self.generations[self.generation_of(seq).0].row.number
    }

    /// Returns the generation that stores `seq`, and the first and last `seq` it is shown for.
    fn generation_of(&self, seq: u64) -> (usize, u64, u64) {
        let mut high = u64::MAX;
        for (depth, generation) in self.generations.iter().enumerate() {
            // `high` caps the base: a child may be forked from an earlier point than its parent
            // was.
            let base = generation.row.base_seq.min(high);
            if seq > base || depth + 1 == self.generations.len() {
                return (depth, base + 1, high);
            }
            high = base;
        }
        (0, 1, high)
    }

    /// Translates an event of the ancestor `depth` generations up into what this session shows.
    fn translate(
        &self,
        reader: &dyn StoreReader,
        depth: usize,
        event: &mut Event,
    ) -> Result<(), StorageError> {
        // Step by step down from the ancestor: each child translates what its parent shows.
        for child in (0..depth).rev() {
            let generation = &self.generations[child];
            let ids = generation.ids;
            let base = generation.row.base_seq;
            // Only the session that is read names an origin, and that is the event as its parent
            // shows it, one step before the last translation.
            if child == 0 {
                let origin = ForkOrigin {
                    session_id: self.generations[1].row.id.clone(),
                    event_id: event.id,
                };
                let origin = Raw::from_value(&origin).expect("two strings always encode");
                event.draft.metadata.insert(FORK_ORIGIN.to_owned(), origin);
            }
            // References to inherited events are translated too; references to others stay.
            let failed = std::cell::RefCell::new(None);
            event.draft.translate_references(&|id| match self.seq_in(reader, child + 1, id) {
                Ok(Some(seq)) if seq <= base => Some(ids.fork_id(id)),
                Ok(_) => None,
                Err(error) => {
                    *failed.borrow_mut() = Some(error);
                    None
                }
            });
            if let Some(error) = failed.into_inner() {
                return Err(error);
            }
            event.draft.id = ids.fork_id(event.id);
        }
        if depth > 0 {
            event.draft.session_id = self.session().id.clone();
        }
        Ok(())
    }
}

/// Events on the first page: about what a person looks at.
const FIRST_PAGE_LEN: u64 = 64;

/// The events of one session, page by page.
pub struct Events {
    store: Arc<dyn Store>,
    lineage: Lineage,
    selection: Selection,
    page: VecDeque<Result<Recorded, ReadError>>,
    /// What is still to be read; empty when `from` is above `to`.
    rest: SeqRange,
    /// Events on the next page. Few at first, because many callers stop early; doubles with each
    /// page.
    page_len: u64,
}

impl Events {
    pub(crate) fn new(store: Arc<dyn Store>, lineage: Lineage, selection: Selection) -> Events {
        let rest = SeqRange {
            from: selection.from_seq.max(1),
            to: selection.to_seq.min(lineage.session().tail_seq),
            order: selection.order,
        };
        Events { store, lineage, selection, page: VecDeque::new(), rest, page_len: FIRST_PAGE_LEN }
    }

    /// Iterates over the events with their positions.
    pub fn recorded(self) -> impl Iterator<Item = Result<Recorded, ReadError>> {
        let mut events = self;
        std::iter::from_fn(move || events.next_recorded())
    }

    fn next_recorded(&mut self) -> Option<Result<Recorded, ReadError>> {
        while self.page.is_empty() && !self.is_done() {
            if let Err(error) = self.read_page() {
                // Ends the iterator: going on behind a failed page would leave a silent gap.
                self.rest.from = u64::MAX;
                return Some(Err(error));
            }
        }
        self.page.pop_front()
    }

    fn read_page(&mut self) -> Result<(), ReadError> {
        let range = self.next_range();
        let reader = self.store.reader()?;
        let page = self.lineage.page(&*reader, range)?;
        // A caller may take its time with the page. An open reader would hold its snapshot, and
        // with it the write-ahead log.
        drop(reader);
        // The catalogue counts events that the store has lost. One is reported, and the next round
        // reads on behind it.
        if page.is_empty() {
            self.take_missing();
        }
        for stored in page {
            // The store does not have the numbers that the page skips; each is reported.
            while !self.is_done() && self.expected() != stored.seq {
                self.take_missing();
            }
            if self.is_done() {
                break;
            }
            self.take_stored(stored);
            self.step();
        }
        Ok(())
    }

    /// Returns the range of the next page, and doubles the length of the one after it.
    fn next_range(&mut self) -> SeqRange {
        let SeqRange { from, to, order } = self.rest;
        let more = self.page_len - 1;
        self.page_len = (self.page_len * 2).min(PAGE_EVENTS_MAX as u64);
        match order {
            Direction::OldestFirst => {
                SeqRange { to: to.min(from.saturating_add(more)), ..self.rest }
            }
            Direction::NewestFirst => {
                SeqRange { from: from.max(to.saturating_sub(more)), ..self.rest }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.rest.from > self.rest.to
    }

    /// The `seq` of the next event.
    fn expected(&self) -> u64 {
        match self.rest.order {
            Direction::OldestFirst => self.rest.from,
            Direction::NewestFirst => self.rest.to,
        }
    }

    fn step(&mut self) {
        match self.rest.order {
            Direction::OldestFirst => self.rest.from = self.rest.from.saturating_add(1),
            Direction::NewestFirst => self.rest.to = self.rest.to.saturating_sub(1),
        }
    }

    /// Reports an event that the catalogue counts and the store does not have.
    fn take_missing(&mut self) {
        self.push_item(self.broken(self.expected(), 0, None));
        self.step();
    }

    fn take_stored(&mut self, stored: StoredEvent) {
        let item = match stored.event {
            Ok(event) => Ok(Recorded { position: stored.position, event }),
            Err(broken) => self.broken(stored.seq, stored.position, Some(*broken)),
        };
        self.push_item(item);
    }

    /// Queues an item if the selection wants it; an error ends the read.
    fn push_item(&mut self, item: Result<Recorded, ReadError>) {
        match item {
            Ok(recorded) if self.selection.matches(&recorded.event) => {
                self.page.push_back(Ok(recorded));
            }
            Ok(_) => {}
            Err(error) => {
                self.page.push_back(Err(error));
                // An empty range that the saturating `step` after this cannot open again.
                self.rest.from = u64::MAX;
                self.rest.to = 0;
            }
        }
    }

    fn broken(
        &self,
        seq: u64,
        position: u64,
        broken: Option<BrokenEvent>,
    ) -> Result<Recorded, ReadError> {
        let session = self.lineage.session();
        let broken = broken.unwrap_or_else(|| BrokenEvent {
            damage: Damage {
                store: self.store.capabilities().name,
                file: self.store.dir().map_or_else(Default::default, Into::into),
                line: None,
                byte: None,
                session_id: Some(session.id.clone()),
                seq: Some(seq),
                why: "the event is missing".to_owned(),
            },
            bytes: Vec::new(),
        });
        match self.selection.mode {
            ReadMode::Strict => Err(ReadError::Corrupt(Box::new(broken.damage))),
            ReadMode::Salvage => {
                let event = salvage_event(&session.id, seq, session.created_at, &broken);
                Ok(Recorded { position, event })
            }
        }
    }
}

impl Iterator for Events {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Result<Event, ReadError>> {
        Some(self.next_recorded()?.map(|recorded| recorded.event))
    }
}

fn damage_error(session_id: &SessionId, seq: u64, why: &str) -> ReadError {
    ReadError::Corrupt(Box::new(Damage {
        store: "journal",
        file: Default::default(),
        line: None,
        byte: None,
        session_id: Some(session_id.clone()),
        seq: Some(seq),
        why: why.to_owned(),
    }))
}
