//! Pictures of sessions. An event only says that there is one; its bytes are in the stored original.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::{Raw, SessionId};
use journal::{Journal, ReadError, Selection};
use serde_json::Value;

/// A longer record is not read.
const RECORD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The picture with this number, from 0, in the record of an event; `None` if there is none or the
/// record is no longer stored.
pub(crate) fn picture(
    journal: &Journal,
    session: &SessionId,
    seq: u64,
    number: usize,
) -> Result<Option<Vec<u8>>, ReadError> {
    let selection = Selection::after(seq.saturating_sub(1)).up_to(seq);
    let Some(event) = journal.events(session, selection)?.next().transpose()? else {
        return Ok(None);
    };
    let Some(place) = event.metadata.get("record").and_then(Raw::text) else { return Ok(None) };
    // Each of these may fail without an error: the event is old, the original was removed, or the
    // file was torn.
    let Some(place) = RecordSpan::parse(&place) else { return Ok(None) };
    let Some(record) = place.read(journal) else { return Ok(None) };
    let Ok(record) = serde_json::from_slice::<Value>(&record) else { return Ok(None) };
    let mut found = Vec::new();
    collect_pictures(&record, &mut found);
    Ok(found.get(number).and_then(|text| STANDARD.decode(text).ok()))
}

/// Where a record stands in its source, as events give it: `SOURCE/GENERATION/OFFSET+LENGTH`.
struct RecordSpan<'a> {
    source: &'a str,
    generation: u32,
    offset: u64,
    len: u64,
}

impl<'a> RecordSpan<'a> {
    fn parse(text: &'a str) -> Option<RecordSpan<'a>> {
        // From the right: the name of a source may itself hold slashes.
        let mut parts = text.rsplitn(3, '/');
        let (range, generation, source) = (parts.next()?, parts.next()?, parts.next()?);
        let (offset, len) = range.split_once('+')?;
        let (offset, len) = (offset.parse().ok()?, len.parse().ok()?);
        Some(RecordSpan { source, generation: generation.parse().ok()?, offset, len })
            // The length comes from stored text; a damaged one must not allocate without bounds.
            .filter(|place| place.len <= RECORD_BYTES_MAX)
    }

    fn read(&self, journal: &Journal) -> Option<Vec<u8>> {
        // Saturating: offset and length come from stored text.
        let stretch = self.offset..self.offset.saturating_add(self.len);
        let read = journal.originals().read_range(self.source, self.generation, stretch);
        // An original that cannot be unpacked counts as gone; `doctor` reports it.
        read.ok().flatten()
    }
}

/// Collects pictures in their order, as Base64: objects with a media type, as Anthropic writes them,
/// and `data:` addresses.
fn collect_pictures<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect_pictures(value, found)),
        Value::Object(members) => {
            let text = |name: &str| members.get(name).and_then(Value::as_str);
            if text("media_type").is_some_and(|kind| kind.starts_with("image/")) {
                found.extend(text("data"));
                // Not descended into: the data is Base64, and a second match would shift the
                // numbers of the others.
                return;
            }
            members.values().for_each(|value| collect_pictures(value, found));
        }
        Value::String(text) => {
            let data =
                text.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,"));
            found.extend(data.map(|(_, data)| data));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
