//! The transcript and the digest of a segment.
//!
//! The first line of each file is a header that names the events it was made from. A file made from
//! the same events is not written again.

use std::io::{BufRead, BufReader};
use std::path::Path;

use journal::{Journal, Selection};
use projection::{
    CHUNK_CHARS_MAX, CallStyle, Chapter, Chronicle, FactOrigin, SessionText, digest, redacted,
};
use redact::Redactor;
use serde::{Deserialize, Serialize};

use event::Kind;

use super::{
    Segment, SegmentError, SegmentKey, SegmentLock, SegmentMeta, json_line, write_contested,
};
use views::chronicle_of;

const TRANSCRIPT: &str = "transcript.jsonl";
const DIGEST: &str = "digest.jsonl";

/// A file that is made of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentOutput {
    Transcript,
    Digest,
}

impl SegmentOutput {
    pub fn file_name(self) -> &'static str {
        match self {
            SegmentOutput::Transcript => TRANSCRIPT,
            SegmentOutput::Digest => DIGEST,
        }
    }
}

/// Header of a transcript: counts and times.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TranscriptStats {
    /// `transcribed`, or `filtered` if the epoch has no text.
    pub outcome: String,
    pub lines: u64,
    /// Secrets that were redacted.
    pub redacted: u64,
    /// Seconds of the epoch, and how many of them had an open turn.
    pub vad_duration: u64,
    pub vad_speech: u64,
    /// More than half of the events are of an unknown kind.
    pub noisy: bool,
}

/// Header of a digest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DigestSummary {
    pub facts: u64,
    pub title: Option<String>,
    /// The source of the title.
    #[serde(default)]
    pub title_origin: Option<FactOrigin>,
    pub summary: String,
}

#[derive(Serialize, Deserialize)]
struct OutputHeader<T> {
    #[serde(flatten)]
    meta: SegmentMeta,
    #[serde(flatten)]
    made: T,
}

#[derive(Serialize)]
struct TranscriptChunk {
    text: String,
}

impl Segment {
    /// Writes the transcript of the epoch with secrets redacted, unless it is up to date.
    pub fn transcribe(&self, journal: &Journal) -> Result<TranscriptStats, SegmentError> {
        match self.transcript_stats() {
            Some(made) => Ok(made),
            None => self.write_transcript(&self.chronicle(journal)?, journal),
        }
    }

    /// Writes the digest of the epoch, unless it is up to date.
    pub fn describe(&self, journal: &Journal) -> Result<DigestSummary, SegmentError> {
        match self.digest_summary() {
            Some(made) => Ok(made),
            None => self.write_digest(&self.chronicle(journal)?, journal),
        }
    }

    /// Writes both files, for a caller that has the chronicle of the session already. Tells of each
    /// file, and whether it was written now.
    pub(crate) fn write_outputs(
        &self,
        chronicle: &Chronicle,
        journal: &Journal,
        tell: &mut dyn FnMut(&SegmentKey, SegmentOutput, bool),
    ) -> Result<(), SegmentError> {
        let key = self.key();
        let is_stale = self.transcript_stats().is_none();
        if is_stale {
            self.write_transcript(chronicle, journal)?;
        }
        tell(&key, SegmentOutput::Transcript, is_stale);
        let is_stale = self.digest_summary().is_none();
        if is_stale {
            self.write_digest(chronicle, journal)?;
        }
        tell(&key, SegmentOutput::Digest, is_stale);
        Ok(())
    }

    fn chronicle(&self, journal: &Journal) -> Result<Chronicle, SegmentError> {
        Ok(chronicle_of(journal, &journal.stat(&self.meta.session_id)?)?)
    }

