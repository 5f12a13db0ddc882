//! Control lines: what clients ask of the bus itself.

use serde::Deserialize;

use crate::dialect;
use crate::filter::Filter;
use crate::scan::HeaderKey;

/// Bytes of a control line. The bus refuses a longer one.
const CONTROL_MAX: usize = 64 << 10;

/// Names and fields in one subscription. The bus refuses more.
const FILTERS_MAX: usize = 64;

/// Bytes of a client's name; the rest is cut off.
const NAME_MAX: usize = 128;

/// The tract of whole events. Only subscriptions that name it get it.
pub(crate) const JOURNAL: &str = "journal";

/// What a client asks of the bus.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Control {
    Subscribe { filter: Filter, echo: bool, name: Option<String>, from: Option<StartPosition> },
    Unsubscribe,
    Stats,
    Refused { reason: &'static str },
}

/// Where in the journal a subscriber starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartPosition {
    /// At its present end. From then on the subscriber misses no recorded message.
    Now,
    /// Behind this position.
    After(u64),
}

impl Control {
    /// Reads a control line; `None` if the line is an ordinary message. Without a record, the bus
    /// refuses every start position.
    pub(crate) fn read(tract: &str, event: &str, line: &[u8], has_record: bool) -> Option<Control> {
        if tract != "callosum" {
            return None;
        }
        let refused = |reason| Some(Control::Refused { reason });
        match event {
            "subscribe" | "unsubscribe" | "stats" if line.len() > CONTROL_MAX => {
                refused("too_long")
            }
            "subscribe" => match subscription(line, has_record) {
                Ok(control) => Some(control),
                Err(reason) => refused(reason),
            },
            "unsubscribe" => Some(Control::Unsubscribe),
            "stats" => Some(Control::Stats),
            // Only the bus says these. From a client they would deceive the others about their own
            // state.
            "subscribed" | "lagged" | "caught_up" | "refused" => refused("reserved"),
            // Other events of this tract are relayed like any message.
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Subscribe {
    #[serde(default)]
    tracts: Vec<String>,
    #[serde(default)]
    events: Vec<String>,
    #[serde(default)]
    fields: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    from: Option<serde_json::Value>,
    #[serde(default)]
    echo: Option<bool>,
    #[serde(default)]
    name: Option<String>,
}

fn subscription(line: &[u8], has_record: bool) -> Result<Control, &'static str> {
    let asked: Subscribe =
        serde_json::from_value(dialect::decode_value(line)).map_err(|_| "bad_subscription")?;
    if asked.tracts.len() + asked.events.len() + asked.fields.len() > FILTERS_MAX {
        return Err("too_many_filters");
    }
    let wants_journal = asked.tracts.iter().any(|tract| tract == JOURNAL);
    let from = match asked.from {
        // Messages of the tract `journal` are never on the tape, only in the record.
        None => wants_journal.then_some(StartPosition::Now),
        Some(from) => Some(begin(&from).ok_or("bad_subscription")?),
    };
    if from.is_some() && !has_record {
        return Err("no_journal");
    }
    let mut fields = Vec::new();
    for (name, value) in asked.fields {
        let key =
            HeaderKey::from_name(&name).filter(|key| key.is_filter()).ok_or("unknown_field")?;
        if value.is_array() || value.is_object() {
            return Err("bad_subscription");
        }
        fields.push((key, value));
    }
    let filter = Filter { tracts: asked.tracts, events: asked.events, fields };
    let name = asked.name.map(|name| {
        let end = name.floor_char_boundary(NAME_MAX);
        name[..end].to_owned()
    });
    Ok(Control::Subscribe { filter, echo: asked.echo.unwrap_or(true), name, from })
}

fn begin(from: &serde_json::Value) -> Option<StartPosition> {
    match from {
        serde_json::Value::String(word) if word == "now" => Some(StartPosition::Now),
        from => from.as_u64().map(StartPosition::After),
    }
}
