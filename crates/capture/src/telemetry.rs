//! Telemetry: what agents export about themselves over OTLP.
//!
//! A body is decoded into records, whatever its signal and its encoding. The [`TelemetryMap`] of an
//! agent lists the records that contain facts which its transcripts do not. All others are counted by
//! name and dropped. Facts from telemetry have medium confidence.
//!
//! Not here: how a body arrives (`serve`), and metrics: they are sums of what the agent's records
//! have one by one.

mod export; // records and spans, in either encoding
mod protobuf; // fields of a message, one after another

use std::collections::BTreeMap;

use event::payload::{ApprovalResolved, Decision, Retry};
use event::{Kind, Raw, Time};

pub use export::{OtlpEncoding, OtlpRecord, OtlpSignal, TelemetryError};

use crate::agent::{AGENTS, Agent};

/// What has to be known of an agent's telemetry.
#[derive(Debug)]
pub struct TelemetryMap {
    /// The prefix of its service name.
    pub service: &'static str,
    /// The attribute with the session.
    pub session: &'static str,
    /// Of several rows with the same name the first that gives a fact counts.
    pub rows: &'static [TelemetryRow],
}

/// One kind of record, and what it means.
#[derive(Debug)]
pub struct TelemetryRow {
    pub name: &'static str,
    pub tells: TelemetryMeaning,
}

/// A fact that stands in no transcript. The fields are names of attributes.
#[derive(Debug)]
pub enum TelemetryMeaning {
    /// A request that failed, and will be made again.
    Retry { status: &'static str, error: &'static str, attempt: &'static str },
    /// The user decided about a tool call.
    Decided {
        call: &'static str,
        decision: &'static str,
        /// The prefix of values that allow. Any other value denies.
        allows: &'static str,
        /// Where the decision came from, and the value for the user.
        source: &'static str,
        person: &'static str,
    },
}

/// A fact that only telemetry has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TelemetryFact {
    /// Unique within the session, and the same when the record is exported again.
    pub name: String,
    pub provider: &'static str,
    /// The provider's id of the session.
    pub session: String,
    pub at: Time,
    pub kind: Kind,
    pub data: Raw,
}

/// The content of one body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Telemetry {
    pub reported: Vec<TelemetryFact>,
    /// How many records gave no fact, by service and name.
    pub counted: BTreeMap<(String, String), u64>,
}

/// Decodes a body.
pub fn telemetry(
    signal: OtlpSignal,
    encoding: OtlpEncoding,
    body: &[u8],
) -> Result<Telemetry, TelemetryError> {
    let mut telemetry = Telemetry::default();
    for exported in export::read_export(signal, encoding, body)? {
        match reported(&exported) {
            Some(reported) => telemetry.reported.push(reported),
            None => {
                let key = (exported.service, exported.name);
                *telemetry.counted.entry(key).or_default() += 1;
            }
        }
    }
    Ok(telemetry)
}

fn reported(exported: &OtlpRecord) -> Option<TelemetryFact> {
    let is_its = |map: &&TelemetryMap| exported.service.starts_with(map.service);
    let of_agent = |agent: &&'static dyn Agent| {
        Some((agent.provider(), agent.telemetry().filter(|map| is_its(map))?))
    };
    let (provider, map) = AGENTS.iter().find_map(of_agent)?;
    let session = exported.attributes.get(map.session)?.clone();
    let rows = map.rows.iter().filter(|row| row.name == exported.name);
    let (kind, data) = rows.into_iter().find_map(|row| row.tells.read_record(exported))?;
    let at = exported.at?;
    let of = exported.attributes.get("call_id").map_or("", String::as_str);
    // An exporter sends a record again if it heard no answer. The name is made of the record alone,
    // so the second one adds nothing.
    let name = format!("{}-{}-{of}", at.nanos(), exported.name);
    Some(TelemetryFact { name, provider, session, at, kind, data })
}

impl TelemetryMeaning {
    fn read_record(&self, exported: &OtlpRecord) -> Option<(Kind, Raw)> {
        let text = |name: &str| exported.attributes.get(name).map(String::as_str);
        match self {
            TelemetryMeaning::Retry { status, error, attempt } => {
                // The same record reports requests that succeeded; these have neither a bad code
                // nor an error.
                let code = text(status).filter(|code| !code.starts_with('2'));
                let error = text(error).filter(|error| !error.is_empty());
                let words = match (code, error) {
                    (Some(code), Some(error)) => format!("{code}: {error}"),
                    (one, other) => one.or(other)?.to_owned(),
                };
                let attempt = text(attempt).and_then(|attempt| attempt.parse().ok());
                let scope = "request".to_owned();
                let retry = Retry {
                    scope,
                    attempt: attempt.unwrap_or_default(),
                    error: words,
                    ..Retry::default()
                };
                Some((Kind::Retry, Raw::from_value(&retry).ok()?))
            }
            TelemetryMeaning::Decided { call, decision, allows, source, person } => {
                // A rule or a mode of the agent decides without asking, so there was no question to
                // resolve.
                if text(source) != Some(person) {
                    return None;
                }
                let said = text(decision)?;
                let decision = match said.starts_with(allows) {
                    true => Decision::Allow,
                    false => Decision::Deny,
                };
                let resolved = ApprovalResolved {
                    approval_id: text(call)?.to_owned(),
                    decision,
                    reason: Some(said.to_owned()),
                    by: Some("person".to_owned()),
                    automated: false,
                };
                Some((Kind::ApprovalResolved, Raw::from_value(&resolved).ok()?))
            }
        }
    }
}
