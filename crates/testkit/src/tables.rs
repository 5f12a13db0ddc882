//! Databases made in tests, as the agents make them.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use serde_json::{Map, Value};

/// A row of a recording, and the table it belongs to.
pub type Recorded = (String, Map<String, Value>);

/// How the names of files end that have the rows of a database, which was not kept itself.
const ROWS: &str = ".rows.jsonl";

/// Makes the databases in a home of which a recording has kept the rows only.
pub fn build_databases(recorded_home: &Path, home: &Path) {
    for entry in fs::read_dir(recorded_home).expect("recordings can be listed") {
        let entry = entry.expect("recordings can be listed");
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_str().expect("names in recordings are text");
        if path.is_dir() {
            // The folders of a recording are those of the home.
            build_databases(&path, &home.join(name));
        } else if let Some(name) = name.strip_suffix(ROWS) {
            let connection = open_as_owner(&home.join(name));
            recorded(&path).iter().for_each(|row| insert_row(&connection, row));
        }
    }
}

/// The rows of a recording, one a line.
pub fn recorded(path: &Path) -> Vec<Recorded> {
    let text = fs::read_to_string(path).expect("recordings can be read");
    let rows = text.lines().map(|line| {
        let Ok(Value::Object(mut entry)) = serde_json::from_str(line) else { panic!("{line}") };
        let Some(Value::Object(row)) = entry.remove("row") else { panic!("{line}") };
        let Some(table) = entry["table"].as_str() else { panic!("{line}") };
        (table.to_owned(), row)
    });
    rows.collect()
}

/// Opens a database as its owner, in WAL mode as most agents do.
pub fn open_as_owner(path: &Path) -> Connection {
    let folder = path.parent().expect("a database lies in a folder");
    fs::create_dir_all(folder).expect("the folder can be made");
    let connection = Connection::open(path).expect("a database can be made");
    // Without syncs, because a test database need not outlive a power cut.
    for (name, value) in [("journal_mode", "wal"), ("synchronous", "off")] {
        connection.pragma_update(None, name, value).expect("it can be set up");
    }
    connection
}

/// Writes a row, and makes its table if there is none.
pub fn insert_row(connection: &Connection, (table, row): &Recorded) {
    let names: Vec<String> = row.keys().map(|name| format!("\"{name}\"")).collect();
    let names = names.join(",");
    let marks = vec!["?"; row.len()].join(",");
    // Columns without types: SQLite keeps each value as it is given.
    let create = format!("CREATE TABLE IF NOT EXISTS {table} ({names})");
    connection.execute_batch(&create).expect("a table can be made");
    let values = rusqlite::params_from_iter(row.values().map(sql_value));
    let insert = format!("INSERT INTO {table} ({names}) VALUES ({marks})");
    connection.execute(&insert, values).expect("a row can be written");
}

fn sql_value(value: &Value) -> Sql {
    match value {
        Value::Null => Sql::Null,
        Value::Number(number) => match number.as_i64() {
            // Integers first: as `REAL`, ids and times would read back in another form.
            Some(number) => Sql::Integer(number),
            None => Sql::Real(number.as_f64().expect("a number of JSON")),
        },
        Value::String(text) => Sql::Text(text.clone()),
        // SQLite has no type for the rest. JSON text keeps it.
        other => Sql::Text(other.to_string()),
    }
}
