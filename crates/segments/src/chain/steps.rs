//! The steps of one segment: its messages, its handlers and its end.
//!
//! A segment is begun, then its handlers run, and with the end of the last one the segment ends. The
//! chain does not wait in between: many segments may be under way.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::Time;
use projection::Chronicle;
use serde_json::{Value, json};

use super::event_log;
use super::handler_queues::HandlerJob;
use super::work_queue::PendingWork;
use super::{BY, Chain, ChainError, ChainRuntime, HandlerEvent, REVISION, TaskError};
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
    /// The machine that the segment comes from, if it is another one.
    pub remote: Option<String>,
}

/// A segment whose handlers have not all ended.
pub(super) struct ActiveSegment {
    ticket: u64,
    work: PendingWork,
    target: Arc<HandlerTarget>,
    subject: SegmentSubject,
    /// Runs of handlers that have not ended.
    open_runs: usize,
    /// Handlers that failed, one text each.
    errors: Vec<String>,
    /// Why a step could not be recorded.
    failure: Option<ChainError>,
}

/// What a segment holds.
enum SegmentSubject {
    Epoch(Box<Segment>),
    /// Files of another program, and the number of their announcement.
    Announced {
        files: Vec<String>,
        number: i64,
    },
}

impl SegmentSubject {
    /// Returns the fields that identify the steps of this segment in its log.
    fn mark(&self) -> Value {
        match self {
            SegmentSubject::Epoch(_) => own_epoch(),
            SegmentSubject::Announced { number, .. } => json!({"announced": number}),
        }
    }
}

impl HandlerTarget {
    fn from_segment(segment: &Segment, host: &str) -> HandlerTarget {
        let mut meta =
            serde_json::to_value(&segment.meta).expect("names and numbers always encode");
        meta["host"] = json!(host);
        let folder = segment.folder().to_owned();
        HandlerTarget { key: segment.key(), folder, meta, remote: None }
    }
}

impl Chain {
    /// Begins an epoch that has just ended.
    pub(super) fn begin_epoch(
        &mut self,
        segment: Segment,
        work: PendingWork,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        let target = Arc::new(HandlerTarget::from_segment(&segment, runtime.host()));
        // `observed` in the log is not enough: it may be that of an earlier close, and the epoch has
        // more events by now. The outputs tell which events they cover.
        let is_made = segment.transcript_stats().is_some() && segment.digest_summary().is_some();
        if is_made && self.has_step(&target, &epoch_observed())? {
            self.dream_of_epoch(&target, now, runtime)?;
            return self.complete_work(&work, runtime);
        }
        let observing = json!({"files": ["segment.json"], "meta": target.meta});
        self.record_step(&target, "observing", own_epoch(), observing, runtime)?;
        let mut wanted: Vec<String> = Vec::new();
        let [transcribe, describe] = BUILT_IN.map(str::to_owned);
        // Only what is missing: a retry, or a second close, finds outputs that cover all events.
        wanted.extend(segment.transcript_stats().is_none().then_some(transcribe));
        wanted.extend(segment.digest_summary().is_none().then_some(describe));
        wanted.extend(runtime.handlers_for("segment.json"));
        let wanted = wanted.into_iter().map(|handler| (handler, "segment.json".to_owned()));
        let subject = SegmentSubject::Epoch(Box::new(segment));
        self.queue_handlers(work, target, subject, wanted.collect(), now, runtime)
    }

    /// Begins the user's handlers for files that another program announced.
    pub(super) fn begin_announced(
        &mut self,
        target: HandlerTarget,
        files: Vec<String>,
        number: i64,
        work: PendingWork,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
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
        let subject = SegmentSubject::Announced { files, number };
        self.queue_handlers(work, Arc::new(target), subject, wanted, now, runtime)
    }

    /// Processes an epoch of history in this process and records one step.
    pub(super) fn describe_inline(
        &mut self,
        segment: &Segment,
        chronicle: &Chronicle,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        segment.write_outputs(chronicle, &self.journal, &mut |key, output, is_new| {
            runtime.note_history(key, output, is_new);
        })?;
        let target = HandlerTarget::from_segment(segment, runtime.host());
        // `batch` tells subscribers and the chain itself that no dream of this segment follows.
        let observed = json!({"duration": 0, "batch": true});
        self.record_step(&target, "observed", own_epoch(), observed, runtime)?;
        self.calendar.add_history(segment.key().day());
        self.days.insert(segment.key().day());
        Ok(())
    }

