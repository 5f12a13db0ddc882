//! What is made of segments once they are there: activities by project, and the digest of a day.
//!
//! Every mode can be run again at any time: it computes everything anew and replaces what it wrote.
//! What it tells goes out before it is written down, so a run that was cut off tells it again rather
//! than not at all.

use std::path::{Path, PathBuf};
use std::time::Instant;

use event::Time;
use journal::{Journal, ReadError};
use projection::digest::Topic;
use projection::{Activity, Chapter, Worked, activities};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use supervise::safe_form;

use crate::day_digest::DayDigest;
use crate::segment::{Hold, Segment, SegmentError, SegmentKey, put_whole, write_whole};
use crate::zone::Zone;
use supervise::Day;
use views::chronicle_if_exists;

/// The activities of a day, in its folder.
const ACTIVITIES: &str = "activities.json";
const DIGEST: &str = "digest.json";
const EVENTS: &str = "events.jsonl";

/// What to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dream {
    /// A segment has come: its day's activities go on or are over.
    Segment(SegmentKey),
    /// Many segments of a day have come at once, of history: what came of it is written as well.
    Segments(Day),
    /// An activity is over: what came of it.
    Activity { day: Day, facet: String, id: String },
    /// Nobody has worked for an hour since this segment: everything is over.
    Flush(SegmentKey),
    /// The day is over.
    Daily(Day),
}

/// Something to be told on the bus.
#[derive(Clone, PartialEq, Debug)]
pub struct Told {
    pub tract: &'static str,
    pub event: &'static str,
    pub fields: Map<String, Value>,
}

#[derive(Debug, thiserror::Error)]
pub enum DreamError {
    #[error("there is no activity `{id}` of `{facet}` on {day}")]
    NoActivity { day: Day, facet: String, id: String },
    #[error("a journal in memory has no folders for its days")]
    NoFolder,
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// An activity as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptActivity {
    #[serde(flatten)]
    activity: Activity,
    /// It is over, and everybody was told.
    recorded: bool,
}

/// What came of an activity.
#[derive(Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    activity: &'a Activity,
    work: Vec<String>,
    problems: Vec<String>,
    open_ends: Vec<String>,
}

impl Dream {
    /// Makes it, and tells what happens.
    pub fn run(
        &self,
        journal: &Journal,
        zone: &Zone,
        now: Time,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), DreamError> {
        let began = Instant::now();
        let root = journal.dir().ok_or(DreamError::NoFolder)?;
        let mut about = self.about();
        if self.was_cut_off(root) {
            about.insert("again".to_owned(), true.into());
        }
        let mut started = about.clone();
        started.extend(fields(json!({"count": 1, "groups": 1})));
        tell(Told { tract: "dream", event: "started", fields: started });
        let outcome = self.make(journal, root, zone, now, &about, tell);
        let failed = u64::from(outcome.is_err());
        let mut completed = about;
        completed.extend(fields(json!({
            "success": 1 - failed,
            "failed": failed,
            "duration_ms": began.elapsed().as_millis() as u64,
        })));
        tell(Told { tract: "dream", event: "completed", fields: completed });
        outcome
    }

