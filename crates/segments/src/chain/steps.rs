//! The steps of one segment: its messages, its handlers and its end.

use std::path::PathBuf;
use std::time::Instant;

use event::Time;
use projection::Chronicle;
use serde_json::{Value, json};

use super::event_log;
use super::work_queue::PendingWork;
use super::{BY, Chain, ChainError, ChainRuntime, HandlerStart, REVISION, TaskError};
use crate::dream::Dream;
use crate::segment::{Segment, SegmentKey};

/// The built-in handlers, which write the transcript and the digest.
const BUILT_IN: [&str; 2] = ["transcribe", "describe"];

/// The segment that handlers run for, made by the chain or by another program.
#[derive(Clone, Debug)]
pub struct HandlerTarget {
    pub key: SegmentKey,
    pub folder: PathBuf,
    /// Metadata that handlers get in their environment.
    pub meta: Value,
}

/// The result of processing a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepOutcome {
    Done,
    /// A handler failed and will be retried.
    Failed,
    /// The daemon is stopping.
    Stopped,
}

/// The result of running handlers.
enum HandlerResults {
    /// All have ended; the failures, one text each.
    Ended(Vec<String>),
    Stopped,
}

impl HandlerTarget {
    fn from_segment(segment: &Segment) -> HandlerTarget {
        let meta = serde_json::to_value(&segment.meta).expect("names and numbers always encode");
        HandlerTarget { key: segment.key(), folder: segment.folder().to_owned(), meta }
    }
}

