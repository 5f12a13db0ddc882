//! How far history has been read, told on tract `importer`.

use std::time::{Duration, Instant};

use bus::{Draft, Message};
use capture::IngestProgress;
use event::Time;
use wire::Backlog;

/// The program that a message comes from.
const REV: &str = env!("CARGO_PKG_VERSION");

/// Time between two words on how far it has got.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// What is done, one after the other, in the words of the tract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Sources are looked for.
    Initialization,
    /// They are read, and sessions are cut into epochs.
    Segmenting,
    /// What they say is made searchable and written as text.
    Transcribing,
    /// What was worth keeping of it is written.
    Summarizing,
}

impl Stage {
    fn stage_name(self) -> &'static str {
        match self {
            Stage::Initialization => "initialization",
            Stage::Segmenting => "segmenting",
            Stage::Transcribing => "transcribing",
            Stage::Summarizing => "summarizing",
        }
    }
}

/// Names of segments and files in a message of the end. The counts are exact beyond it; who wants the
/// rest of the names finds the folders.
const NAMES_MAX: usize = 1_000;

/// An account of one reading of history. It publishes nothing until an event is read. What was
/// announced gets one end: dropped without one, it was interrupted.
pub struct Import {
    tell: Box<dyn FnMut(Message) + Send>,
    id: String,
    source: Source,
    begun: Instant,
    /// The stage it is at, and each stage once in the order in which they began.
    stage: Stage,
    stages: Vec<Stage>,
    stage_begun: Instant,
    is_told: bool,
    status_at: Instant,
    has_status: bool,
    /// What was read in earlier slices.
    sources: u64,
    bytes: u64,
    events: u64,
    span: Option<(Time, Time)>,
    outputs: Outputs,
}

/// The segments that history was cut into, and their files.
#[derive(Default)]
struct Outputs {
    segments: Vec<String>,
    /// The segment that was told of last; the files of a segment come one behind the other.
    last: Option<String>,
    segments_total: u64,
    files: Vec<String>,
    files_new: u64,
    /// The one stream of all segments; `None` beside several.
    stream: Option<String>,
}

/// A file of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Output<'a> {
    pub stage: Stage,
    pub stream: &'a str,
    /// The folder of the segment, as seen from the journal.
    pub segment: &'a str,
    pub file: &'a str,
    /// It was written now.
    pub is_new: bool,
}

impl Outputs {
    fn add(&mut self, output: Output<'_>) {
        let Output { stream, segment, file, is_new, .. } = output;
        if self.last.as_deref() != Some(segment) {
            self.stream = match self.segments_total {
                0 => Some(stream.to_owned()),
                _ => self.stream.take().filter(|only| only == stream),
            };
            self.segments_total += 1;
            self.last = Some(segment.to_owned());
            if self.segments.len() < NAMES_MAX {
                self.segments.push(segment.to_owned());
            }
        }
        self.files_new += u64::from(is_new);
        if self.files.len() < NAMES_MAX {
            self.files.push(format!("{segment}/{file}"));
        }
    }
}

/// What a part of it brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slice {
    pub sources: u64,
    pub bytes: u64,
    pub events: u64,
    /// The times of the oldest and the newest event.
    pub span: Option<(Time, Time)>,
}

/// What is read.
struct Source {
    file: Option<String>,
    kind: &'static str,
}

impl Import {
    /// Of what agents have written.
    pub fn of_agents(now: Time, tell: impl FnMut(Message) + Send + 'static) -> Import {
        Import::new(Source { file: None, kind: "transcripts" }, now, Box::new(tell))
    }

    /// Of one file, and what it holds.
    pub fn from_file(
        file: &str,
        kind: &'static str,
        now: Time,
        tell: impl FnMut(Message) + Send + 'static,
    ) -> Import {
        let source = Source { file: Some(file.to_owned()), kind };
        let mut import = Import::new(source, now, Box::new(tell));
        import.announce();
        import
    }

    fn new(source: Source, now: Time, tell: Box<dyn FnMut(Message) + Send>) -> Import {
        let begun = Instant::now();
        Import {
            tell,
            id: (now.nanos() / 1_000_000).to_string(),
            source,
            begun,
            stage: Stage::Initialization,
            stages: vec![Stage::Initialization],
            stage_begun: begun,
            is_told: false,
            status_at: begun,
            has_status: false,
            sources: 0,
            bytes: 0,
            events: 0,
            span: None,
            outputs: Outputs::default(),
        }
    }

    /// Goes on to a stage, unless it is at it. Segments are written while others are still read, so a
    /// stage may come again.
    pub fn enter_stage(&mut self, stage: Stage) {
        if self.stage == stage {
            return;
        }
        (self.stage, self.stage_begun) = (stage, Instant::now());
        if !self.stages.contains(&stage) {
            self.stages.push(stage);
        }
    }

    /// Takes note of a file of a segment.
    pub fn note_output(&mut self, output: Output<'_>) {
        self.enter_stage(output.stage);
        self.outputs.add(output);
        self.note_done(self.outputs.segments_total, None);
    }

