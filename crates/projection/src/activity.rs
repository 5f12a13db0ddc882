//! Work on one project, across sessions: what people call "what I did this morning".
//!
//! An activity goes on while one stretch of work on its project follows the other without a long
//! pause. What kind it was follows from what was done.

use std::collections::BTreeMap;

use event::{Deed, Time};
use serde::{Deserialize, Serialize};

use crate::digest::{DigestFact, Topic};
use crate::excerpt;
use crate::work_span::{PAUSE_MILLIS, WorkSpan};

/// Files, branches and pull requests that are named.
const ENTITIES_MAX: usize = 10;

/// Goals and kinds of work in a description, and its characters.
const GOALS_MAX: usize = 3;
const WORK_MAX: usize = 4;
const DESCRIPTION_CHARS_MAX: usize = 400;

/// Calls that went wrong from which on work counts as a search for a fault.
const FAILURES_MIN: u64 = 3;

/// A stretch of work, and where it belongs.
#[derive(Clone, Debug)]
pub struct ProjectSpan<'a> {
    pub project: &'a str,
    pub stream: &'a str,
    /// The key of the epoch it is in.
    pub segment: &'a str,
    pub stretch: &'a WorkSpan,
    /// What was found worth keeping of its epoch.
    pub facts: &'a [DigestFact],
}

/// Work on one project without a long pause.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Activity {
    /// The project.
    pub facet: String,
    /// Its kind and the key of its first segment.
    pub id: String,
    pub activity: ActivityKind,
    pub stream: String,
    pub segments: Vec<String>,
    pub from: Time,
    pub to: Time,
    pub level: Level,
    /// The share of its time in which a turn was open, from 0 to 1.
    pub level_avg: f64,
    pub description: String,
    pub active_entities: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivityKind {
    Coding,
    Testing,
    Debugging,
    Reviewing,
    Researching,
    Planning,
    Operations,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    High,
    Medium,
    Low,
}

/// The activities of some stretches of work, the earliest first.
pub fn activities<'a>(worked: impl IntoIterator<Item = ProjectSpan<'a>>) -> Vec<Activity> {
    let mut projects: BTreeMap<&str, Vec<ProjectSpan<'a>>> = BTreeMap::new();
    for worked in worked {
        projects.entry(worked.project).or_default().push(worked);
    }
    let mut activities = Vec::new();
    for mut worked in projects.into_values() {
        // By segment, too: sessions may begin at the same instant, and the id comes from the first
        // one.
        worked.sort_by(|a, b| (a.stretch.from, a.segment).cmp(&(b.stretch.from, b.segment)));
        let mut to = None;
        let mut spans: Vec<Vec<ProjectSpan<'a>>> = Vec::new();
        for worked in worked {
            let (from, end) = (worked.stretch.from, worked.stretch.to);
            match spans.last_mut() {
                Some(span) if to.is_some_and(|to: Time| to.millis_until(from) < PAUSE_MILLIS) => {
                    span.push(worked);
                }
                _ => spans.push(vec![worked]),
            }
            // The latest end so far, not the last one: a long session may enclose a short one.
            to = Some(to.map_or(end, |to: Time| to.max(end)));
        }
        activities.extend(spans.iter().map(|span| activity(span)));
    }
    activities.sort_by(|a, b| (a.from, &a.facet).cmp(&(b.from, &b.facet)));
    activities
}

impl Activity {
    /// Whether the last work on it is so long ago that it is over.
    pub fn is_over(&self, now: Time) -> bool {
        self.to.millis_until(now) >= PAUSE_MILLIS
    }
}

impl ActivityKind {
    pub fn name(self) -> &'static str {
        match self {
            ActivityKind::Coding => "coding",
            ActivityKind::Testing => "testing",
            ActivityKind::Debugging => "debugging",
            ActivityKind::Reviewing => "reviewing",
            ActivityKind::Researching => "researching",
            ActivityKind::Planning => "planning",
            ActivityKind::Operations => "operations",
            ActivityKind::Other => "other",
        }
    }
}

