//! The full-text index: how it is fed and what it can be asked.
//!
//! A document is the set of words and tags of one event, under the event's position. Which words
//! stand where in it is not kept: that would triple the size, and what is shown is read and
//! compared anyway.
//!
//! The index is cut into parts by position, and a part into stretches of events that were indexed
//! together. Feeding never merges more than one part, and a question that the newest part answers
//! costs the same however long the log is.

use std::collections::HashMap;
use std::ops::Range;

use event::{Draft, SessionId};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::Corpus;
use super::expression::{Demand, Expression};
use super::fold::{fold_into, pieces};
use super::forget::follow_deletions;
use super::gathering::Gathering;
use super::stretch::{self, Stretch};
use super::tags::{self, Tagging};
use crate::backlog::Fresh;
use crate::derived::{Derived, Failure};
use crate::{ReadError, Recorded};

/// Positions per part. Looking up a beginning gathers all of a part's matches at once: some
/// milliseconds at this size.
const PART_LEN: u64 = 1 << 18;

/// Events that are indexed in one transaction, or the bytes their words take in memory; whatever a
/// last page has beyond it is taken too. Each transaction leaves a stretch to be merged with
/// others later, so few large ones cost much less than many small ones.
const FEED_EVENTS: usize = 8_192;
const FEED_BYTES: usize = 4 << 20;

/// A text is folded in pieces of about this size: each is still at hand when its words are looked
/// for, and a long text is not held twice.
const PIECE_BYTES: usize = 64 * 1024;

/// How far the index has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fed {
    /// Everything up to this position is indexed.
    pub(crate) indexed: u64,
    /// Nothing was left to index.
    pub(crate) is_current: bool,
}

/// Indexes the next events in one transaction. The log's lock is not needed. Within a process one
/// feeds at a time, so that nothing is read twice; another process that feeds the same file does
/// no harm.
pub(crate) fn feed(corpus: &dyn Corpus, derived: &Derived) -> Result<Fed, ReadError> {
    let _turn = derived.feeding();
    let state = derived.read("read", |connection| Ok(Index::new(connection).state()?))?;
    let tail = corpus.tail()?;
    if tail < state.indexed {
        // The log is an older one, put back from a copy: what is indexed is not what it will say.
        derived.clear()?;
    } else if tail == state.indexed && corpus.deletions()? == state.deletions {
        // What is at hand of it, somebody else has indexed.
        corpus.fresh(tail + 1);
        return Ok(Fed { indexed: tail, is_current: true });
    }
    derived.write("index events in", |tx| {
        let mut feeding = Feeding::new(tx, corpus)?;
        while feeding.events < FEED_EVENTS
            && feeding.gathering.bytes() < FEED_BYTES
            && feeding.step()?
        {}
        feeding.finish()
    })
}

/// Events on their way into the index.
struct Feeding<'a> {
    tx: &'a Transaction<'a>,
    corpus: &'a dyn Corpus,
    state: State,
    /// The part that is fed, and what there is to add to it.
    part: u64,
    gathering: Gathering,
    /// Room for the text that is being gathered.
    folded: String,
    projects: HashMap<SessionId, Option<String>>,
    tagging: Tagging,
    events: usize,
}

