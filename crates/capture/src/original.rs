//! What the originals of a source say beside its bytes, so that they can be parsed without it.
//!
//! The journal stores three texts with the bytes and looks into none: a label (which source), the
//! beginning (the state of the reader before the first byte) and a note (when, and which keys).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use event::{Draft, EventId, Time};
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, RecognizedSource, SourceForm, SourceRole};
use crate::checkpoint::{Checkpoint, Fingerprint, fingerprint_of};
use crate::limit::{BATCH_BYTES_MAX, HEAD_BYTES, TAIL_BYTES};
use crate::sink::OriginalChunk;
use crate::source::Source;

/// Which source the bytes come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SourceLabel {
    provider: String,
    path: PathBuf,
    root: PathBuf,
    session: String,
    /// The session that this one works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
}

impl SourceLabel {
    /// The label of a source; empty for a path that is no UTF-8, which JSON cannot hold.
    pub(crate) fn encode(source: &Source) -> String {
        let parent = match &source.role {
            SourceRole::Main => None,
            SourceRole::Subagent { parent } => Some(parent.clone()),
        };
        let label = SourceLabel {
            provider: source.provider.to_owned(),
            path: source.path.clone(),
            root: source.root.clone(),
            session: source.session.clone(),
            parent,
        };
        serde_json::to_string(&label).unwrap_or_default()
    }

    /// The source that a label describes, and its agent; `None` if no agent knows it.
    pub(crate) fn source<'a>(
        label: &str,
        name: &str,
        agents: &[&'a dyn Agent],
    ) -> Option<(&'a dyn Agent, Source)> {
        let SourceLabel { provider, path, root, session, parent } =
            serde_json::from_str(label).ok()?;
        let agent = *agents.iter().find(|agent| agent.provider() == provider)?;
        // The root itself is the file, as a database may be.
        let below = path.strip_prefix(&root).ok().filter(|below| !below.as_os_str().is_empty());
        let below = below.or_else(|| path.file_name().map(Path::new))?;
        let RecognizedSource { form, .. } = agent.recognise(below)?;
        let role = parent.map_or(SourceRole::Main, |parent| SourceRole::Subagent { parent });
        let (name, provider, digest) = (name.to_owned(), agent.provider(), None);
        Some((agent, Source { name, provider, path, root, form, session, role, digest }))
    }
}

/// The state of a reader where the stored bytes begin, if they begin behind other records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OriginalBeginning {
    pub checkpoint: Checkpoint,
    /// The last event that the session shows of its parent. Its number may change when a journal is
    /// made anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_event: Option<EventId>,
    /// A note that the session begins with, and drafts of the part before that only it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opening: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    own: Vec<String>,
}

impl OriginalBeginning {
    pub(crate) fn new(
        checkpoint: Checkpoint,
        parent_event: Option<EventId>,
        opening: Option<&(String, Vec<Draft>)>,
    ) -> OriginalBeginning {
        let own = opening.map(|(_, own)| own.iter().map(Draft::encode).collect());
        OriginalBeginning {
            checkpoint,
            parent_event,
            opening: opening.map(|(words, _)| words.clone()),
            own: own.unwrap_or_default(),
        }
    }

    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn parse(text: &str) -> Option<OriginalBeginning> {
        serde_json::from_str(text).ok()
    }

    /// The note and the drafts that come before the records.
    pub(crate) fn take_opening(&mut self) -> Option<(String, Vec<Draft>)> {
        let own = std::mem::take(&mut self.own).into_iter();
        let own = own.filter_map(|line| Draft::decode(&line).ok().map(|(draft, _)| draft));
        Some((self.opening.take()?, own.collect()))
    }
}

/// About the bytes of one chunk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ChunkNote {
    /// When they were read.
    at: Time,
    /// The keys of their records, for rows of a database: the place of a row does not tell it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The texts of files beside the source that their records name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, String>,
}

impl ChunkNote {
    pub(crate) fn new(at: Time) -> ChunkNote {
        ChunkNote { at, keys: Vec::new(), beside: BTreeMap::new() }
    }

    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).expect("times and texts always encode")
    }
}

/// What a record has beside its bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecordNote {
    pub at: Option<Time>,
    pub key: Option<String>,
}

/// Chunks of a source as a stream of bytes, up to the next gap.
pub(crate) struct ChunkStream {
    chunks: Box<dyn Iterator<Item = OriginalChunk>>,
    /// The first chunk behind the gap.
    ahead: Option<OriginalChunk>,
    bytes: VecDeque<u8>,
    /// The offset behind the last chunk that was taken.
    end: u64,
    /// The notes of chunks that are being read, each with the offset behind its chunk.
    notes: VecDeque<(u64, Option<ChunkNote>, usize)>,
    /// The first bytes of the source and the last ones before `end`, where they are known.
    head: Option<Vec<u8>>,
    tail: Vec<u8>,
}

