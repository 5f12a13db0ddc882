//! A source that is one session in a database: its rows behind a watermark, in order.
//!
//! Every page is read in a snapshot of its own, so that the agent never waits for a lock of ours. The
//! agent's adapter supplies the SQL, which only reads.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use event::Raw;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement, named_params};
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, LineageHint};
use crate::database::Database;
use crate::limit::{BATCH_BYTES_MAX, PAGE_ROWS_MAX};
use crate::record_reader::{NextRecord, RecordReader};
use crate::source::short_hash;

/// The queries for one layout of an agent's database. An adapter may give several; the first that
/// has all its tables is used.
pub struct DatabaseSchema {
    pub tables: &'static [&'static str],
    /// Every session, the newest first: `id`, `parent` (the session it works for), `family` (what
    /// it has in common with those it may repeat), `way` (the name of one of the ways), `active`
    /// (the time of its last message, in milliseconds), `digest` (which changes with everything
    /// that is said in it).
    pub sessions: &'static str,
    pub ways: &'static [RowQuery],
}

/// The queries that follow the rows of one session.
pub struct RowQuery {
    pub name: &'static str,
    /// The row of `:session` itself, read as a record before every pass over its rows.
    pub head: Option<&'static str>,
    /// Rows of `:session` behind `:after`, in order, at most `:limit`: `after`, `key`, and then
    /// the members of the record. `:after` is empty at the beginning. Where rows change in place,
    /// the query is given `:since` too, and begins anew with every change.
    pub rows: &'static str,
    /// The `key` of the row of `:session` at `:after`. Another one, or none, means that the
    /// database is not the one it was, and the session is read from its beginning.
    pub at: Option<&'static str>,
    /// Members with JSON as their text. Text that is no JSON stays text.
    pub json: &'static [&'static str],
    /// The time of the newest change of `:session`, for rows that change in place.
    pub newest: Option<&'static str>,
}

/// A session of a database.
pub(crate) struct ListedSession {
    pub session: String,
    pub parent: Option<String>,
    pub hint: LineageHint,
    pub active: i64,
    pub digest: String,
}

/// All sessions of a database; none if its layout is unknown.
pub(crate) fn list_sessions(agent: &dyn Agent, path: &Path) -> io::Result<Vec<ListedSession>> {
    let database = Database::open(path)?;
    let listed = list_from(agent, database.connection());
    if database.is_unchanged()? {
        return listed.map_err(io::Error::other);
    }
    // The owner opened the database while it was read without locks: the list may mix two states.
    let database = Database::open_shared(path)?;
    list_from(agent, database.connection()).map_err(io::Error::other)
}

fn list_from(agent: &dyn Agent, connection: &Connection) -> rusqlite::Result<Vec<ListedSession>> {
    let Some(schema) = find_schema(agent, connection)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare(schema.sessions)?;
    let mut rows = statement.query([])?;
    let mut listed = Vec::new();
    while let Some(row) = rows.next()? {
        let family: Option<String> = row.get("family")?;
        listed.push(ListedSession {
            session: row.get("id")?,
            parent: row.get("parent")?,
            hint: LineageHint { family, ..LineageHint::default() },
            active: row.get("active")?,
            digest: column_text(row.get_ref("digest")?),
        });
    }
    Ok(listed)
}

fn find_schema(
    agent: &dyn Agent,
    connection: &Connection,
) -> rusqlite::Result<Option<&'static DatabaseSchema>> {
    let mut statement = connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1")?;
    for schema in agent.database_schemas() {
        let mut fits = true;
        for table in schema.tables {
            fits = fits && statement.exists([table])?;
        }
        if fits {
            return Ok(Some(schema));
        }
    }
    Ok(None)
}

/// Reads the rows of one session from a watermark on.
pub(crate) struct RowReader {
    path: PathBuf,
    database: Database,
    session: String,
    /// `None` for a session that is gone.
    way: Option<&'static RowQuery>,
    /// The mark behind the last row that was returned.
    mark: RowMark,
    page: VecDeque<FetchedRow>,
    offset: u64,
    has_begun: bool,
}

/// How far a session was read.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct RowMark {
    way: String,
    after: String,
    key: String,
    /// Where rows change in place: changes before this are known, …
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
    /// … and those before this will be when the present pass is through.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
}

