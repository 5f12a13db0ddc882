//! A source that is one session in a database: its rows behind a watermark, in order.
//!
//! Every page is read in a snapshot of its own, so that the agent never waits for a lock of ours. The
//! agent's adapter supplies the SQL, which only reads. A row that is too long is not loaded: a
//! record that says its size stands for it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use event::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, Statement, named_params};
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, LineageHint};
use crate::database::Database;
use crate::database_guard::{Look, LookError};
use crate::limit::{BATCH_BYTES_MAX, LISTED_BYTES_MAX, PAGE_ROWS_MAX};
use crate::record_reader::{NextRecord, RecordReader};
use crate::row_record::{
    LENGTH, column_text, guard_query, is_too_big, row_record, too_long_record,
};
use crate::source::short_hash;

/// The queries for one layout of an agent's database. An adapter may give several; the first that
/// has all its tables is used.
pub struct DatabaseSchema {
    pub tables: &'static [&'static str],
    /// Every session, the newest first: `id`, `parent` (the session it works for), `family` (what
    /// it has in common with those it may repeat), `since` (when it began, in milliseconds), `way`
    /// (the name of one of the ways), `active` (the time of its last message, in milliseconds),
    /// `digest` (which changes with everything that is said in it).
    pub sessions: &'static str,
    pub ways: &'static [RowQuery],
}

/// The queries that follow the rows of one session.
pub struct RowQuery {
    pub name: &'static str,
    /// The row of `:session` itself, read as a record before every pass over its rows.
    pub head: Option<&'static str>,
    /// Rows of `:session` behind `:after`: `after`, `key`, and then the members of the record.
    /// `:after` is empty at the beginning. Where rows change in place, the query is given `:since`
    /// too, and begins anew with every change.
    ///
    /// Members of `json` may be too long to be loaded, and are guarded. A query from which SQLite
    /// would load them first (a `UNION`) does so itself: it leaves out those of more than `:bytes`
    /// together, and gives their length as `long_bytes`. A row that SQLite cannot hold, because
    /// another member is too long or all of them together are, is told by its length.
    pub rows: &'static str,
    /// The member that the rows are ordered by; `after` rises with it.
    pub order: &'static str,
    /// The `key` of the row of `:session` at `:after`. Another one, or none, means that the
    /// database is not the one it was, and the session is read from its beginning.
    pub at: Option<&'static str>,
    /// Members with JSON as their text, which may be long. Text that is no JSON stays text.
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
pub(crate) fn list_sessions(
    agent: &dyn Agent,
    path: &Path,
    look: &Look<'_>,
) -> io::Result<Vec<ListedSession>> {
    let database = Database::open(path, look)?;
    let listed = list_from(agent, &database);
    if database.is_unchanged()? {
        return listed;
    }
    // The owner opened the database while it was read without locks: the list may mix two states.
    list_from(agent, &database.reopen_shared(path)?)
}

fn list_from(agent: &dyn Agent, database: &Database) -> io::Result<Vec<ListedSession>> {
    let Some(schema) = find_schema(agent, database)? else { return Ok(Vec::new()) };
    let listed = database.query(|connection| {
        let mut statement = connection.prepare(schema.sessions)?;
        let mut rows = statement.query([])?;
        let mut listed = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let session: String = row.get("id")?;
            let parent: Option<String> = row.get("parent")?;
            let family: Option<String> = row.get("family")?;
            let digest = column_text(row.get_ref("digest")?);
            // The sessions of a database have one file, whose times tell nothing of any of them.
            let since = row.get_ref("since")?.as_i64().ok().filter(|_| family.is_some());
            let since = since.map(Time::from_millis);
            let hint = LineageHint { family, since, ..LineageHint::default() };
            let lens = [parent.as_ref(), hint.family.as_ref()].map(|it| it.map_or(0, String::len));
            bytes += size_of::<ListedSession>() + session.len() + digest.len();
            bytes += lens.iter().sum::<usize>();
            if bytes > LISTED_BYTES_MAX {
                return Ok(None);
            }
            listed.push(ListedSession {
                session,
                parent,
                hint,
                active: row.get("active")?,
                digest,
            });
        }
        Ok(Some(listed))
    })?;
    listed.ok_or_else(|| LookError::ListTooLong.into())
}

