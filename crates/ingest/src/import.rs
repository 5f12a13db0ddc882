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
    /// What they say is made searchable.
    Transcribing,
}

impl Stage {
    fn stage_name(self) -> &'static str {
        match self {
            Stage::Initialization => "initialization",
            Stage::Segmenting => "segmenting",
            Stage::Transcribing => "transcribing",
        }
    }
}

/// An account of one reading of history. It publishes nothing until an event is read.
pub struct Import {
    tell: Box<dyn FnMut(Message) + Send>,
    id: String,
    source: Source,
    begun: Instant,
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
            stages: vec![Stage::Initialization],
            stage_begun: begun,
            is_told: false,
            status_at: begun,
            has_status: false,
            sources: 0,
            bytes: 0,
            events: 0,
            span: None,
        }
    }

    /// Goes on to a stage, unless it is at it.
    pub fn enter_stage(&mut self, stage: Stage) {
        if self.stage() != stage {
            self.stages.push(stage);
            self.stage_begun = Instant::now();
        }
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

    /// Everything is read; how much that was, unless it was nothing.
    pub fn complete(mut self) -> Option<(u64, Duration)> {
        if !self.is_told {
            return None;
        }
        let dates = self.span.map(|(from, to)| [format_date(from), format_date(to)]);
        let stages: Vec<&str> = self.stages.iter().map(|stage| stage.stage_name()).collect();
        let draft = self.new_message("completed").with("stage", self.stage().stage_name());
        let draft = draft
            .with("duration_ms", self.begun.elapsed().as_millis() as u64)
            .with("stages_run", stages)
            // The registry lists these fields for imports of other programs; here they are empty.
            .with("segments", [(); 0])
            .with("stream", ())
            .with("total_files_created", 0)
            .with("output_files", [(); 0])
            .with("entries_written", self.events)
            .with("date_range", dates);
        self.publish_idle();
        self.publish_draft(draft);
        Some((self.events, self.begun.elapsed()))
    }

    /// It could not go on.
    pub fn fail_with(mut self, error: &str) {
        if self.is_told {
            self.publish_idle();
            let draft = self.new_message("error").with("stage", self.stage().stage_name());
            let millis = self.begun.elapsed().as_millis() as u64;
            let draft = draft.with("error", error).with("duration_ms", millis);
            self.publish_draft(draft.with("partial_outputs", [(); 0]));
        }
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
            .with("stage", self.stage().stage_name())
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
            .with("stage", self.stage().stage_name())
            .with("elapsed_ms", self.begun.elapsed().as_millis() as u64)
            .with("stage_elapsed_ms", self.stage_begun.elapsed().as_millis() as u64)
            .with("items_processed", items)
            .with("items_total", of)
            .with("earliest_date", self.span.map(|(from, _)| format_date(from)))
            .with("latest_date", self.span.map(|(_, to)| format_date(to)))
            .with("source_type", self.source.kind)
    }

    fn stage(&self) -> Stage {
        self.stages.last().copied().unwrap_or(Stage::Initialization)
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
            assert_eq!(import.complete().map(|(events, _)| events), Some(10));
        });
        let events: Vec<&str> = told.iter().filter_map(|told| told["event"].as_str()).collect();
        assert_eq!(events, ["started", "completed"]);
        assert_eq!((&told[1]["import_id"], &told[1]["entries_written"]), (&"2".into(), &10.into()));
        assert_eq!(told[1]["date_range"], serde_json::json!(["20250212", "20250214"]));
        assert_eq!(told[1]["stages_run"], serde_json::json!(["initialization", "segmenting"]));
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