struct FetchedRow {
    after: String,
    key: String,
    json: String,
}

impl RowReader {
    pub(crate) fn open(
        agent: &dyn Agent,
        path: &Path,
        session: &str,
        offset: u64,
        watermark: Option<&str>,
    ) -> io::Result<RowReader> {
        let database = Database::open(path)?;
        // A mark that cannot be parsed reads the session from its beginning. Derived ids keep its
        // events from being recorded twice.
        let mark = watermark.and_then(|mark| serde_json::from_str(mark).ok());
        let mut mark: RowMark = mark.unwrap_or_default();
        let way =
            choose_query(agent, database.connection(), session, &mark).map_err(io::Error::other)?;
        if let Some(way) = way {
            let connection = database.connection();
            if !mark.has_last_row(way, connection, session).map_err(io::Error::other)? {
                mark = RowMark { way: way.name.to_owned(), ..RowMark::default() };
            }
        }
        Ok(RowReader {
            path: path.to_owned(),
            database,
            session: session.to_owned(),
            way,
            mark,
            page: VecDeque::new(),
            offset,
            has_begun: false,
        })
    }

    /// Reads the next page and returns whether it has rows.
    fn read_page(&mut self, way: &'static RowQuery) -> io::Result<bool> {
        let mut read = self.query_page(way);
        // The owner opened the database while it was read without locks: the page may mix two states.
        if !self.database.is_unchanged()? {
            self.database = Database::open_shared(&self.path)?;
            read = self.query_page(way);
        }
        let (page, until) = read.map_err(io::Error::other)?;
        self.has_begun = true;
        self.mark.until = until;
        self.page = page;
        Ok(!self.page.is_empty())
    }

    fn query_page(
        &self,
        way: &'static RowQuery,
    ) -> rusqlite::Result<(VecDeque<FetchedRow>, Option<i64>)> {
        let connection = self.database.connection();
        // One snapshot for all queries: rows and the newest change belong together.
        let snapshot = connection.unchecked_transaction()?;
        let until = match (way.newest, self.mark.until) {
            // A pass begins. Changes up to this time are known when it is through.
            (Some(newest), None) => {
                connection
                    .query_row(newest, named_params! {":session": self.session}, |row| row.get(0))?
            }
            (_, until) => until,
        };
        let mut page = VecDeque::new();
        if let Some(head) = way.head.filter(|_| !self.has_begun) {
            let mut statement = connection.prepare(head)?;
            let mut rows = statement.query(named_params! {":session": self.session})?;
            while let Some(row) = rows.next()? {
                let json = row_record(row, 0, way.json)?;
                // The hash makes a head that changed another record. The head has no place among
                // the rows, so the mark stays where it is.
                let key = format!("head {}", short_hash(&[&json]));
                page.push_back(FetchedRow { after: self.mark.after.clone(), key, json });
            }
        }
        let mut statement = connection.prepare_cached(way.rows)?;
        self.bind_parameters(&mut statement)?;
        let mut rows = statement.raw_query();
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let found = fetch_row(row, way.json)?;
            bytes += found.json.len();
            page.push_back(found);
            // Checked behind the push, so that every page has a row, however long that is.
            if bytes >= BATCH_BYTES_MAX {
                break;
            }
        }
        // A statement that is still open would keep the snapshot, and the owner could not reset its
        // log.
        drop(rows);
        drop(statement);
        snapshot.finish()?;
        Ok((page, until))
    }

    fn bind_parameters(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        let limit = PAGE_ROWS_MAX as i64;
        let since = self.mark.since.unwrap_or(i64::MIN);
        let values: [(&str, &dyn rusqlite::ToSql); 4] = [
            (":session", &self.session),
            (":after", &self.mark.after),
            (":limit", &limit),
            (":since", &since),
        ];
        // A query uses only some of the parameters, and binding an unknown one is an error.
        for (name, value) in values {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        Ok(())
    }
}

