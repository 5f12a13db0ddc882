//! What handlers are at: told every few seconds while they are at it, and once when they are done.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// Time between two words on it. Handlers that are quicker are not told of.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// Handlers that run now.
#[derive(Default)]
pub(super) struct Busy {
    running: Vec<Handling>,
    /// When it was told last, or when the first began.
    told_at: Option<Instant>,
    /// The stream that was named: whoever watches it waits for its end.
    told: Option<String>,
}

/// One of them.
pub(super) struct Handling {
    pub(super) handler: String,
    pub(super) file: String,
    pub(super) stream: String,
    pub(super) run: String,
    pub(super) since: Instant,
}

impl Busy {
    pub(super) fn began(&mut self, handling: Handling) {
        self.told_at.get_or_insert(handling.since);
        self.running.push(handling);
    }

    /// One has ended; the last word if it was the last and somebody was told of any.
    pub(super) fn ended(&mut self, run: &str) -> Option<Value> {
        self.running.retain(|handling| handling.run != run);
        if !self.running.is_empty() {
            return None;
        }
        self.told_at = None;
        let stream = self.told.take()?;
        Some(json!({"tract": "observe", "event": "status", "stream": stream, "idle": true}))
    }

    /// The word that is due, if one is.
    pub(super) fn due(&mut self, now: Instant) -> Option<Value> {
        let first = self.running.first()?;
        if self.told_at.is_some_and(|at| now - at < STATUS_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        let stream = self.told.get_or_insert_with(|| first.stream.clone()).clone();
        let seconds = |handling: &Handling| (now - handling.since).as_secs();
        let about = |handling: &Handling| {
            let Handling { handler, file, run, .. } = handling;
            let about = json!({"file": file, "ref": run, "duration_seconds": seconds(handling)});
            (handler.clone(), about)
        };
        let running: Map<String, Value> = self.running.iter().map(about).collect();
        Some(json!({
            "tract": "observe",
            "event": "status",
            "stream": stream,
            "running": running,
            "queued": [],
            "max_age_seconds": self.running.iter().map(seconds).max(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_long_is_told_of_until_all_are_done() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut busy = Busy::default();
        for (handler, since) in [("describe", 0), ("count", 2)] {
            busy.began(Handling {
                handler: handler.to_owned(),
                file: "segment.json".to_owned(),
                stream: "claude".to_owned(),
                run: format!("run-{handler}"),
                since: after(since),
            });
        }
        assert_eq!(busy.due(after(4)), None);
        let status = busy.due(after(6)).expect("it is due");
        assert_eq!(status["running"]["count"]["duration_seconds"], 4);
        assert_eq!((&status["stream"], &status["max_age_seconds"]), (&"claude".into(), &6.into()));
        assert_eq!(busy.due(after(10)), None);
        assert_eq!(busy.ended("run-describe"), None);
        assert!(busy.due(after(11)).is_some());
        let idle = busy.ended("run-count").expect("it was told of");
        assert_eq!((&idle["stream"], &idle["idle"]), (&"claude".into(), &true.into()));
        assert_eq!(busy.due(after(60)), None);
    }

    #[test]
    fn who_is_quick_is_not_told_of() {
        let since = Instant::now();
        let [handler, file, stream, run] = ["a", "b", "c", "d"].map(str::to_owned);
        let mut busy = Busy::default();
        busy.began(Handling { handler, file, stream, run, since });
        assert_eq!(busy.ended("d"), None);
    }
}
