//! Reads one source from its checkpoint on: batches of events, each with the checkpoint behind it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};

use event::{Draft, EventId, Kind, Time};
use memchr::memmem;

use crate::agent::{Agent, Parser, SourceForm};
use crate::block_reader::BlockReader;
use crate::checkpoint::{Checkpoint, TornLine, identify_file, is_quiet, is_settled};
use crate::database_guard::Look;
use crate::document_reader::DocumentReader;
use crate::error::{Warning, WarningKind};
use crate::event_builder::{EventBuilder, ParsedEvents};
use crate::identity::EventIdentity;
use crate::limit::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX, BESIDE_BYTES_MAX, RECORD_BYTES_MAX};
use crate::line_reader::LineReader;
use crate::original::{ChunkNote, OriginalBeginning};
use crate::packed_text::PackedText;
use crate::record::SourceRecord;
use crate::record_reader::{NextRecord, RecordReader};
use crate::row_reader::RowReader;
use crate::row_record::too_long_bytes;
use crate::sink::Batch;
use crate::source::Source;
use crate::stoppable::Stoppable;

/// How a record that is longer than `RECORD_BYTES_MAX` is told.
const TOO_LONG: &str = "too long";
const TOO_LONG_REASON: &str = "longer than any record may be";

/// Reads the records of one source and gives them to the agent's parser.
pub(crate) struct Tailer<'a> {
    source: &'a Source,
    file: File,
    metadata: Metadata,
    records: Box<dyn RecordReader>,
    parser: Box<dyn Parser>,
    pub checkpoint: Checkpoint,
    /// The checkpoint as it was recorded last.
    recorded: Option<String>,
    warnings: Vec<Warning>,
    /// How many lines had bytes that are not UTF-8.
    not_text: u64,
    /// The bytes of the current chunk, as far as they were read into memory.
    kept: Vec<u8>,
    /// A note about the session that comes before its own events, and drafts of the skipped part
    /// that only this source has.
    opening: Option<(String, Vec<Draft>)>,
    /// The last event that the session shows of its parent.
    pub parent_event: Option<EventId>,
    /// What is stored with the bytes of the current chunk.
    note: ChunkNote,
    has_begun: bool,
    is_at_end: bool,
}

/// What one call read.
pub(crate) struct ParsedChunk {
    /// Absent if neither events nor the checkpoint changed.
    pub batch: Option<Batch>,
    pub parsed: ParsedEvents,
    pub generation: u32,
    /// The range of bytes it was made of.
    pub from: u64,
    pub to: u64,
    /// The bytes themselves; absent where they have to be read from the file again.
    pub kept: Option<Vec<u8>>,
    /// What is stored with them: the state of the reader before them, and when they were read.
    pub begin: String,
    pub note: String,
    /// Whether its events begin with a note that stands in no record.
    pub has_opening: bool,
}

