//! Reads events a page at a time, around what is damaged.
//!
//! A row with a wrong checksum is returned as broken, in its place. Where a scan of the table stops
//! at a damaged database page, the rest is looked up key by key, so that the page costs the rows on
//! it and none behind it.

use std::ops::{Deref, RangeInclusive};

use event::{Draft, Event, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::row::{EventRecord, RowKey, SEQ_MAX, event_columns, number, session_id};
use super::{BodyDecoder, BodyError, CatalogueTx, fault};
use crate::limit::{PAGE_BYTES_MAX, PAGE_EVENTS_MAX};
use crate::store::{BrokenEvent, Direction, SeqRange, StoredEvent};
use crate::{Damage, StorageError};

/// Rows up to the limit of one answer.
#[derive(Default)]
struct EventPage {
    rows: Vec<StoredEvent>,
    bytes: usize,
}

impl<C: Deref<Target = Connection>, B: BodyDecoder> CatalogueTx<'_, C, B> {
    /// Reads own events of a session.
    pub(super) fn page(
        &self,
        session: u32,
        range: SeqRange,
    ) -> Result<Vec<StoredEvent>, StorageError> {
        // `RowKey::new` cuts larger numbers off, and 0 is the key of no event.
        let range = SeqRange { from: range.from.max(1), to: range.to.min(SEQ_MAX), ..range };
        if range.from > range.to {
            return Ok(Vec::new());
        }
        let own = self.own_events(session);
        // `due` is what the session row says must be there: a missing one of these is damage. A
        // whole row outside of it is returned as well: events count more than a counter.
        let due = range.from.max(*own.start())..=range.to.min(*own.end());
        let mut page = EventPage::default();
        let next = self.scan(session, range, &due, &mut page).map_err(self.read_failed())?;
        // The scan ended before the last due event: damage was in the way. Each lookup goes down
        // the b-tree on its own and passes by the damaged page.
        for seq in steps(next, &due, range.order) {
            if page.is_full() {
                break;
            }
            page.push(self.event_at(RowKey::new(session, seq), None).map_err(self.read_failed())?);
        }
        Ok(page.rows)
    }

    /// Reads events of all sessions by position.
    pub(super) fn page_of_positions(
        &self,
        range: SeqRange,
    ) -> Result<Vec<StoredEvent>, StorageError> {
        let mut page = EventPage::default();
        match self.scan_positions(range, &mut page) {
            Ok(true) => return Ok(page.rows),
            Ok(false) => {}
            Err(error) if fault::is_damage(&error) => {}
            Err(error) => return Err(self.read_failed()(error)),
        }
        // Rows that came before the damage may be wrong too, so the page begins again: positions
        // from the index, each row by its key.
        page = EventPage::default();
        for (position, key) in self.keys_by_position(range)? {
            page.push(self.event_at(key, Some(position)).map_err(self.read_failed())?);
            if page.is_full() {
                break;
            }
        }
        Ok(page.rows)
    }

    /// Returns the range of `seq` that must be there: what the counters of the session say, if they
    /// agree. They do not if the session has copies, which count elsewhere, or if one is damaged.
    /// Then it is the range between the first and the last row.
    fn own_events(&self, session: u32) -> RangeInclusive<u64> {
        const COUNTED: &str = "SELECT base_seq, tail_seq, events FROM session WHERE number = ?1";
        let counted = self.query_one(COUNTED, [session], |row| {
            Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?))
        });
        if let Ok(Some((base, tail, events))) = counted
            // A flipped bit in one of the three numbers breaks the sum.
            && base.checked_add(events) == Some(tail)
        {
            return base + 1..=tail;
        }
        // Two queries, because SQLite answers `min` or `max` alone from one end of the b-tree and
        // both together with a scan.
        const FIRST: &str = "SELECT min(pk) FROM event WHERE pk BETWEEN ?1 AND ?2";
        const LAST: &str = "SELECT max(pk) FROM event WHERE pk BETWEEN ?1 AND ?2";
        let bounds = [RowKey::new(session, 1).0, RowKey::new(session, SEQ_MAX).0];
        let end = |sql: &str| {
            let end = self.query_one(sql, bounds, |row| row.get::<_, Option<i64>>(0));
            end.ok().flatten().flatten().map(|pk| RowKey(pk).seq())
        };
        match (end(FIRST), end(LAST)) {
            (Some(first), Some(last)) => first..=last,
            // An empty range: nothing is due.
            _ => RangeInclusive::new(1, 0),
        }
    }

    /// Reads the rows of a session into the page and returns the `seq` it would have read next.
    ///
    /// A `seq` that is due and has no row is returned as broken. Stops without an error where a
    /// database page is damaged.
    fn scan(
        &self,
        session: u32,
        range: SeqRange,
        due: &RangeInclusive<u64>,
        page: &mut EventPage,
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
        let bounds = [RowKey::new(session, range.from).0, RowKey::new(session, range.to).0];
        let mut rows = statement.query(bounds)?;
        while !page.is_full() {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                // A disk that does not answer is an error to report, and not damage to read around.
                Err(error) if !fault::is_damage(&error) => return Err(error),
                Ok(None) | Err(_) => break,
            };
            let stored = self.stored(row)?;
            let found = stored.seq;
            if stored.event.is_err() && !due.contains(&found) {
                // The checksum covers the key: a broken row may have another `seq` than it says.
                continue;
            }
            let is_next = last.is_none_or(|last| is_behind(found, last, range.order));
            if !is_next || !(range.from..=range.to).contains(&found) {
                // A row outside the range, or out of order, is on a damaged page.
                break;
            }
            last = Some(found);
            // Due events between the row before and this one have no row.
            for seq in steps(next, due, range.order) {
                if seq == found || is_behind(seq, found, range.order) || page.is_full() {
                    break;
                }
                page.push(self.event_at(RowKey::new(session, seq), None)?);
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

    /// Reads rows by position into the page; `false` if it met a row that cannot be right.
    fn scan_positions(&self, range: SeqRange, page: &mut EventPage) -> rusqlite::Result<bool> {
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
            // Unlike in a session, gaps are normal here: deleted events leave theirs.
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

    /// Lists keys by position from the index alone, which may be whole where the table is not.
    fn keys_by_position(&self, range: SeqRange) -> Result<Vec<(u64, RowKey)>, StorageError> {
        const UP: &str = "SELECT pk, position FROM event INDEXED BY event_position \
            WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?3";
        const DOWN: &str = "SELECT pk, position FROM event INDEXED BY event_position \
            WHERE position BETWEEN ?1 AND ?2 ORDER BY position DESC LIMIT ?3";
        let sql = match range.order {
            Direction::OldestFirst => UP,
            Direction::NewestFirst => DOWN,
        };
        // Limited, because the whole list is read before the first event.
        let bounds = params![int(range.from), int(range.to), PAGE_EVENTS_MAX as i64];
        self.query_all(sql, bounds, |row| Ok((number(row, 1)?, key(row)?)))
    }

    /// Reads the event with this key, whole or broken.
    fn event_at(&self, key: RowKey, position: Option<u64>) -> rusqlite::Result<StoredEvent> {
        const SQL: &str = concat!("SELECT ", event_columns!(), " FROM event WHERE pk = ?1");
        let mut statement = self.db.prepare_cached(SQL)?;
        let why = match statement.query_row([key.0], |row| self.stored(row)).optional() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => "the row is missing".to_owned(),
            Err(error) if fault::is_damage(&error) => error.to_string(),
            Err(error) => return Err(error),
        };
        let broken = self.broken(key, body_error(why), &[])?;
        Ok(stored(key, position.unwrap_or(0), Err(broken)))
    }

    fn stored(&self, row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
        let key = key(row)?;
        // Read apart from the record: a row with a damaged column keeps its place if it can.
        let position = row.get::<_, i64>(1).unwrap_or(0) as u64;
        let (unreadable, body) = match EventRecord::read(row) {
            Ok(record) => match self.draft(&record)? {
                Ok(draft) => return Ok(stored(key, position, Ok(draft.with_seq(key.seq())))),
                Err(unreadable) => (unreadable, record.body),
            },
            Err(error) => {
                // `body` is the last of `event_columns!`.
                let body = row.get_ref(10)?.as_bytes().unwrap_or_default();
                (body_error(error.to_string()), body)
            }
        };
        Ok(stored(key, position, Err(self.broken(key, unreadable, body)?)))
    }

    pub(super) fn draft(
        &self,
        record: &EventRecord<'_>,
    ) -> rusqlite::Result<Result<Draft, BodyError>> {
        let session_id = match self.session_of(record)? {
            Ok(session_id) => session_id,
            Err(why) => return Ok(Err(body_error(why))),
        };
        let Some(name) = &record.payload else {
            return Ok(self.bodies.draft(record, &session_id, None));
        };
        let read = |bytes: &[u8]| self.bodies.draft(record, &session_id, Some(bytes));
        Ok(self.payload(name, read)?.unwrap_or_else(|why| Err(body_error(why))))
    }

    /// Decodes a record with a payload that was found elsewhere.
    pub(super) fn draft_with(
        &self,
        record: &EventRecord<'_>,
        payload: &[u8],
    ) -> rusqlite::Result<Result<Draft, BodyError>> {
        let session_id = self.session_of(record)?;
        Ok(session_id
            .map_err(body_error)
            .and_then(|session_id| self.bodies.draft(record, &session_id, Some(payload))))
    }

    /// Returns the session of a record, if the checksum of the record fits.
    fn session_of(
        &self,
        record: &EventRecord<'_>,
    ) -> rusqlite::Result<Result<SessionId, &'static str>> {
        if !record.is_whole() {
            return Ok(Err("the checksum does not fit"));
        }
        Ok(self.session_id_of(record.key.session())?.ok_or("its session is missing"))
    }

    /// Returns the id of a session, from its row or else from the unique index over ids.
    pub(super) fn session_id_of(&self, session: u32) -> rusqlite::Result<Option<SessionId>> {
        const ROW: &str = "SELECT id FROM session WHERE number = ?1";
        // The plus sign keeps SQLite from looking the number up in the table, which is what is
        // damaged.
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
            // A missing name is reported with the event, so an index that is damaged too is no
            // error.
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
        key: RowKey,
        unreadable: BodyError,
        body: &[u8],
    ) -> rusqlite::Result<Box<BrokenEvent>> {
        let mut damage = Damage {
            store: self.catalogue.store,
            file: self.catalogue.file.clone(),
            line: None,
            byte: None,
            session_id: self.session_id_of(key.session())?,
            seq: Some(key.seq()),
            why: unreadable.why,
        };
        let Some(location) = unreadable.location else {
            return Ok(Box::new(BrokenEvent { damage, bytes: body.to_vec() }));
        };
        // For the files store the damage is in the file of the session, and the row is right.
        (damage.file, damage.line, damage.byte) = (location.file, location.line, location.byte);
        Ok(Box::new(BrokenEvent { damage, bytes: location.bytes }))
    }
}

impl EventPage {
    fn push(&mut self, stored: StoredEvent) {
        // Data and text are nearly all of an event; the rest is not worth encoding it again.
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

pub(super) fn key(row: &Row<'_>) -> rusqlite::Result<RowKey> {
    row.get(0).map(RowKey)
}

fn body_error(why: impl Into<String>) -> BodyError {
    BodyError { why: why.into(), location: None }
}

/// Converts a position for SQLite, which has signed numbers. No stored position is larger.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn stored(key: RowKey, position: u64, event: Result<Event, Box<BrokenEvent>>) -> StoredEvent {
    StoredEvent { position, session: key.session(), seq: key.seq(), event }
}

/// Iterates from `next` to the end of `due`, in the given order.
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
