//! Rows of the catalogue, and the checksum of an event's row.

use event::payload::SessionMode;
use event::{BadId, Cost, EventHead, EventId, SessionId, Time};
use rusqlite::types::Type;

use crate::store::{EventRow, ParentRow, RootWords, SessionRow, SightingRow};

/// The primary key of an event: its session number in the upper half, its `seq` in the lower. The
/// events of a session stand together, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowKey(pub i64);

/// The largest session number and `seq` that fit into a key.
pub(crate) const SESSION_MAX: u32 = i32::MAX as u32;
pub(crate) const SEQ_MAX: u64 = u32::MAX as u64;

impl RowKey {
    /// Makes a key; numbers that are too large become the largest ones.
    pub(crate) fn new(session: u32, seq: u64) -> RowKey {
        // bit 63      32 31         0
        //     session    │    seq
        //
        // Session numbers have 31 bits, so that a key is never negative and keys sort by session.
        RowKey(i64::from(session.min(SESSION_MAX)) << 32 | seq.min(SEQ_MAX) as i64)
    }

    pub(crate) fn session(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn seq(self) -> u64 {
        self.0 as u64 & SEQ_MAX
    }
}

/// The row of an event, before its checksum is verified.
#[derive(Debug, Clone)]
pub(crate) struct EventRecord<'a> {
    pub key: RowKey,
    pub position: u64,
    pub id: [u8; 16],
    pub kind: u8,
    pub created_at: (i64, u16),
    pub observed_at: (i64, u16),
    /// The name of the payload that holds its `data`, or of its block.
    pub payload: Option<[u8; 32]>,
    pub checksum: u32,
    /// The rest, in the form of the store.
    pub body: &'a [u8],
}

/// The columns of [`EventRecord`], in the order [`EventRecord::read`] expects.
macro_rules! event_columns {
    () => {
        "pk, position, id, kind, created_at, created_ns, observed_at, observed_ns, payload, \
         checksum, body"
    };
}
pub(super) use event_columns;

impl<'a> EventRecord<'a> {
    /// Makes the record of a new event; `None` if its numbers do not fit into a key.
    pub(super) fn new(row: &EventRow, body: &'a [u8]) -> Option<EventRecord<'a>> {
        let mut record = EventRecord {
            key: RowKey::new(row.session, row.seq),
            position: row.position,
            id: *row.draft.id.bytes(),
            kind: row.draft.kind.code(),
            created_at: row.draft.created_at.micros_and_rest(),
            observed_at: row.draft.observed_at.micros_and_rest(),
            payload: row.packed.payload.as_ref().map(|payload| payload.digest),
            checksum: 0,
            body,
        };
        // Last, because it covers all other fields.
        record.checksum = record.sum();
        (row.session <= SESSION_MAX && row.seq <= SEQ_MAX).then_some(record)
    }

    /// Reads a row without verifying it. Fails only if a column has the wrong type.
    pub(super) fn read(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<EventRecord<'a>> {
        Ok(EventRecord {
            key: RowKey(row.get(0)?),
            // A negative number is damage, which the checksum shows.
            position: row.get::<_, i64>(1)? as u64,
            id: row.get(2)?,
            kind: row.get(3)?,
            created_at: (row.get(4)?, row.get(5)?),
            observed_at: (row.get(6)?, row.get(7)?),
            payload: row.get(8)?,
            checksum: row.get(9)?,
            // Borrowed from the row: a body is decoded at once, and a copy would only cost time.
            body: row.get_ref(10)?.as_blob()?,
        })
    }

    /// Computes the CRC-32 over all other columns: a flipped bit in any of them shows.
    pub(super) fn sum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        // The key is covered too: a row that damage moved to another key would otherwise pass.
        hasher.update(&self.key.0.to_le_bytes());
        hasher.update(&self.position.to_le_bytes());
        hasher.update(&self.id);
        hasher.update(&[self.kind]);
        for (micros, rest) in [self.created_at, self.observed_at] {
            hasher.update(&micros.to_le_bytes());
            hasher.update(&rest.to_le_bytes());
        }
        if let Some(digest) = &self.payload {
            hasher.update(digest);
        }
        hasher.update(self.body);
        hasher.finalize()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.checksum == self.sum()
    }

