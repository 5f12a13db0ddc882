//! What happened over all sessions, the newest first.

use std::collections::BTreeMap;

use event::payload::ToolCall;
use event::{Event, Kind, SessionId};
use journal::{Journal, ReadError, Selection, SessionFilter, SessionInfo};
use projection::ToolUse;
use redact::Redactor;

use crate::facts::facts_of;

/// Sessions that are looked at for one page, those with the newest activity.
const SESSIONS_MAX: usize = 400;

/// Letters of a text in it.
const TEXT_CHARS_MAX: usize = 240;

/// Kinds that are worth telling across sessions.
const KINDS: &[Kind] = &[
    Kind::UserPrompt,
    Kind::TurnCompleted,
    Kind::ApprovalRequested,
    Kind::ApprovalResolved,
    Kind::ExternalInput,
    Kind::Error,
    Kind::SessionExited,
    Kind::Compaction,
    Kind::ChildCompleted,
    Kind::ChildFailed,
    Kind::ToolCall,
];

/// What fits of it, at most so many, and the time before which it goes on.
pub(crate) fn feed(
    journal: &Journal,
    filter: &SessionFilter,
    limit: usize,
) -> Result<wire::Page<wire::Happening>, ReadError> {
    let sessions = journal.sessions(filter, None, SESSIONS_MAX)?.items;
    let mut found: Vec<(Event, &SessionInfo)> = Vec::new();
    for session in &sessions {
        let selection = Selection {
            since: filter.active_since,
            until: filter.active_until,
            ..Selection::after(session.inherited_seq).of_kinds(KINDS.iter().cloned()).newest_first()
        };
        let events = journal.events(&session.id, selection)?;
        let told = events.filter(|event| event.as_ref().map_or(true, is_told)).take(limit + 1);
        for event in told {
            found.push((event?, session));
        }
    }
    found.sort_by_key(|(event, _)| std::cmp::Reverse((event.created_at, event.seq)));
    let next = found.get(limit).map(|(event, _)| event.created_at.to_string());
    found.truncate(limit);
    let mut titles: BTreeMap<&SessionId, Option<String>> = BTreeMap::new();
    for (_, session) in &found {
        if !titles.contains_key(&session.id) {
            let title = facts_of(journal, session)?.title().map(str::to_owned);
            titles.insert(&session.id, title.or(session.title.clone()));
        }
    }
    let mut redactor = Redactor::new();
    let items = found.iter().map(|(event, session)| {
        let title = titles.get(&session.id).cloned().flatten();
        told(event, session, title, &mut redactor)
    });
    Ok(wire::Page { items: items.collect(), next })
}

/// Of all calls, those that put something where others see it.
fn is_told(event: &Event) -> bool {
    let Some(call) = event.readable::<ToolCall>() else { return true };
    let used = ToolUse::of(&call.tool, &call.input);
    let sends = ["git commit", "git push", "gh pr", "npm publish", "cargo publish"];
    used.command().is_some_and(|line| sends.iter().any(|word| line.contains(word)))
}

fn told(
    event: &Event,
    session: &SessionInfo,
    title: Option<String>,
    redactor: &mut Redactor,
) -> wire::Happening {
    let whole = event.text.clone().unwrap_or_else(|| event.search_texts().join(" "));
    let line: String = redactor.redact(&whole).split_whitespace().collect::<Vec<_>>().join(" ");
    wire::Happening {
        session_id: session.id.clone(),
        seq: event.seq,
        kind: event.kind.to_string(),
        at: event.created_at,
        provider: session.provider.clone(),
        project: session.project.clone(),
        title,
        text: line.chars().take(TEXT_CHARS_MAX).collect(),
    }
}