impl<'a> Feeding<'a> {
    fn new(tx: &'a Transaction<'_>, corpus: &'a dyn Corpus) -> Result<Feeding<'a>, Failure> {
        Ok(Feeding {
            tx,
            corpus,
            // Asked within the transaction: somebody else may have been faster.
            state: Index::new(tx).state()?,
            part: 0,
            gathering: Gathering::default(),
            folded: String::new(),
            projects: HashMap::new(),
            tagging: Tagging::default(),
            events: 0,
        })
    }

    /// Indexes the next few events; whether there were any.
    fn step(&mut self) -> Result<bool, Failure> {
        let next = self.state.indexed + 1;
        let fresh = self.corpus.fresh(next);
        for Fresh { position, draft } in &fresh {
            self.event(*position, draft)?;
        }
        if !fresh.is_empty() {
            return Ok(true);
        }
        let page = self.corpus.page(next..=u64::MAX, Direction::OldestFirst)?;
        for Recorded { position, event } in &page {
            self.event(*position, event)?;
        }
        Ok(!page.is_empty())
    }

    fn finish(mut self) -> Result<Fed, Failure> {
        stretch::add(self.tx, self.part, &self.gathering)?;
        follow_deletions(self.tx, self.corpus, &mut self.state)?;
        self.state.save(self.tx)?;
        Ok(Fed { indexed: self.state.indexed, is_current: self.events == 0 })
    }

    fn event(&mut self, position: u64, draft: &Draft) -> Result<(), Failure> {
        self.events += 1;
        self.state.indexed = position;
        let part = position / PART_LEN;
        if part != self.part {
            let gathered = std::mem::take(&mut self.gathering);
            stretch::add(self.tx, self.part, &gathered)?;
            self.part = part;
        }
        self.gather(position, draft)?;
        if let Some(first) = draft.amends()
            && let Some(first) = self.corpus.position(&draft.session_id, &first)?
        {
            self.replace(first)?;
        }
        Ok(())
    }

    /// Gathers words and tags, if anybody can ask for the event.
    fn gather(&mut self, position: u64, draft: &Draft) -> Result<(), Failure> {
        let found_by = draft.search_fields();
        if found_by.texts.is_empty() && found_by.keys.is_empty() {
            return Ok(());
        }
        let day = tags::day_of(draft.created_at);
        self.state.first_day = self.state.first_day.min(day);
        self.state.last_day = self.state.last_day.max(day);
        self.gathering.begin(place(position));
        for piece in found_by.texts.iter().flat_map(|text| pieces(text, PIECE_BYTES)) {
            fold_into(piece, &mut self.folded);
            self.gathering.add_text(&self.folded);
        }
        if !self.projects.contains_key(&draft.session_id) {
            let project = self.corpus.project(&draft.session_id)?;
            self.projects.insert(draft.session_id.clone(), project);
        }
        let Feeding { gathering, projects, tagging, .. } = self;
        let project = projects[&draft.session_id].as_deref();
        tagging.of_event(draft, &found_by, project, |tag| gathering.add(tag));
        Ok(())
    }

    /// A fuller account stands in for the event at a position from now on.
    fn replace(&mut self, position: u64) -> Result<(), rusqlite::Error> {
        let is_here = position / PART_LEN == self.part && self.gathering.drop(place(position));
        if !is_here && Index::new(self.tx).has(position)? {
            put_gone(self.tx, position)?;
        }
        self.tx
            .prepare_cached("INSERT OR IGNORE INTO replaced VALUES (?1)")?
            .execute([position as i64])?;
        Ok(())
    }
}

/// Where in its part a position lies.
fn place(position: u64) -> u32 {
    (position % PART_LEN) as u32
}

/// Notes that an event is gone, until a merge takes its words out.
pub(super) fn put_gone(tx: &Transaction<'_>, position: u64) -> Result<(), rusqlite::Error> {
    tx.prepare_cached("INSERT OR IGNORE INTO gone VALUES (?1, ?2)")?
        .execute(params![(position / PART_LEN) as i64, place(position)])?;
    Ok(())
}

/// What the index holds, as one connection sees it.
#[derive(Clone, Copy)]
pub(super) struct Index<'a> {
    connection: &'a Connection,
}

/// How far the log is indexed and which days occur in it; none if the first is after the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) indexed: u64,
    pub(super) first_day: i64,
    pub(super) last_day: i64,
    /// Deletions of the log that were followed here.
    pub(super) deletions: u64,
}

impl State {
    pub(super) fn save(&self, tx: &Transaction<'_>) -> Result<(), rusqlite::Error> {
        const SQL: &str =
            "UPDATE state SET indexed = ?1, first_day = ?2, last_day = ?3, deletions = ?4";
        let State { indexed, first_day, last_day, deletions } = *self;
        tx.prepare_cached(SQL)?
            .execute(params![indexed as i64, first_day, last_day, deletions as i64])
            .map(drop)
    }
}

/// Which way positions are gone through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    NewestFirst,
    OldestFirst,
}

