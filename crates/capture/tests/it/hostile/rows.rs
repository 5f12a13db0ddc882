//! Bytes as rows of an agent's database.
//!
//! A line is a row as recordings have them: `{"table": …, "row": {column: value}}`. What is none
//! is passed over: an agent that writes a database writes rows.

use std::path::Path;

use event::Raw;
use rusqlite::Connection;
use rusqlite::types::Value;

/// The tables of all agents, with the columns that are asked for.
pub(super) const TABLES: &[(&str, &str)] = &[
    ("cursorDiskKV", "key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB"),
    (
        "sessions",
        "id TEXT PRIMARY KEY, name, description, session_type, working_dir, created_at, \
         updated_at, total_tokens, accumulated_total_tokens, accumulated_input_tokens, \
         accumulated_output_tokens, provider_name, model_config_json, goose_mode",
    ),
    (
        "messages",
        "id INTEGER PRIMARY KEY AUTOINCREMENT, message_id, session_id, role, content_json, \
         created_timestamp, timestamp, tokens, metadata_json",
    ),
    (
        "session",
        "id TEXT PRIMARY KEY, project_id, parent_id, slug, directory, title, version, revert, \
         time_created, time_updated",
    ),
    ("message", "id TEXT PRIMARY KEY, session_id, time_created, time_updated, data"),
    ("part", "id TEXT PRIMARY KEY, message_id, session_id, time_created, time_updated, data"),
    ("event", "id TEXT PRIMARY KEY, aggregate_id, seq INTEGER, type, data"),
];

/// Writes rows behind those that are there. A table is made for its first row.
pub(super) fn fill(path: &Path, bytes: &[u8]) {
    let database = Connection::open(path).expect("a database can be made");
    database
        .execute_batch("PRAGMA journal_mode = off; PRAGMA synchronous = off; BEGIN")
        .expect("it is ours");
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = insert(&database, line);
    }
    database.execute_batch("COMMIT").expect("it is ours");
}

fn insert(database: &Connection, line: &str) -> Option<usize> {
    let members = Raw::parse(line).ok()?.members()?;
    let member =
        |name: &str| members.iter().find(|(other, _)| other == name).map(|(_, value)| value);
    let table = member("table")?.text()?;
    let (table, columns) = TABLES.iter().find(|(name, _)| **name == *table)?;
    database.execute_batch(&format!("CREATE TABLE IF NOT EXISTS {table} ({columns})")).ok()?;
    let mut row = member("row")?.members()?;
    // A column that no query asks for is none.
    row.retain(|(name, _)| columns.split([' ', ',']).any(|column| column == name));
    let names: Vec<&str> = row.iter().map(|(name, _)| &**name).collect();
    let marks = vec!["?"; names.len()].join(",");
    let sql = format!("INSERT OR REPLACE INTO {table} ({}) VALUES ({marks})", names.join(","));
    let values = row.iter().map(|(_, value)| sql_value(value));
    database.execute(&sql, rusqlite::params_from_iter(values)).ok()
}

fn sql_value(value: &Raw) -> Value {
    let json = value.get();
    match value.text() {
        Some(text) => Value::Text(text.to_string()),
        None if json == "null" => Value::Null,
        None => match (json.parse(), json.parse()) {
            (Ok(number), _) => Value::Integer(number),
            (_, Ok(number)) => Value::Real(number),
            _ => Value::Text(json.to_owned()),
        },
    }
}
