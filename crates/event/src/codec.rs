//! Events as lines of JSON: one canonical way to write them, a tolerant way to read them.
//!
//! The known members are written in a fixed order, followed by the unknown ones in their original
//! order. Stores keep the head in columns and the rest as text, so each half can be written and
//! read on its own.

use std::borrow::Cow;

use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::error::excerpt;
use crate::event::non_empty;
use crate::json::{JsonString, decode_string, nul_replaced, without_nul};
use crate::raw::members;
use crate::{
    BadEvent, BadId, Confidence, Draft, Event, EventId, Metadata, Raw, SessionId, Source, Time,
};

/// The fields that a store keeps in columns and [`Draft::encode_rest`] leaves out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventHead {
    pub id: EventId,
    pub session_id: SessionId,
    pub created_at: Time,
    pub observed_at: Time,
}

impl Event {
    /// Encodes the event as one line of JSON without the line break. The same event always gives
    /// the same bytes.
    pub fn encode(&self) -> String {
        to_json(&EncodedEvent::new(&self.draft, Some(self.seq), true))
    }

    /// Decodes a line that has a `seq`.
    pub fn decode(line: &str) -> Result<Event, BadEvent> {
        let (draft, seq) = decode_parts(line, None)?;
        Ok(draft.with_seq(seq.ok_or(BadEvent::Missing("seq"))?))
    }
}

impl Draft {
    /// Encodes the draft as one line of JSON without the line break.
    pub fn encode(&self) -> String {
        to_json(&EncodedEvent::new(self, None, true))
    }

    /// Decodes a line with or without a `seq`.
    pub fn decode(line: &str) -> Result<(Draft, Option<u64>), BadEvent> {
        decode_parts(line, None)
    }

    /// Encodes everything but the [`EventHead`].
    pub fn encode_rest(&self) -> String {
        to_json(&EncodedEvent::new(self, None, false))
    }

    /// Appends the result of [`Draft::encode_rest`] to `json`.
    pub fn encode_rest_into(&self, json: &mut Vec<u8>) {
        write_json(&EncodedEvent::new(self, None, false), json);
    }

    /// Encodes the rest with `null` for a `data` that is stored elsewhere.
    pub fn encode_rest_without_data(&self) -> String {
        to_json(&EncodedEvent { draft: self, data: &Raw::null(), seq: None, head: false })
    }

    /// The reverse of [`Draft::encode_rest`].
    pub fn decode_rest(head: EventHead, rest: &str) -> Result<Draft, BadEvent> {
        decode_parts(rest, Some(head)).map(|(draft, _)| draft)
    }

    pub fn head(&self) -> EventHead {
        EventHead {
            id: self.id,
            session_id: self.session_id.clone(),
            created_at: self.created_at,
            observed_at: self.observed_at,
        }
    }
}

/// Serializes the event as [`Event::encode`] does.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EncodedEvent::new(&self.draft, Some(self.seq), true).serialize(serializer)
    }
}

fn to_json(encoded: &EncodedEvent<'_>) -> String {
    /// The usual length of the other fields of an event.
    const REST_LEN: usize = 512;
    let text = encoded.draft.text.as_ref().map_or(0, String::len);
    // One allocation: growing step by step would copy a long payload several times. One byte in
    // eight of the text may need an escape.
    let mut json = Vec::with_capacity(encoded.data.get().len() + text + text / 8 + REST_LEN);
    write_json(encoded, &mut json);
    String::from_utf8(json).expect("JSON is text")
}

fn write_json(encoded: &EncodedEvent<'_>, json: &mut Vec<u8>) {
    serde_json::to_writer(json, encoded).expect("strings, numbers and raw JSON always encode");
}

/// An event, or its rest without the head, in the form that is serialized.
struct EncodedEvent<'a> {
    draft: &'a Draft,
    data: &'a Raw,
    seq: Option<u64>,
    head: bool,
}

impl<'a> EncodedEvent<'a> {
    fn new(draft: &'a Draft, seq: Option<u64>, head: bool) -> EncodedEvent<'a> {
        EncodedEvent { draft, data: &draft.data, seq, head }
    }
}

impl Serialize for EncodedEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Stored lines and their hashes depend on this order.
        let draft = self.draft;
        let mut map = serializer.serialize_map(None)?;
        if self.head {
            map.serialize_entry("id", &draft.id)?;
            map.serialize_entry("session_id", &draft.session_id)?;
        }
        if let Some(seq) = self.seq {
            map.serialize_entry("seq", &seq)?;
        }
        map.serialize_entry("kind", &draft.kind)?;
        if self.head {
            map.serialize_entry("created_at", &draft.created_at)?;
            map.serialize_entry("observed_at", &draft.observed_at)?;
        }
        map.serialize_entry("provider", &draft.provider)?;
        write_optional(&mut map, "provider_session_id", &non_empty(&draft.provider_session_id))?;
        map.serialize_entry("source", &draft.source)?;
        map.serialize_entry("confidence", &draft.confidence)?;
        write_optional(&mut map, "turn_id", &non_empty(&draft.turn_id))?;
        write_optional(&mut map, "parent_id", &draft.parent_id)?;
        write_optional(&mut map, "text", &non_empty(&draft.text).map(without_nul))?;
        map.serialize_entry("data", self.data)?;
        if !draft.metadata.is_empty() {
            map.serialize_entry("metadata", &draft.metadata)?;
        }
        write_optional(&mut map, "cost", &draft.cost)?;
        for (name, value) in &draft.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

fn write_optional<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &'static str,
    value: &Option<T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, value),
        None => Ok(()),
    }
}