impl RecordReader for RowReader {
    fn next<'a>(&'a mut self, kept: &'a mut Vec<u8>) -> io::Result<NextRecord<'a>> {
        let Some(way) = self.way else { return Ok(NextRecord::End) };
        if self.page.is_empty() && !self.read_page(way)? {
            // Rows change in place: the next pass begins at the first row again and returns those that
            // changed since this pass began.
            if way.newest.is_some() {
                self.mark.after.clear();
                self.mark.since = self.mark.until.take();
            }
            return Ok(NextRecord::End);
        }
        let Some(FetchedRow { after, key, json }) = self.page.pop_front() else {
            return Ok(NextRecord::End);
        };
        let (start, offset) = (kept.len(), self.offset);
        kept.extend(json.as_bytes());
        kept.push(b'\n');
        let bytes = &kept[start..];
        self.offset += bytes.len() as u64;
        // The mark moves with each row and not with the page: a batch may end in the middle of one.
        self.mark.after = after;
        // No schema has both `head` and `at`: the key of a head would not fit the row at the mark.
        self.mark.key = key;
        Ok(NextRecord::Whole { offset, bytes, key: &self.mark.key })
    }

    fn watermark(&self) -> Option<String> {
        Some(serde_json::to_string(&self.mark).expect("a mark encodes"))
    }
}

impl RowMark {
    /// Whether the database still has the row that was read last.
    fn has_last_row(
        &self,
        way: &RowQuery,
        connection: &Connection,
        session: &str,
    ) -> rusqlite::Result<bool> {
        if self.way != way.name {
            return Ok(false);
        }
        let Some(at) = way.at.filter(|_| !self.after.is_empty()) else { return Ok(true) };
        let mut statement = connection.prepare(at)?;
        let mut rows =
            statement.query(named_params! {":session": session, ":after": self.after})?;
        match rows.next()? {
            Some(row) => Ok(column_text(row.get_ref(0)?) == self.key),
            None => Ok(false),
        }
    }
}

/// The queries for a session: the ones used before, as long as the schema has them.
fn choose_query(
    agent: &dyn Agent,
    connection: &Connection,
    session: &str,
    mark: &RowMark,
) -> rusqlite::Result<Option<&'static RowQuery>> {
    let Some(schema) = find_schema(agent, connection)? else { return Ok(None) };
    let named = |name: &str| schema.ways.iter().find(|way| way.name == name);
    if let Some(way) = named(&mark.way) {
        return Ok(Some(way));
    }
    // The inserted text is a constant of the adapter; the session is bound as a parameter.
    let sql = format!("SELECT way FROM ({}) WHERE id = ?1", schema.sessions);
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([session])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let name: String = row.get(0)?;
    Ok(named(&name))
}

fn fetch_row(row: &Row<'_>, json_members: &[&str]) -> rusqlite::Result<FetchedRow> {
    const NOT_OF_THE_RECORD: usize = 2;
    let after = column_text(row.get_ref("after")?);
    let key = column_text(row.get_ref("key")?);
    Ok(FetchedRow { after, key, json: row_record(row, NOT_OF_THE_RECORD, json_members)? })
}

/// A row as a record, from a column on: one JSON object.
fn row_record(row: &Row<'_>, first: usize, json_members: &[&str]) -> rusqlite::Result<String> {
    let names = row.as_ref();
    let mut json = String::from("{");
    for index in first..names.column_count() {
        let name = names.column_name(index)?;
        let value = row.get_ref(index)?;
        if value == ValueRef::Null {
            continue;
        }
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(encode_raw(name).get());
        json.push(':');
        json.push_str(row_member(value, json_members.contains(&name)).get());
    }
    json.push('}');
    Ok(json)
}

fn row_member(value: ValueRef<'_>, is_json: bool) -> Raw {
    match value {
        ValueRef::Integer(number) => encode_raw(&number),
        ValueRef::Real(number) => encode_raw(&number),
        _ => {
            let text = column_text(value);
            let json = if is_json { on_one_line(&text) } else { None };
            json.unwrap_or_else(|| encode_raw(&text))
        }
    }
}

/// The text as JSON on one line, because a record is a line; `None` for other text.
fn on_one_line(text: &str) -> Option<Raw> {
    let json = Raw::parse(text).ok()?;
    if !text.contains('\n') {
        return Some(json);
    }
    // In JSON that parses, line breaks stand only between tokens: within strings they are escaped.
    Raw::parse(text.replace(['\n', '\r'], " ")).ok()
}

fn encode_raw(value: &(impl Serialize + ?Sized)) -> Raw {
    Raw::from_value(value).expect("texts and numbers encode")
}

fn column_text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
    }
}