/// One of the two that share a stream: the reader of records, and the parser that asks for notes.
#[derive(Clone)]
pub(crate) struct SharedStream(Rc<RefCell<ChunkStream>>);

impl SharedStream {
    pub(crate) fn new(chunks: Box<dyn Iterator<Item = OriginalChunk>>) -> SharedStream {
        SharedStream(Rc::new(RefCell::new(ChunkStream {
            chunks,
            ahead: None,
            bytes: VecDeque::new(),
            end: 0,
            notes: VecDeque::new(),
            head: Some(Vec::new()),
            tail: Vec::new(),
        })))
    }

    /// Goes to the first chunk, or behind the gap that ended the stream. Returns its offset and its
    /// beginning; `None` if there is no more.
    pub(crate) fn next_run(&self) -> Option<(u64, Option<OriginalBeginning>)> {
        let mut stream = self.0.borrow_mut();
        let chunk = stream.ahead.take().or_else(|| stream.chunks.next())?;
        let (offset, begin) = (chunk.offset, OriginalBeginning::parse(&chunk.begin));
        stream.bytes.clear();
        stream.notes.clear();
        stream.tail.clear();
        stream.end = offset;
        if offset > 0 {
            stream.head = None;
        }
        stream.take(chunk);
        Some((offset, begin))
    }

    /// When the bytes at this offset were read.
    pub(crate) fn time_at(&self, offset: u64) -> Option<Time> {
        let mut stream = self.0.borrow_mut();
        stream.pass_notes(offset);
        stream.notes.front().and_then(|(_, note, _)| note.as_ref()).map(|note| note.at)
    }

    /// The text of a file beside the source, as it was when the current record was read.
    pub(crate) fn beside(&self, path: &str) -> Option<String> {
        let stream = self.0.borrow();
        let (_, note, _) = stream.notes.front()?;
        note.as_ref()?.beside.get(path).cloned()
    }

    /// What the record at this offset has beside its bytes. Records are asked for in their order.
    pub(crate) fn note_at(&self, offset: u64) -> RecordNote {
        let mut stream = self.0.borrow_mut();
        stream.pass_notes(offset);
        let Some((_, Some(note), records)) = stream.notes.front_mut() else {
            return RecordNote::default();
        };
        let key = note.keys.get(*records).cloned();
        *records += 1;
        RecordNote { at: Some(note.at), key }
    }

    /// Fingerprints of both ends of the source up to `offset`; `None` if not all of it was read.
    pub(crate) fn fingerprints(&self, offset: u64) -> Option<(Fingerprint, Fingerprint)> {
        let stream = self.0.borrow();
        let head = stream.head.as_ref().filter(|_| stream.end == offset)?;
        Some((fingerprint_of(head), fingerprint_of(&stream.tail)))
    }
}

impl ChunkStream {
    /// Drops the notes of chunks before this offset.
    fn pass_notes(&mut self, offset: u64) {
        while self.notes.len() > 1 && self.notes.front().is_some_and(|(end, ..)| *end <= offset) {
            self.notes.pop_front();
        }
    }

    fn take(&mut self, chunk: OriginalChunk) {
        self.end = chunk.offset + chunk.bytes.len() as u64;
        if let Some(head) = &mut self.head {
            let missing = HEAD_BYTES.saturating_sub(head.len()).min(chunk.bytes.len());
            head.extend(&chunk.bytes[..missing]);
        }
        let from = chunk.bytes.len().saturating_sub(TAIL_BYTES);
        self.tail.extend(&chunk.bytes[from..]);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        self.notes.push_back((self.end, serde_json::from_str(&chunk.note).ok(), 0));
        self.bytes.extend(chunk.bytes);
    }
}

impl Read for SharedStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.0.borrow_mut();
        while stream.bytes.is_empty() && stream.ahead.is_none() {
            let Some(chunk) = stream.chunks.next() else { return Ok(0) };
            match chunk.offset == stream.end {
                true => stream.take(chunk),
                // A part that is damaged, or was never stored: offsets have to stay true.
                false => stream.ahead = Some(chunk),
            }
        }
        stream.bytes.read(bytes)
    }
}

/// The bytes of a reader as chunks, for a source that is read where it is.
pub(crate) fn chunks_of(mut bytes: impl Read + 'static) -> Box<dyn Iterator<Item = OriginalChunk>> {
    let mut offset = 0;
    Box::new(std::iter::from_fn(move || {
        let mut chunk = OriginalChunk { offset, ..OriginalChunk::default() };
        let mut part = bytes.by_ref().take(BATCH_BYTES_MAX as u64);
        // What cannot be read ends the stream, as the end of the file does.
        let read = part.read_to_end(&mut chunk.bytes).unwrap_or(0);
        offset += read as u64;
        (read > 0).then_some(chunk)
    }))
}

/// Whether ids of records can be derived again. Those of rows need keys, which earlier versions did
/// not store.
pub(crate) fn is_identified(form: SourceForm, note: &RecordNote) -> bool {
    form != SourceForm::Rows || note.key.is_some()
}
