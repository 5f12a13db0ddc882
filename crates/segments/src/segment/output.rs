//! The transcript and the digest of a segment.
//!
//! Each file begins with a header that says which events it was made from. One that is there for
//! the same events is left as it is.

use std::io::{BufRead, BufReader};
use std::path::Path;

use journal::{Journal, Selection};
use projection::{
    CHUNK_CHARS_MAX, Calls, Chapter, Chronicle, Origin, SessionText, digest, redacted,
};
use redact::Redactor;
use serde::{Deserialize, Serialize};

use event::Kind;

use super::{Hold, Meta, Segment, SegmentError, put_whole, to_line};
use views::chronicle_of;

const TRANSCRIPT: &str = "transcript.jsonl";
const DIGEST: &str = "digest.jsonl";

/// What was made of a segment's text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transcribed {
    /// `transcribed`, or `filtered` where there was nothing to say.
    pub outcome: String,
    pub lines: u64,
    /// Secrets that were taken out.
    pub redacted: u64,
    /// Seconds of the epoch, and those of them in open turns.
    pub vad_duration: u64,
    pub vad_speech: u64,
    /// More than half of the records were not understood.
    pub noisy: bool,
}

/// What was found worth keeping.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Described {
    pub facts: u64,
    pub title: Option<String>,
    /// Who found it.
    #[serde(default)]
    pub title_origin: Option<Origin>,
    pub summary: String,
}

#[derive(Serialize, Deserialize)]
struct Header<T> {
    #[serde(flatten)]
    meta: Meta,
    #[serde(flatten)]
    made: T,
}

#[derive(Serialize)]
struct Chunk {
    text: String,
}

impl Segment {
    /// Writes down what was said and done in the epoch, without secrets.
    pub fn transcribe(&self, journal: &Journal) -> Result<Transcribed, SegmentError> {
        match self.transcribed() {
            Some(made) => Ok(made),
            None => self.transcribe_as(&self.chronicle(journal)?, journal),
        }
    }

    /// Writes down what is worth keeping of the epoch.
    pub fn describe(&self, journal: &Journal) -> Result<Described, SegmentError> {
        match self.described() {
            Some(made) => Ok(made),
            None => self.describe_as(&self.chronicle(journal)?, journal),
        }
    }

    /// Both, by whoever has the chronicle of the session at hand.
    pub fn write(&self, chronicle: &Chronicle, journal: &Journal) -> Result<(), SegmentError> {
        if self.transcribed().is_none() {
            self.transcribe_as(chronicle, journal)?;
        }
        if self.described().is_none() {
            self.describe_as(chronicle, journal)?;
        }
        Ok(())
    }

    fn chronicle(&self, journal: &Journal) -> Result<Chronicle, SegmentError> {
        Ok(chronicle_of(journal, &journal.stat(&self.meta.session_id)?)?)
    }

    fn transcribe_as(
        &self,
        chronicle: &Chronicle,
        journal: &Journal,
    ) -> Result<Transcribed, SegmentError> {
        let Meta { session_id, from_seq, to_seq, epoch, .. } = &self.meta;
        let mut text = SessionText::new(Calls::AsActivity, CHUNK_CHARS_MAX);
        let mut redactor = Redactor::new();
        let (mut records, mut unknown) = (0_u64, 0_u64);
        let selection = Selection { from_seq: *from_seq, to_seq: *to_seq, ..Selection::all() };
        for event in journal.events(session_id, selection)? {
            let event = event?;
            records += 1;
            unknown += u64::from(event.kind == Kind::Unknown);
            text.apply(&redacted(&event, &mut |text| redactor.redact(text)));
        }
        let chunks = text.finish();
        let chapter = chronicle.chapters().find(|chapter| chapter.epoch.number == *epoch);
        let (duration, speech) = chapter.map_or((0, 0), |chapter| {
            let epoch = chapter.epoch;
            let millis = (epoch.last_at.nanos() - epoch.started_at.nanos()) / 1_000_000;
            let busy: u64 = chapter.stretches.iter().map(|stretch| stretch.busy_millis).sum();
            (u64::try_from(millis / 1_000).unwrap_or(0), busy / 1_000)
        });
        let lines = chunks.iter().flat_map(|chunk| chunk.lines());
        let made = Transcribed {
            outcome: if chunks.is_empty() { "filtered" } else { "transcribed" }.to_owned(),
            lines: lines.filter(|line| !line.is_empty()).count() as u64,
            redacted: chunks.iter().map(|chunk| chunk.matches("[redacted:").count() as u64).sum(),
            vad_duration: duration,
            vad_speech: speech,
            noisy: unknown * 2 > records,
        };
        let chunks = chunks.into_iter().map(|text| to_line(&Chunk { text }));
        self.make(journal, TRANSCRIPT, made, chunks)
    }

    /// Writes it as the chronicle has it now, over what is there.
    pub fn describe_as(
        &self,
        chronicle: &Chronicle,
        journal: &Journal,
    ) -> Result<Described, SegmentError> {
        let chapter = chronicle.chapters().find(|chapter| chapter.epoch.number == self.meta.epoch);
        let title = chapter.as_ref().and_then(Chapter::title);
        let (title, title_origin) = title.unzip();
        let facts = chapter.map(|chapter| chapter.facts).unwrap_or_default();
        let made = Described {
            facts: facts.len() as u64,
            title,
            title_origin,
            summary: digest::summary(&facts),
        };
        self.make(journal, DIGEST, made, facts.iter().map(to_line))
    }

    /// What was made of the text, if it is there.
    pub fn transcribed(&self) -> Option<Transcribed> {
        self.made(TRANSCRIPT)
    }

    /// What was found worth keeping, if it is there.
    pub fn described(&self) -> Option<Described> {
        self.made(DIGEST)
    }

    /// What a file's header says, if it was made from the same events.
    fn made<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Option<T> {
        let header: Option<Header<T>> = header(&self.folder().join(name));
        header.filter(|header| header.meta == self.meta).map(|header| header.made)
    }

    fn make<T: Serialize>(
        &self,
        journal: &Journal,
        name: &str,
        made: T,
        lines: impl Iterator<Item = Vec<u8>>,
    ) -> Result<T, SegmentError> {
        let header = Header { meta: self.meta.clone(), made };
        let mut bytes = to_line(&header);
        lines.for_each(|line| bytes.extend(line));
        let _hold = Hold::to_write(journal, &self.meta.session_id)?;
        put_whole(self.folder(), name, &bytes)?;
        Ok(header.made)
    }
}

/// The epoch that the files made of a segment name.
pub(super) fn told_by(folder: &Path) -> Option<Meta> {
    [TRANSCRIPT, DIGEST].iter().find_map(|name| header(&folder.join(name)))
}

/// The first line of a file; nothing of one that is not there or says something else.
fn header<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let mut line = String::new();
    BufReader::new(std::fs::File::open(path).ok()?).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