/// The first layout whose tables are all there.
fn find_schema(
    agent: &dyn Agent,
    database: &Database,
) -> io::Result<Option<&'static DatabaseSchema>> {
    for schema in agent.database_schemas() {
        let kinds = database.query(|connection| {
            let mut statement =
                connection.prepare("SELECT type, rootpage FROM sqlite_schema WHERE name = ?1")?;
            let mut kinds = Vec::new();
            for table in schema.tables {
                let mut rows = statement.query([table])?;
                let Some(row) = rows.next()? else { return Ok(None) };
                // A virtual table has no page of its own.
                let is_stored = row.get::<_, Option<i64>>(1)?.is_some_and(|page| page > 0);
                kinds.push((column_text(row.get_ref(0)?), is_stored));
            }
            Ok(Some(kinds))
        })?;
        let Some(kinds) = kinds else { continue };
        // A view can be any query, also one without an end, and a virtual table any code.
        for (table, (kind, is_stored)) in schema.tables.iter().zip(kinds) {
            if kind != "table" || !is_stored {
                let kind = if kind == "table" { "virtual table".to_owned() } else { kind };
                return Err(LookError::NotATable { name: (*table).to_owned(), kind }.into());
            }
        }
        return Ok(Some(schema));
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
    /// The queries of head and rows, guarded against long values.
    guarded: Option<GuardedQueries>,
    offset: u64,
    has_begun: bool,
}

struct GuardedQueries {
    head: Option<String>,
    rows: String,
    /// The rows up to one of them.
    rows_until: String,
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

/// Where a row stands, and how long it is.
struct RowPlace {
    after: Value,
    key: String,
    length: i64,
}

impl RowPlace {
    /// Stands for a row that SQLite cannot hold.
    fn too_long_row(&self) -> FetchedRow {
        let json = too_long_record(u64::try_from(self.length).unwrap_or(0));
        FetchedRow { after: column_text((&self.after).into()), key: self.key.clone(), json }
    }
}

impl RowReader {
    pub(crate) fn open(
        agent: &dyn Agent,
        path: &Path,
        session: &str,
        offset: u64,
        watermark: Option<&str>,
        look: &Look<'_>,
    ) -> io::Result<RowReader> {
        let database = Database::open(path, look)?;
        // A mark that cannot be parsed reads the session from its beginning. Derived ids keep its
        // events from being recorded twice.
        let mark = watermark.and_then(|mark| serde_json::from_str(mark).ok());
        let mut mark: RowMark = mark.unwrap_or_default();
        let way = choose_query(agent, &database, session, &mark)?;
        if let Some(way) = way
            && !database.query(|connection| mark.has_last_row(way, connection, session))?
        {
            mark = RowMark { way: way.name.to_owned(), ..RowMark::default() };
        }
        Ok(RowReader {
            path: path.to_owned(),
            database,
            session: session.to_owned(),
            way,
            mark,
            page: VecDeque::new(),
            guarded: None,
            offset,
            has_begun: false,
        })
    }

    /// Reads the next page and returns whether it has rows.
    fn read_page(&mut self, way: &'static RowQuery) -> io::Result<bool> {
        if self.guarded.is_none() {
            self.guarded = Some(self.guard_queries(way)?);
        }
        let mut read = self.query_page(way);
        // The owner opened the database while it was read without locks: the page may mix two states.
        if !self.database.is_unchanged()? {
            self.database = self.database.reopen_shared(&self.path)?;
            read = self.query_page(way);
        }
        let (page, until) = read?;
        self.has_begun = true;
        self.mark.until = until;
        self.page = page;
        Ok(!self.page.is_empty())
    }

