//! The records and spans of an export, in either encoding of OTLP.
//!
//! Logs and traces have the same shape: resources with scopes with records. Names, times and plain
//! attributes are read, all as text; values that have parts are not.

use std::collections::BTreeMap;

use event::Time;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::Value;

use super::protobuf::{Malformed, WireField, WireFields};

/// Records in one body. An exporter sends some hundred at a time.
const RECORDS_MAX: usize = 10_000;

/// Characters of a service or record name: they are stored with every record, and counted. The rest
/// of a longer name is dropped.
const NAME_CHARS_MAX: usize = 200;

/// What is exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtlpSignal {
    Logs,
    Traces,
    /// Taken, and not read.
    Metrics,
}

/// How it is written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtlpEncoding {
    Json,
    Protobuf,
}

/// One record or span.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OtlpRecord {
    /// What exported it, by its own name.
    pub service: String,
    pub name: String,
    pub at: Option<Time>,
    pub attributes: BTreeMap<String, String>,
}

/// Why a body was not understood.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("this is no OTLP as JSON")]
    Json(#[source] serde_json::Error),
    #[error("this is no OTLP as protobuf")]
    Protobuf,
    #[error("more than {RECORDS_MAX} records at once")]
    TooMany,
}

impl From<Malformed> for TelemetryError {
    fn from(_: Malformed) -> TelemetryError {
        TelemetryError::Protobuf
    }
}

/// Reads everything in a body.
pub(super) fn read_export(
    signal: OtlpSignal,
    encoding: OtlpEncoding,
    body: &[u8],
) -> Result<Vec<OtlpRecord>, TelemetryError> {
    match (signal, encoding) {
        // Metrics are not read, but a malformed body is refused all the same.
        (OtlpSignal::Metrics, OtlpEncoding::Json) => {
            serde_json::from_slice::<IgnoredAny>(body).map_err(TelemetryError::Json)?;
            Ok(Vec::new())
        }
        (OtlpSignal::Metrics, OtlpEncoding::Protobuf) => {
            WireFields(body).try_for_each(|field| field.map(drop))?;
            Ok(Vec::new())
        }
        (_, OtlpEncoding::Json) => read_json(body),
        (OtlpSignal::Logs, OtlpEncoding::Protobuf) => read_protobuf(body, &LOG_RECORD),
        (OtlpSignal::Traces, OtlpEncoding::Protobuf) => read_protobuf(body, &SPAN),
    }
}

/// The attributes with the name of the exporting service and the name of a record.
const SERVICE: &str = "service.name";
const EVENT: &str = "event.name";

/// An export as JSON. Logs and traces differ in some names only.
#[derive(Deserialize)]
struct Export {
    #[serde(default, rename = "resourceLogs", alias = "resourceSpans")]
    resources: Vec<ExportedResource>,
}

#[derive(Deserialize)]
struct ExportedResource {
    #[serde(default)]
    resource: Option<Holder>,
    #[serde(default, rename = "scopeLogs", alias = "scopeSpans")]
    scopes: Vec<ExportedScope>,
}

#[derive(Deserialize, Default)]
struct Holder {
    #[serde(default)]
    attributes: Option<Vec<Attribute>>,
}

#[derive(Deserialize)]
struct ExportedScope {
    #[serde(default, rename = "logRecords", alias = "spans")]
    records: Vec<ExportedRecord>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportedRecord {
    #[serde(default, alias = "eventName")]
    name: Option<String>,
    #[serde(default, alias = "startTimeUnixNano", deserialize_with = "parse_nanos")]
    time_unix_nano: u64,
    #[serde(default, deserialize_with = "parse_nanos")]
    observed_time_unix_nano: u64,
    #[serde(default)]
    attributes: Option<Vec<Attribute>>,
}

#[derive(Deserialize)]
struct Attribute {
    key: String,
    #[serde(default)]
    value: Value,
}

/// OTLP writes numbers of 64 bits as texts in JSON; some exporters write plain numbers.
fn parse_nanos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let text = value.as_str().and_then(|text| text.parse().ok());
    Ok(value.as_u64().or(text).unwrap_or_default())
}

fn read_json(body: &[u8]) -> Result<Vec<OtlpRecord>, TelemetryError> {
    let export: Export = serde_json::from_slice(body).map_err(TelemetryError::Json)?;
    let mut read = Vec::new();
    for resource in export.resources {
        let mut about = attribute_texts(resource.resource.unwrap_or_default().attributes);
        let service = cut_name(about.remove(SERVICE).unwrap_or_default());
        for record in resource.scopes.into_iter().flat_map(|scope| scope.records) {
            if read.len() == RECORDS_MAX {
                return Err(TelemetryError::TooMany);
            }
            let attributes = attribute_texts(record.attributes);
            let times = [record.time_unix_nano, record.observed_time_unix_nano];
            let name = record.name.unwrap_or_default();
            read.push(OtlpRecord::from_parts(service.clone(), name, times, attributes));
        }
    }
    Ok(read)
}

fn attribute_texts(attributes: Option<Vec<Attribute>>) -> BTreeMap<String, String> {
    let text = |value: &Value| {
        // A value is an object with one member, which names its type: `{"intValue":"5"}`.
        let (_, value) = value.as_object()?.iter().next()?;
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    };
    let attributes = attributes.into_iter().flatten();
    attributes.filter_map(|found| Some((found.key, text(&found.value)?))).collect()
}

