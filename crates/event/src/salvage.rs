//! Reads what can be read of a payload that has unreadable fields.

use serde_json::value::RawValue;

use crate::json::replace_lone_surrogates;
use crate::payload::Payload;
use crate::raw::members;
use crate::{BadPayload, Draft};

/// A payload without the fields that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salvaged<P> {
    pub payload: P,
    /// One for each field that was left out, or that lost elements of its list.
    pub faults: Vec<BadPayload>,
}

impl Draft {
    /// Decodes the payload as `P` and leaves out the fields, and the elements of lists, that do not
    /// fit. Returns `None` for an event of another kind, and if no object is left to read.
    ///
    /// For payloads that other programs wrote and whose fields have defaults: one bad field must
    /// not cost the others.
    pub fn salvage<P: Payload>(&self) -> Option<Salvaged<P>> {
        if self.kind != P::KIND {
            return None;
        }
        let json = replace_lone_surrogates(self.data.get());
        let mut kept: Vec<(&str, String)> = Vec::new();
        let mut faults = Vec::new();
        let members = members(&json).ok()?;
        for (name, value) in &members {
            if kept.iter().any(|(known, _)| known == name) {
                faults.push(self.fault(name, "it is there twice".to_owned()));
            } else if let Err(error) = read_alone::<P>(name, value.get()) {
                faults.push(self.fault(name, error.to_string()));
                kept.extend(readable_elements::<P>(name, value).map(|list| (&**name, list)));
            } else {
                kept.push((name, value.get().to_owned()));
            }
        }
        let kept = kept.iter().map(|(name, value)| member(name, value)).collect::<Vec<_>>();
        let payload = serde_json::from_str(&format!("{{{}}}", kept.join(","))).ok()?;
        Some(Salvaged { payload, faults })
    }

    fn fault(&self, name: &str, why: String) -> BadPayload {
        let path = name.to_owned();
        BadPayload { kind: self.kind.clone(), event_id: self.id, path, why }
    }
}

/// Returns the list without the elements that do not fit; `None` for any other value.
fn readable_elements<P: Payload>(name: &str, value: &RawValue) -> Option<String> {
    let elements: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
    let fits =
        |element: &&&RawValue| read_alone::<P>(name, &format!("[{}]", element.get())).is_ok();
    let elements: Vec<&str> = elements.iter().filter(fits).map(|element| element.get()).collect();
    Some(format!("[{}]", elements.join(",")))
}

/// Reads a payload that has this one field.
fn read_alone<P: Payload>(name: &str, value: &str) -> Result<P, serde_json::Error> {
    serde_json::from_str(&format!("{{{}}}", member(name, value)))
}

fn member(name: &str, value: &str) -> String {
    let name = serde_json::to_string(name).expect("a string always encodes as JSON");
    format!("{name}:{value}")
}
