//! The full-text index: how it is fed and what it can be asked.
//!
//! A document is the set of words and tags of one event, under the event's position. Which words
//! stand where is not kept: that would triple the size, and what is shown is read and compared
//! anyway.
//!
//! The index is cut into parts by position. Each part is a full-text table of its own, so feeding
//! never merges more than one part, and a question that the newest part answers costs the same
//! however long the log is.

use std::collections::HashMap;
use std::ops::Range;

use event::{Draft, SessionId};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::fold::fold;
use super::forget::follow_deletions;
use super::words::DistinctWords;
use super::{Corpus, tags};
use crate::backlog::Fresh;
use crate::derived::{Derived, Failure};
use crate::{ReadError, Recorded};

/// Positions per part. Looking up a beginning gathers all of a part's matches at once: some
/// milliseconds at this size.
const PART_LEN: u64 = 1 << 18;

/// Bytes of new words a part gathers in memory before it writes them out.
const HASH_BYTES: u64 = 32 << 20;

/// Words are written in leaves of this many bytes: one per page of the file.
const LEAF_BYTES: u64 = 4_050;

/// Lists of words of one size that are merged into one. The usual four would write every word
/// once more.
const MERGED_AT_ONCE: u64 = 8;

/// Events that are indexed in one transaction, or the bytes of their words; whatever a last page
/// has beyond it is taken too. Each transaction leaves a list of words to be merged with others
/// later, so few large ones cost much less than many small ones.
const FEED_EVENTS: usize = 8_192;
const FEED_BYTES: usize = 8 << 20;

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
        while feeding.events < FEED_EVENTS && feeding.bytes < FEED_BYTES && feeding.step()? {}
        feeding.finish()
    })
}

/// Events on their way into the index.
struct Feeding<'a> {
    tx: &'a Transaction<'a>,
    corpus: &'a dyn Corpus,
    state: State,
    /// The part that is fed, once it is known to be there.
    part: Option<u64>,
    projects: HashMap<SessionId, Option<String>>,
    words: DistinctWords,
    events: usize,
    bytes: usize,
}

