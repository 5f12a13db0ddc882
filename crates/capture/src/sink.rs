//! The journal, as capture sees it.

use std::collections::BTreeSet;

use event::{Draft, EventId, SessionId};

use crate::admission::Admission;

/// Events of one source and the checkpoint behind them: recorded completely or not at all.
#[derive(Debug)]
pub struct Batch {
    /// The key of the source.
    pub source: String,
    /// The position reading began at, as it was recorded; `None` for a new source.
    pub from: Option<String>,
    pub to: String,
    pub drafts: Vec<Draft>,
}

/// Bytes of a source, as they were read.
#[derive(Clone, Copy, Debug)]
pub struct Original<'a> {
    /// The short name of the source.
    pub source: &'a str,
    pub generation: u32,
    /// Where in the source they begin.
    pub offset: u64,
    pub bytes: &'a [u8],
    /// Texts that are stored with them: which source it is, the state of its reader if nothing is
    /// stored before them, and what belongs to these bytes alone.
    pub label: &'a str,
    pub begin: &'a str,
    pub note: &'a str,
}

/// A source that was read before.
#[derive(Clone, Copy, Debug)]
pub struct KnownSource<'a> {
    pub key: &'a str,
    pub checkpoint: &'a str,
}

/// What was kept of a source: chunks in its order. Those that are damaged are missing.
pub type StoredOriginal = Box<dyn Iterator<Item = OriginalChunk>>;

/// Bytes of a source as they were kept, with the texts that were kept with them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginalChunk {
    pub offset: u64,
    pub bytes: Vec<u8>,
    pub begin: String,
    pub note: String,
}

/// A record that was not understood.
#[derive(Clone, Debug)]
pub struct UnknownRecord {
    /// Where it stands, as events say it.
    pub record: String,
    /// The event that says so.
    pub id: EventId,
    /// What the agent calls it.
    pub record_type: String,
}

/// Keeps what is read.
pub trait Sink {
    /// Shows all sources that were ever read, each with the position that was put last. They may be
    /// many, and their positions long.
    fn show_sources(&self, show: &mut dyn FnMut(KnownSource<'_>)) -> Result<(), SinkError>;

    /// The position of one source: the one that was put last, whether it is durable or not. A
    /// batch that goes on from an older one is refused.
    fn source(&self, key: &str) -> Result<Option<String>, SinkError>;

    /// How much of a session in this folder is recorded. What is not is neither put nor kept.
    fn admits(&mut self, session: &SessionId, cwd: Option<&str>) -> Admission {
        let _ = (session, cwd);
        Admission::All
    }

    /// Keeps the bytes a batch is made of, before it. What was kept from `offset` on is replaced.
    fn keep_original(&mut self, original: Original<'_>) -> Result<(), SinkError>;

    /// Records a batch. It may come back before the batch is durable; batches keep their order.
    fn put_batch(&mut self, batch: Batch) -> Result<(), SinkError>;

    /// Waits until everything that was put is durable, and can be found.
    fn settle(&mut self) -> Result<(), SinkError>;

    /// What was kept of a source; `None` if nothing was.
    fn original(&self, source: &str, generation: u32) -> Result<Option<StoredOriginal>, SinkError> {
        let _ = (source, generation);
        Ok(None)
    }

    /// Everything that was kept: the names of sources, each with its generations.
    fn originals(&self) -> Result<BTreeSet<(String, u32)>, SinkError> {
        Ok(BTreeSet::new())
    }

    /// The label that was kept last with a source; empty if none was.
    fn original_label(&self, source: &str, generation: u32) -> Result<String, SinkError> {
        let _ = (source, generation);
        Ok(String::new())
    }

    /// The records of a session that were not understood so far.
    fn unknown_in(&self, session: &SessionId) -> Result<Vec<UnknownRecord>, SinkError> {
        let _ = session;
        Ok(Vec::new())
    }

    /// The id of an event of a session.
    fn id_at(&self, session: &SessionId, seq: u64) -> Result<Option<EventId>, SinkError> {
        let _ = (session, seq);
        Ok(None)
    }

    /// The session that has an event of this id, and where.
    fn find_event(&self, id: EventId) -> Result<Option<(SessionId, u64)>, SinkError>;

    /// Where a session has the facts of these ids, whatever their time.
    fn find_events(
        &self,
        session: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, SinkError>;
}

/// Why a sink could not.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SinkError(pub Box<dyn std::error::Error + Send + Sync>);