    fn write_transcript(
        &self,
        chronicle: &Chronicle,
        journal: &Journal,
    ) -> Result<TranscriptStats, SegmentError> {
        let SegmentMeta { session_id, from_seq, to_seq, epoch, .. } = &self.meta;
        // Calls appear as what they do, not as JSON: the transcript is for people.
        let mut text = SessionText::new(CallStyle::AsActivity, CHUNK_CHARS_MAX);
        let mut redactor = Redactor::new();
        let (mut records, mut unknown) = (0_u64, 0_u64);
        let selection = Selection { from_seq: *from_seq, to_seq: *to_seq, ..Selection::all() };
        for event in journal.events(session_id, selection)? {
            let event = event?;
            records += 1;
            // Many unknown records mean that the parser is older than the agent.
            unknown += u64::from(event.kind == Kind::Unknown);
            // Redacted before chunks are cut: a secret that spans two chunks would not be recognised.
            text.apply(&redacted(&event, &mut |text| redactor.redact(text)));
        }
        let chunks = text.finish();
        // The epoch is found by its number: a session that went on has further chapters.
        let chapter = chronicle.chapters().find(|chapter| chapter.epoch.number == *epoch);
        let (duration, speech) = chapter.map_or((0, 0), |chapter| {
            let epoch = chapter.epoch;
            let millis = (epoch.last_at.nanos() - epoch.started_at.nanos()) / 1_000_000;
            let busy: u64 = chapter.stretches.iter().map(|stretch| stretch.busy_millis).sum();
            (u64::try_from(millis / 1_000).unwrap_or(0), busy / 1_000)
        });
        let lines = chunks.iter().flat_map(|chunk| chunk.lines());
        let made = TranscriptStats {
            outcome: if chunks.is_empty() { "filtered" } else { "transcribed" }.to_owned(),
            lines: lines.filter(|line| !line.is_empty()).count() as u64,
            redacted: chunks.iter().map(|chunk| chunk.matches("[redacted:").count() as u64).sum(),
            vad_duration: duration,
            vad_speech: speech,
            noisy: unknown * 2 > records,
        };
        let chunks = chunks.into_iter().map(|text| json_line(&TranscriptChunk { text }));
        self.write_output(journal, TRANSCRIPT, made, chunks)
    }

    /// Writes the digest from the current chronicle and replaces an existing one.
    pub fn write_digest(
        &self,
        chronicle: &Chronicle,
        journal: &Journal,
    ) -> Result<DigestSummary, SegmentError> {
        let chapter = chronicle.chapters().find(|chapter| chapter.epoch.number == self.meta.epoch);
        let title = chapter.as_ref().and_then(Chapter::title);
        let (title, title_origin) = title.unzip();
        let facts = chapter.map(|chapter| chapter.facts).unwrap_or_default();
        let made = DigestSummary {
            facts: facts.len() as u64,
            title,
            title_origin,
            summary: digest::summarize(&facts),
        };
        self.write_output(journal, DIGEST, made, facts.iter().map(json_line))
    }

    /// Reads the header of the transcript if it is up to date.
    pub fn transcript_stats(&self) -> Option<TranscriptStats> {
        self.read_output(TRANSCRIPT)
    }

    /// Reads the header of the digest if it is up to date.
    pub fn digest_summary(&self) -> Option<DigestSummary> {
        self.read_output(DIGEST)
    }

    /// Reads the header of a file if it was made from the same events.
    fn read_output<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Option<T> {
        let header: Option<OutputHeader<T>> = read_header(&self.folder().join(name));
        // Another range or project makes the file out of date.
        header.filter(|header| header.meta == self.meta).map(|header| header.made)
    }

    fn write_output<T: Serialize>(
        &self,
        journal: &Journal,
        name: &str,
        made: T,
        lines: impl Iterator<Item = Vec<u8>>,
    ) -> Result<T, SegmentError> {
        let header = OutputHeader { meta: self.meta.clone(), made };
        let mut bytes = json_line(&header);
        lines.for_each(|line| bytes.extend(line));
        // Taken after the slow part: a deletion waits for the write, not for the folding of events.
        let _lock = SegmentLock::for_session(journal, &self.meta.session_id)?;
        write_contested(self.folder(), name, &bytes)?;
        Ok(header.made)
    }
}

/// Reads the epoch from the header of the transcript or of the digest.
pub(super) fn meta_from_outputs(folder: &Path) -> Option<SegmentMeta> {
    [TRANSCRIPT, DIGEST].iter().find_map(|name| read_header(&folder.join(name)))
}

/// Parses the first line of a file. Returns `None` if it is missing or has another format.
fn read_header<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let mut line = String::new();
    // Only the first line: the rest may be megabytes.
    BufReader::new(std::fs::File::open(path).ok()?).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