    /// Queues the handlers of a segment. Without any the segment ends at once.
    fn queue_handlers(
        &mut self,
        mut work: PendingWork,
        target: Arc<HandlerTarget>,
        subject: SegmentSubject,
        mut wanted: Vec<(String, String)>,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        // Those that succeeded in an earlier try do not run again.
        wanted.retain(|(handler, file)| !work.is_done(handler, file));
        work.is_active = true;
        self.queue.store(&work);
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let open_runs = wanted.len();
        for (handler, file) in wanted {
            let (target, queued_at) = (Arc::clone(&target), Instant::now());
            self.handlers.push(HandlerJob { ticket, target, handler, file, queued_at });
        }
        let (errors, failure) = (Vec::new(), None);
        let active = ActiveSegment { ticket, work, target, subject, open_runs, errors, failure };
        if open_runs == 0 {
            return self.end_segment(active, now, runtime);
        }
        self.active.push(active);
        Ok(())
    }

    /// Takes note of handlers that have started or ended, and starts those whose turn it is. Never
    /// waits.
    pub fn advance_handlers(
        &mut self,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        // The ends first: each frees its handler for the next file.
        for (handler, reference) in self.handlers.busy() {
            while let Some(event) = runtime.poll_handler(&reference) {
                match event {
                    HandlerEvent::Started { at } => {
                        if let Some(job) = self.handlers.started(&handler, at) {
                            self.handler_started(&job, &reference, runtime);
                        }
                    }
                    HandlerEvent::Ended { exit_code, at } => {
                        if let Some((job, started_at)) = self.handlers.ended(&handler) {
                            let took = started_at.map_or(Duration::ZERO, |started| at - started);
                            let error = (exit_code != 0)
                                .then(|| format!("{} exit {exit_code}", job.handler));
                            self.handler_ended(&job, error, took, now, runtime)?;
                        }
                        break;
                    }
                }
            }
        }
        while let Some(job) = self.handlers.next_job() {
            match runtime.start_handler(&job.target, &job.handler, &job.file) {
                Ok(reference) => self.handlers.begin(job, reference),
                Err(TaskError::Invalid(why)) => {
                    let error = Some(format!("{}: {why}", job.handler));
                    self.handler_ended(&job, error, Duration::ZERO, now, runtime)?;
                }
                Err(error) => {
                    self.handlers.put_back(job);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn handler_started(
        &mut self,
        job: &HandlerJob,
        reference: &str,
        runtime: &mut dyn ChainRuntime,
    ) {
        let Some(at) = self.active.iter().position(|active| active.ticket == job.ticket) else {
            return;
        };
        let mut like = self.active[at].subject.mark();
        like["handler"] = json!(job.handler);
        like["file"] = json!(job.file);
        let mut detected = like.clone();
        detected["ref"] = json!(reference);
        if let Err(error) = self.record_step(&job.target, "detected", like, detected, runtime) {
            // The handler runs all the same, and its segment is tried again afterwards.
            self.active[at].failure.get_or_insert(error);
        }
    }

    fn handler_ended(
        &mut self,
        job: &HandlerJob,
        error: Option<String>,
        took: Duration,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        let Some(at) = self.active.iter().position(|active| active.ticket == job.ticket) else {
            return Ok(());
        };
        let mut active = self.active.swap_remove(at);
        let recorded = self.record_output(&active, &job.handler, took, runtime);
        match error {
            Some(error) => active.errors.push(error),
            None => {
                active.work.mark_done(&job.handler, &job.file);
                self.queue.store(&active.work);
            }
        }
        // On disk before the next handler ends: a crash must not run this one twice. The outputs of
        // the built-in handlers show that they are done.
        let is_built_in = BUILT_IN.contains(&job.handler.as_str());
        let saved = if is_built_in { Ok(()) } else { self.save_state() };
        // The other handlers still run, so a failure waits for them.
        active.failure = active.failure.or(recorded.err()).or(saved.err());
        active.open_runs -= 1;
        if active.open_runs > 0 {
            self.active.push(active);
            return Ok(());
        }
        self.end_segment(active, now, runtime)
    }

    /// Records the output of a built-in handler. The file itself tells what was made: a handler that
    /// ended well may have written nothing.
    fn record_output(
        &mut self,
        active: &ActiveSegment,
        handler: &str,
        took: Duration,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        let SegmentSubject::Epoch(segment) = &active.subject else { return Ok(()) };
        let (step, fields) = match handler {
            "transcribe" => {
                let Some(made) = segment.transcript_stats() else { return Ok(()) };
                let mut fields =
                    serde_json::to_value(made).expect("names and numbers always encode");
                fields["output"] = json!("transcript.jsonl");
                ("transcribed", fields)
            }
            "describe" => {
                let Some(made) = segment.digest_summary() else { return Ok(()) };
                ("described", json!({"output": "digest.jsonl", "facts": made.facts}))
            }
            _ => return Ok(()),
        };
        let mut fields = fields;
        fields["input"] = json!("segment.json");
        fields["duration_ms"] = json!(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        self.record_step(&active.target, step, own_epoch(), fields, runtime)
    }

    /// Ends a segment whose handlers have ended, or has it tried again.
    fn end_segment(
        &mut self,
        active: ActiveSegment,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        let work = active.work.clone();
        match self.record_end(active, now, runtime) {
            Ok(()) => self.save_state(),
            Err(error) => self.fail_work(work, error, now, runtime),
        }
    }

    fn record_end(
        &mut self,
        mut active: ActiveSegment,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        if let Some(failure) = active.failure.take() {
            return Err(failure);
        }
        for handler in BUILT_IN {
            // A daemon that died after the handler has left its output without a message.
            self.record_output(&active, handler, Duration::ZERO, runtime)?;
        }
        let ActiveSegment { work, target, subject, errors, .. } = active;
        if !errors.is_empty() && !work.is_last_handler_try() {
            let words = format!("{}: {}; tried again later", target.key, errors.join(", "));
            runtime.warn(&words);
            return self.schedule_retry(work, now);
        }
        // Also after the last failed try: the segment is over, and its message carries the errors.
        let mut observed = subject.mark();
        if let SegmentSubject::Announced { files, .. } = &subject {
            observed["files"] = json!(files);
        }
        // An earlier version did not store when the work began. A clock may be set back.
        let took = work.since.map_or(0, |since| runtime.now().nanos() - since.nanos());
        observed["duration"] = json!(u64::try_from(took / 1_000_000_000).unwrap_or(0));
        if !errors.is_empty() {
            observed["error"] = json!(true);
            observed["errors"] = json!(errors);
            let words = format!("{}: {}", target.key, errors.join(", "));
            runtime.alarm("A segment was not described", &words);
        }
        self.record_step(&target, "observed", subject.mark(), observed, runtime)?;
        match subject {
            SegmentSubject::Epoch(_) => self.dream_of_epoch(&target, now, runtime)?,
            SegmentSubject::Announced { .. } => {
                self.dream_of_foreign(target.key.clone(), now, runtime)?;
            }
        }
        self.complete_work(&work, runtime)
    }

    /// Queues the dream of an epoch, unless it was dreamt of.
    fn dream_of_epoch(
        &mut self,
        target: &HandlerTarget,
        now: Time,
        runtime: &mut dyn ChainRuntime,
    ) -> Result<(), ChainError> {
        // Saved before the dream is queued: after a crash in between, the epoch is repeated.
        self.calendar.add_segment(target.key.clone(), now);
        self.save_state()?;
        if !self.has_step(target, &super::dreamt_filter())? {
            runtime.queue_dream(&Dream::Segment(target.key.clone()))?;
        }
        Ok(())
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
            "segment": target.key.segment()});
        let common = json!({"stream": target.key.stream(), "remote": target.remote});
        for fields in [common, fields] {
            if let (Some(message), Value::Object(fields)) = (message.as_object_mut(), fields) {
                // An absent value is left out, since `null` has a meaning of its own in the log.
                message.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
            }
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
