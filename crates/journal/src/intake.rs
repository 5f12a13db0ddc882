//! What every draft goes through before it may wait for the writer: limits. Runs on the appender's
//! thread.

use std::sync::Arc;

use event::{Draft, Kind, Metadata, Raw};

use crate::batch::{Ancestry, Batch, Door, Ending, SourceMove, Step};
use crate::limit::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, EVENT_BYTES_MAX, IMPORT_BYTES_MAX, JSON_DEPTH_MAX,
    METADATA_BYTES_MAX,
};
use crate::store::Packed;
use crate::{AppendError, Artifacts};

/// A batch that fits.
pub(crate) struct Prepared {
    pub door: Door,
    pub expected: Vec<Ending>,
    pub source: Option<SourceMove>,
    pub items: Vec<Item>,
    pub bytes: usize,
    /// What its events become in the store if all of them are new; `None` if nobody worked that out
    /// ahead.
    pub packed: Option<Vec<Packed>>,
}

impl Prepared {
    /// The events, in their order.
    pub(crate) fn drafts(&self) -> impl Iterator<Item = &Arc<Draft>> {
        self.items.iter().filter_map(|item| match item {
            Item::Event(new) => Some(&new.draft),
            Item::Ancestry(_) => None,
        })
    }
}

/// One step of a batch, ready for the writer.
pub(crate) enum Item {
    Event(NewEvent),
    Ancestry(Ancestry),
}

/// A draft, shared from here to the store and to those who follow.
pub(crate) struct NewEvent {
    pub draft: Arc<Draft>,
    /// The number it brings.
    pub seq: Option<u64>,
    /// Bytes of its JSON, as counted in the catalogue.
    pub size: usize,
}

/// Checks the batch against the limits.
pub(crate) fn prepare(batch: Batch, artifacts: &Artifacts) -> Result<Prepared, AppendError> {
    let prepared = prepare_whole(batch, artifacts)?;
    let (count, bytes) = (prepared.items.len(), prepared.bytes);
    if count > BATCH_EVENTS_MAX {
        let what = "the number of events in a batch";
        return Err(AppendError::TooLarge { what, size: count, max: BATCH_EVENTS_MAX });
    }
    // A single event may be larger than a batch of many: it has its own limit.
    if bytes > BATCH_BYTES_MAX && count > 1 {
        return Err(AppendError::TooLarge { what: "a batch", size: bytes, max: BATCH_BYTES_MAX });
    }
    Ok(prepared)
}

/// The same for an import, which has to be whole whatever its size.
pub(crate) fn prepare_whole(batch: Batch, artifacts: &Artifacts) -> Result<Prepared, AppendError> {
    let mut bytes = 0;
    let mut items = Vec::with_capacity(batch.steps.len());
    for step in batch.steps {
        let (mut draft, seq) = match step {
            Step::Draft(draft, seq) => (draft, seq),
            Step::Ancestry(ancestry) => {
                items.push(Item::Ancestry(ancestry));
                continue;
            }
        };
        drop_empty(&mut draft);
        if matches!(draft.kind, Kind::AssistantDelta | Kind::Heartbeat) {
            return Err(AppendError::LiveOnly(draft.kind));
        }
        match batch.door {
            Door::Hosted => check(&draft)?,
            Door::Observed => fit(&mut draft, artifacts)?,
        }
        let size = size(&draft);
        bytes += size;
        if bytes > IMPORT_BYTES_MAX {
            return Err(AppendError::TooLarge {
                what: "a batch",
                size: bytes,
                max: IMPORT_BYTES_MAX,
            });
        }
        items.push(Item::Event(NewEvent { draft: Arc::new(draft), seq, size }));
    }
    let Batch { door, expected, source, .. } = batch;
    Ok(Prepared { door, expected, source, items, bytes, packed: None })
}

/// Empty fields are absent ones: that is how every store reads them back.
fn drop_empty(draft: &mut Draft) {
    for field in [&mut draft.provider_session_id, &mut draft.turn_id, &mut draft.text] {
        field.take_if(|text| text.is_empty());
    }
    if draft.provider.is_empty() {
        draft.provider = "hansard".to_owned();
    }
}

fn check(draft: &Draft) -> Result<(), AppendError> {
    let metadata = metadata_size(&draft.metadata);
    if metadata > METADATA_BYTES_MAX {
        let what = "the metadata of an event";
        return Err(AppendError::TooLarge { what, size: metadata, max: METADATA_BYTES_MAX });
    }
    if is_too_deep(draft) {
        let what = "the nesting of an event";
        return Err(AppendError::TooLarge { what, size: depth(draft), max: JSON_DEPTH_MAX });
    }
    let size = size(draft);
    if size > EVENT_BYTES_MAX {
        return Err(AppendError::TooLarge { what: "an event", size, max: EVENT_BYTES_MAX });
    }
    Ok(())
}

/// Makes what was seen fit, losing nothing: too deep or too much metadata is kept raw, too many
/// bytes become an artifact the event refers to.
fn fit(draft: &mut Draft, artifacts: &Artifacts) -> Result<(), AppendError> {
    if metadata_size(&draft.metadata) > METADATA_BYTES_MAX || is_too_deep(draft) {
        let raw = Raw::from_value(&draft.encode()).expect("a string always encodes");
        draft.kind = Kind::Unknown;
        draft.metadata = Metadata::new();
        draft.data = object("raw", &raw);
    }
    if size(draft) > EVENT_BYTES_MAX {
        let text = std::mem::take(&mut draft.data);
        let body = artifacts.put_bytes(text.get().as_bytes()).map_err(|error| match error {
            crate::ArtifactError::Storage(error) => AppendError::Storage(error),
            other => AppendError::NotDurable(other.to_string().into()),
        })?;
        draft.data = object("artifact", &Raw::from_value(&body).expect("a string always encodes"));
    }
    Ok(())
}

fn object(name: &str, value: &Raw) -> Raw {
    Raw::parse(format!("{{\"{name}\":{}}}", value.get())).expect("a member makes an object")
}

/// The bytes of an event's JSON, near enough for limits and counters without writing it.
pub(crate) fn size(draft: &Draft) -> usize {
    const ENVELOPE: usize = 200;
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    ENVELOPE
        + draft.session_id.as_str().len()
        + draft.provider.len()
        + text(&draft.provider_session_id)
        + text(&draft.turn_id)
        + text(&draft.text)
        + draft.data.get().len()
        + metadata_size(&draft.metadata)
        + draft.extra.iter().map(|(name, value)| name.len() + value.get().len()).sum::<usize>()
}

fn metadata_size(metadata: &Metadata) -> usize {
    metadata.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum()
}

fn is_too_deep(draft: &Draft) -> bool {
    let in_metadata = |value: &Raw| value.is_deeper_than(JSON_DEPTH_MAX - 1);
    draft.data.is_deeper_than(JSON_DEPTH_MAX) || draft.metadata.values().any(in_metadata)
}

fn depth(draft: &Draft) -> usize {
    let metadata = draft.metadata.values().map(Raw::depth).max().unwrap_or(0);
    draft.data.depth().max(metadata + 1)
}