    fn guard_queries(&self, way: &'static RowQuery) -> io::Result<GuardedQueries> {
        let bytes_max = self.database.row_bytes_max();
        self.database.query(|connection| {
            let guard = |sql| guard_query(connection, sql, way.json, bytes_max);
            let (rows, order) = (guard(way.rows)?, way.order);
            Ok(GuardedQueries {
                head: way.head.map(guard).transpose()?,
                rows_until: format!("{rows} WHERE after <= :until ORDER BY {order} LIMIT :limit"),
                rows: format!("{rows} ORDER BY {order} LIMIT :limit"),
            })
        })
    }

    fn query_page(
        &self,
        way: &'static RowQuery,
    ) -> io::Result<(VecDeque<FetchedRow>, Option<i64>)> {
        let Some(guarded) = &self.guarded else { return Ok((VecDeque::new(), self.mark.until)) };
        self.database.query(|connection| self.query_snapshot(way, guarded, connection))
    }

    fn query_snapshot(
        &self,
        way: &'static RowQuery,
        guarded: &GuardedQueries,
        connection: &Connection,
    ) -> rusqlite::Result<(VecDeque<FetchedRow>, Option<i64>)> {
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
        let bytes_max = self.database.row_bytes_max();
        if let Some(head) = guarded.head.as_ref().filter(|_| !self.has_begun) {
            let mut statement = connection.prepare(head)?;
            let mut rows = statement.query(named_params! {":session": self.session})?;
            loop {
                let json = match rows.next() {
                    Ok(None) => break,
                    Ok(Some(row)) => row_record(row, 0, way.json, bytes_max)?,
                    // A member that is not guarded is too long. The rows are read all the same.
                    Err(error) if is_too_big(&error) => too_long_record(bytes_max as u64),
                    Err(error) => return Err(error),
                };
                // The hash makes a head that changed another record. The head has no place among
                // the rows, so the mark stays where it is.
                let key = format!("head {}", short_hash(&[&json]));
                page.push_back(FetchedRow { after: self.mark.after.clone(), key, json });
            }
        }
        page.extend(self.query_rows(way, guarded, connection)?);
        snapshot.finish()?;
        Ok((page, until))
    }

    /// The rows of a page. SQLite sorts whole rows, so one that it cannot hold fails every query that
    /// sorts it: the page is halved until it is without that row, or has no other.
    fn query_rows(
        &self,
        way: &'static RowQuery,
        guarded: &GuardedQueries,
        connection: &Connection,
    ) -> rusqlite::Result<Vec<FetchedRow>> {
        if let Some(rows) = self.fetch_rows(way, connection, &guarded.rows, None)? {
            return Ok(rows);
        }
        let mut places = self.find_places(way, connection)?;
        while let Some(last) = places.last() {
            let until = Some(&last.after);
            if let Some(rows) = self.fetch_rows(way, connection, &guarded.rows_until, until)? {
                return Ok(rows);
            }
            if let [only] = &places[..] {
                return Ok(vec![only.too_long_row()]);
            }
            places.truncate(places.len() / 2);
        }
        Ok(Vec::new())
    }

