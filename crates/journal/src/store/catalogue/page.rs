//! Events, a page at a time, and a way around what is damaged.
//!
//! A row that cannot be believed is shown as broken, in its place. Where the database itself
//! cannot be read on, rows are looked up one by one, so that a damaged page costs what is on it
//! and nothing behind it.

use std::ops::{Deref, RangeInclusive};

use event::{Draft, Event, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::row::{EventRecord, Key, SEQ_MAX, event_columns, number, session_id};
use super::{Bodies, Unreadable, View, fault};
use crate::limit::{PAGE_BYTES_MAX, PAGE_EVENTS_MAX};
use crate::store::{Broken, Direction, SeqRange, Stored};
use crate::{Damage, StorageError};

/// Rows up to what one answer may hold.
#[derive(Default)]
struct Page {
    rows: Vec<Stored>,
    bytes: usize,
}

impl<C: Deref<Target = Connection>, B: Bodies> View<'_, C, B> {
    /// Own events of a session.
    pub(super) fn page(&self, session: u32, range: SeqRange) -> Result<Vec<Stored>, StorageError> {
        let range = SeqRange { from: range.from.max(1), to: range.to.min(SEQ_MAX), ..range };
        if range.from > range.to {
            return Ok(Vec::new());
        }
        let own = self.own_events(session);
        // What must be there is told by the session; what is there is told by the rows. A whole
        // row beyond what the session knows of is shown as well: the log decides, not a counter.
        let due = range.from.max(*own.start())..=range.to.min(*own.end());
        let mut page = Page::default();
        let next = self.scan(session, range, &due, &mut page).map_err(self.failed())?;
        for seq in steps(next, &due, range.order) {
            if page.is_full() {
                break;
            }
            page.push(self.event_at(Key::new(session, seq), None).map_err(self.failed())?);
        }
        Ok(page.rows)
    }

    /// Events of all sessions by position.
    pub(super) fn page_of_positions(&self, range: SeqRange) -> Result<Vec<Stored>, StorageError> {
        let mut page = Page::default();
        match self.scan_positions(range, &mut page) {
            Ok(true) => return Ok(page.rows),
            Ok(false) => {}
            Err(error) if fault::is_damage(&error) => {}
            Err(error) => return Err(self.failed()(error)),
        }
        page = Page::default();
        for (position, key) in self.places(range)? {
            page.push(self.event_at(key, Some(position)).map_err(self.failed())?);
            if page.is_full() {
                break;
            }
        }
        Ok(page.rows)
    }

    /// Which events have to be there: those the session's counters agree on. Where they do not
    /// agree, because it has copies that are counted elsewhere or because one of them is damaged,
    /// those between the first and the last row.
    fn own_events(&self, session: u32) -> RangeInclusive<u64> {
        const COUNTED: &str = "SELECT base_seq, tail_seq, events FROM session WHERE number = ?1";
        let counted = self
            .one(COUNTED, [session], |row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?)));
        if let Ok(Some((base, tail, events))) = counted
            && base.checked_add(events) == Some(tail)
        {
            return base + 1..=tail;
        }
        const FIRST: &str = "SELECT min(pk) FROM event WHERE pk BETWEEN ?1 AND ?2";
        const LAST: &str = "SELECT max(pk) FROM event WHERE pk BETWEEN ?1 AND ?2";
        let bounds = [Key::new(session, 1).0, Key::new(session, SEQ_MAX).0];
        let end = |sql: &str| {
            let end = self.one(sql, bounds, |row| row.get::<_, Option<i64>>(0));
            end.ok().flatten().flatten().map(|pk| Key(pk).seq())
        };
        match (end(FIRST), end(LAST)) {
            (Some(first), Some(last)) => first..=last,
            _ => RangeInclusive::new(1, 0),
        }
    }

    /// Reads the rows of a session into the page and returns the `seq` it would have read next.
    /// A place that is due and has no row is shown as damaged. Stops where the database cannot
    /// be read on.
    fn scan(
        &self,
        session: u32,
        range: SeqRange,
        due: &RangeInclusive<u64>,
        page: &mut Page,
    ) -> rusqlite::Result<u64> {
        const UP: &str = concat!(
            "SELECT ",
            event_columns!(),
            " FROM event WHERE pk BETWEEN ?1 AND ?2 ORDER BY pk"
        );
        const DOWN: &str = concat!(
            "SELECT ",
            event_columns!(),
            " FROM event WHERE pk BETWEEN ?1 AND ?2 ORDER BY pk DESC"
        );
        let (sql, mut next) = match range.order {
            Direction::OldestFirst => (UP, *due.start()),
            Direction::NewestFirst => (DOWN, *due.end()),
        };
        let mut last = None;
        let mut statement = self.db.prepare_cached(sql)?;
        let bounds = [Key::new(session, range.from).0, Key::new(session, range.to).0];
        let mut rows = statement.query(bounds)?;
        while !page.is_full() {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Err(error) if !fault::is_damage(&error) => return Err(error),
                Ok(None) | Err(_) => break,
            };
            let stored = self.stored(row)?;
            let found = stored.seq;
            if stored.event.is_err() && !due.contains(&found) {
                // What cannot be believed cannot be believed about its place either.
                continue;
            }
            let is_next = last.is_none_or(|last| is_behind(found, last, range.order));
            if !is_next || !(range.from..=range.to).contains(&found) {
                // Rows that were not asked for, or go back, are on a page that is not what it says.
                break;
            }
            last = Some(found);
            for seq in steps(next, due, range.order) {
                if seq == found || is_behind(seq, found, range.order) || page.is_full() {
                    break;
                }
                page.push(self.event_at(Key::new(session, seq), None)?);
                next = step(seq, range.order);
            }
            if page.is_full() {
                break;
            }
            page.push(stored);
            next = step(found, range.order);
        }
        Ok(next)
    }

    /// Reads rows by position into the page; `false` if what it met cannot be right.
    fn scan_positions(&self, range: SeqRange, page: &mut Page) -> rusqlite::Result<bool> {
        const UP: &str = concat!(
            "SELECT ",
            event_columns!(),
            " FROM event WHERE position BETWEEN ?1 AND ?2 ORDER BY position"
        );
        const DOWN: &str = concat!(
            "SELECT ",
            event_columns!(),
            " FROM event WHERE position BETWEEN ?1 AND ?2 ORDER BY position DESC"
        );
        let mut statement = self.db.prepare_cached(match range.order {
            Direction::OldestFirst => UP,
            Direction::NewestFirst => DOWN,
        })?;
        let mut rows = statement.query([int(range.from), int(range.to)])?;
        let mut last = None;
        while !page.is_full() {
            let Some(row) = rows.next()? else { break };
            let stored = self.stored(row)?;
            let is_next = last.is_none_or(|last| is_behind(stored.position, last, range.order));
            if !is_next || !(range.from..=range.to).contains(&stored.position) {
                return Ok(false);
            }
            last = Some(stored.position);
            page.push(stored);
        }
        Ok(true)
    }

    /// Places by position, from the index alone: it may be whole where the events are not.
    fn places(&self, range: SeqRange) -> Result<Vec<(u64, Key)>, StorageError> {
        const UP: &str = "SELECT pk, position FROM event INDEXED BY event_position \
            WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?3";
        const DOWN: &str = "SELECT pk, position FROM event INDEXED BY event_position \
            WHERE position BETWEEN ?1 AND ?2 ORDER BY position DESC LIMIT ?3";
        let sql = match range.order {
            Direction::OldestFirst => UP,
            Direction::NewestFirst => DOWN,
        };
        let bounds = params![int(range.from), int(range.to), PAGE_EVENTS_MAX as i64];
        self.all(sql, bounds, |row| Ok((number(row, 1)?, key(row)?)))
    }

    /// The event at one place: whole, or as damaged as it is.
    fn event_at(&self, key: Key, position: Option<u64>) -> rusqlite::Result<Stored> {
        const SQL: &str = concat!("SELECT ", event_columns!(), " FROM event WHERE pk = ?1");
        let mut statement = self.db.prepare_cached(SQL)?;
        let why = match statement.query_row([key.0], |row| self.stored(row)).optional() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => "the row is missing".to_owned(),
            Err(error) if fault::is_damage(&error) => error.to_string(),
            Err(error) => return Err(error),
        };
        let broken = self.broken(key, unreadable(why), &[])?;
        Ok(stored(key, position.unwrap_or(0), Err(broken)))
    }

    fn stored(&self, row: &Row<'_>) -> rusqlite::Result<Stored> {
        let key = key(row)?;
        let position = row.get::<_, i64>(1).unwrap_or(0) as u64;
        let (unreadable, body) = match EventRecord::read(row) {
            Ok(record) => match self.draft(&record)? {
                Ok(draft) => return Ok(stored(key, position, Ok(draft.with_seq(key.seq())))),
                Err(unreadable) => (unreadable, record.body),
            },
            Err(error) => {
                let body = row.get_ref(10)?.as_bytes().unwrap_or_default();
                (unreadable(error.to_string()), body)
            }
        };
        Ok(stored(key, position, Err(self.broken(key, unreadable, body)?)))
    }

    pub(super) fn draft(
        &self,
        record: &EventRecord<'_>,
    ) -> rusqlite::Result<Result<Draft, Unreadable>> {
        let session_id = match self.session_of(record)? {
            Ok(session_id) => session_id,
            Err(why) => return Ok(Err(unreadable(why))),
        };
        let Some(name) = &record.payload else {
            return Ok(self.bodies.draft(record, &session_id, None));
        };
        let read = |bytes: &[u8]| self.bodies.draft(record, &session_id, Some(bytes));
        Ok(self.payload(name, read)?.unwrap_or_else(|why| Err(unreadable(why))))
    }

    /// The event of a record whose payload was found elsewhere.
    pub(super) fn draft_with(
        &self,
        record: &EventRecord<'_>,
        payload: &[u8],
    ) -> rusqlite::Result<Result<Draft, Unreadable>> {
        let session_id = self.session_of(record)?;
        Ok(session_id
            .map_err(unreadable)
            .and_then(|session_id| self.bodies.draft(record, &session_id, Some(payload))))
    }

    /// Whose event a record is, if it can be believed.
    fn session_of(
        &self,
        record: &EventRecord<'_>,
    ) -> rusqlite::Result<Result<SessionId, &'static str>> {
        if !record.is_whole() {
            return Ok(Err("the checksum does not fit"));
        }
        Ok(self.name(record.key.session())?.ok_or("its session is missing"))
    }

    /// The id of a session, from its row or else from the index over ids.
    pub(super) fn name(&self, session: u32) -> rusqlite::Result<Option<SessionId>> {
        const ROW: &str = "SELECT id FROM session WHERE number = ?1";
        const INDEX: &str =
            "SELECT id FROM session INDEXED BY sqlite_autoindex_session_1 WHERE +number = ?1";
        if let Some(id) = self.names.borrow().get(&session) {
            return Ok(Some(id.clone()));
        }
        let ask = |sql: &str| {
            let mut statement = self.db.prepare_cached(sql)?;
            let id = statement.query_row([session], |row| session_id(0, row.get_ref(0)?.as_str()?));
            id.optional()
        };
        let id = match ask(ROW) {
            Err(error) if fault::is_damage(&error) => ask(INDEX).ok().flatten(),
            id => id?,
        };
        if let Some(id) = &id {
            self.names.borrow_mut().insert(session, id.clone());
        }
        Ok(id)
    }

    fn broken(
        &self,
        key: Key,
        unreadable: Unreadable,
        body: &[u8],
    ) -> rusqlite::Result<Box<Broken>> {
        let mut damage = Damage {
            store: self.catalogue.store,
            file: self.catalogue.file.clone(),
            line: None,
            byte: None,
            session_id: self.name(key.session())?,
            seq: Some(key.seq()),
            why: unreadable.why,
        };
        let Some(place) = unreadable.place else {
            return Ok(Box::new(Broken { damage, bytes: body.to_vec() }));
        };
        (damage.file, damage.line, damage.byte) = (place.file, place.line, place.byte);
        Ok(Box::new(Broken { damage, bytes: place.bytes }))
    }
}