    /// What was recorded so far and the time since the begin; `None` while nothing is announced.
    pub fn recorded(&self) -> Option<(u64, Duration)> {
        self.is_told.then(|| (self.events, self.begun.elapsed()))
    }

    /// Takes how far the present slice has got; now and then, what to tell of it.
    pub fn progress(&mut self, progress: &IngestProgress) -> Option<Backlog> {
        // Most starts find nothing new, and then no import is announced.
        if progress.events == 0 {
            return None;
        }
        let is_first = !self.is_told;
        self.announce();
        self.enter_stage(Stage::Segmenting);
        // The sources of earlier slices are done and belong to the total.
        let (done, of) = (self.sources + progress.sources, self.sources + progress.sources_total);
        let is_due = self.note_done(done, Some(of));
        (is_first || is_due).then(|| self.backlog_of(progress))
    }

    fn backlog_of(&self, progress: &IngestProgress) -> Backlog {
        let bytes = self.bytes + progress.bytes;
        let bytes_total = self.bytes + progress.bytes_total;
        let left = bytes_total.saturating_sub(bytes) as f64;
        // By the average speed so far. Bytes predict time better than files, which differ widely in
        // size.
        let seconds = self.begun.elapsed().as_secs_f64() * left / bytes.max(1) as f64;
        // The first moments tell nothing of the rest, nor do the first bytes.
        let is_known = self.begun.elapsed() >= STATUS_EVERY && bytes >= bytes_total / 100;
        let seconds_left = is_known.then_some(seconds as u64);
        Backlog { bytes, bytes_total, seconds_left }
    }

    /// Takes how many things are done, and of how many if that is known; whether it told so.
    pub fn note_done(&mut self, items: u64, of: Option<u64>) -> bool {
        let is_due = self.status_at.elapsed() >= STATUS_EVERY;
        if is_due {
            self.status_at = Instant::now();
            self.publish_status(items, of);
        }
        is_due
    }

    /// A slice is over, and brought this.
    pub fn finish_slice(&mut self, slice: Slice) {
        let Slice { sources, bytes, events, span } = slice;
        self.sources += sources;
        self.bytes += bytes;
        self.events += events;
        self.span = match (self.span, span) {
            (Some((from, to)), Some((earlier, later))) => Some((from.min(earlier), to.max(later))),
            (one, other) => one.or(other),
        };
    }

    /// Everything is read and written.
    pub fn complete(mut self) {
        if !self.is_told {
            return;
        }
        let dates = self.span.map(|(from, to)| [format_date(from), format_date(to)]);
        let stages: Vec<&str> = self.stages.iter().map(|stage| stage.stage_name()).collect();
        let draft = self.new_message("completed").with("stage", self.stage.stage_name());
        let draft = draft
            .with("duration_ms", self.begun.elapsed().as_millis() as u64)
            .with("stages_run", stages)
            .with("segments", &self.outputs.segments)
            .with("stream", &self.outputs.stream)
            .with("total_files_created", self.outputs.files_new)
            .with("output_files", &self.outputs.files)
            .with("entries_written", self.events)
            .with("date_range", dates);
        self.publish_end(draft);
    }

    /// It could not go on.
    pub fn fail_with(mut self, error: &str) {
        self.publish_failure(error);
    }

    fn publish_failure(&mut self, error: &str) {
        if !self.is_told {
            return;
        }
        let draft = self.new_message("error").with("stage", self.stage.stage_name());
        let millis = self.begun.elapsed().as_millis() as u64;
        let draft = draft.with("error", error).with("duration_ms", millis);
        let draft = draft.with("partial_outputs", &self.outputs.files);
        self.publish_end(draft);
    }

    fn publish_end(&mut self, end: Draft) {
        self.publish_idle();
        self.publish_draft(end);
        // Nothing is left to tell when it is dropped.
        self.is_told = false;
    }

    fn announce(&mut self) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let draft = self
            .new_message("started")
            .with("input_file", &self.source.file)
            .with("file_type", self.source.kind)
            .with("day", ())
            .with("facet", ())
            .with("setting", ())
            .with("options", serde_json::Map::new())
            .with("stage", self.stage.stage_name())
            .with("stream", ());
        self.publish_draft(draft);
    }

    /// Publishes a last, idle status if there was one: watchers need not wait for another.
    fn publish_idle(&mut self) {
        if self.has_status {
            let draft = self.status_of(self.sources, Some(self.sources));
            self.publish_draft(draft.with("idle", true));
        }
    }

    fn publish_status(&mut self, items: u64, of: Option<u64>) {
        self.has_status = true;
        let draft = self.status_of(items, of);
        self.publish_draft(draft);
    }

    fn status_of(&self, items: u64, of: Option<u64>) -> Draft {
        self.new_message("status")
            .with("stage", self.stage.stage_name())
            .with("elapsed_ms", self.begun.elapsed().as_millis() as u64)
            .with("stage_elapsed_ms", self.stage_begun.elapsed().as_millis() as u64)
            .with("items_processed", items)
            .with("items_total", of)
            .with("earliest_date", self.span.map(|(from, _)| format_date(from)))
            .with("latest_date", self.span.map(|(_, to)| format_date(to)))
            .with("source_type", self.source.kind)
    }

    fn new_message(&self, event: &str) -> Draft {
        Draft::new("importer", event).with("import_id", &self.id)
    }

    fn publish_draft(&mut self, draft: Draft) {
        // What cannot be said is read all the same.
        if let Ok(message) = draft.with("rev", REV).build() {
            (self.tell)(message);
        }
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        self.publish_failure("interrupted; the rest is read the next time");
    }
}

