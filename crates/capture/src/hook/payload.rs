//! What an agent hands to a hook: one JSON object, perhaps with its end cut off.

use std::fmt;

use event::Raw;
use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Members of a payload that are looked at. What an agent hands over has a few dozen at most.
const MEMBERS_MAX: usize = 1_024;

/// The members of one object, in their order.
#[derive(Clone, Debug, Default)]
pub struct Payload(Vec<(String, Raw)>);

/// The text is no payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is no JSON object")]
pub struct NoPayload;

impl Payload {
    /// Reads an object. If its end is missing, the members before the cut are there.
    pub fn parse(text: &str) -> Result<Payload, NoPayload> {
        let mut members = Vec::new();
        let mut deserializer =
            serde_json::Deserializer::from_str(text.trim_start_matches('\u{feff}'));
        let read = Members(&mut members).deserialize(&mut deserializer);
        match (read, members.is_empty()) {
            // An error behind the first member is a cut, which costs only what comes after it.
            (Err(_), true) => Err(NoPayload),
            _ => Ok(Payload(members)),
        }
    }

    /// The text at the first of these places that has one.
    pub fn find_text(&self, places: &[&str]) -> Option<String> {
        places.iter().find_map(|place| self.value_at(place)?.text())
    }

    /// The value at the first of these places that has one. An object that is written as a text is
    /// taken for what it is.
    pub fn find_json(&self, places: &[&str]) -> Option<Raw> {
        let found = places.iter().find_map(|place| self.value_at(place));
        let found = found.filter(|value| !value.is_null())?;
        let inner = found.text().filter(|text| text.starts_with(['{', '[']));
        Some(inner.and_then(|text| Raw::parse(text).ok()).unwrap_or(found))
    }

    fn value_at(&self, place: &str) -> Option<Raw> {
        let mut names = place.split('.');
        let first = names.next()?;
        let mut value = self.0.iter().find(|(name, _)| name == first)?.1.clone();
        for name in names {
            let members = value.members()?;
            value = members.into_iter().find(|(member, _)| member == name)?.1;
        }
        Some(value)
    }
}

/// Puts the members of an object into a list as they are read.
struct Members<'a>(&'a mut Vec<(String, Raw)>);

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            // The rest is read to its end and not held.
            if self.0.len() < MEMBERS_MAX {
                self.0.push((name, Raw::from(value)));
            }
        }
        Ok(())
    }
}
