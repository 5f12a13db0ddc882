//! The status of running handlers: published every few seconds while any runs, and once when all
//! have ended.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// Time between two status messages. Handlers that end sooner get none.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// Handlers that run now.
#[derive(Default)]
pub(super) struct HandlerStatus {
    running: Vec<RunningHandler>,
    /// When the last status was published, or when the first handler began.
    published_at: Option<Instant>,
    /// The stream that was named: its watchers wait for the idle message.
    named_stream: Option<String>,
}

/// A handler that runs now.
pub(super) struct RunningHandler {
    pub(super) handler: String,
    pub(super) file: String,
    pub(super) stream: String,
    pub(super) run: String,
    pub(super) since: Instant,
}

impl HandlerStatus {
    pub(super) fn began(&mut self, handler_run: RunningHandler) {
        // The first handler starts the clock, so that a quick one is never reported.
        self.published_at.get_or_insert(handler_run.since);
        self.running.push(handler_run);
    }

    /// Removes a run that has ended. Returns the idle message if it was the last one and a status
    /// was published.
    pub(super) fn ended(&mut self, run: &str) -> Option<Value> {
        self.running.retain(|handler_run| handler_run.run != run);
        if !self.running.is_empty() {
            return None;
        }
        // The next handler starts the clock anew.
        self.published_at = None;
        // Without a status before, watchers have nothing to be told the end of.
        let stream = self.named_stream.take()?;
        Some(json!({"tract": "observe", "event": "status", "stream": stream, "idle": true}))
    }

    /// The status message, if one is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<Value> {
        let first = self.running.first()?;
        if self.published_at.is_some_and(|at| now - at < STATUS_EVERY) {
            return None;
        }
        self.published_at = Some(now);
        // One name for the whole busy period: watchers wait for the idle message of that stream.
        let stream = self.named_stream.get_or_insert_with(|| first.stream.clone()).clone();
        let seconds = |handler_run: &RunningHandler| (now - handler_run.since).as_secs();
        let about = |handler_run: &RunningHandler| {
            let RunningHandler { handler, file, run, .. } = handler_run;
            let about = json!({"file": file, "ref": run, "duration_seconds": seconds(handler_run)});
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
    fn slow_handlers_are_reported_until_all_end() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut status = HandlerStatus::default();
        for (handler, since) in [("describe", 0), ("count", 2)] {
            status.began(RunningHandler {
                handler: handler.to_owned(),
                file: "segment.json".to_owned(),
                stream: "claude".to_owned(),
                run: format!("run-{handler}"),
                since: after(since),
            });
        }
        assert_eq!(status.due(after(4)), None);
        let message = status.due(after(6)).expect("it is due");
        assert_eq!(message["running"]["count"]["duration_seconds"], 4);
        assert_eq!(
            (&message["stream"], &message["max_age_seconds"]),
            (&"claude".into(), &6.into())
        );
        assert_eq!(status.due(after(10)), None);
        assert_eq!(status.ended("run-describe"), None);
        assert!(status.due(after(11)).is_some());
        let idle = status.ended("run-count").expect("it was told of");
        assert_eq!((&idle["stream"], &idle["idle"]), (&"claude".into(), &true.into()));
        assert_eq!(status.due(after(60)), None);
    }

    #[test]
    fn quick_handler_is_not_reported() {
        let since = Instant::now();
        let [handler, file, stream, run] = ["a", "b", "c", "d"].map(str::to_owned);
        let mut status = HandlerStatus::default();
        status.began(RunningHandler { handler, file, stream, run, since });
        assert_eq!(status.ended("d"), None);
    }
}