impl<'a> Index<'a> {
    pub(super) fn new(connection: &'a Connection) -> Index<'a> {
        Index { connection }
    }

    pub(super) fn state(&self) -> Result<State, rusqlite::Error> {
        const SQL: &str = "SELECT indexed, first_day, last_day, deletions FROM state";
        self.connection.prepare_cached(SQL)?.query_row([], |row| {
            Ok(State {
                indexed: row.get::<_, i64>(0)? as u64,
                first_day: row.get(1)?,
                last_day: row.get(2)?,
                deletions: row.get::<_, i64>(3)? as u64,
            })
        })
    }

    /// The parts there are, oldest first.
    pub(super) fn parts(&self) -> Result<Vec<u64>, rusqlite::Error> {
        self.connection
            .prepare_cached("SELECT DISTINCT part FROM stretches ORDER BY part")?
            .query_map([], |row| Ok(row.get::<_, i64>(0)? as u64))?
            .collect()
    }

    /// Up to `limit` positions within `range` of a part that fit an expression, in order.
    pub(super) fn positions(
        &self,
        part: u64,
        expression: &Expression,
        range: &Range<u64>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<u64>, rusqlite::Error> {
        let first = part * PART_LEN;
        let mut stretches = stretch::stretches(self.connection, part)?;
        if direction == Direction::NewestFirst {
            stretches.reverse();
        }
        let gone = stretch::gone(self.connection, part)?;
        let mut found = Vec::new();
        for stretch in stretches {
            let places = &stretch.places;
            let (start, end) = (first + u64::from(places.start), first + u64::from(places.end));
            if start >= range.end || end <= range.start {
                continue;
            }
            let mut places = self.places(&stretch, expression)?;
            places.retain(|place| !gone.contains(place));
            let positions = places.into_iter().map(|place| first + u64::from(place));
            let positions = positions.filter(|position| range.contains(position));
            let room = limit - found.len();
            match direction {
                Direction::NewestFirst => found.extend(positions.rev().take(room)),
                Direction::OldestFirst => found.extend(positions.take(room)),
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    /// How many events within `range` of a part fit an expression, counted up to `limit`.
    pub(super) fn count(
        &self,
        part: u64,
        expression: &Expression,
        range: &Range<u64>,
        limit: usize,
    ) -> Result<usize, rusqlite::Error> {
        Ok(self.positions(part, expression, range, Direction::NewestFirst, limit)?.len())
    }

    /// Whether there is a document of a position.
    fn has(&self, position: u64) -> Result<bool, rusqlite::Error> {
        let any = Expression::word(tags::ANY);
        let range = position..position + 1;
        Ok(self.count(position / PART_LEN, &any, &range, 1)? > 0)
    }

    /// The places of a stretch that fit an expression, in order.
    fn places(
        &self,
        stretch: &Stretch,
        expression: &Expression,
    ) -> Result<Vec<u32>, rusqlite::Error> {
        let mut places = self.places_of_all(stretch, &expression.demands)?;
        if !places.is_empty() && !expression.exception.is_empty() {
            let except = self.places_of_all(stretch, &expression.exception)?;
            keep(&mut places, &except, false);
        }
        Ok(places)
    }

    /// The places that every demand is met at, in order.
    fn places_of_all(
        &self,
        stretch: &Stretch,
        demands: &[Demand],
    ) -> Result<Vec<u32>, rusqlite::Error> {
        let mut all: Option<Vec<u32>> = None;
        for demand in demands {
            let places = self.places_of(stretch, demand)?;
            match &mut all {
                Some(all) => keep(all, &places, true),
                None => all = Some(places),
            }
            if all.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        Ok(all.unwrap_or_default())
    }

    /// The places that a demand is met at, in order.
    fn places_of(&self, stretch: &Stretch, demand: &Demand) -> Result<Vec<u32>, rusqlite::Error> {
        let mut places = Vec::new();
        match demand {
            Demand::Word(word) => {
                stretch.word(self.connection, word, &mut places)?;
                return Ok(places);
            }
            Demand::Beginning(word) => stretch.beginning(self.connection, word, &mut places)?,
            Demand::AnyOf(words) => {
                for word in words {
                    stretch.word(self.connection, word, &mut places)?;
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }

    /// Whether a fuller account stands in for the event at a position.
    pub(super) fn is_replaced(&self, position: u64) -> Result<bool, rusqlite::Error> {
        let found = self
            .connection
            .prepare_cached("SELECT 1 FROM replaced WHERE position = ?1")?
            .query_row([position as i64], |_| Ok(()))
            .optional()?;
        Ok(found.is_some())
    }
}

/// The positions a part has room for.
pub(super) fn part_positions(part: u64) -> Range<u64> {
    part * PART_LEN..(part + 1) * PART_LEN
}

/// Whether positions of a part lie in `range`.
pub(super) fn is_part_in(part: u64, range: &Range<u64>) -> bool {
    let positions = part_positions(part);
    positions.start < range.end && positions.end > range.start
}

/// Leaves only those places in a list that stand, or do not stand, in another; both in order.
fn keep(places: &mut Vec<u32>, others: &[u32], in_both: bool) {
    let mut others = others.iter().peekable();
    places.retain(|place| {
        while others.next_if(|other| *other < place).is_some() {}
        (others.peek() == Some(&place)) == in_both
    });
}