impl<'a> Feeding<'a> {
    fn new(tx: &'a Transaction<'_>, corpus: &'a dyn Corpus) -> Result<Feeding<'a>, Failure> {
        Ok(Feeding {
            tx,
            corpus,
            // Asked within the transaction: somebody else may have been faster.
            state: Index::new(tx).state()?,
            part: None,
            projects: HashMap::new(),
            words: DistinctWords::default(),
            events: 0,
            bytes: 0,
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
        follow_deletions(self.tx, self.corpus, &mut self.state)?;
        self.state.save(self.tx)?;
        Ok(Fed { indexed: self.state.indexed, is_current: self.events == 0 })
    }

    fn event(&mut self, position: u64, draft: &Draft) -> Result<(), Failure> {
        self.events += 1;
        self.state.indexed = position;
        if let Some(content) = self.content(draft)? {
            self.bytes += content.len();
            let day = tags::day_of(draft.created_at);
            self.state.first_day = self.state.first_day.min(day);
            self.state.last_day = self.state.last_day.max(day);
            let part = position / PART_LEN;
            if self.part != Some(part) {
                make_part(self.tx, part)?;
                self.part = Some(part);
            }
            let table = table(part);
            self.tx
                .prepare_cached(&format!("INSERT INTO {table} (rowid, words) VALUES (?1, ?2)"))?
                .execute(params![position as i64, content])?;
        }
        if let Some(first) = draft.amends()
            && let Some(first) = self.corpus.position(&draft.session_id, &first)?
        {
            remove(self.tx, first)?;
            self.tx
                .prepare_cached("INSERT OR IGNORE INTO replaced VALUES (?1)")?
                .execute([first as i64])?;
        }
        Ok(())
    }

    /// Words and tags; `None` for an event that nobody can ask for.
    fn content(&mut self, draft: &Draft) -> Result<Option<String>, ReadError> {
        let (texts, keys) = (draft.search_texts(), draft.keys());
        if texts.is_empty() && keys.is_empty() {
            return Ok(None);
        }
        let folded: Vec<String> = texts.iter().map(|text| fold(text)).collect();
        let mut content = self.words.of(&folded);
        let project = self.project(&draft.session_id)?;
        content.push_str(&tags::of_event(draft, &keys, project));
        Ok(Some(content))
    }

    fn project(&mut self, session_id: &SessionId) -> Result<Option<&str>, ReadError> {
        if !self.projects.contains_key(session_id) {
            let project = self.corpus.project(session_id)?;
            self.projects.insert(session_id.clone(), project);
        }
        Ok(self.projects[session_id].as_deref())
    }
}

/// Takes an event out of the index.
pub(super) fn remove(tx: &Transaction<'_>, position: u64) -> Result<(), rusqlite::Error> {
    let part = position / PART_LEN;
    if Index::new(tx).has_part(part)? {
        tx.prepare_cached(&format!("DELETE FROM {} WHERE rowid = ?1", table(part)))?
            .execute([position as i64])?;
    }
    Ok(())
}

fn make_part(tx: &Transaction<'_>, part: u64) -> Result<(), rusqlite::Error> {
    if Index::new(tx).has_part(part)? {
        return Ok(());
    }
    let table = table(part);
    tx.execute_batch(&format!(
        // The words come folded and cut, so all that is left to do is to split at blanks: every
        // character beyond ASCII belongs to a word.
        "CREATE VIRTUAL TABLE {table} USING fts5(
             words, content = '', contentless_delete = 1, detail = none,
             tokenize = \"ascii tokenchars '_'\"
         );
         INSERT INTO {table} ({table}, rank) VALUES
             ('hashsize', {HASH_BYTES}), ('pgsz', {LEAF_BYTES}), ('automerge', {MERGED_AT_ONCE});
         INSERT INTO parts VALUES ({part});",
    ))
}

fn table(part: u64) -> String {
    format!("documents_{part}")
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
            .prepare_cached("SELECT part FROM parts ORDER BY part")?
            .query_map([], |row| Ok(row.get::<_, i64>(0)? as u64))?
            .collect()
    }

    fn has_part(&self, part: u64) -> Result<bool, rusqlite::Error> {
        self.connection.prepare_cached("SELECT 1 FROM parts WHERE part = ?1")?.exists([part as i64])
    }

    /// Up to `limit` positions within `range` of a part that fit an expression, in order.
    pub(super) fn positions(
        &self,
        part: u64,
        expression: &str,
        range: &Range<u64>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<u64>, rusqlite::Error> {
        let order = match direction {
            Direction::NewestFirst => "DESC",
            Direction::OldestFirst => "ASC",
        };
        let table = table(part);
        self.connection
            .prepare_cached(&format!(
                "SELECT rowid FROM {table} WHERE {table} MATCH ?1 AND rowid >= ?2 AND rowid < ?3
                 ORDER BY rowid {order} LIMIT ?4"
            ))?
            .query_map(
                params![expression, range.start as i64, range.end as i64, limit as i64],
                |row| Ok(row.get::<_, i64>(0)? as u64),
            )?
            .collect()
    }

    /// How many events within `range` of a part fit an expression, counted up to `limit`.
    pub(super) fn count(
        &self,
        part: u64,
        expression: &str,
        range: &Range<u64>,
        limit: usize,
    ) -> Result<usize, rusqlite::Error> {
        let table = table(part);
        let counted: i64 = self
            .connection
            .prepare_cached(&format!(
                "SELECT count(*) FROM (SELECT rowid FROM {table} WHERE {table} MATCH ?1
                 AND rowid >= ?2 AND rowid < ?3 LIMIT ?4)"
            ))?
            .query_row(
                params![expression, range.start as i64, range.end as i64, limit as i64],
                |row| row.get(0),
            )?;
        Ok(counted as usize)
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