impl<'a> Tailer<'a> {
    /// Goes on from a recorded checkpoint, or begins anew if the file is not the one that was read.
    pub(crate) fn open(
        agent: &'a dyn Agent,
        source: &'a Source,
        known: Option<(Checkpoint, String)>,
        look: &Look<'_>,
    ) -> io::Result<Tailer<'a>> {
        let file = File::open(&source.path)?;
        let metadata = file.metadata()?;
        let (checkpoint, recorded) = match known {
            None => (Checkpoint::default(), None),
            Some((checkpoint, recorded)) => {
                let goes_on = match source.form {
                    SourceForm::Lines | SourceForm::Blocks(_) => {
                        checkpoint.matches_file(&file, metadata.size())?
                    }
                    SourceForm::PackedLines => checkpoint.matches_packed(&file, metadata.size())?,
                    // A document is written anew each time. Its reader knows entries by their
                    // hashes, not by their places.
                    SourceForm::Document { .. } => true,
                    // Another file at the path is another database. Within the same one the mark of
                    // the row reader shows whether the last row is still there.
                    SourceForm::Rows => checkpoint.file_identity() == identify_file(&metadata),
                };
                // A truncated or replaced file begins a new generation: its offsets repeat those of
                // the former bytes, and the originals of both stay stored.
                let checkpoint = if goes_on { checkpoint } else { checkpoint.restarted() };
                (checkpoint, Some(recorded))
            }
        };
        Tailer::open_at(agent, source, file, metadata, checkpoint, recorded, look)
    }

    fn open_at(
        agent: &'a dyn Agent,
        source: &'a Source,
        mut file: File,
        metadata: Metadata,
        mut checkpoint: Checkpoint,
        recorded: Option<String>,
        look: &Look<'_>,
    ) -> io::Result<Tailer<'a>> {
        // The file may have moved since the checkpoint was recorded.
        checkpoint.path.clone_from(&source.path);
        let offset = checkpoint.offset;
        let watermark = checkpoint.watermark.as_deref();
        let records: Box<dyn RecordReader> = match source.form {
            SourceForm::Lines => {
                // The clone shares its cursor with `file`. Everything else therefore reads `file`
                // only with `read_exact_at`, which leaves the cursor alone.
                file.seek(SeekFrom::Start(offset))?;
                let input = Stoppable::new(file.try_clone()?, look);
                let rest = metadata.len().saturating_sub(offset);
                Box::new(LineReader::with_length(input, offset, rest))
            }
            SourceForm::PackedLines => {
                let plain = PackedText::open(file.try_clone()?, metadata.size(), offset, look)?;
                Box::new(LineReader::new(plain, offset))
            }
            SourceForm::Blocks(marks) => {
                file.seek(SeekFrom::Start(offset))?;
                Box::new(BlockReader::new(file.try_clone()?, offset, marks))
            }
            SourceForm::Document { list } => {
                Box::new(DocumentReader::read(file.try_clone()?, list, offset, watermark)?)
            }
            SourceForm::Rows => {
                let (path, session) = (&source.path, &source.session);
                Box::new(RowReader::open(agent, path, session, offset, watermark, look)?)
            }
        };
        Ok(Tailer {
            source,
            parser: agent.create_parser(source, checkpoint.state.as_deref()),
            records,
            file,
            metadata,
            checkpoint,
            recorded,
            warnings: Vec::new(),
            not_text: 0,
            kept: Vec::new(),
            opening: None,
            parent_event: None,
            note: ChunkNote::new(Time::EPOCH),
            has_begun: false,
            is_at_end: false,
        })
    }

    /// The next records; `None` when there are no more.
    pub(crate) fn next_chunk(&mut self, now: Time) -> io::Result<Option<ParsedChunk>> {
        if self.is_at_end {
            return Ok(None);
        }
        let from = self.checkpoint.offset;
        let generation = self.checkpoint.generation;
        let has_opening = self.opening.is_some();
        let begin = self.beginning();
        // Reserved at once: growing step by step would copy most of the bytes several times.
        let rest = self.metadata.len().saturating_sub(from);
        self.kept.reserve(rest.min(BATCH_BYTES_MAX as u64) as usize);
        let (parsed, torn) = self.parse_records(now, u64::MAX)?;
        let to = self.checkpoint.offset;
        let batch = self.make_batch(&parsed, from, torn)?;
        let kept = std::mem::take(&mut self.kept);
        // A record that is too long was not read into memory and stands only in the file.
        let is_all = !self.source.form.is_in_place() || kept.len() as u64 == to - from;
        let kept = is_all.then_some(kept);
        let note = self.note.encode();
        Ok(Some(ParsedChunk {
            batch,
            parsed,
            generation,
            from,
            to,
            kept,
            begin,
            note,
            has_opening,
        }))
    }

    /// The state of the reader before its first chunk, for originals that begin there; empty where
    /// the source begins, and for later chunks.
    fn beginning(&mut self) -> String {
        let Tailer { parser, checkpoint, parent_event, opening, .. } = self;
        let is_anew = checkpoint.offset == 0 && checkpoint.threads.is_empty();
        if std::mem::replace(&mut self.has_begun, true) || is_anew && opening.is_none() {
            return String::new();
        }
        let (state, holds) = (Some(parser.save_state()), parser.holds_event());
        let checkpoint = Checkpoint { state, holds, ..checkpoint.clone() };
        OriginalBeginning::new(checkpoint, *parent_event, opening.as_ref()).encode()
    }

    /// What the next record tells; `None` when there are no more.
    pub(crate) fn next_record(&mut self, now: Time) -> io::Result<Option<ParsedEvents>> {
        if self.is_at_end {
            return Ok(None);
        }
        // Every record ends at or behind the next byte, so the loop stops after one.
        let next = self.checkpoint.offset + 1;
        Ok(Some(self.parse_records(now, next)?.0))
    }

    /// Skips the records up to `end`: another session has recorded their events. Returns the
    /// prompts in them that have no identity a copy keeps, so that only this source has them.
    pub(crate) fn skip_to(&mut self, end: u64, now: Time) -> io::Result<Vec<Draft>> {
        let mut own = Vec::new();
        while self.checkpoint.offset < end && !self.is_at_end {
            let (ParsedEvents { drafts, places, .. }, _) = self.parse_records(now, end)?;
            let placed = drafts.into_iter().zip(places);
            let prompts = placed
                .filter(|(draft, place)| draft.kind == Kind::UserPrompt && !place.is_everywhere);
            own.extend(prompts.map(|(draft, _)| draft));
        }
        // The next chunk then has a checkpoint behind the skipped part, also if nothing follows.
        self.is_at_end = false;
        // An event that the parser held back belongs to the skipped part, so it is dropped.
        let Tailer { source, parser, checkpoint, .. } = self;
        let beside = |path: &str| read_beside(source, path);
        let mut builder =
            EventBuilder::new(source, checkpoint.generation, &mut checkpoint.threads, &beside, now);
        parser.flush_held(&mut builder);
        parser.own_begins();
        Ok(own)
    }

    /// Begins the session with a note, also if the source has no events of its own yet.
    pub(crate) fn open_with(&mut self, words: String, own: Vec<Draft>) {
        self.opening = Some((words, own));
    }

    /// Whether reading has cost as much as a turn may, however few bytes it gave.
    pub(crate) fn is_spent(&self) -> bool {
        self.records.is_spent()
    }

    /// Whether the last change of the file is long ago.
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        is_quiet(&self.metadata, now)
    }

    /// Whether a copy in progress would have been finished by now.
    pub(crate) fn is_settled(&self, now: Time) -> bool {
        is_settled(&self.metadata, now)
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        if self.not_text > 0 {
            warnings.push(not_text_warning(self.source, std::mem::take(&mut self.not_text)));
        }
        warnings
    }

    /// Parses records until a batch is full, or up to `end`. Returns the events, and the last line if
    /// it was reported as incomplete.
    fn parse_records(
        &mut self,
        now: Time,
        end: u64,
    ) -> io::Result<(ParsedEvents, Option<TornLine>)> {
        let Tailer {
            source,
            file,
            records,
            parser,
            checkpoint,
            metadata,
            warnings,
            not_text,
            kept,
            opening,
            note,
            ..
        } = self;
        let source = *source;
        kept.clear();
        *note = ChunkNote::new(now);
        let ChunkNote { keys, beside: texts, .. } = note;
        let texts = RefCell::new(texts);
        let beside = |path: &str| {
            let text = read_beside(source, path)?;
            texts.borrow_mut().insert(path.to_owned(), text.clone());
            Some(text)
        };
        let generation = checkpoint.generation;
        let begin = checkpoint.offset;
        let mut builder =
            EventBuilder::new(source, generation, &mut checkpoint.threads, &beside, now);
        let mut torn_now = None;
        // The note stands where the own part begins, with length 0: no record of the source says
        // it.
        if let Some((words, own)) = opening.take() {
            start_record(&**parser, &mut builder, &record_at(begin, 0, checkpoint.records));
            builder.add_note(EventIdentity::in_session(&["opening"]), None, "beginning", words);
            builder.take_over(own);
        }
        loop {
            let read = checkpoint.offset - begin;
            // Both limits are needed: short records make many events, a long one may make none.
            let is_full = builder.len() >= BATCH_EVENTS_MAX || read >= BATCH_BYTES_MAX as u64;
            // A costly source has small batches, so that others have their turn between them.
            let is_full = is_full || read > 0 && records.is_spent();
            if is_full || checkpoint.offset >= end {
                break;
            }
            let kept_before = kept.len();
            match records.next(kept)? {
                NextRecord::Whole { offset, bytes, .. }
                    if has_slipped(source, file, offset, bytes)? =>
                {
                    // Stop before it: the next poll reads the file as it is then.
                    self.is_at_end = true;
                    kept.truncate(kept_before);
                    break;
                }
                NextRecord::Whole { offset, bytes, key } => {
                    let before = builder.len();
                    let at = SourceRecord {
                        key,
                        ..record_at(offset, bytes.len() as u64, checkpoint.records)
                    };
                    if source.form == SourceForm::Rows {
                        keys.push(key.to_owned());
                        let too_long = too_long_bytes(bytes);
                        warnings.extend(too_long.map(|bytes| too_long_row_warning(source, bytes)));
                    }
                    *not_text += u64::from(!parse_record(&mut **parser, &mut builder, at, bytes));
                    checkpoint.offset = offset + bytes.len() as u64;
                    checkpoint.records += 1;
                    // A line that was reported as torn is complete now: its events amend the
                    // report.
                    amend_torn(checkpoint.torn.take(), &mut builder, before);
                }
                NextRecord::TooLong { offset, length } => {
                    let before = builder.len();
                    let at = record_at(offset, length, checkpoint.records);
                    add_too_long(&**parser, &mut builder, &at);
                    warnings.push(too_long_warning(source, length));
                    checkpoint.offset = offset + length;
                    checkpoint.records += 1;
                    amend_torn(checkpoint.torn.take(), &mut builder, before);
                }
                NextRecord::Open { offset, length, bytes }
                    if is_quiet(metadata, now) && length > 0 =>
                {
                    self.is_at_end = true;
                    let before = builder.len();
                    // The source is quiet, so the end of this record will not come: the agent died
                    // while it wrote, or it writes no line end. Complete JSON and blocks are parsed
                    // like any record.
                    let is_block =
                        matches!(source.form, SourceForm::Blocks(_)) && !bytes.is_empty();
                    if is_block || is_whole_json(bytes) {
                        let at = record_at(offset, length, checkpoint.records);
                        *not_text +=
                            u64::from(!parse_record(&mut **parser, &mut builder, at, bytes));
                        checkpoint.offset = offset + length;
                        checkpoint.records += 1;
                        amend_torn(checkpoint.torn.take(), &mut builder, before);
                        break;
                    }
                    // An incomplete line is reported once for each length. A longer one amends the
                    // report before it, and the offset stays: the line may still be completed.
                    if checkpoint.torn.as_ref().is_none_or(|torn| torn.length != length) {
                        start_record(
                            &**parser,
                            &mut builder,
                            &record_at(offset, length, checkpoint.records),
                        );
                        let event_id = builder.add_torn(length, &String::from_utf8_lossy(bytes));
                        match bytes {
                            // The reader gives no bytes of a line that is too long to be held.
                            [] => warnings.push(endless_warning(source, length)),
                            text if is_text_so_far(text) => {
                                warnings.push(torn_warning(source, length))
                            }
                            _ => *not_text += 1,
                        }
                        amend_torn(checkpoint.torn.take(), &mut builder, before);
                        torn_now = Some(TornLine { length, event_id });
                    }
                    kept.truncate(kept_before);
                    break;
                }
                NextRecord::Open { .. } | NextRecord::End => {
                    self.is_at_end = true;
                    // No further record will complete the event that the parser holds back.
                    if parser.holds_event() && is_quiet(metadata, now) {
                        start_record(
                            &**parser,
                            &mut builder,
                            &record_at(checkpoint.offset, 0, checkpoint.records),
                        );
                        parser.flush_held(&mut builder);
                    }
                    kept.truncate(kept_before);
                    break;
                }
            }
        }
        let parsed = builder.finish();
        // 0 means that no growth was ever noted: the source is new, or an earlier version wrote its
        // checkpoint.
        let has_grown = checkpoint.offset != begin || checkpoint.grown == 0;
        checkpoint.note_growth(source, metadata, has_grown, now);
        Ok((parsed, torn_now))
    }

    fn make_batch(
        &mut self,
        parsed: &ParsedEvents,
        from: u64,
        torn: Option<TornLine>,
    ) -> io::Result<Option<Batch>> {
        let Tailer { source, file, metadata, records, parser, checkpoint, recorded, .. } = self;
        checkpoint.watermark = records.watermark();
        // The digest describes the session at its end; before that it would hide what is left.
        let digest = source.digest.as_ref();
        checkpoint.digest = digest.map(|digest| match self.is_at_end {
            true => digest.clone(),
            false => String::new(),
        });
        match source.form {
            SourceForm::Lines | SourceForm::Blocks(_) if checkpoint.offset != from => {
                let offset = checkpoint.offset;
                checkpoint.advance(file, offset)?;
            }
            SourceForm::PackedLines => checkpoint.note_packed(file, metadata.size())?,
            _ => {}
        }
        if torn.is_some() {
            checkpoint.torn = torn;
        }
        // The metadata from before reading: bytes that were added meanwhile count as news next time.
        checkpoint.note_file(metadata);
        if !self.is_at_end {
            // Read in part: size 0 never equals the file's, so the next pass reads on.
            checkpoint.size = 0;
        }
        checkpoint.state = Some(parser.save_state());
        checkpoint.holds = parser.holds_event();
        let to = checkpoint.encode();
        // A poll that found nothing must not write to the journal.
        if parsed.drafts.is_empty() && recorded.as_ref() == Some(&to) {
            return Ok(None);
        }
        // The sink refuses a batch that does not begin at the recorded position. So two readers of
        // one source cannot both go on.
        let from = recorded.replace(to.clone());
        Ok(Some(Batch { source: source.key(), from, to, drafts: Vec::new() }))
    }
}

