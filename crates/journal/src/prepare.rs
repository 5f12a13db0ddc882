//! Checks a batch against the limits before it is queued. Runs on the appender's thread.

use std::sync::Arc;

use event::{Draft, Kind, Metadata, Raw};

use crate::batch::{Ancestry, AppendMode, Batch, BatchStep, ExpectedTail, SourceMove};
use crate::limit::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, EVENT_BYTES_MAX, IMPORT_BYTES_MAX, JSON_DEPTH_MAX,
    METADATA_BYTES_MAX,
};
use crate::store::PackedEvent;
use crate::{AppendError, Artifacts};

/// A batch within the limits.
pub(crate) struct PreparedBatch {
    pub mode: AppendMode,
    pub expected: Vec<ExpectedTail>,
    pub source: Option<SourceMove>,
    pub items: Vec<PreparedItem>,
    pub bytes: usize,
    /// Its events as the store packs them, if all of them are new; `None` unless packed ahead.
    pub packed: Option<Vec<PackedEvent>>,
}

impl PreparedBatch {
    /// Iterates over the events.
    pub(crate) fn drafts(&self) -> impl Iterator<Item = &Arc<Draft>> {
        self.items.iter().filter_map(|item| match item {
            PreparedItem::Event(new) => Some(&new.draft),
            PreparedItem::Ancestry(_) => None,
        })
    }
}

/// One item of a batch, ready for the writer.
pub(crate) enum PreparedItem {
    Event(NewEvent),
    Ancestry(Ancestry),
}

/// A new event. The draft is shared from here to the store and to subscribers.
pub(crate) struct NewEvent {
    pub draft: Arc<Draft>,
    /// The `seq` it brings.
    pub seq: Option<u64>,
    /// About the bytes of its JSON, as the catalogue counts them.
    pub size: usize,
}

/// Checks the batch against the limits.
pub(crate) fn prepare(batch: Batch, artifacts: &Artifacts) -> Result<PreparedBatch, AppendError> {
    let prepared = prepare_import(batch, artifacts)?;
    let (count, bytes) = (prepared.items.len(), prepared.bytes);
    if count > BATCH_EVENTS_MAX {
        let what = "the number of events in a batch";
        return Err(AppendError::TooLarge { what, size: count, max: BATCH_EVENTS_MAX });
    }
    // A single event has a limit of its own, which is larger.
    if bytes > BATCH_BYTES_MAX && count > 1 {
        return Err(AppendError::TooLarge { what: "a batch", size: bytes, max: BATCH_BYTES_MAX });
    }
    Ok(prepared)
}

/// The same for an import, which is one batch of any size.
pub(crate) fn prepare_import(
    batch: Batch,
    artifacts: &Artifacts,
) -> Result<PreparedBatch, AppendError> {
    let mut bytes = 0;
    let mut items = Vec::with_capacity(batch.steps.len());
    for step in batch.steps {
        let (mut draft, seq) = match step {
            BatchStep::Draft(draft, seq) => (draft, seq),
            BatchStep::Ancestry(ancestry) => {
                items.push(PreparedItem::Ancestry(ancestry));
                continue;
            }
        };
        drop_empty_fields(&mut draft);
        // `tool.delta` is live too, but a host may store one with the merged output of a call, to
        // find it after a crash.
        if matches!(draft.kind, Kind::AssistantDelta | Kind::Heartbeat) {
            return Err(AppendError::LiveOnly(draft.kind));
        }
        match batch.mode {
            AppendMode::Hosted => check_limits(&draft)?,
            AppendMode::Observed => shrink_to_fit(&mut draft, artifacts)?,
        }
        let size = json_size(&draft);
        // Refused at the first event too many, before more payloads are written as artifacts.
        bytes += size;
        if bytes > IMPORT_BYTES_MAX {
            return Err(AppendError::TooLarge {
                what: "a batch",
                size: bytes,
                max: IMPORT_BYTES_MAX,
            });
        }
        items.push(PreparedItem::Event(NewEvent { draft: Arc::new(draft), seq, size }));
    }
    let Batch { mode, expected, source, .. } = batch;
    Ok(PreparedBatch { mode, expected, source, items, bytes, packed: None })
}

/// Makes empty fields absent, as every store reads them back.
fn drop_empty_fields(draft: &mut Draft) {
    for field in [&mut draft.provider_session_id, &mut draft.turn_id, &mut draft.text] {
        field.take_if(|text| text.is_empty());
    }
    // The same default as a line of JSON without a provider gets when it is decoded.
    if draft.provider.is_empty() {
        draft.provider = "hansard".to_owned();
    }
}

fn check_limits(draft: &Draft) -> Result<(), AppendError> {
    let metadata = metadata_size(&draft.metadata);
    if metadata > METADATA_BYTES_MAX {
        let what = "the metadata of an event";
        return Err(AppendError::TooLarge { what, size: metadata, max: METADATA_BYTES_MAX });
    }
    if is_too_deep(draft) {
        let what = "the nesting of an event";
        return Err(AppendError::TooLarge {
            what,
            size: nesting_depth(draft),
            max: JSON_DEPTH_MAX,
        });
    }
    let size = json_size(draft);
    if size > EVENT_BYTES_MAX {
        return Err(AppendError::TooLarge { what: "an event", size, max: EVENT_BYTES_MAX });
    }
    Ok(())
}

/// Makes an observed event fit without losing anything. With too deep nesting or too much metadata
/// it is kept raw; a payload that is too large becomes an artifact.
fn shrink_to_fit(draft: &mut Draft, artifacts: &Artifacts) -> Result<(), AppendError> {
    if metadata_size(&draft.metadata) > METADATA_BYTES_MAX || is_too_deep(draft) {
        // The whole event as a string: text nests nothing, and every byte of it is still there. The
        // kind becomes `unknown`, because no reader of the old kind could use this payload.
        let raw = Raw::from_value(&draft.encode()).expect("a string always encodes");
        draft.kind = Kind::Unknown;
        draft.metadata = Metadata::new();
        draft.data = json_object("raw", &raw);
    }
    // After the step above, which may have made the payload larger.
    if json_size(draft) > EVENT_BYTES_MAX {
        let text = std::mem::take(&mut draft.data);
        let body = artifacts.put_bytes(text.get().as_bytes()).map_err(|error| match error {
            crate::ArtifactError::Storage(error) => AppendError::Storage(error),
            other => AppendError::NotDurable(other.to_string().into()),
        })?;
        draft.data =
            json_object("artifact", &Raw::from_value(&body).expect("a string always encodes"));
    }
    Ok(())
}

fn json_object(name: &str, value: &Raw) -> Raw {
    Raw::parse(format!("{{\"{name}\":{}}}", value.get())).expect("a member makes an object")
}

/// Estimates the bytes of an event's JSON, near enough for limits and counters.
pub(crate) fn json_size(draft: &Draft) -> usize {
    // Names, quotes, ids and times of an envelope take about this many bytes.
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
    // Four bytes per member: two quotes, a colon and a comma.
    metadata.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum()
}

fn is_too_deep(draft: &Draft) -> bool {
    // The object around the metadata is one level itself.
    let in_metadata = |value: &Raw| value.is_deeper_than(JSON_DEPTH_MAX - 1);
    draft.data.is_deeper_than(JSON_DEPTH_MAX) || draft.metadata.values().any(in_metadata)
}

fn nesting_depth(draft: &Draft) -> usize {
    let metadata = draft.metadata.values().map(Raw::depth).max().unwrap_or(0);
    draft.data.depth().max(metadata + 1)
}