impl Chain {
    /// Processes an epoch that has just ended.
    pub(super) fn observe_epoch(
        &mut self,
        segment: &Segment,
        work: &mut PendingWork,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<StepOutcome, ChainError> {
        let target = HandlerTarget::from_segment(segment);
        // `observed` in the log is not enough: it may be that of an earlier close, and the epoch has
        // more events by now. The outputs tell which events they cover.
        let is_made = segment.transcript_stats().is_some() && segment.digest_summary().is_some();
        if !is_made || !self.has_step(&target, &epoch_observed())? {
            let step = self.run_epoch_steps(segment, &target, work, runtime)?;
            if step != StepOutcome::Done {
                return Ok(step);
            }
        }
        // Saved before the dream is queued: after a crash in between, the epoch is repeated.
        self.calendar.add_segment(segment.key(), now);
        self.save_state()?;
        if !self.has_step(&target, &super::dreamt_filter())? {
            runtime.queue_dream(&Dream::Segment(segment.key()))?;
        }
        Ok(StepOutcome::Done)
    }

    /// Records all steps of an epoch from `observing` to `observed`.
    fn run_epoch_steps(
        &mut self,
        segment: &Segment,
        target: &HandlerTarget,
        work: &mut PendingWork,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<StepOutcome, ChainError> {
        let began = Instant::now();
        let observing = json!({"files": ["segment.json"], "meta": target.meta});
        self.record_step(target, "observing", own_epoch(), observing, runtime)?;

        let mut wanted: Vec<String> = Vec::new();
        let [transcribe, describe] = BUILT_IN.map(str::to_owned);
        // Only what is missing: a retry, or a second close, finds outputs that cover all events.
        wanted.extend(segment.transcript_stats().is_none().then_some(transcribe));
        wanted.extend(segment.digest_summary().is_none().then_some(describe));
        wanted.extend(runtime.handlers_for("segment.json"));
        let wanted = wanted.into_iter().map(|handler| (handler, "segment.json".to_owned()));
        let HandlerResults::Ended(errors) =
            self.run_handlers(target, wanted.collect(), own_epoch(), work, runtime)?
        else {
            return Ok(StepOutcome::Stopped);
        };
        let millis = began.elapsed().as_millis() as u64;
        // From the file itself, not from the exit code: a handler that ended well may have written
        // nothing.
        if let Some(made) = segment.transcript_stats() {
            let mut fields = serde_json::to_value(made).expect("names and numbers always encode");
            fields["input"] = json!("segment.json");
            fields["output"] = json!("transcript.jsonl");
            fields["duration_ms"] = json!(millis);
            self.record_step(target, "transcribed", own_epoch(), fields, runtime)?;
        }
        if let Some(made) = segment.digest_summary() {
            let fields = json!({"input": "segment.json", "output": "digest.jsonl",
                "duration_ms": millis, "facts": made.facts});
            self.record_step(target, "described", own_epoch(), fields, runtime)?;
        }
        if !errors.is_empty() && !work.is_last_try() {
            return Ok(report_retry(target, work, &errors, runtime));
        }
        // Also after the last failed try: the segment is over, and its message carries the errors.
        self.record_observed(target, own_epoch(), began, &errors, runtime)?;
        Ok(StepOutcome::Done)
    }

    /// Processes an epoch of history in this process and records one step.
    pub(super) fn describe_inline(
        &mut self,
        segment: &Segment,
        chronicle: &Chronicle,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        segment.write_outputs(chronicle, &self.journal)?;
        // `batch` tells subscribers and the chain itself that no dream of this segment follows.
        let observed = json!({"duration": 0, "batch": true});
        self.record_step(
            &HandlerTarget::from_segment(segment),
            "observed",
            own_epoch(),
            observed,
            runtime,
        )?;
        self.calendar.add_history(segment.key().day());
        self.days.insert(segment.key().day());
        Ok(())
    }

    /// Runs the user's handlers for files that another program announced. No dream follows. `like`
    /// has the fields that identify this announcement in the log.
    pub(super) fn observe_announced(
        &mut self,
        target: &HandlerTarget,
        files: &[String],
        mut like: Value,
        work: &mut PendingWork,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<StepOutcome, ChainError> {
        let began = Instant::now();
        // Not followed: a link could make a handler read any file of the user.
        let is_there = |file: &&String| {
            target.folder.join(file).symlink_metadata().is_ok_and(|metadata| metadata.is_file())
        };
        // A file that is gone by now is skipped; the announcement stands all the same.
        let wanted = files.iter().filter(is_there).flat_map(|file| {
            let handlers = runtime.handlers_for(file).into_iter();
            handlers.map(|handler| (handler, file.clone())).collect::<Vec<_>>()
        });
        let wanted = wanted.collect();
        let HandlerResults::Ended(errors) =
            self.run_handlers(target, wanted, like.clone(), work, runtime)?
        else {
            return Ok(StepOutcome::Stopped);
        };
        if !errors.is_empty() && !work.is_last_try() {
            return Ok(report_retry(target, work, &errors, runtime));
        }
        like["files"] = json!(files);
        self.record_observed(target, like, began, &errors, runtime)?;
        Ok(StepOutcome::Done)
    }

    /// Runs handlers in parallel and waits for all that have started, also if another one cannot be
    /// started. `like` has the fields that identify these runs in the log.
    fn run_handlers(
        &mut self,
        target: &HandlerTarget,
        wanted: Vec<(String, String)>,
        like: Value,
        work: &mut PendingWork,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<HandlerResults, ChainError> {
        let (mut errors, mut runs) = (Vec::new(), Vec::new());
        let mut failure = None;
        for (handler, file) in wanted {
            // It succeeded in an earlier try.
            if work.is_done(&handler, &file) {
                continue;
            }
            let run = match runtime.start_handler(target, &handler, &file) {
                Ok(HandlerStart::Running(run)) => run,
                // The process never started, so there is nothing to wait for.
                Ok(HandlerStart::Ended(code)) => {
                    errors.push(format!("{handler} exit {code}"));
                    continue;
                }
                // Handlers that run end with the daemon, and the next start repeats them.
                Ok(HandlerStart::Stopped) => return Ok(HandlerResults::Stopped),
                Err(TaskError::Invalid(why)) => {
                    errors.push(format!("{handler}: {why}"));
                    continue;
                }
                // No further starts, but those that run are waited for below.
                Err(error) => {
                    failure = Some(error.into());
                    break;
                }
            };
            let mut like = like.clone();
            like["handler"] = json!(handler);
            like["file"] = json!(file);
            // Recorded after the start, because the message carries the ref of the run.
            let mut detected = like.clone();
            detected["ref"] = json!(run);
            runs.push((handler, file, run));
            if let Err(error) = self.record_step(target, "detected", like, detected, runtime) {
                failure = Some(error);
                break;
            }
        }
        while !runs.is_empty() {
            // In order of their ends: a finished handler is stored before the chain waits for the
            // next one, so that a crash does not run it twice.
            let names: Vec<&str> = runs.iter().map(|(_, _, run)| run.as_str()).collect();
            let Some((ended, code)) = runtime.wait_for_any(&names) else {
                return Ok(HandlerResults::Stopped);
            };
            let (handler, file, _) = runs.remove(ended);
            match code {
                0 => {
                    work.mark_done(&handler, &file);
                    // The files of the built-in handlers show that they are done.
                    if !BUILT_IN.contains(&handler.as_str()) {
                        self.queue.store(work);
                        // Keep the failure for later: the other handlers still run.
                        failure = failure.or(self.save_state().err());
                    }
                }
                code => errors.push(format!("{handler} exit {code}")),
            }
        }
        failure.map_or(Ok(HandlerResults::Ended(errors)), Err)
    }

    /// Records the end of all handlers and reports their failures to the user.
    fn record_observed(
        &mut self,
        target: &HandlerTarget,
        like: Value,
        began: Instant,
        errors: &[String],
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        let mut observed = like.clone();
        observed["duration"] = json!(began.elapsed().as_secs());
        if !errors.is_empty() {
            observed["error"] = json!(true);
            observed["errors"] = json!(errors);
            let words = format!("{}: {}", target.key, errors.join(", "));
            runtime.alarm("A segment was not described", &words);
        }
        self.record_step(target, "observed", like, observed, runtime)
    }

    /// Logs a step and publishes it, unless the log has it. `like` has the fields that identify it.
    ///
    /// The log comes first: after a crash in between, the message is missing on the bus, but no
    /// subscriber gets a step twice.
    fn record_step(
        &mut self,
        target: &HandlerTarget,
        event: &str,
        like: Value,
        fields: Value,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        let mut like = like;
        like["tract"] = json!("observe");
        like["event"] = json!(event);
        like["by"] = json!(BY);
        if self.has_step(target, &like)? {
            return Ok(());
        }
        let mut message = json!({"tract": "observe", "event": event, "day": target.key.day(),
            "segment": target.key.segment(), "stream": target.key.stream()});
        if let (Some(message), Value::Object(fields)) = (message.as_object_mut(), fields) {
            // An absent value is left out, since `null` has a meaning of its own in the log.
            message.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        message["rev"] = json!(REVISION);
        message["by"] = json!(BY);
        message["ts"] = json!(runtime.now().nanos() / 1_000_000);
        let failed = |cause| ChainError::Events { path: target.folder.clone(), cause };
        event_log::append_message(&target.folder, &message.to_string()).map_err(failed)?;
        runtime.publish(&message);
        Ok(())
    }

    fn has_step(&self, target: &HandlerTarget, like: &Value) -> Result<bool, ChainError> {
        let failed = |cause| ChainError::Events { path: target.folder.clone(), cause };
        event_log::contains(&target.folder, like).map_err(failed)
    }
}

/// Matches steps of the epoch itself, not those of files announced in its segment.
fn own_epoch() -> Value {
    json!({"announced": null})
}

/// Matches the last step of an epoch.
fn epoch_observed() -> Value {
    let mut ended = own_epoch();
    ended["tract"] = json!("observe");
    ended["event"] = json!("observed");
    ended["by"] = json!(BY);
    ended
}

/// Reports failed handlers that will be retried. Only the first failure is logged.
fn report_retry(
    target: &HandlerTarget,
    work: &PendingWork,
    errors: &[String],
    runtime: &mut dyn ChainRuntime,
) -> StepOutcome {
    if work.is_first_try() {
        runtime.warn(&format!("{}: {}; tried again later", target.key, errors.join(", ")));
    }
    StepOutcome::Failed
}
