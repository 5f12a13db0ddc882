//! The status of handlers: published every few seconds while any is busy, and once when all are done.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::REVISION;
use super::handler_queues::{HandlerQueues, HandlerRun};

/// Time between two status messages. Work that ends sooner gets none.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// Queued files of a handler that are listed. The rest is only counted, so that a message stays short.
const QUEUED_MAX: usize = 100;

/// When the status was published last.
#[derive(Default)]
pub(super) struct HandlerStatus {
    /// When the last status was published, or when the first handler became busy.
    published_at: Option<Instant>,
    /// The stream that was named: its watchers wait for the idle message.
    named_stream: Option<Option<String>>,
}

impl HandlerStatus {
    /// Returns the message that is due, if one is.
    pub(super) fn next_message(&mut self, handlers: &HandlerQueues, now: Instant) -> Option<Value> {
        let lanes: Vec<_> = handlers
            .lanes()
            .map(|(name, lane)| (name, lane.running(), lane.queued().collect::<Vec<_>>()))
            .collect();
        let runs = || lanes.iter().flat_map(|(_, running, queued)| running.iter().chain(queued));
        let Some(first) = runs().next() else {
            // The next handler starts the clock anew.
            self.published_at = None;
            // Without a status before, watchers have nothing to be told the end of.
            let stream = self.named_stream.take()?;
            return Some(status(stream.as_deref(), json!({"idle": true})));
        };
        // The first handler starts the clock, so that a quick one is never reported.
        let since = *self.published_at.get_or_insert(now);
        if now.saturating_duration_since(since) < STATUS_EVERY {
            return None;
        }
        self.published_at = Some(now);
        // One name for the whole busy period: watchers wait for the idle message of that stream.
        let stream = self.named_stream.get_or_insert_with(|| first.stream.clone()).clone();
        let seconds = |run: &HandlerRun| now.saturating_duration_since(run.since).as_secs();
        let mut fields = json!({"max_age_seconds": runs().map(seconds).max()});
        for (name, running, queued) in &lanes {
            let mut about = Map::new();
            if let Some(run) = running {
                let running = json!({"file": run.file, "ref": run.reference,
                    "duration_seconds": seconds(run)});
                about.insert("running".to_owned(), running);
            }
            if !queued.is_empty() {
                let shown = queued.iter().take(QUEUED_MAX);
                let shown = shown.map(|run| json!({"file": run.file, "age_seconds": seconds(run)}));
                about.insert("queued".to_owned(), shown.collect());
            }
            // A handler of the user may have the name of a field, which then stays what it is.
            if fields.get(*name).is_none() && !matches!(*name, "stream" | "idle") {
                fields[*name] = Value::Object(about);
            }
        }
        Some(status(stream.as_deref(), fields))
    }
}

fn status(stream: Option<&str>, fields: Value) -> Value {
    let mut message = json!({"tract": "observe", "event": "status"});
    if let (Some(message), Value::Object(fields)) = (message.as_object_mut(), fields) {
        message.extend(stream.map(|stream| ("stream".to_owned(), json!(stream))));
        message.extend(fields);
    }
    message["rev"] = json!(REVISION);
    message
}

#[cfg(test)]
mod tests {
    use super::super::handler_queues::HandlerJob;
    use super::super::handler_queues::tests::job;
    use super::*;

    #[test]
    fn slow_handlers_are_reported_until_all_end() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut queues = HandlerQueues::default();
        for (handler, ticket, since) in [("describe", 1, 0), ("see", 1, 2), ("see", 2, 3)] {
            queues.push(HandlerJob { queued_at: after(since), ..job(handler, ticket) });
        }
        while let Some(job) = queues.next_job() {
            let reference = format!("run-{}", job.handler);
            queues.begin(job, reference);
        }
        queues.started("see", after(4));
        let mut status = HandlerStatus::default();
        assert_eq!(status.next_message(&queues, after(4)), None);
        assert_eq!(status.next_message(&queues, after(8)), None);
        let message = status.next_message(&queues, after(9)).expect("it is due");
        assert_eq!(bus::registry::fault(&message), None);
        let file = "20261116/phone/080001_5/a.png";
        let see = json!({"running": {"file": file, "ref": "run-see", "duration_seconds": 5},
            "queued": [{"file": file, "age_seconds": 6}]});
        assert_eq!((&message["stream"], &message["see"]), (&json!("phone"), &see));
        assert_eq!(message["max_age_seconds"], 9);
        assert_eq!(status.next_message(&queues, after(13)), None);
        queues.ended("describe");
        queues.ended("see");
        queues.next_job().expect("one waits");
        let idle = status.next_message(&queues, after(14)).expect("its watchers wait");
        assert_eq!((&idle["stream"], &idle["idle"]), (&json!("phone"), &json!(true)));
        assert_eq!(status.next_message(&queues, after(60)), None);
    }

    #[test]
    fn quick_handler_is_not_reported() {
        let mut queues = HandlerQueues::default();
        queues.push(job("see", 1));
        let mut status = HandlerStatus::default();
        assert_eq!(status.next_message(&queues, Instant::now()), None);
        queues.next_job().expect("it waits");
        assert_eq!(status.next_message(&queues, Instant::now()), None);
    }
}