/// Decodes a whole line, or a rest with the head that a store kept beside it.
fn decode_parts(json: &str, head: Option<EventHead>) -> Result<(Draft, Option<u64>), BadEvent> {
    // Split first and decode afterwards: a member of the wrong type then has an error that names
    // it, and an unknown one is kept byte for byte.
    let (known, extra) = split_members(json)?;
    let head = match head {
        Some(head) => head,
        None => {
            // Without id, session and time an event has no place in a log. Of the fields below only
            // the kind has no default: lines are also written by hand and by other programs.
            let id = known.id.string()?.ok_or_else(BadId::missing_event_id)?;
            let session_id: JsonString<'_> = known.session_id.required()?;
            let created_at = known.created_at.required()?;
            EventHead {
                id: id.parse()?,
                session_id: SessionId::new(session_id.0)?,
                created_at,
                // A line written by hand may lack the time of observation.
                observed_at: known.observed_at.optional()?.unwrap_or(created_at),
            }
        }
    };
    let parent_id = known.parent_id.text()?.map(|id| id.parse::<EventId>()).transpose()?;
    let text = known.text.text()?;
    let draft = Draft {
        id: head.id,
        session_id: head.session_id,
        kind: known.kind.required()?,
        created_at: head.created_at,
        observed_at: head.observed_at,
        provider: known.provider.string()?.map_or_else(|| "hansard".to_owned(), Cow::into_owned),
        provider_session_id: known.provider_session_id.text()?.map(Cow::into_owned),
        source: known.source.optional()?.unwrap_or(Source::Native),
        confidence: known.confidence.optional()?.unwrap_or(Confidence::High),
        turn_id: known.turn_id.text()?.map(Cow::into_owned),
        parent_id,
        text: text.map(|text| nul_replaced(text).into_owned()),
        data: known.data.value.map(Raw::from).unwrap_or_default(),
        metadata: known.metadata.metadata()?,
        cost: known.cost.optional()?,
        extra,
    };
    Ok((draft, known.seq.optional()?))
}

/// Separates the known members of an event from the unknown ones, which keep their order.
///
/// Fails for a duplicate name: readers would disagree on which of the two values counts.
fn split_members(json: &str) -> Result<(EnvelopeFields<'_>, Vec<(String, Raw)>), BadEvent> {
    let members = members(json).map_err(|error| BadEvent::Json(excerpt(&error.to_string())))?;
    let mut known = EnvelopeFields::empty();
    let mut unknown: Vec<(String, Raw)> = Vec::new();
    for (name, value) in members {
        let is_duplicate = match known.field(&name) {
            Some(field) => field.value.replace(value).is_some(),
            None => {
                // A linear search: an event has few unknown members, if any.
                let is_duplicate = unknown.iter().any(|(other, _)| *other == name);
                unknown.push((name.clone().into_owned(), value.into()));
                is_duplicate
            }
        };
        if is_duplicate {
            return Err(BadEvent::Twice(excerpt(&name)));
        }
    }
    Ok((known, unknown))
}

macro_rules! envelope_fields {
    ($($field:ident)*) => {
        /// The known members of one encoded event.
        struct EnvelopeFields<'a> {
            $($field: EnvelopeField<'a>,)*
        }

        impl<'a> EnvelopeFields<'a> {
            fn empty() -> EnvelopeFields<'a> {
                EnvelopeFields { $($field: EnvelopeField { name: stringify!($field), value: None },)* }
            }

            fn field(&mut self, name: &str) -> Option<&mut EnvelopeField<'a>> {
                match name {
                    $(stringify!($field) => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

envelope_fields! {
    id session_id seq kind created_at observed_at provider provider_session_id source confidence
    turn_id parent_id text data metadata cost
}

/// A known member of the envelope and its value, if the line has it.
struct EnvelopeField<'a> {
    name: &'static str,
    value: Option<&'a RawValue>,
}

impl<'a> EnvelopeField<'a> {
    /// Returns the value as written; `null` counts as absent.
    fn json(&self) -> Option<&'a str> {
        self.value.map(RawValue::get).filter(|json| *json != "null")
    }

    fn bad_field(&self, why: &str) -> BadEvent {
        BadEvent::Field { field: self.name, why: excerpt(why) }
    }

    fn optional<T: Deserialize<'a>>(&self) -> Result<Option<T>, BadEvent> {
        let read = |json| serde_json::from_str(json);
        self.json().map(read).transpose().map_err(|error| self.bad_field(&error.to_string()))
    }

    fn required<T: Deserialize<'a>>(&self) -> Result<T, BadEvent> {
        self.optional()?.ok_or(BadEvent::Missing(self.name))
    }

    fn string(&self) -> Result<Option<Cow<'a, str>>, BadEvent> {
        let read = |json| decode_string(json).ok_or_else(|| self.bad_field("it is not a string"));
        self.json().map(read).transpose()
    }

    /// Returns the text; an empty one counts as absent.
    fn text(&self) -> Result<Option<Cow<'a, str>>, BadEvent> {
        Ok(self.string()?.filter(|text| !text.is_empty()))
    }

    fn metadata(&self) -> Result<Metadata, BadEvent> {
        let mut metadata = Metadata::new();
        let Some(json) = self.json() else { return Ok(metadata) };
        for (name, value) in members(json).map_err(|error| self.bad_field(&error.to_string()))? {
            // For the same reason as in the envelope: readers would disagree on which value counts.
            if metadata.contains_key(&*name) {
                return Err(BadEvent::Twice(excerpt(&format!("{}.{name}", self.name))));
            }
            metadata.insert(name.into_owned(), value.into());
        }
        Ok(metadata)
    }
}
