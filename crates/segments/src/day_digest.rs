//! The digest of a day: the sessions and activities of each project.
//!
//! It is computed from the journal alone, so it exists for every day, also for days on which no
//! daemon was running.

use std::collections::BTreeMap;

use event::{SessionId, Time};
use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use projection::{
    Activity, Chapter, Chronicle, DigestFact, ProjectSpan, WorkSpan, activities, digest,
};
use redact::Redactor;
use serde::Serialize;

use crate::zone::Zone;
use supervise::Day;
use views::chronicle_if_exists;

/// The project of sessions without a known working folder.
const NO_PROJECT: &str = "elsewhere";

/// Sessions read at a time.
const PAGE: usize = 500;

/// The digest of a day.
#[derive(Clone, Debug, Serialize)]
pub struct DayDigest {
    pub day: Day,
    /// Sorted by name.
    pub projects: Vec<ProjectDay>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ProjectDay {
    pub project: String,
    pub activities: Vec<Activity>,
    /// Sorted by their start on that day.
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
    /// Computes the digest of a day. An epoch belongs to the day it began on.
    pub fn for_day(journal: &Journal, zone: &Zone, day: Day) -> Result<DayDigest, ReadError> {
        let mut projects: BTreeMap<String, Vec<SessionChronicle>> = BTreeMap::new();
        let Some((begin, end)) = zone.bounds(day) else {
            return Ok(DayDigest { day, projects: Vec::new() });
        };
        let filter = SessionFilter { active_since: Some(begin), ..SessionFilter::default() };
        let mut after = None;
        loop {
            let page = journal.sessions(&filter, after.as_deref(), PAGE)?;
            for session in page.items {
                // The filter bounds only the last activity; a session may have begun after this
                // day.
                if session.started_at >= end {
                    continue;
                }
                let Some(chronicle) = chronicle_if_exists(journal, &session.id)? else { continue };
                let is_today =
                    chronicle.chapters().any(|chapter| began_within(&chapter, begin, end));
                if is_today {
                    let project = without_secrets(project_of(&session));
                    projects
                        .entry(project)
                        .or_default()
                        .push(SessionChronicle { session, chronicle });
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let projects = projects.into_iter();
        let projects =
            projects.map(|(project, sessions)| project_day(project, &sessions, begin, end, zone));
        Ok(DayDigest { day, projects: projects.collect() })
    }
}

/// A session with its chronicle.
struct SessionChronicle {
    session: SessionInfo,
    chronicle: Chronicle,
}

/// Returns the project of a session: its project, else the name of its folder.
pub(crate) fn project_of(session: &SessionInfo) -> &str {
    let folder =
        session.cwd.as_deref().and_then(|cwd| cwd.rsplit('/').find(|part| !part.is_empty()));
    session.project.as_deref().or(folder).unwrap_or(NO_PROJECT)
}

/// Returns a title or the name of a folder with secrets redacted.
fn without_secrets(text: &str) -> String {
    Redactor::new().redact(text).into_owned()
}

fn began_within(chapter: &Chapter<'_>, begin: Time, end: Time) -> bool {
    (begin..end).contains(&chapter.epoch.started_at)
}

fn project_day(
    project: String,
    chronicles: &[SessionChronicle],
    begin: Time,
    end: Time,
    zone: &Zone,
) -> ProjectDay {
    let mut sessions = Vec::new();
    let mut work: Vec<(String, &str, Vec<&WorkSpan>, Vec<DigestFact>)> = Vec::new();
    for SessionChronicle { session, chronicle } in chronicles {
        let chapters = chronicle.chapters().filter(|chapter| began_within(chapter, begin, end));
        let chapters: Vec<Chapter<'_>> = chapters.collect();
        let facts: Vec<DigestFact> =
            chapters.iter().flat_map(|chapter| chapter.facts.clone()).collect();
        let (Some(first), Some(last)) = (chapters.first(), chapters.last()) else { continue };
        sessions.push(SessionDay {
            session_id: session.id.clone(),
            provider: session.provider.clone(),
            title: (session.title.as_deref().map(without_secrets))
                .or_else(|| last.naming?.title.clone())
                .or_else(|| digest::find_title(&facts)),
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
        stretches.iter().map(move |stretch| ProjectSpan {
            project,
            stream,
            segment,
            stretch,
            facts,
        })
    });
    let activities = activities(worked);
    ProjectDay { project, activities, sessions }
}
