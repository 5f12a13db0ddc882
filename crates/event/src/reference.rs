//! The fields in which one event names another.
//!
//! [`reference_fields`] is the only list of them. A fork translates the ids in these fields and
//! changes no other byte of the payload.

use std::ops::Range;

use serde_json::value::RawValue;

use crate::raw::members;
use crate::{AMENDS, Draft, EventId, Kind, Raw};

impl Draft {
    /// Replaces every id by which this event names another one. `translate` returns `None` for
    /// an id that stays. Fields outside the list are not changed.
    pub fn translate_references(&mut self, translate: &dyn Fn(EventId) -> Option<EventId>) {
        if let Some(new) = self.parent_id.and_then(translate) {
            self.parent_id = Some(new);
        }
        if let Some(new) = self.amends().and_then(translate) {
            self.metadata
                .insert(AMENDS.to_owned(), Raw::from_value(&new).expect("an id always encodes"));
        }
        let mut named = Vec::new();
        let whole = self.data.get();
        collect_ids(whole, whole, reference_fields(&self.kind), &mut named);
        // Places were found in the original text, so all of them are collected before the first one
        // changes.
        let edits: Vec<_> = named
            .into_iter()
            .filter_map(|(place, id)| translate(id).map(|new| (place, new)))
            .collect();
        if !edits.is_empty() {
            self.data = replace_ids(whole, &edits);
        }
    }
}

/// A member of the payload that names an event or contains members that do.
enum ReferenceField {
    Id(&'static str),
    Object(&'static str, &'static [ReferenceField]),
    List(&'static str, &'static [ReferenceField]),
}

const ENTRY: &[ReferenceField] = &[ReferenceField::Id("event_id")];

/// Returns the fields of a payload that name other events.
fn reference_fields(kind: &Kind) -> &'static [ReferenceField] {
    match kind {
        Kind::Compaction | Kind::Snapshot => &[
            ReferenceField::Id("cutoff_event_id"),
            ReferenceField::List("entries", ENTRY),
            ReferenceField::List("messages", ENTRY),
        ],
        Kind::ContextAdded => &[ReferenceField::Object(
            "covers",
            &[ReferenceField::Id("from"), ReferenceField::Id("to")],
        )],
        Kind::ChildRequested => &[ReferenceField::Id("parent_event_id")],
        Kind::ArtifactRecorded => {
            &[ReferenceField::Object("artifact", &[ReferenceField::Id("producer_event_id")])]
        }
        _ => &[],
    }
}

/// Collects the ids in an object that is a part of `whole`, in order, each with its place.
fn collect_ids(
    whole: &str,
    object: &str,
    fields: &[ReferenceField],
    named: &mut Vec<(Range<usize>, EventId)>,
) {
    if fields.is_empty() {
        return;
    }
    // A payload that is not an object names no events. Duplicate names are all translated.
    for (name, value) in members(object).unwrap_or_default() {
        let field = fields.iter().find(|field| match field {
            ReferenceField::Id(known)
            | ReferenceField::Object(known, _)
            | ReferenceField::List(known, _) => name == *known,
        });
        let value = value.get();
        match field {
            None => {}
            Some(ReferenceField::Id(_)) => {
                // What is not an id stays as it is: the payload of a captured event may have any
                // shape.
                if let Ok(id) = serde_json::from_str(value) {
                    named.push((place_in(whole, value), id));
                }
            }
            Some(ReferenceField::Object(_, inner)) => collect_ids(whole, value, inner, named),
            Some(ReferenceField::List(_, inner)) => {
                let elements: Vec<&RawValue> = serde_json::from_str(value).unwrap_or_default();
                for element in elements {
                    collect_ids(whole, element.get(), inner, named);
                }
            }
        }
    }
}

/// Returns the place in `whole` of a part that borrows from it.
fn place_in(whole: &str, part: &str) -> Range<usize> {
    // `RawValue` borrows from the input without a copy, so the addresses give the offset.
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

/// Returns the payload with new ids at the given places, which are sorted and do not overlap.
fn replace_ids(whole: &str, edits: &[(Range<usize>, EventId)]) -> Raw {
    let mut json = String::with_capacity(whole.len());
    let mut copied = 0;
    for (place, new) in edits {
        json.push_str(&whole[copied..place.start]);
        json.push_str(&format!("\"{new}\""));
        copied = place.end;
    }
    json.push_str(&whole[copied..]);
    // Every edit replaces one JSON string by another.
    Raw::parse(json).expect("an id in place of an id keeps JSON valid")
}
