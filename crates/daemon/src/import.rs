//! How far history has been read, told on tract `importer`.

use std::time::{Duration, Instant};

use bus::{Draft, Handle};
use capture::Progress;
use event::Time;

use crate::cortex::REV;

/// Time between two words on how far it has got.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// What is done while history is read, in the words of the tract.
const STAGE: &str = "segmenting";

/// An account of one reading of history: silent until something is read.
pub(crate) struct Import {
    bus: Handle,
    id: String,
    begun: Instant,
    is_told: bool,
    status_at: Instant,
    /// Sources that were read in earlier slices.
    sources: u64,
    events: u64,
    span: Option<(Time, Time)>,
}

impl Import {
    pub(crate) fn new(bus: Handle, now: Time) -> Import {
        let begun = Instant::now();
        let id = (now.nanos() / 1_000_000).to_string();
        Import {
            bus,
            id,
            begun,
            is_told: false,
            status_at: begun,
            sources: 0,
            events: 0,
            span: None,
        }
    }

    /// Takes how far the present slice has got.
    pub(crate) fn progress(&mut self, progress: &Progress) {
        if progress.events == 0 {
            return;
        }
        if !std::mem::replace(&mut self.is_told, true) {
            self.begin();
        }
        if self.status_at.elapsed() >= STATUS_EVERY {
            self.status_at = Instant::now();
            self.status(progress);
        }
    }

    /// A slice is over, and brought this.
    pub(crate) fn slice(&mut self, sources: u64, events: u64, span: Option<(Time, Time)>) {
        self.sources += sources;
        self.events += events;
        self.span = match (self.span, span) {
            (Some((from, to)), Some((earlier, later))) => Some((from.min(earlier), to.max(later))),
            (one, other) => one.or(other),
        };
    }

    /// Everything is read.
    pub(crate) fn complete(self) {
        if !self.is_told {
            return;
        }
        let dates = self.span.map(|(from, to)| [date(from), date(to)]);
        let draft = self.message("completed").with("stage", STAGE);
        self.tell(
            draft
                .with("duration_ms", self.begun.elapsed().as_millis() as u64)
                .with("stages_run", ["initialization", STAGE])
                .with("segments", [(); 0])
                .with("stream", ())
                .with("total_files_created", 0)
                .with("output_files", [(); 0])
                .with("entries_written", self.events)
                .with("date_range", dates),
        );
    }

    /// It could not go on.
    pub(crate) fn fail(self, error: &str) {
        if self.is_told {
            let draft = self.message("error").with("stage", STAGE).with("error", error);
            let millis = self.begun.elapsed().as_millis() as u64;
            self.tell(draft.with("duration_ms", millis).with("partial_outputs", [(); 0]));
        }
    }

    fn begin(&self) {
        let draft = self
            .message("started")
            .with("input_file", ())
            .with("file_type", "transcripts")
            .with("day", ())
            .with("facet", ())
            .with("setting", ())
            .with("options", serde_json::Map::new())
            .with("stage", "initialization")
            .with("stream", ());
        self.tell(draft);
    }

    fn status(&self, progress: &Progress) {
        let millis = self.begun.elapsed().as_millis() as u64;
        let draft = self
            .message("status")
            .with("stage", STAGE)
            .with("elapsed_ms", millis)
            .with("stage_elapsed_ms", millis)
            .with("items_processed", self.sources + progress.sources)
            .with("items_total", self.sources + progress.sources_total)
            .with("earliest_date", self.span.map(|(from, _)| date(from)))
            .with("latest_date", self.span.map(|(_, to)| date(to)))
            .with("source_type", "transcripts");
        self.tell(draft);
    }

    fn message(&self, event: &str) -> Draft {
        Draft::new("importer", event).with("import_id", &self.id)
    }

    fn tell(&self, draft: Draft) {
        // Nobody to tell: what is read is read.
        let _ = draft.with("rev", REV).build().map(|message| self.bus.publish(message));
    }
}

/// The day of a time, as others name it.
fn date(at: Time) -> String {
    at.to_string().chars().take(10).filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use bus::{Filter, Server};

    use super::*;

    #[test]
    fn nothing_read_is_nothing_told_and_the_end_has_the_sum() {
        let dir = tempfile::TempDir::new().expect("a folder can be made");
        let path = dir.path().join("bus.sock");
        let server = Server::bind(&path, bus::Settings::default()).expect("it can be bound");
        let bus = server.handle();
        let heard = bus.listen(Filter::default()).expect("it listens");
        let at = Time::from_millis;
        Import::new(bus.clone(), at(1)).complete();
        let mut import = Import::new(bus.clone(), at(2));
        let progress = Progress { sources: 1, sources_total: 3, events: 5, ..Progress::default() };
        import.progress(&Progress::default());
        import.progress(&progress);
        import.progress(&progress);
        import.slice(2, 7, Some((at(1_739_440_800_000), at(1_739_540_800_000))));
        import.slice(1, 3, Some((at(1_739_340_800_000), at(1_739_440_800_000))));
        import.complete();
        bus.stop();
        server.run().expect("it ends");
        let told = std::iter::from_fn(|| heard.next(Duration::ZERO)).map(|told| told.to_json());
        let told: Vec<serde_json::Value> = told.collect();
        let events: Vec<&str> = told.iter().filter_map(|told| told["event"].as_str()).collect();
        assert_eq!(events, ["started", "completed"]);
        assert_eq!((&told[1]["import_id"], &told[1]["entries_written"]), (&"2".into(), &10.into()));
        assert_eq!(told[1]["date_range"], serde_json::json!(["20250212", "20250214"]));
    }
}
