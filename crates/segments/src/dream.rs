//! Dreams: jobs that derive activities by project and daily digests from segments.
//!
//! Every dream can be repeated at any time: it computes its results from scratch and replaces its
//! files. Events are published before the files are written, so an interrupted dream publishes an
//! event twice rather than never.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use event::Time;
use journal::{Journal, ReadError};
use projection::digest::Topic;
use projection::{Activity, Chapter, ProjectSpan, activities};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use supervise::safe_form;

use crate::day_digest::DayDigest;
use crate::segment::{
    Segment, SegmentError, SegmentKey, SegmentLock, is_folder, write_atomic, write_durably,
};
use crate::zone::Zone;
use supervise::Day;
use views::chronicle_if_exists;

/// The activities of a day, in its folder.
const ACTIVITIES: &str = "activities.json";
const DIGEST: &str = "digest.json";
const EVENTS: &str = "events.jsonl";

/// A job and its subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dream {
    /// A new segment: update the activities of its day.
    Segment(SegmentKey),
    /// Many segments of history on one day: update its activities and write their outcomes.
    Segments(Day),
    /// An activity is over: write its outcome.
    Activity { day: Day, facet: String, id: String },
    /// An hour of silence after this segment: end all activities of its day.
    Flush(SegmentKey),
    /// The day is over: write its digest.
    Daily(Day),
}

/// A message of a dream for the bus.
#[derive(Clone, PartialEq, Debug)]
pub struct DreamEvent {
    pub tract: &'static str,
    pub event: &'static str,
    pub fields: Map<String, Value>,
}

#[derive(Debug, thiserror::Error)]
pub enum DreamError {
    #[error("there is no activity `{id}` of `{facet}` on {day}")]
    NoActivity { day: Day, facet: String, id: String },
    #[error("a journal in memory has no folder for segments")]
    NoFolder,
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// An activity as stored in `activities.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredActivity {
    #[serde(flatten)]
    activity: Activity,
    /// The activity is over and `activity.recorded` was published.
    recorded: bool,
}

/// The outcome of an activity, as stored in its file.
#[derive(Serialize)]
struct ActivityOutcome<'a> {
    #[serde(flatten)]
    activity: &'a Activity,
    work: Vec<String>,
    problems: Vec<String>,
    open_ends: Vec<String>,
}

impl Dream {
    /// Runs the dream and publishes its events.
    pub fn run(
        &self,
        journal: &Journal,
        zone: &Zone,
        now: Time,
        emit: &mut dyn FnMut(DreamEvent),
    ) -> Result<(), DreamError> {
        let began = Instant::now();
        let root = journal.dir().ok_or(DreamError::NoFolder)?;
        let mut about = self.common_fields();
        if self.was_interrupted(root) {
            // Subscribers then know that the events of this run may be repetitions.
            about.insert("again".to_owned(), true.into());
        }
        let mut started = about.clone();
        started.extend(object_fields(json!({"count": 1, "groups": 1})));
        emit(DreamEvent { tract: "dream", event: "started", fields: started });
        let outcome = self.execute(journal, root, zone, now, &about, emit);
        // `completed` follows a failure, too: without it the next run would count as a repetition.
        let failed = u64::from(outcome.is_err());
        let mut completed = about;
        completed.extend(object_fields(json!({
            "success": 1 - failed,
            "failed": failed,
            "duration_ms": began.elapsed().as_millis() as u64,
        })));
        emit(DreamEvent { tract: "dream", event: "completed", fields: completed });
        outcome
    }

    fn execute(
        &self,
        journal: &Journal,
        root: &Path,
        zone: &Zone,
        now: Time,
        about: &Map<String, Value>,
        emit: &mut dyn FnMut(DreamEvent),
    ) -> Result<(), DreamError> {
        // Held from the first read to the last write: a deletion meanwhile waits and then removes
        // what was written of the deleted session.
        let _lock = SegmentLock::for_all_sessions(root)?;
        match self {
            Dream::Segment(key) => {
                let is_over = |activity: &Activity| activity.is_over(now);
                update_activities(journal, root, key.day(), Some(key), &is_over, about, emit)
            }
            Dream::Segments(day) => {
                let is_over = |activity: &Activity| activity.is_over(now);
                update_activities(journal, root, *day, None, &is_over, about, emit)
            }
            Dream::Flush(key) => {
                // After the silence every activity counts as over, whatever its own time says.
                update_activities(journal, root, key.day(), Some(key), &|_| true, about, emit)
            }
            Dream::Activity { day, facet, id } => {
                let is_it = |it: &Activity| it.facet == *facet && it.id == *id;
                let mut kept = load_activities(root, *day).into_iter().map(|kept| kept.activity);
                let activity = kept.find(is_it).ok_or_else(|| DreamError::NoActivity {
                    day: *day,
                    facet: facet.clone(),
                    id: id.clone(),
                })?;
                write_outcome(journal, root, *day, &activity)
            }
            Dream::Daily(day) => {
                let digest = DayDigest::for_day(journal, zone, *day)?;
                if digest.projects.is_empty() && !has_folder(root, *day) {
                    return Ok(());
                }
                make_day_folder(root, *day)?;
                Ok(write_atomic(&day_folder(root, *day), DIGEST, &pretty_json(&digest))?)
            }
        }
    }

