//! What was done on a day: the sessions of each project, and what they add up to.
//!
//! Everything is folded from the journal, so any day can be asked for, whether somebody was there
//! to follow it or not.

use std::collections::BTreeMap;

use event::{SessionId, Time};
use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use projection::{Activity, Chapter, Chronicle, DigestFact, Stretch, Worked, activities, digest};
use redact::Redactor;
use serde::Serialize;

use crate::zone::Zone;
use supervise::Day;
use views::chronicle_if_exists;

/// What sessions are counted under that work in no folder anybody knows.
const NO_PROJECT: &str = "elsewhere";

/// Sessions read at a time.
const PAGE: usize = 500;

/// What was done on a day.
#[derive(Clone, Debug, Serialize)]
pub struct DayDigest {
    pub day: Day,
    /// By name.
    pub projects: Vec<ProjectDay>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ProjectDay {
    pub project: String,
    pub activities: Vec<Activity>,
    /// In the order they began that day.
    pub sessions: Vec<SessionDay>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SessionDay {
    pub session_id: SessionId,
    pub provider: String,
    pub title: Option<String>,
    pub from: Time,
    pub to: Time,
    pub facts: Vec<DigestFact>,
}

impl DayDigest {
    /// The digest of a day. An epoch belongs to the day it began on.
    pub fn of(journal: &Journal, zone: &Zone, day: Day) -> Result<DayDigest, ReadError> {
        let mut projects: BTreeMap<String, Vec<Told>> = BTreeMap::new();
        let Some((begin, end)) = zone.bounds(day) else {
            return Ok(DayDigest { day, projects: Vec::new() });
        };
        let filter = SessionFilter { active_since: Some(begin), ..SessionFilter::default() };
        let mut after = None;
        loop {
            let page = journal.sessions(&filter, after.as_deref(), PAGE)?;
            for session in page.items {
                if session.started_at >= end {
                    continue;
                }
                let Some(chronicle) = chronicle_if_exists(journal, &session.id)? else { continue };
                let is_told = chronicle.chapters().any(|chapter| is_of(&chapter, begin, end));
                if is_told {
                    let project = project_of(&session).to_owned();
                    projects.entry(project).or_default().push(Told { session, chronicle });
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let projects = projects.into_iter();
        let projects =
            projects.map(|(project, told)| project_day(project, &told, begin, end, zone));
        Ok(DayDigest { day, projects: projects.collect() })
    }
}

/// A session and what it tells.
struct Told {
    session: SessionInfo,
    chronicle: Chronicle,
}

/// What work in a session is counted under.
pub(crate) fn project_of(session: &SessionInfo) -> &str {
    let folder =
        session.cwd.as_deref().and_then(|cwd| cwd.rsplit('/').find(|part| !part.is_empty()));
    session.project.as_deref().or(folder).unwrap_or(NO_PROJECT)
}

/// What somebody called the session, without secrets as everything here.
fn title(session: &SessionInfo) -> Option<String> {
    session.title.as_deref().map(|title| Redactor::new().redact(title).into_owned())
}

fn is_of(chapter: &Chapter<'_>, begin: Time, end: Time) -> bool {
    (begin..end).contains(&chapter.epoch.started_at)
}

fn project_day(project: String, told: &[Told], begin: Time, end: Time, zone: &Zone) -> ProjectDay {
    let mut sessions = Vec::new();
    let mut work: Vec<(String, &str, Vec<&Stretch>, Vec<DigestFact>)> = Vec::new();
    for Told { session, chronicle } in told {
        let chapters = chronicle.chapters().filter(|chapter| is_of(chapter, begin, end));
        let chapters: Vec<Chapter<'_>> = chapters.collect();
        let facts: Vec<DigestFact> =
            chapters.iter().flat_map(|chapter| chapter.facts.clone()).collect();
        let (Some(first), Some(last)) = (chapters.first(), chapters.last()) else { continue };
        sessions.push(SessionDay {
            session_id: session.id.clone(),
            provider: session.provider.clone(),
            title: title(session)
                .or_else(|| last.naming?.title.clone())
                .or_else(|| digest::title(&facts)),
            from: first.epoch.started_at,
            to: last.epoch.last_at,
            facts,
        });
        work.extend(chapters.into_iter().map(|chapter| {
            let key = zone.clock(chapter.epoch.started_at);
            (key, session.provider.as_str(), chapter.stretches, chapter.facts)
        }));
    }
    sessions.sort_by(|a, b| (a.from, &a.session_id).cmp(&(b.from, &b.session_id)));
    let worked = work.iter().flat_map(|(segment, stream, stretches, facts)| {
        let project = project.as_str();
        stretches.iter().map(move |stretch| Worked { project, stream, segment, stretch, facts })
    });
    let activities = activities(worked);
    ProjectDay { project, activities, sessions }
}