/// Gives one record to the parser and returns whether it was UTF-8. Blank lines are skipped. A record
/// that makes the parser panic is kept as unknown, so that the source can be read on.
pub(crate) fn parse_record(
    parser: &mut dyn Parser,
    builder: &mut EventBuilder<'_>,
    at: SourceRecord<'_>,
    bytes: &[u8],
) -> bool {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    // A byte order mark before the first record would make its JSON invalid.
    let line = if at.offset == 0 { bytes.strip_prefix(MARK).unwrap_or(bytes) } else { bytes };
    let line = line.trim_ascii();
    if line.is_empty() {
        return true;
    }
    // Almost every line is UTF-8; checking is cheaper than a lossy conversion.
    let text = str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
    let is_text = matches!(text, Cow::Borrowed(_)) && has_no_zeros(line);
    let record = SourceRecord { text: with_whole_pairs(text), ..at };
    start_record(parser, builder, &record);
    if too_long_bytes(line).is_some() {
        builder.add_unknown(&record, TOO_LONG, Some(TOO_LONG_REASON));
        return true;
    }
    // A record that no test foresaw must not stop the source: the next pass would meet it again.
    // Events that were built before the panic stay, because the session's state counts them.
    let read = catch_unwind(AssertUnwindSafe(|| parser.read_record(&record, builder)));
    if let Err(panic) = read {
        let why = panic.downcast_ref::<String>().map(String::as_str);
        let why = why.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        // The parser may have been about to tell of another record, or another session.
        start_record(parser, builder, &record);
        builder.add_unknown(&record, "broken", Some(&format!("the parser failed: {why}")));
    }
    is_text
}