    fn mode(&self) -> &'static str {
        match self {
            Dream::Segment(_) | Dream::Segments(_) => "segment",
            Dream::Activity { .. } => "activity",
            Dream::Flush(_) => "flush",
            Dream::Daily(_) => "daily",
        }
    }

    /// Returns the fields that all its events have.
    fn common_fields(&self) -> Map<String, Value> {
        let mut about = object_fields(json!({"mode": self.mode(), "day": self.day()}));
        match self {
            Dream::Segment(key) | Dream::Flush(key) => {
                about.insert("segment".to_owned(), json!(key.segment()));
                about.extend(key.stream().map(|stream| ("stream".to_owned(), json!(stream))));
            }
            Dream::Activity { facet, id, .. } => {
                about.extend(object_fields(json!({"activity": id, "facet": facet})));
            }
            Dream::Segments(_) => about.extend(object_fields(json!({"batch": true}))),
            Dream::Daily(_) => {}
        }
        about
    }

    pub fn day(&self) -> Day {
        match self {
            Dream::Segment(key) | Dream::Flush(key) => key.day(),
            Dream::Segments(day) | Dream::Daily(day) | Dream::Activity { day, .. } => *day,
        }
    }

    /// Returns whether the segment's event log has a start of this dream without an end.
    fn was_interrupted(&self, root: &Path) -> bool {
        let (Dream::Segment(key) | Dream::Flush(key)) = self else { return false };
        let Ok(Some(segment)) = Segment::find(root, key) else { return false };
        let Ok(text) = std::fs::read_to_string(segment.folder().join(EVENTS)) else { return false };
        let mut open = false;
        for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if event["tract"] == "dream" && event["mode"] == self.mode() {
                // The last line about this dream decides.
                open = event["event"] != "completed";
            }
        }
        open
    }
}

/// Computes the activities of a day, publishes which are live and which are over, and stores them.
fn update_activities(
    journal: &Journal,
    root: &Path,
    day: Day,
    key: Option<&SegmentKey>,
    is_over: &dyn Fn(&Activity) -> bool,
    about: &Map<String, Value>,
    emit: &mut dyn FnMut(DreamEvent),
) -> Result<(), DreamError> {
    let before = load_activities(root, day);
    // Matched by the first segment: the id of an activity may change as work goes on, its start
    // does not.
    let was_recorded = |activity: &Activity| {
        let is_it = |kept: &&StoredActivity| {
            kept.activity.facet == activity.facet
                && kept.activity.segments.first() == activity.segments.first()
        };
        before.iter().find(is_it).is_some_and(|kept| kept.recorded)
    };
    let mut stored = Vec::new();
    for activity in activities_of_day(journal, root, day)? {
        // Only activities of the new segment have news; the others were published before.
        let is_here = key.is_some_and(|key| activity.segments.iter().any(|it| it == key.segment()));
        let was_announced = was_recorded(&activity);
        let recorded = was_announced || is_over(&activity);
        if recorded && !was_announced {
            emit(activity_event("recorded", day, &activity, about));
            // The chain ignores events of history, so no dream for this outcome would follow.
            if key.is_none() {
                write_outcome(journal, root, day, &activity)?;
            }
        } else if !recorded && is_here {
            emit(activity_event("live", day, &activity, about));
        }
        stored.push(StoredActivity { activity, recorded });
    }
    // Another program may name a day that has no folder. Nothing is made for it.
    if stored.is_empty() && !has_folder(root, day) {
        return Ok(());
    }
    // After the events: a crash before this line publishes them again.
    Ok(write_durably(&day_folder(root, day), ACTIVITIES, &pretty_json(&stored))?)
}

fn activity_event(
    event: &'static str,
    day: Day,
    activity: &Activity,
    about: &Map<String, Value>,
) -> DreamEvent {
    let Activity { facet, id, stream, segments, description, active_entities, .. } = activity;
    let mut event_fields = object_fields(json!({
        "facet": facet,
        "day": day,
        "segment": about.get("segment").cloned().unwrap_or_else(|| json!(segments.last())),
        "stream": about.get("stream").cloned().unwrap_or_else(|| json!(stream)),
        "id": id,
        "activity": activity.activity,
        "description": description,
        "active_entities": active_entities,
    }));
    event_fields.extend(match event {
        "live" => object_fields(json!({"since": segments.first(), "level": activity.level})),
        _ => object_fields(json!({"segments": segments, "level_avg": activity.level_avg})),
    });
    for mark in ["again", "batch"] {
        event_fields.extend(about.get(mark).map(|value| (mark.to_owned(), value.clone())));
    }
    DreamEvent { tract: "activity", event, fields: event_fields }
}