    fn make(
        &self,
        journal: &Journal,
        root: &Path,
        zone: &Zone,
        now: Time,
        about: &Map<String, Value>,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), DreamError> {
        // From the first look at a session to the last byte: whoever deletes one waits for it.
        let _hold = Hold::to_write_of_all(root)?;
        match self {
            Dream::Segment(key) => {
                let is_over = |activity: &Activity| activity.is_over(now);
                update_activities(journal, root, key.day(), Some(key), &is_over, about, tell)
            }
            Dream::Segments(day) => {
                let is_over = |activity: &Activity| activity.is_over(now);
                update_activities(journal, root, *day, None, &is_over, about, tell)
            }
            Dream::Flush(key) => {
                update_activities(journal, root, key.day(), Some(key), &|_| true, about, tell)
            }
            Dream::Activity { day, facet, id } => {
                let is_it = |it: &Activity| it.facet == *facet && it.id == *id;
                let mut kept = kept_activities(root, *day).into_iter().map(|kept| kept.activity);
                let activity = kept.find(is_it).ok_or_else(|| DreamError::NoActivity {
                    day: *day,
                    facet: facet.clone(),
                    id: id.clone(),
                })?;
                write_outcome(journal, root, *day, &activity)
            }
            Dream::Daily(day) => {
                let digest = DayDigest::of(journal, zone, *day)?;
                Ok(put_whole(&day_folder(root, *day), DIGEST, &pretty(&digest))?)
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

    /// What every message about it says.
    fn about(&self) -> Map<String, Value> {
        let mut about = fields(json!({"mode": self.mode(), "day": self.day()}));
        match self {
            Dream::Segment(key) | Dream::Flush(key) => {
                about.extend(fields(json!({"segment": key.segment(), "stream": key.stream()})))
            }
            Dream::Activity { facet, id, .. } => {
                about.extend(fields(json!({"activity": id, "facet": facet})));
            }
            Dream::Segments(_) => about.extend(fields(json!({"batch": true}))),
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

    /// Whether it was begun before and never completed, as far as the segment's events tell.
    fn was_cut_off(&self, root: &Path) -> bool {
        let (Dream::Segment(key) | Dream::Flush(key)) = self else { return false };
        let Ok(Some(segment)) = Segment::find(root, key) else { return false };
        let Ok(text) = std::fs::read_to_string(segment.folder().join(EVENTS)) else { return false };
        let mut open = false;
        for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if event["tract"] == "dream" && event["mode"] == self.mode() {
                open = event["event"] != "completed";
            }
        }
        open
    }
}

/// Computes the activities of a day, tells which go on and which are over, and keeps them.
fn update_activities(
    journal: &Journal,
    root: &Path,
    day: Day,
    key: Option<&SegmentKey>,
    is_over: &dyn Fn(&Activity) -> bool,
    about: &Map<String, Value>,
    tell: &mut dyn FnMut(Told),
) -> Result<(), DreamError> {
    let before = kept_activities(root, day);
    // What it is called may change with what is done; where it began does not.
    let was_recorded = |activity: &Activity| {
        let is_it = |kept: &&KeptActivity| {
            kept.activity.facet == activity.facet
                && kept.activity.segments.first() == activity.segments.first()
        };
        before.iter().find(is_it).is_some_and(|kept| kept.recorded)
    };
    let mut now_kept = Vec::new();
    for activity in activities_of_day(journal, root, day)? {
        let is_here = key.is_some_and(|key| activity.segments.iter().any(|it| it == key.segment()));
        let is_told = was_recorded(&activity);
        let recorded = is_told || is_over(&activity);
        if recorded && !is_told {
            tell(told_of("recorded", day, &activity, about));
            if key.is_none() {
                write_outcome(journal, root, day, &activity)?;
            }
        } else if !recorded && is_here {
            tell(told_of("live", day, &activity, about));
        }
        now_kept.push(KeptActivity { activity, recorded });
    }
    Ok(write_whole(&day_folder(root, day), ACTIVITIES, &pretty(&now_kept))?)
}

fn told_of(event: &'static str, day: Day, activity: &Activity, about: &Map<String, Value>) -> Told {
    let Activity { facet, id, stream, segments, description, active_entities, .. } = activity;
    let mut told = fields(json!({
        "facet": facet,
        "day": day,
        "segment": about.get("segment").cloned().unwrap_or_else(|| json!(segments.last())),
        "stream": about.get("stream").cloned().unwrap_or_else(|| json!(stream)),
        "id": id,
        "activity": activity.activity,
        "description": description,
        "active_entities": active_entities,
    }));
    told.extend(match event {
        "live" => fields(json!({"since": segments.first(), "level": activity.level})),
        _ => fields(json!({"segments": segments, "level_avg": activity.level_avg})),
    });
    for mark in ["again", "batch"] {
        told.extend(about.get(mark).map(|value| (mark.to_owned(), value.clone())));
    }
    Told { tract: "activity", event, fields: told }
}

/// The activities of all segments of a day.
fn activities_of_day(
    journal: &Journal,
    root: &Path,
    day: Day,
) -> Result<Vec<Activity>, DreamError> {
    let mut chronicles = Vec::new();
    for segment in Segment::of_day(root, day)? {
        if let Some(chronicle) = chronicle_if_exists(journal, &segment.meta.session_id)? {
            chronicles.push((segment.meta, chronicle));
        }
    }
    let chapters: Vec<(_, Chapter<'_>)> = chronicles
        .iter()
        .filter_map(|(meta, chronicle)| {
            let chapter = chronicle.chapters().find(|it| it.epoch.number == meta.epoch)?;
            Some((meta, chapter))
        })
        .collect();
    let worked = chapters.iter().flat_map(|(meta, chapter)| {
        chapter.stretches.iter().map(|stretch| Worked {
            project: &meta.facet,
            stream: &meta.stream,
            segment: &meta.segment,
            stretch,
            facts: &chapter.facts,
        })
    });
    Ok(activities(worked))
}

/// Writes down what came of an activity.
fn write_outcome(
    journal: &Journal,
    root: &Path,
    day: Day,
    activity: &Activity,
) -> Result<(), DreamError> {
    let (mut work, mut problems, mut open_ends) = (Vec::new(), Vec::new(), Vec::new());
    for segment in Segment::of_day(root, day)? {
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
    let outcome = Outcome { activity, work, problems, open_ends };
    let folder = outcomes(root, day);
    std::fs::create_dir_all(&folder)
        .map_err(|cause| SegmentError::Io { path: folder.clone(), cause })?;
    Ok(put_whole(&folder, &outcome_name(activity), &pretty(&outcome))?)
}

/// The activities of a day that are over and have no outcome yet.
pub(crate) fn without_outcome(root: &Path, day: Day) -> Vec<Dream> {
    let over = kept_activities(root, day).into_iter().filter(|kept| kept.recorded);
    let bare = over.map(|kept| kept.activity).filter(|activity| {
        let path = outcomes(root, day).join(outcome_name(activity));
        matches!(path.try_exists(), Ok(false))
    });
    bare.map(|Activity { facet, id, .. }| Dream::Activity { day, facet, id }).collect()
}

/// The activities as they were kept; none where they cannot be read: they are computed anew.
fn kept_activities(root: &Path, day: Day) -> Vec<KeptActivity> {
    let bytes = std::fs::read(day_folder(root, day).join(ACTIVITIES)).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Where the outcomes of a day's activities are.
fn outcomes(root: &Path, day: Day) -> PathBuf {
    day_folder(root, day).join("activities")
}

/// A segment is one of its stream, so both together are one activity.
fn outcome_name(activity: &Activity) -> String {
    format!("{}.{}.json", activity.stream, safe_form(&activity.id))
}

fn day_folder(root: &Path, day: Day) -> PathBuf {
    root.join(day.to_string())
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("names and numbers always encode");
    bytes.push(b'\n');
    bytes
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
