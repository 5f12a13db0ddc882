//! One segment, step by step: what is told, which handlers run, and how it is concluded.

use std::path::PathBuf;
use std::time::Instant;

use event::Time;
use projection::Chronicle;
use serde_json::{Value, json};

use super::agenda::Owed;
use super::event_log;
use super::{BY, Begun, Chain, ChainError, Hands, HandsError, REVISION};
use crate::dream::Dream;
use crate::segment::{Segment, SegmentKey};

/// The handlers that make what every segment has.
const OURS: [&str; 2] = ["transcribe", "describe"];

/// Where handlers work: the folder of a segment, ours or another's.
#[derive(Clone, Debug)]
pub struct Site {
    pub key: SegmentKey,
    pub folder: PathBuf,
    /// What is known of the segment, for programs.
    pub meta: Value,
}

/// How far a segment got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Done,
    /// A handler failed, and there will be another try.
    Failed,
    /// It was told to end in the middle.
    Stopped,
}

/// How the handlers did.
enum Handled {
    /// What went wrong, a word on each.
    All(Vec<String>),
    Stopped,
}

impl Site {
    fn of(segment: &Segment) -> Site {
        let meta = serde_json::to_value(&segment.meta).expect("names and numbers always encode");
        Site { key: segment.key(), folder: segment.folder().to_owned(), meta }
    }
}

impl Chain {
    /// An epoch that just ended.
    pub(super) fn observe(
        &mut self,
        segment: &Segment,
        owed: &mut Owed,
        now: Time,
        hands: &mut dyn Hands,
    ) -> Result<Step, ChainError> {
        let site = Site::of(segment);
        // An end that was told may be that of fewer events than there are now.
        let is_made = segment.transcribed().is_some() && segment.described().is_some();
        if !is_made || !self.has(&site, &ended())? {
            let step = self.handle_epoch(segment, &site, owed, hands)?;
            if step != Step::Done {
                return Ok(step);
            }
        }
        self.calendar.saw(segment.key(), now);
        self.save()?;
        if !self.has(&site, &super::dreamt())? {
            hands.dream(&Dream::Segment(segment.key()))?;
        }
        Ok(Step::Done)
    }

    /// From the first word about an epoch to the last.
    fn handle_epoch(
        &mut self,
        segment: &Segment,
        site: &Site,
        owed: &mut Owed,
        hands: &mut dyn Hands,
    ) -> Result<Step, ChainError> {
        let began = Instant::now();
        let observing = json!({"files": ["segment.json"], "meta": site.meta});
        self.tell(site, "observing", own(), observing, hands)?;

        let mut wanted: Vec<String> = Vec::new();
        let [transcribe, describe] = OURS.map(str::to_owned);
        wanted.extend(segment.transcribed().is_none().then_some(transcribe));
        wanted.extend(segment.described().is_none().then_some(describe));
        wanted.extend(hands.handlers("segment.json"));
        let wanted = wanted.into_iter().map(|handler| (handler, "segment.json".to_owned()));
        let Handled::All(errors) = self.handle(site, wanted.collect(), own(), owed, hands)? else {
            return Ok(Step::Stopped);
        };
        let millis = began.elapsed().as_millis() as u64;
        if let Some(made) = segment.transcribed() {
            let mut fields = serde_json::to_value(made).expect("names and numbers always encode");
            fields["input"] = json!("segment.json");
            fields["output"] = json!("transcript.jsonl");
            fields["duration_ms"] = json!(millis);
            self.tell(site, "transcribed", own(), fields, hands)?;
        }
        if let Some(made) = segment.described() {
            let fields = json!({"input": "segment.json", "output": "digest.jsonl",
                "duration_ms": millis, "facts": made.facts});
            self.tell(site, "described", own(), fields, hands)?;
        }
        if !errors.is_empty() && !owed.is_last() {
            return Ok(failed(site, owed, &errors, hands));
        }
        self.conclude(site, own(), began, &errors, hands)?;
        Ok(Step::Done)
    }

    /// An epoch of long ago: described here and now, and told once.
    pub(super) fn describe_here(
        &mut self,
        segment: &Segment,
        chronicle: &Chronicle,
        hands: &mut dyn Hands,
    ) -> Result<(), ChainError> {
        segment.write(chronicle, &self.journal)?;
        let observed = json!({"duration": 0, "batch": true});
        self.tell(&Site::of(segment), "observed", own(), observed, hands)?;
        self.calendar.saw_history(segment.key().day());
        self.days.insert(segment.key().day());
        Ok(())
    }

    /// Files that somebody else has put into a segment: the user's handlers see them, and nothing
    /// else happens. `like` tells this time from others.
    pub(super) fn observe_announced(
        &mut self,
        site: &Site,
        files: &[String],
        mut like: Value,
        owed: &mut Owed,
        hands: &mut dyn Hands,
    ) -> Result<Step, ChainError> {
        let began = Instant::now();
        let is_there = |file: &&String| {
            site.folder.join(file).symlink_metadata().is_ok_and(|metadata| metadata.is_file())
        };
        let wanted = files.iter().filter(is_there).flat_map(|file| {
            let handlers = hands.handlers(file).into_iter();
            handlers.map(|handler| (handler, file.clone())).collect::<Vec<_>>()
        });
        let wanted = wanted.collect();
        let Handled::All(errors) = self.handle(site, wanted, like.clone(), owed, hands)? else {
            return Ok(Step::Stopped);
        };
        if !errors.is_empty() && !owed.is_last() {
            return Ok(failed(site, owed, &errors, hands));
        }
        like["files"] = json!(files);
        self.conclude(site, like, began, &errors, hands)?;
        Ok(Step::Done)
    }