/// The day of a time, as others name it.
fn format_date(at: Time) -> String {
    // `2025-02-13T…` becomes `20250213`.
    at.to_string().chars().take(10).filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn published_by(work: impl FnOnce(mpsc::SyncSender<Message>)) -> Vec<serde_json::Value> {
        let (tell, told) = mpsc::sync_channel(100);
        work(tell);
        told.iter().map(|message: Message| message.to_json()).collect()
    }

    #[test]
    fn nothing_read_is_nothing_told_and_the_end_has_the_sum() {
        let at = Time::from_millis;
        let import = |id, tell: mpsc::SyncSender<Message>| {
            Import::of_agents(at(id), move |message| tell.send(message).expect("it is heard"))
        };
        let told = published_by(|tell| {
            import(1, tell.clone()).complete();
            let mut import = import(2, tell);
            let progress = IngestProgress {
                sources: 1,
                sources_total: 3,
                bytes: 20,
                bytes_total: 90,
                events: 5,
            };
            assert_eq!(import.progress(&IngestProgress::default()), None);
            let backlog = Backlog { bytes: 20, bytes_total: 90, seconds_left: None };
            assert_eq!(import.progress(&progress), Some(backlog));
            assert_eq!(import.progress(&progress), None);
            let span = |from, to| Some((at(from), at(to)));
            let (first, second) = (1_739_440_800_000, 1_739_540_800_000);
            import.finish_slice(Slice { events: 7, span: span(first, second), ..Slice::default() });
            import.finish_slice(Slice {
                events: 3,
                span: span(1_739_340_800_000, first),
                ..Slice::default()
            });
            assert_eq!(import.recorded().map(|(events, _)| events), Some(10));
            for (segment, stage, file) in [
                ("20250212/codex/080000_5", Stage::Transcribing, "transcript.jsonl"),
                ("20250212/codex/080000_5", Stage::Summarizing, "digest.jsonl"),
                ("20250214/codex/080000_5", Stage::Transcribing, "transcript.jsonl"),
            ] {
                let is_new = stage == Stage::Transcribing;
                import.note_output(Output { stage, stream: "codex", segment, file, is_new });
            }
            import.complete();
        });
        let events: Vec<&str> = told.iter().filter_map(|told| told["event"].as_str()).collect();
        assert_eq!(events, ["started", "completed"]);
        assert_eq!((&told[1]["import_id"], &told[1]["entries_written"]), (&"2".into(), &10.into()));
        assert_eq!(told[1]["date_range"], serde_json::json!(["20250212", "20250214"]));
        let stages = ["initialization", "segmenting", "transcribing", "summarizing"];
        assert_eq!(told[1]["stages_run"], serde_json::json!(stages));
        let segments = ["20250212/codex/080000_5", "20250214/codex/080000_5"];
        assert_eq!(told[1]["segments"], serde_json::json!(segments));
        assert_eq!((&told[1]["stream"], &told[1]["stage"]), (&"codex".into(), &stages[2].into()));
        assert_eq!(
            (&told[1]["total_files_created"], told[1]["output_files"].as_array().map(Vec::len)),
            (&2.into(), Some(3))
        );
    }

    #[test]
    fn dropped_import_has_one_end() {
        let told = published_by(|tell| {
            let tell = move |message| tell.send(message).expect("it is heard");
            let mut import = Import::from_file("a", "events", Time::from_millis(1), tell);
            let (stage, stream) = (Stage::Transcribing, "codex");
            import.note_output(Output { stage, stream, segment: "s", file: "f", is_new: true });
        });
        let events: Vec<&str> = told.iter().filter_map(|told| told["event"].as_str()).collect();
        assert_eq!(events, ["started", "error"]);
        assert_eq!(told[1]["partial_outputs"], serde_json::json!(["s/f"]));
    }

    #[test]
    fn whoever_was_told_how_far_it_got_hears_that_there_is_no_more() {
        let told = published_by(|tell| {
            let tell = move |message| tell.send(message).expect("it is heard");
            let mut import = Import::from_file("a.ndjson", "events", Time::from_millis(1), tell);
            import.publish_status(1, None);
            import.fail_with("no room");
        });
        let idle: Vec<_> = told.iter().map(|told| (&told["event"], &told["idle"])).collect();
        let null = &serde_json::Value::Null;
        let expected =
            [("started", null), ("status", null), ("status", &true.into()), ("error", null)];
        assert!(
            idle.iter()
                .zip(expected)
                .all(|(told, wanted)| (told.0 == wanted.0, told.1) == (true, wanted.1)),
            "{idle:?}"
        );
    }
}