    /// The rows up to one that SQLite cannot hold; `None` if it could make no row.
    fn fetch_rows(
        &self,
        way: &'static RowQuery,
        connection: &Connection,
        sql: &str,
        until: Option<&Value>,
    ) -> rusqlite::Result<Option<Vec<FetchedRow>>> {
        // A statement that stayed open would keep the snapshot, and the owner could not reset its log.
        let mut statement = connection.prepare_cached(sql)?;
        self.bind_parameters(&mut statement, until)?;
        let mut rows = statement.raw_query();
        let mut fetched = Vec::new();
        let mut bytes = 0;
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(Some(fetched)),
                Err(error) if is_too_big(&error) => {
                    return Ok(Some(fetched).filter(|fetched| !fetched.is_empty()));
                }
                Err(error) => return Err(error),
            };
            let found = fetch_row(row, way.json, self.database.row_bytes_max())?;
            bytes += found.json.len();
            fetched.push(found);
            // Checked behind the push, so that every page has a row, however long that is.
            if bytes >= BATCH_BYTES_MAX {
                return Ok(Some(fetched));
            }
        }
    }

    /// The places of the rows of a page, without loading their members.
    fn find_places(
        &self,
        way: &'static RowQuery,
        connection: &Connection,
    ) -> rusqlite::Result<Vec<RowPlace>> {
        let described = connection.prepare(way.rows)?;
        let names = described.column_names();
        let lengths = names.filter(|name| !matches!(*name, "after" | "key" | LENGTH));
        let lengths = lengths.map(|name| format!("coalesce(octet_length(\"{name}\"), 0)"));
        let length = lengths.chain(["0".to_owned()]).collect::<Vec<String>>().join(" + ");
        match self.query_places(way, connection, &length) {
            // A member that SQLite would have to compute is too long to be measured.
            Err(error) if is_too_big(&error) => self.query_places(way, connection, ":bytes"),
            places => places,
        }
    }

    fn query_places(
        &self,
        way: &'static RowQuery,
        connection: &Connection,
        length: &str,
    ) -> rusqlite::Result<Vec<RowPlace>> {
        let sql = format!(
            "SELECT after, key, {length} AS length FROM ({}) ORDER BY {} LIMIT :limit",
            way.rows, way.order
        );
        let mut statement = connection.prepare(&sql)?;
        self.bind_parameters(&mut statement, None)?;
        let mut rows = statement.raw_query();
        let mut places = Vec::new();
        while let Some(row) = rows.next()? {
            let key = column_text(row.get_ref("key")?);
            places.push(RowPlace { after: row.get("after")?, key, length: row.get("length")? });
        }
        Ok(places)
    }

    fn bind_parameters(
        &self,
        statement: &mut Statement<'_>,
        until: Option<&Value>,
    ) -> rusqlite::Result<()> {
        let limit = PAGE_ROWS_MAX as i64;
        let since = self.mark.since.unwrap_or(i64::MIN);
        let bytes_max = self.database.row_bytes_max() as i64;
        let values: [(&str, &dyn rusqlite::ToSql); 6] = [
            (":session", &self.session),
            (":after", &self.mark.after),
            (":limit", &limit),
            (":since", &since),
            (":bytes", &bytes_max),
            (":until", &until),
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

    fn is_spent(&self) -> bool {
        // Rows of a page that was read cost nothing more.
        self.page.is_empty() && self.database.is_spent()
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
    database: &Database,
    session: &str,
    mark: &RowMark,
) -> io::Result<Option<&'static RowQuery>> {
    let Some(schema) = find_schema(agent, database)? else { return Ok(None) };
    let named = |name: &str| schema.ways.iter().find(|way| way.name == name);
    if let Some(way) = named(&mark.way) {
        return Ok(Some(way));
    }
    // The inserted text is a constant of the adapter; the session is bound as a parameter.
    let sql = format!("SELECT way FROM ({}) WHERE id = ?1", schema.sessions);
    let name: Option<String> = database.query(|connection| {
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([session])?;
        rows.next()?.map(|row| row.get(0)).transpose()
    })?;
    Ok(name.and_then(|name| named(&name)))
}

fn fetch_row(
    row: &Row<'_>,
    json_members: &[&str],
    bytes_max: usize,
) -> rusqlite::Result<FetchedRow> {
    const NOT_OF_THE_RECORD: usize = 2;
    let after = column_text(row.get_ref("after")?);
    let key = column_text(row.get_ref("key")?);
    let json = row_record(row, NOT_OF_THE_RECORD, json_members, bytes_max)?;
    Ok(FetchedRow { after, key, json })
}
