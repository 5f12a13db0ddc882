//! A row of an agent's database as a record: one JSON object, or the size of a row that is too long.

use event::Raw;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde::Serialize;

/// The column with the length of the members that may be long.
pub(crate) const LENGTH: &str = "long_bytes";

/// Makes a query leave out members that are too long together. SQLite knows their length without
/// loading them.
pub(crate) fn guard_query(
    connection: &Connection,
    sql: &str,
    long: &[&str],
    bytes_max: usize,
) -> rusqlite::Result<String> {
    let statement = connection.prepare(sql)?;
    let names: Vec<&str> = statement.column_names().collect();
    if names.contains(&LENGTH) {
        return Ok(format!("SELECT * FROM ({sql})"));
    }
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let lengths = names.iter().filter(|name| long.contains(name));
    let lengths = lengths.map(|name| format!("coalesce(octet_length({}), 0)", quoted(name)));
    let length = lengths.chain(["0".to_owned()]).collect::<Vec<String>>().join(" + ");
    let columns = names.iter().map(|name| match (quoted(name), long.contains(name)) {
        (name, true) => format!("CASE WHEN {length} <= {bytes_max} THEN {name} END AS {name}"),
        (name, false) => name,
    });
    let columns = columns.collect::<Vec<String>>().join(", ");
    Ok(format!("SELECT {columns}, {length} AS {LENGTH} FROM ({sql})"))
}

/// A row as a record, from a column on: one JSON object.
pub(crate) fn row_record(
    row: &Row<'_>,
    first: usize,
    json_members: &[&str],
    bytes_max: usize,
) -> rusqlite::Result<String> {
    // Absent where the members are.
    let length: Option<i64> = row.get(LENGTH)?;
    if let Some(length) = length.filter(|length| *length > bytes_max as i64) {
        return Ok(too_long_record(length as u64));
    }
    let names = row.as_ref();
    let mut json = String::from("{");
    for index in first..names.column_count() {
        let name = names.column_name(index)?;
        let value = row.get_ref(index)?;
        if value == ValueRef::Null || name == LENGTH {
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

/// Whether a row has a value that SQLite may not load.
pub(crate) fn is_too_big(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::TooBig)
}

const TOO_LONG: &str = r#"{"hansard":"row too long","bytes":"#;

/// Stands for a row that is too long to be loaded.
pub(crate) fn too_long_record(bytes: u64) -> String {
    format!("{TOO_LONG}{bytes}}}")
}

/// How long the row is that a record stands for; `None` for a record that is the row itself.
pub(crate) fn too_long_bytes(record: &[u8]) -> Option<u64> {
    let rest = str::from_utf8(record.strip_prefix(TOO_LONG.as_bytes())?).ok()?;
    rest.trim_end().strip_suffix('}')?.parse().ok()
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

pub(crate) fn column_text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
    }
}