/// Lets what was told since `from` stand in for a line that seemed to be never finished.
fn amend_torn(torn: Option<TornLine>, builder: &mut EventBuilder<'_>, from: usize) {
    let Some(torn) = torn else { return };
    if builder.len() == from {
        // The line says nothing to people, but that it is whole.
        let identity = EventIdentity::in_session(&["finished", &torn.event_id.to_string()]);
        builder.add_note(identity, None, "torn", "a line that was cut off has its end".to_owned());
    }
    builder.amend_event(from, torn.event_id);
}

/// Adds a record that was too long to be held. Its text is empty; the stored original has it all.
pub(crate) fn add_too_long(
    parser: &dyn Parser,
    builder: &mut EventBuilder<'_>,
    at: &SourceRecord<'_>,
) {
    start_record(parser, builder, at);
    builder.unknown_because("", TOO_LONG, Some(TOO_LONG_REASON));
}

/// What is told from now on stands in this record.
pub(crate) fn start_record(
    parser: &dyn Parser,
    builder: &mut EventBuilder<'_>,
    record: &SourceRecord<'_>,
) {
    builder.begin_record(record);
    if let Some(session) = parser.session_id() {
        builder.switch_session(session);
    }
}

/// A line that can be parsed. JavaScript writes halves of surrogate pairs, as escapes.
fn with_whole_pairs(text: Cow<'_, str>) -> Cow<'_, str> {
    let line = text.as_bytes();
    // Almost no line has such an escape, and the search is much cheaper than the repair.
    let may_have_halves =
        [&b"\\ud"[..], b"\\uD"].iter().any(|half| memmem::find(line, half).is_some());
    if may_have_halves && let Cow::Owned(mended) = event::replace_lone_surrogates(&text) {
        return Cow::Owned(mended);
    }
    text
}

pub(crate) fn record_at(offset: u64, length: u64, number: u64) -> SourceRecord<'static> {
    SourceRecord { text: Cow::Borrowed(""), offset, length, number, key: "" }
}