    /// Returns the part of the event that stands in columns.
    pub(crate) fn head(&self, session_id: &SessionId) -> Result<EventHead, BadId> {
        Ok(EventHead {
            id: EventId::from_bytes(self.id)?,
            session_id: session_id.clone(),
            created_at: Time::from_micros_and_rest(self.created_at.0, self.created_at.1),
            observed_at: Time::from_micros_and_rest(self.observed_at.0, self.observed_at.1),
        })
    }
}

/// Computes the CRC-32 over a payload's row.
pub(super) fn payload_sum(digest: &[u8; 32], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(digest);
    hasher.update(bytes);
    hasher.finalize()
}

/// The columns of [`SessionRow`], in the order [`read_session`] expects.
macro_rules! session_columns {
    () => {
        "number, id, parent_session_id, parent_mode, parent_seq, parent_event_id, parent_label, \
         parent_reason, parent_depth, base_seq, tail_seq, last_position, events, bytes, cost, \
         created_at, created_ns, last_at, last_ns, provider, provider_session_id, agent, model, \
         cwd, project, title"
    };
}
pub(super) use session_columns;

/// The slot of about a minute (2^26 µs) that sessions are indexed by: most commits stay in one
/// slot and do not touch the index.
pub(super) fn activity_slot(last_at_micros: i64) -> i64 {
    // An arithmetic shift rounds down, also for times before 1970.
    last_at_micros >> 26
}

pub(super) fn read_session(row: &rusqlite::Row<'_>) -> rusqlite::Result<SessionRow> {
    let (label, reason) = (shown(row, 6)?, shown(row, 7)?);
    let mut root = RootWords::default();
    let parent = match row.get::<_, Option<String>>(2)? {
        None => {
            root = RootWords { label, reason };
            None
        }
        Some(id) => Some(ParentRow {
            session_id: session_id(2, &id)?,
            mode: SessionMode::from(row.get_ref(3)?.as_str()?),
            seq: number(row, 4)?,
            event_id: row.get::<_, Option<[u8; 16]>>(5)?.map(event_id(5)).transpose()?,
            label,
            reason,
            depth: row.get(8)?,
        }),
    };
    Ok(SessionRow {
        number: row.get(0)?,
        id: session_id(1, row.get_ref(1)?.as_str()?)?,
        parent,
        base_seq: number(row, 9)?,
        tail_seq: number(row, 10)?,
        last_position: number(row, 11)?,
        events: number(row, 12)?,
        bytes: number(row, 13)?,
        cost: Cost::from_nanos(row.get(14)?),
        created_at: time(row, 15)?,
        last_at: time(row, 17)?,
        provider: shown(row, 19)?.unwrap_or_default(),
        provider_session_id: shown(row, 20)?,
        agent: shown(row, 21)?,
        model: shown(row, 22)?,
        cwd: shown(row, 23)?,
        project: shown(row, 24)?,
        title: shown(row, 25)?,
        root,
    })
}

/// Reads a text that is shown and leads to nothing. One damaged byte in it must not hide the session.
fn shown(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// The columns of [`SightingRow`], in the order [`read_sighting`] expects.
macro_rules! sighting_columns {
    () => {
        "event, source, observed_at, observed_ns, source_position, differs"
    };
}
pub(super) use sighting_columns;

pub(super) fn read_sighting(row: &rusqlite::Row<'_>) -> rusqlite::Result<SightingRow> {
    let key = RowKey(row.get(0)?);
    Ok(SightingRow {
        session: key.session(),
        seq: key.seq(),
        source: row.get(1)?,
        observed_at: time(row, 2)?,
        source_position: row.get(4)?,
        differs: row.get(5)?,
    })
}

/// Reads a time from two columns, the first at `column`.
pub(super) fn time(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Time> {
    Ok(Time::from_micros_and_rest(row.get(column)?, row.get(column + 1)?))
}

/// Reads a count, which is never negative.
pub(super) fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

pub(super) fn session_id(column: usize, text: &str) -> rusqlite::Result<SessionId> {
    SessionId::new(text).map_err(|error| unreadable(column, Type::Text, error))
}

fn event_id(column: usize) -> impl Fn([u8; 16]) -> rusqlite::Result<EventId> {
    move |bytes| EventId::from_bytes(bytes).map_err(|error| unreadable(column, Type::Blob, error))
}

fn unreadable(
    column: usize,
    is: Type,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, is, Box::new(error))
}
