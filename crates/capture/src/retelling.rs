//! The stored original of a source, parsed once more.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use event::{Draft, EventId, Time};

use crate::agent::{Agent, Parser, SourceForm};
use crate::block_reader::BlockReader;
use crate::checkpoint::Checkpoint;
use crate::document_reader::fingerprint;
use crate::event_builder::{EventBuilder, ParsedEvents};
use crate::identity::EventIdentity;
use crate::limit::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX};
use crate::line_reader::LineReader;
use crate::original::{OriginalBeginning, SharedStream, chunks_of, is_identified};
use crate::record::SourceRecord;
use crate::record_reader::{NextRecord, RecordReader};
use crate::sink::StoredOriginal;
use crate::source::Source;
use crate::tailer::{
    add_too_long, is_whole_json, parse_record, read_beside, record_at, start_record,
};
use crate::thread_state::{ParentLink, ThreadState};

/// Gives the records of one generation of a source to a fresh parser.
///
/// It gives the events that reading the source gave, with the ids they had. Events of hooks, of the
/// clock and of lines without an end stand in no original.
pub(crate) struct Retelling<'a> {
    source: &'a Source,
    generation: u32,
    stream: SharedStream,
    records: Box<dyn RecordReader>,
    pub parser: Box<dyn Parser>,
    pub threads: BTreeMap<String, ThreadState>,
    /// The last event that the session shows of its parent.
    pub parent_event: Option<EventId>,
    opening: Option<(String, Vec<Draft>)>,
    /// Where it begins, and whether the state of the reader there is known.
    from: u64,
    knows_beginning: bool,
    /// The offset behind the last record, and the records so far.
    pub offset: u64,
    pub number: u64,
    /// Some records had no key, so their events have other ids than before.
    pub has_unidentified: bool,
    is_at_end: bool,
}

/// The events of the next records, and how many bytes these have.
pub(crate) struct RetoldChunk {
    pub parsed: ParsedEvents,
    pub bytes: u64,
}