pub(crate) fn is_whole_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

fn too_long_warning(source: &Source, length: u64) -> Warning {
    let message = format!(
        "a line of {} MiB is longer than the {} MiB that are understood; it is kept as it is",
        mebibytes(length),
        mebibytes(RECORD_BYTES_MAX as u64),
    );
    Warning::new(WarningKind::TooLong, source.provider, &source.path, message)
}

fn too_long_row_warning(source: &Source, length: u64) -> Warning {
    let message = format!(
        "a row of {length} bytes is longer than those that are read; its session goes on without it"
    );
    Warning::new(WarningKind::TooLong, source.provider, &source.path, message)
}

/// Whether a record differs from the file. A read that races with a truncation can return zeros for
/// bytes that were there before and are there again a moment later.
fn has_slipped(source: &Source, file: &File, offset: u64, bytes: &[u8]) -> io::Result<bool> {
    if !matches!(source.form, SourceForm::Lines | SourceForm::Blocks(_)) || has_no_zeros(bytes) {
        return Ok(false);
    }
    let mut again = vec![0; bytes.len()];
    match file.read_exact_at(&mut again, offset) {
        // The file is shorter now: the record was truncated away while it was read.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
        read => read.map(|()| again != bytes),
    }
}

/// Agents write no zeros; a crash of the machine leaves them where a file was being written.
fn has_no_zeros(line: &[u8]) -> bool {
    memchr::memchr(0, line).is_none()
}