/// The numbers of fields in a record.
struct Numbers {
    name: u64,
    times: [u64; 2],
    attributes: u64,
}

// `LogRecord` in logs.proto: the time of the event, else the time it was observed.
const LOG_RECORD: Numbers = Numbers { name: 12, times: [1, 11], attributes: 6 };
// `Span` in trace.proto: its start, else its end.
const SPAN: Numbers = Numbers { name: 5, times: [7, 8], attributes: 9 };

// Both exports have the same frame:
//
//     ExportLogsServiceRequest, ExportTraceServiceRequest
//       1 ResourceLogs, ResourceSpans
//         1 Resource
//           1 attributes
//         2 ScopeLogs, ScopeSpans
//           2 LogRecord, Span

/// The numbers of fields around them, which are the same for both.
const RESOURCES: u64 = 1;
const RESOURCE: u64 = 1;
const SCOPES: u64 = 2;
const RECORDS: u64 = 2;
const RESOURCE_ATTRIBUTES: u64 = 1;
const KEY: u64 = 1;
const VALUE: u64 = 2;

fn read_protobuf(body: &[u8], numbers: &Numbers) -> Result<Vec<OtlpRecord>, TelemetryError> {
    let mut read = Vec::new();
    for resource in messages(body, RESOURCES) {
        let resource = resource?;
        let mut about = BTreeMap::new();
        // Fields may come in any order, so the service is looked for before the records are read.
        for holder in messages(resource, RESOURCE) {
            about.extend(attributes(holder?, RESOURCE_ATTRIBUTES)?);
        }
        let service = cut_name(about.remove(SERVICE).unwrap_or_default());
        for scope in messages(resource, SCOPES) {
            for record in messages(scope?, RECORDS) {
                // An empty record is two bytes in the body and much more here, so a hostile body is
                // cut off.
                if read.len() == RECORDS_MAX {
                    return Err(TelemetryError::TooMany);
                }
                read.push(record_of(record?, numbers, service.clone())?);
            }
        }
    }
    Ok(read)
}

/// The messages within a message that have this number.
fn messages(message: &[u8], number: u64) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    WireFields(message).filter_map(move |field| match field {
        Ok((found, WireField::Bytes(bytes))) if found == number => Some(Ok(bytes)),
        Ok(_) => None,
        Err(malformed) => Some(Err(malformed)),
    })
}

fn record_of(
    record: &[u8],
    numbers: &Numbers,
    service: String,
) -> Result<OtlpRecord, TelemetryError> {
    let mut name = String::new();
    let mut times = [0, 0];
    for field in WireFields(record) {
        match field? {
            (number, WireField::Bytes(bytes)) if number == numbers.name => name = lossy_text(bytes),
            (number, WireField::Fixed64(nanos)) => {
                if let Some(place) = numbers.times.iter().position(|time| *time == number) {
                    times[place] = nanos;
                }
            }
            _ => {}
        }
    }
    Ok(OtlpRecord::from_parts(service, name, times, attributes(record, numbers.attributes)?))
}

fn attributes(message: &[u8], number: u64) -> Result<BTreeMap<String, String>, Malformed> {
    let mut attributes = BTreeMap::new();
    for attribute in messages(message, number) {
        let attribute = attribute?;
        let mut key = None;
        let mut value = None;
        for part in WireFields(attribute) {
            match part? {
                (KEY, WireField::Bytes(bytes)) => key = Some(lossy_text(bytes)),
                (VALUE, WireField::Bytes(bytes)) => value = plain_value(bytes)?,
                _ => {}
            }
        }
        attributes.extend(key.zip(value));
    }
    Ok(attributes)
}

/// A value without parts: text, truth, whole number or fraction, by the number of its field.
fn plain_value(value: &[u8]) -> Result<Option<String>, Malformed> {
    let Some(field) = WireFields(value).next() else { return Ok(None) };
    // The numbers are those of `AnyValue`. Lists, maps and bytes come behind them.
    Ok(match field? {
        (1, WireField::Bytes(bytes)) => Some(lossy_text(bytes)),
        (2, WireField::Varint(truth)) => Some((truth != 0).to_string()),
        // A negative number is a varint of ten bytes, in two's complement.
        (3, WireField::Varint(number)) => Some(number.cast_signed().to_string()),
        (4, WireField::Fixed64(bits)) => Some(f64::from_bits(bits).to_string()),
        _ => None,
    })
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The beginning of a name, and no more memory than that.
fn cut_name(name: String) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => name[..end].to_owned(),
        None => name,
    }
}

impl OtlpRecord {
    /// Its own name counts only where no attribute has one: some exporters put a place in their
    /// source there. Of its times the first that is set counts.
    fn from_parts(
        service: String,
        name: String,
        times: [u64; 2],
        attributes: BTreeMap<String, String>,
    ) -> OtlpRecord {
        let name = cut_name(attributes.get(EVENT).cloned().unwrap_or(name));
        let at = times.into_iter().find(|nanos| *nanos != 0);
        let at = at.map(|nanos| Time::from_nanos(i128::from(nanos)));
        OtlpRecord { service, name, at, attributes }
    }
}