/// Computes the activities of all segments of a day.
fn activities_of_day(
    journal: &Journal,
    root: &Path,
    day: Day,
) -> Result<Vec<Activity>, DreamError> {
    let mut chronicles = Vec::new();
    for segment in Segment::list_of_day(root, day)? {
        // The session may be deleted while its segments wait for their removal.
        if let Some(chronicle) = chronicle_if_exists(journal, &segment.meta.session_id)? {
            chronicles.push((segment.meta, chronicle));
        }
    }
    let chapters: Vec<(_, Chapter<'_>)> = chronicles
        .iter()
        .filter_map(|(meta, chronicle)| {
            // The epoch of a reopened session may have another range by now; its number stays.
            let chapter = chronicle.chapters().find(|it| it.epoch.number == meta.epoch)?;
            Some((meta, chapter))
        })
        .collect();
    let worked = chapters.iter().flat_map(|(meta, chapter)| {
        chapter.stretches.iter().map(|stretch| ProjectSpan {
            project: &meta.facet,
            stream: &meta.stream,
            segment: &meta.segment,
            stretch,
            facts: &chapter.facts,
        })
    });
    Ok(activities(worked))
}

/// Writes the outcome of an activity.
fn write_outcome(
    journal: &Journal,
    root: &Path,
    day: Day,
    activity: &Activity,
) -> Result<(), DreamError> {
    let (mut work, mut problems, mut open_ends) = (Vec::new(), Vec::new(), Vec::new());
    for segment in Segment::list_of_day(root, day)? {
        let meta = &segment.meta;
        if meta.facet != activity.facet || !activity.segments.contains(&meta.segment) {
            continue;
        }
        let Some(chronicle) = chronicle_if_exists(journal, &meta.session_id)? else { continue };
        let chapter = chronicle.chapters().find(|it| it.epoch.number == meta.epoch);
        for fact in chapter.into_iter().flat_map(|chapter| chapter.facts) {
            match fact.topic {
                Topic::Work => work.push(fact.text),
                Topic::Problem => problems.push(fact.text),
                Topic::OpenEnd => open_ends.push(fact.text),
                _ => {}
            }
        }
    }
    let outcome = ActivityOutcome { activity, work, problems, open_ends };
    let folder = outcome_folder(root, day);
    std::fs::create_dir_all(&folder)
        .map_err(|cause| SegmentError::Io { path: folder.clone(), cause })?;
    Ok(write_atomic(&folder, &outcome_name(activity), &pretty_json(&outcome))?)
}

/// Returns dreams for the activities of a day that are over and lack an outcome.
pub(crate) fn missing_outcomes(root: &Path, day: Day) -> Vec<Dream> {
    let over = load_activities(root, day).into_iter().filter(|kept| kept.recorded);
    let bare = over.map(|kept| kept.activity).filter(|activity| {
        let path = outcome_folder(root, day).join(outcome_name(activity));
        // An error is no proof that the file is missing.
        matches!(path.try_exists(), Ok(false))
    });
    bare.map(|Activity { facet, id, .. }| Dream::Activity { day, facet, id }).collect()
}

/// Reads the stored activities of a day. An unreadable file counts as empty: they are recomputed.
fn load_activities(root: &Path, day: Day) -> Vec<StoredActivity> {
    let bytes = std::fs::read(day_folder(root, day).join(ACTIVITIES)).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Returns the folder with the outcomes of a day.
fn outcome_folder(root: &Path, day: Day) -> PathBuf {
    day_folder(root, day).join("activities")
}

/// Returns the file name of an outcome. An id is unique only within its stream.
fn outcome_name(activity: &Activity) -> String {
    format!("{}.{}.json", activity.stream, safe_form(&activity.id))
}

fn day_folder(root: &Path, day: Day) -> PathBuf {
    root.join(day.to_string())
}

fn has_folder(root: &Path, day: Day) -> bool {
    is_folder(&day_folder(root, day))
}

/// Makes the folder of a day whose sessions have no segment yet.
fn make_day_folder(root: &Path, day: Day) -> Result<(), SegmentError> {
    let path = day_folder(root, day);
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(cause) if cause.kind() != ErrorKind::AlreadyExists => {
            Err(SegmentError::Io { path, cause })
        }
        _ => Ok(()),
    }
}

fn pretty_json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("names and numbers always encode");
    bytes.push(b'\n');
    bytes
}

fn object_fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