/// Whether the beginning of a line is UTF-8. A last character that is cut off counts as incomplete.
fn is_text_so_far(line: &[u8]) -> bool {
    // `error_len` is `None` where the text merely ends within a character.
    let is_broken = |error: std::str::Utf8Error| error.error_len().is_some();
    has_no_zeros(line) && !std::str::from_utf8(line).is_err_and(is_broken)
}

fn endless_warning(source: &Source, length: u64) -> Warning {
    let message =
        format!("its last line has {} MiB and no end; it is left where it is", mebibytes(length));
    Warning::new(WarningKind::TooLong, source.provider, &source.path, message)
}

fn mebibytes(bytes: u64) -> u64 {
    bytes / (1024 * 1024)
}

fn torn_warning(source: &Source, length: u64) -> Warning {
    let message = format!("its last line, of {length} bytes, was never finished; it is kept");
    Warning::new(WarningKind::Torn, source.provider, &source.path, message)
}

fn not_text_warning(source: &Source, count: u64) -> Warning {
    let (lines, hold, they) =
        if count == 1 { ("line", "holds", "it is") } else { ("lines", "hold", "they are") };
    let message = format!("{count} {lines} {hold} bytes that are no text; {they} kept");
    let warning = Warning::new(WarningKind::NotText, source.provider, &source.path, message);
    Warning { count, ..warning }
}

/// The text of a file beside a source; `None` for one outside the source's root.
pub(crate) fn read_beside(source: &Source, path: &str) -> Option<String> {
    let path = fs::canonicalize(source.path.parent()?.join(path)).ok()?;
    // Records are foreign text. None may make the daemon read a file outside of the agent's folder,
    // by `..` or through a link; `canonicalize` has resolved both.
    if !path.starts_with(&source.root) {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BESIDE_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::AGENTS;

    #[test]
    fn zeros_of_a_racing_read_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let line = b"{\"type\":\"summary\"}\n";
        let read = line.map(|byte| if byte == b'u' { 0 } else { byte });
        let source = Source::known(AGENTS[0].provider(), "s", &path);
        let now = Time::from_millis(0);
        let (guard, stop) = Default::default();
        let look = Look { guard: &guard, stop: &stop, now };
        let read_chunk = |there: &[u8]| {
            fs::write(&path, there).unwrap();
            let mut tailer = Tailer::open(AGENTS[0], &source, None, &look).unwrap();
            tailer.records = Box::new(LineReader::new(io::Cursor::new(read), 0));
            let chunk = tailer.next_chunk(now).unwrap().unwrap();
            (chunk.to, chunk.parsed.drafts.is_empty(), chunk.kept)
        };
        assert_eq!(read_chunk(line), (0, true, Some(Vec::new())), "it is as it was again");
        assert_eq!(read_chunk(&line[..4]), (0, true, Some(Vec::new())), "it is gone");
        let (to, is_silent, kept) = read_chunk(&read);
        assert_eq!((to, is_silent), (read.len() as u64, false), "it stands there");
        assert_eq!(kept, Some(read.to_vec()));
    }
}