impl<'a> Retelling<'a> {
    /// Begins with the first chunk; `None` if nothing is stored.
    pub(crate) fn open(
        agent: &dyn Agent,
        source: &'a Source,
        generation: u32,
        kept: StoredOriginal,
    ) -> Option<Retelling<'a>> {
        let stream = SharedStream::new(kept);
        let (from, begin) = stream.next_run()?;
        let knows_beginning = from == 0 || begin.is_some();
        let mut begin = begin.unwrap_or_default();
        let opening = begin.take_opening();
        let OriginalBeginning { checkpoint, parent_event, .. } = begin;
        Some(Retelling {
            source,
            generation,
            records: records(source, stream.clone(), from),
            stream,
            parser: agent.create_parser(source, checkpoint.state.as_deref()),
            threads: checkpoint.threads,
            parent_event,
            opening,
            from,
            knows_beginning,
            offset: from,
            number: checkpoint.records,
            has_unidentified: false,
            is_at_end: false,
        })
    }

    /// Whether the state of the reader before the first record is known.
    pub(crate) fn knows_beginning(&self) -> bool {
        self.knows_beginning
    }

    /// The link to the session that this one goes on with.
    pub(crate) fn parent(&mut self) -> Option<&mut ParentLink> {
        self.threads.get_mut(&self.source.session)?.parent.as_mut()
    }

    /// Feeds the parser the copied records before the session's own ones, which another session
    /// recorded. Only the source itself has them; `false` if it is gone.
    pub(crate) fn learn(&mut self, checkpoint: &Checkpoint, now: Time) -> io::Result<bool> {
        if !self.source.form.is_in_place() {
            return Ok(false);
        }
        let Ok(file) = File::open(&self.source.path) else { return Ok(false) };
        if !checkpoint.matches_file(&file, file.metadata()?.len())? {
            return Ok(false);
        }
        let copied = SharedStream::new(chunks_of(file.take(self.from)));
        if copied.next_run().is_none() {
            return Ok(false);
        }
        let read = records(self.source, copied.clone(), 0);
        let own = std::mem::replace(&mut self.records, read);
        let stream = std::mem::replace(&mut self.stream, copied);
        // The events are dropped: the session that was copied has recorded them.
        while self.next_chunk(now, false)?.is_some() {}
        self.is_at_end = false;
        (self.records, self.stream) = (own, stream);
        self.parser.own_begins();
        let session = &self.source.session;
        let parent = checkpoint.threads.get(session).and_then(|before| before.parent.clone());
        self.threads.entry(session.clone()).or_default().start_anew(parent);
        Ok(true)
    }

    /// The events of the next records. While the tailer `holds` an event back, the end does not
    /// complete it.
    pub(crate) fn next_chunk(&mut self, now: Time, holds: bool) -> io::Result<Option<RetoldChunk>> {
        if self.is_at_end {
            return Ok(None);
        }
        let Retelling { source, generation, stream, records, parser, threads, opening, .. } = self;
        let source = *source;
        let kept = stream.clone();
        let beside = |path: &str| kept.beside(path).or_else(|| read_beside(source, path));
        let mut builder = EventBuilder::new(source, *generation, threads, &beside, now);
        let mut bytes_read = 0;
        let mut record = Vec::new();
        if let Some((words, own)) = opening.take() {
            builder.read_at(stream.time_at(self.offset).unwrap_or(now));
            start_record(&**parser, &mut builder, &record_at(self.offset, 0, self.number));
            builder.add_note(EventIdentity::in_session(&["opening"]), None, "beginning", words);
            builder.take_over(own);
        }
        while builder.len() < BATCH_EVENTS_MAX && bytes_read < BATCH_BYTES_MAX as u64 {
            record.clear();
            match records.next(&mut record)? {
                NextRecord::Whole { offset, bytes, .. } => {
                    let note = stream.note_at(offset);
                    self.has_unidentified |= !is_identified(source.form, &note);
                    builder.read_at(note.at.unwrap_or(now));
                    // The key of an entry is the hash of its text.
                    let key = match source.form {
                        SourceForm::Document { .. } => fingerprint(bytes.trim_ascii_end()),
                        _ => note.key.unwrap_or_default(),
                    };
                    let length = bytes.len() as u64;
                    let at = SourceRecord { key: &key, ..record_at(offset, length, self.number) };
                    parse_record(&mut **parser, &mut builder, at, bytes);
                    bytes_read += length;
                    self.offset = offset + length;
                    self.number += 1;
                }
                NextRecord::TooLong { offset, length } => {
                    builder.read_at(stream.time_at(offset).unwrap_or(now));
                    let at = record_at(offset, length, self.number);
                    add_too_long(&**parser, &mut builder, &at);
                    bytes_read += length;
                    self.offset = offset + length;
                    self.number += 1;
                }
                open @ (NextRecord::Open { .. } | NextRecord::End) => {
                    // The tailer took in a last record without its end once the source was quiet.
                    if let NextRecord::Open { offset, length, bytes } = open
                        && (matches!(source.form, SourceForm::Blocks(_)) || is_whole_json(bytes))
                    {
                        builder.read_at(stream.time_at(offset).unwrap_or(now));
                        let at = record_at(offset, length, self.number);
                        parse_record(&mut **parser, &mut builder, at, bytes);
                        self.offset = offset + length;
                        self.number += 1;
                    }
                    // Behind a part that is damaged the source goes on.
                    let Some((offset, _)) = stream.next_run() else {
                        self.is_at_end = true;
                        break;
                    };
                    *records = self::records(source, stream.clone(), offset);
                    self.offset = offset;
                }
            }
        }
        // While the tailer holds the event back, the next poll will complete and record it.
        if self.is_at_end && parser.holds_event() && !holds {
            start_record(&**parser, &mut builder, &record_at(0, 0, self.number));
            parser.flush_held(&mut builder);
        }
        Ok(Some(RetoldChunk { parsed: builder.finish(), bytes: bytes_read }))
    }

    /// How far the source is read with the records so far, for a journal that does not know it.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let Retelling { source, generation, parser, threads, offset, number, .. } = self;
        let mut checkpoint = Checkpoint {
            path: source.path.clone(),
            generation: *generation,
            offset: *offset,
            records: *number,
            threads: threads.clone(),
            holds: parser.holds_event(),
            state: Some(parser.save_state()),
            // The source had grown when these bytes were read, so its epochs may still be open.
            grown: self.stream.time_at(*offset).map_or(0, |at| at.nanos() as i64),
            ..Checkpoint::default()
        };
        if source.form.is_in_place() {
            match self.stream.fingerprints(*offset) {
                Some((head, tail)) => (checkpoint.head, checkpoint.tail) = (head, tail),
                // Fingerprints that match no file: one at this path is read from its beginning.
                None => checkpoint.head.length = 1,
            }
        }
        checkpoint
    }
}

fn records(source: &Source, stream: SharedStream, offset: u64) -> Box<dyn RecordReader> {
    match source.form {
        SourceForm::Blocks(marks) => Box::new(BlockReader::new(stream, offset, marks)),
        // Entries and rows are kept as lines.
        SourceForm::Lines
        | SourceForm::PackedLines
        | SourceForm::Document { .. }
        | SourceForm::Rows => Box::new(LineReader::new(stream, offset)),
    }
}
