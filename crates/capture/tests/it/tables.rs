//! Databases made in tests, as the agents make them.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use serde_json::{Map, Value};

/// A row of a recording, and the table it belongs to.
pub(crate) type Recorded = (String, Map<String, Value>);

/// The rows of a recording, one a line.
pub(crate) fn recorded(path: &Path) -> Vec<Recorded> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| {
        let Ok(Value::Object(mut entry)) = serde_json::from_str(line) else { panic!("{line}") };
        let Some(Value::Object(row)) = entry.remove("row") else { panic!("{line}") };
        (entry["table"].as_str().unwrap().to_owned(), row)
    });
    rows.collect()
}

/// Opens a database as its owner, in WAL mode as most agents do.
pub(crate) fn owner(path: &Path) -> Connection {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.pragma_update(None, "synchronous", "off").unwrap();
    connection
}

/// Writes a row, and makes its table if there is none.
pub(crate) fn insert(connection: &Connection, (table, row): &Recorded) {
    let names: Vec<String> = row.keys().map(|name| format!("\"{name}\"")).collect();
    let names = names.join(",");
    let marks = vec!["?"; row.len()].join(",");
    connection.execute_batch(&format!("CREATE TABLE IF NOT EXISTS {table} ({names})")).unwrap();
    let values = rusqlite::params_from_iter(row.values().map(sql));
    let insert = format!("INSERT INTO {table} ({names}) VALUES ({marks})");
    connection.execute(&insert, values).unwrap();
}

fn sql(value: &Value) -> Sql {
    match value {
        Value::Null => Sql::Null,
        Value::Number(number) => match number.as_i64() {
            Some(number) => Sql::Integer(number),
            None => Sql::Real(number.as_f64().unwrap()),
        },
        Value::String(text) => Sql::Text(text.clone()),
        other => Sql::Text(other.to_string()),
    }
}