fn activity(span: &[ProjectSpan<'_>]) -> Activity {
    let first = &span[0];
    let from = first.stretch.from;
    let to = span.iter().map(|worked| worked.stretch.to).max().unwrap_or(from);
    let kind = activity_kind(span);
    let mut segments: Vec<String> = Vec::new();
    for worked in span {
        if !segments.iter().any(|segment| segment == worked.segment) {
            segments.push(worked.segment.to_owned());
        }
    }
    let busy: u64 = span.iter().map(|worked| worked.stretch.busy_millis).sum();
    // Sessions side by side are busy for more than the time that passed.
    let share = (busy as f64 / from.millis_until(to).max(1) as f64).min(1.0);
    Activity {
        facet: first.project.to_owned(),
        id: format!("{}_{}", kind.name(), first.segment),
        activity: kind,
        stream: first.stream.to_owned(),
        segments,
        from,
        to,
        level: match share {
            share if share >= 0.5 => Level::High,
            share if share >= 0.2 => Level::Medium,
            _ => Level::Low,
        },
        // Two digits say all there is to say.
        level_avg: (share * 100.0).round() / 100.0,
        description: description(span),
        active_entities: entities(span),
    }
}

fn activity_kind(span: &[ProjectSpan<'_>]) -> ActivityKind {
    let sum = |count: &dyn Fn(&WorkSpan) -> u64| -> u64 {
        span.iter().map(|worked| count(worked.stretch)).sum()
    };
    let deeds = |deeds: &[Deed]| {
        sum(&|stretch| deeds.iter().filter_map(|deed| stretch.deeds.get(deed)).sum())
    };
    let changes = deeds(&[Deed::Edit, Deed::Create, Deed::Delete]);
    let looks = deeds(&[Deed::Read, Deed::Search, Deed::Visit, Deed::WebSearch]);
    let runs = deeds(&[Deed::Run]);
    let tests = sum(&|stretch| stretch.tests);
    let reviews = sum(&|stretch| stretch.reviews);
    let failures = sum(&|stretch| stretch.failures);
    let others = deeds(&[Deed::Delegate, Deed::Other]);
    match () {
        // Changes decide first: reading and running belong to any work on code. Without any, what
        // was run says more than what was read.
        () if changes > 0 && failures >= FAILURES_MIN && failures >= changes => {
            ActivityKind::Debugging
        }
        () if changes > 0 && tests > changes => ActivityKind::Testing,
        () if changes > 0 => ActivityKind::Coding,
        () if tests > 0 => ActivityKind::Testing,
        () if reviews > 0 => ActivityKind::Reviewing,
        () if looks >= runs && looks > 0 => ActivityKind::Researching,
        () if runs > 0 => ActivityKind::Operations,
        () if others == 0 => ActivityKind::Planning,
        () => ActivityKind::Other,
    }
}

/// What was wanted, and what was done for it.
fn description(span: &[ProjectSpan<'_>]) -> String {
    let mut goals: Vec<&str> = Vec::new();
    let mut work: Vec<&str> = Vec::new();
    for worked in span {
        // An epoch may have several spans; each tells only what was found in it.
        let seqs = worked.stretch.from_seq..=worked.stretch.to_seq;
        for fact in worked.facts.iter().filter(|fact| seqs.contains(&fact.to_seq)) {
            let (list, max) = match fact.topic {
                Topic::Goal | Topic::Ask => (&mut goals, GOALS_MAX),
                Topic::Work => (&mut work, WORK_MAX),
                _ => continue,
            };
            if list.len() < max && !list.contains(&fact.text.as_str()) {
                list.push(&fact.text);
            }
        }
    }
    let parts = goals.into_iter().chain(work).collect::<Vec<_>>().join("; ");
    excerpt::beginning(&parts, DESCRIPTION_CHARS_MAX)
}

/// What was touched most.
fn entities(span: &[ProjectSpan<'_>]) -> Vec<String> {
    let mut touched: BTreeMap<&str, u64> = BTreeMap::new();
    for (thing, count) in span.iter().flat_map(|worked| &worked.stretch.touched) {
        *touched.entry(thing).or_default() += count;
    }
    let mut touched: Vec<(&str, u64)> = touched.into_iter().collect();
    touched.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    touched.into_iter().take(ENTITIES_MAX).map(|(thing, _)| thing.to_owned()).collect()
}