impl Page {
    fn push(&mut self, stored: Stored) {
        self.bytes += match &stored.event {
            Ok(event) => event.data.get().len() + event.text.as_ref().map_or(0, String::len),
            Err(broken) => broken.bytes.len(),
        };
        self.rows.push(stored);
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= PAGE_EVENTS_MAX || self.bytes >= PAGE_BYTES_MAX
    }
}

pub(super) fn key(row: &Row<'_>) -> rusqlite::Result<Key> {
    row.get(0).map(Key)
}

fn unreadable(why: impl Into<String>) -> Unreadable {
    Unreadable { why: why.into(), place: None }
}

/// A position or count as SQLite keeps it; what is beyond is beyond everything stored.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn stored(key: Key, position: u64, event: Result<Event, Box<Broken>>) -> Stored {
    Stored { position, session: key.session(), seq: key.seq(), event }
}

/// The numbers from `next` to the end of `due`, in the given order.
fn steps(
    next: u64,
    due: &RangeInclusive<u64>,
    order: Direction,
) -> impl Iterator<Item = u64> + use<> {
    let mut left = match order {
        Direction::OldestFirst => next.max(*due.start())..=*due.end(),
        Direction::NewestFirst => *due.start()..=next.min(*due.end()),
    };
    std::iter::from_fn(move || match order {
        Direction::OldestFirst => left.next(),
        Direction::NewestFirst => left.next_back(),
    })
}

fn step(seq: u64, order: Direction) -> u64 {
    match order {
        Direction::OldestFirst => seq.saturating_add(1),
        Direction::NewestFirst => seq.saturating_sub(1),
    }
}

/// Whether `number` comes after `other` in the given order.
fn is_behind(number: u64, other: u64, order: Direction) -> bool {
    match order {
        Direction::OldestFirst => number > other,
        Direction::NewestFirst => number < other,
    }
}