    /// Runs handlers beside each other and waits for all of them, also for those that run when
    /// another cannot be started. `like` tells these runs from others.
    fn handle(
        &mut self,
        site: &Site,
        wanted: Vec<(String, String)>,
        like: Value,
        owed: &mut Owed,
        hands: &mut dyn Hands,
    ) -> Result<Handled, ChainError> {
        let (mut errors, mut runs) = (Vec::new(), Vec::new());
        let mut failure = None;
        for (handler, file) in wanted {
            if owed.is_done(&handler, &file) {
                continue;
            }
            let run = match hands.start(site, &handler, &file) {
                Ok(Begun::Running(run)) => run,
                Ok(Begun::Ended(code)) => {
                    errors.push(format!("{handler} exit {code}"));
                    continue;
                }
                Ok(Begun::Stopped) => return Ok(Handled::Stopped),
                Err(HandsError::Never(why)) => {
                    errors.push(format!("{handler}: {why}"));
                    continue;
                }
                Err(error) => {
                    failure = Some(error.into());
                    break;
                }
            };
            let mut like = like.clone();
            like["handler"] = json!(handler);
            like["file"] = json!(file);
            let mut detected = like.clone();
            detected["ref"] = json!(run);
            runs.push((handler, file, run));
            if let Err(error) = self.tell(site, "detected", like, detected, hands) {
                failure = Some(error);
                break;
            }
        }
        while !runs.is_empty() {
            // Whichever ends first: what is done is written down before anything else is waited for.
            let names: Vec<&str> = runs.iter().map(|(_, _, run)| run.as_str()).collect();
            let Some((ended, code)) = hands.finish(&names) else { return Ok(Handled::Stopped) };
            let (handler, file, _) = runs.remove(ended);
            match code {
                0 => {
                    owed.did(&handler, &file);
                    // What ours have done is there to be seen.
                    if !OURS.contains(&handler.as_str()) {
                        self.agenda.keep(owed);
                        // The others are waited for all the same.
                        failure = failure.or(self.save().err());
                    }
                }
                code => errors.push(format!("{handler} exit {code}")),
            }
        }
        failure.map_or(Ok(Handled::All(errors)), Err)
    }

    /// All handlers are done, as well as they could. `like` tells this end from others.
    fn conclude(
        &mut self,
        site: &Site,
        like: Value,
        began: Instant,
        errors: &[String],
        hands: &mut dyn Hands,
    ) -> Result<(), ChainError> {
        let mut observed = like.clone();
        observed["duration"] = json!(began.elapsed().as_secs());
        if !errors.is_empty() {
            observed["error"] = json!(true);
            observed["errors"] = json!(errors);
            let words = format!("{}: {}", site.key, errors.join(", "));
            hands.alarm("A segment was not described", &words);
        }
        self.tell(site, "observed", like, observed, hands)
    }

    /// Writes a step down and puts it on the bus, unless it was taken before. `like` is what tells
    /// it from others of its name.
    fn tell(
        &mut self,
        site: &Site,
        event: &str,
        like: Value,
        fields: Value,
        hands: &mut dyn Hands,
    ) -> Result<(), ChainError> {
        let mut like = like;
        like["tract"] = json!("observe");
        like["event"] = json!(event);
        like["by"] = json!(BY);
        if self.has(site, &like)? {
            return Ok(());
        }
        let mut message = json!({"tract": "observe", "event": event, "day": site.key.day(),
            "segment": site.key.segment(), "stream": site.key.stream()});
        if let (Some(message), Value::Object(fields)) = (message.as_object_mut(), fields) {
            message.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        message["rev"] = json!(REVISION);
        message["by"] = json!(BY);
        message["ts"] = json!(hands.now().nanos() / 1_000_000);
        let failed = |cause| ChainError::Events { path: site.folder.clone(), cause };
        event_log::append(&site.folder, &message.to_string()).map_err(failed)?;
        hands.publish(&message);
        Ok(())
    }

    fn has(&self, site: &Site, like: &Value) -> Result<bool, ChainError> {
        let failed = |cause| ChainError::Events { path: site.folder.clone(), cause };
        event_log::has(&site.folder, like).map_err(failed)
    }
}

/// What tells the steps of an epoch of ours from those of files that were announced in its segment.
fn own() -> Value {
    json!({"announced": null})
}

/// The last step of an epoch of ours.
fn ended() -> Value {
    let mut ended = own();
    ended["tract"] = json!("observe");
    ended["event"] = json!("observed");
    ended["by"] = json!(BY);
    ended
}

/// There will be another try; the first time it is said why.
fn failed(site: &Site, owed: &Owed, errors: &[String], hands: &mut dyn Hands) -> Step {
    if owed.is_first() {
        hands.warn(&format!("{}: {}; tried again later", site.key, errors.join(", ")));
    }
    Step::Failed
}
