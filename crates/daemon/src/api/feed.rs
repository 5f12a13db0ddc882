//! The feed: what happened over all sessions, the newest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use event::payload::{SessionMode, ToolCall};
use event::{Event, Kind, SessionId, Time};
use journal::{Journal, ReadError, Selection, SessionFilter, SessionInfo};
use projection::{Facts, ToolUse};
use redact::Redactor;

use super::facets::project_of;
use views::ViewCache;

/// Characters of an entry's text.
const TEXT_CHARS_MAX: usize = 240;

/// Kinds of events that the feed shows.
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

/// Where a page ends. Session and number order events of the same time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FeedCursor {
    at: Time,
    session: SessionId,
    seq: u64,
}

impl FeedCursor {
    fn at_event(event: &Event) -> FeedCursor {
        FeedCursor { at: event.created_at, session: event.session_id.clone(), seq: event.seq }
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}~{}", self.at, self.seq, self.session)
    }
}

impl FromStr for FeedCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<FeedCursor, String> {
        let read = || {
            // The session comes last: its id may itself hold a `~`.
            let (at, rest) = text.split_once('~')?;
            let (seq, session) = rest.split_once('~')?;
            let session = SessionId::new(session).ok()?;
            Some(FeedCursor { at: at.parse().ok()?, session, seq: seq.parse().ok()? })
        };
        read().ok_or_else(|| text.to_owned())
    }
}

/// How far back the first search goes, and by what factor further each time it finds too little.
const FIRST_NANOS: i128 = 6 * 60 * 60 * 1_000_000_000;
const FURTHER: i128 = 8;

/// How far the times of a session's events may be out of order. Agents write events as they happen,
/// so this is generous; an event that is later still may be missing from the feed.
const DISORDER_NANOS: i128 = 60 * 60 * 1_000_000_000;

/// Sessions read at a time.
const PAGE: usize = 500;

/// The entries behind a cursor that match, at most `limit`. The cost follows the number of entries:
/// older events are not read, however many there are.
pub(crate) fn feed(
    journal: &Journal,
    facts: &ViewCache<Facts>,
    filter: &SessionFilter,
    after: Option<&FeedCursor>,
    limit: usize,
) -> Result<wire::Page<wire::Happening>, ReadError> {
    let until = [filter.active_until, after.map(|after| after.at)].into_iter().flatten().min();
    // Only sessions that may have events before that time.
    let filter = SessionFilter { active_until: until.map(widen_end), ..filter.clone() };
    let Some(last) = journal.sessions(&filter, None, 1)?.items.pop() else {
        return Ok(wire::Page::whole(Vec::new()));
    };
    let newest = until.unwrap_or(last.last_event_at).min(last.last_event_at);
    let mut back = FIRST_NANOS;
    let found = loop {
        let from = Time::from_nanos(newest.nanos() - back);
        // Not further back than the user asked for.
        let from = filter.active_since.unwrap_or(from).max(from);
        // One more than a page, to know whether there is a next one.
        let found = gather_events(journal, &filter, (from, until), after, limit + 1)?;
        // Whether anything lies before `from` at all: without this, a journal with few entries
        // would be searched back for ever.
        let earlier = SessionFilter { active_until: Some(widen_end(from)), ..filter.clone() };
        let is_all = Some(from) == filter.active_since
            || journal.sessions(&earlier, None, 1)?.items.is_empty();
        if found.len() > limit || is_all {
            break found;
        }
        // Eight times as far each time: few steps reach years back, and the last search dominates
        // the cost.
        back *= FURTHER;
    };
    build_page(journal, facts, found, limit)
}

/// An event for the feed, with its session and text.
struct FeedEvent {
    event: Event,
    session: SessionInfo,
    words: String,
}

/// The newest events since a time and behind a cursor, the newest first.
fn gather_events(
    journal: &Journal,
    filter: &SessionFilter,
    (mut from, until): (Time, Option<Time>),
    behind: Option<&FeedCursor>,
    count_max: usize,
) -> Result<Vec<FeedEvent>, ReadError> {
    let mut found: Vec<FeedEvent> = Vec::new();
    let mut after = None;
    loop {
        let active = SessionFilter { active_since: Some(widen_start(from)), ..filter.clone() };
        let page = journal.sessions(&active, after.as_deref(), PAGE)?;
        for session in page.items {
            // Sessions come by last activity, so all further ones are older.
            if session.last_event_at < widen_start(from) {
                break;
            }
            let selection = Selection {
                until,
                // A fork begins with the events of its origin, which the origin's own entries show.
                ..Selection::after(session.inherited_seq)
                    .up_to(last_before(journal, &session, until)?)
                    .newest_first()
            };
            let mut told = 0;
            // The index of a turn's end that still lacks a text.
            let mut ended: Option<usize> = None;
            for event in journal.events(&session.id, selection)? {
                let event = event?;
                // Newest first: passing the prompt means that the turn had no answer.
                if event.kind == Kind::UserPrompt {
                    ended = None;
                } else if event.kind == Kind::AssistantMessage
                    && let Some(end) = ended.take()
                {
                    // The last answer is the result of the turn; its first paragraph says most.
                    let said = event_text(&event);
                    found[end].words = said.split("\n\n").next().unwrap_or_default().to_owned();
                }
                // Events may be out of order by `DISORDER_NANOS`, so reading stops that much
                // earlier than `from`.
                if event.created_at < widen_start(from) || told == count_max {
                    break;
                }
                let is_behind = behind.is_none_or(|behind| FeedCursor::at_event(&event) < *behind);
                if event.created_at >= from && is_behind && is_shown(&event, &session) {
                    told += 1;
                    let words = event_text(&event);
                    if event.kind == Kind::TurnCompleted && words.is_empty() {
                        // Reading goes on backwards from here, and meets the turn's last answer
                        // next.
                        ended = Some(found.len());
                    }
                    found.push(FeedEvent { event, session: session.clone(), words });
                }
            }
            // Sorted only on overflow, so memory stays near two pages however many sessions match.
            if found.len() > count_max {
                found.sort_by_cached_key(|found| Reverse(FeedCursor::at_event(&found.event)));
                found.truncate(count_max);
                // Enough is found: later sessions need not be read further back than the oldest.
                from = found.last().map_or(from, |found| found.event.created_at);
            }
        }
        after = page.next;
        if after.is_none() {
            found.sort_by_cached_key(|found| Reverse(FeedCursor::at_event(&found.event)));
            return Ok(found);
        }
    }
}

/// The bounds of a search, widened by how far events may be out of order.
fn widen_start(from: Time) -> Time {
    Time::from_nanos(from.nanos() - DISORDER_NANOS)
}

fn widen_end(until: Time) -> Time {
    Time::from_nanos(until.nanos() + DISORDER_NANOS)
}

/// The number of the last event that may have happened before a time, found by bisection.
fn last_before(
    journal: &Journal,
    session: &SessionInfo,
    until: Option<Time>,
) -> Result<u64, ReadError> {
    /// With so few events left, reading them costs less than another step.
    const NEAR: u64 = 128;
    let (mut before, mut last) = (session.inherited_seq, session.tail_seq);
    let Some(until) = until.filter(|until| session.last_event_at > *until) else {
        return Ok(last);
    };
    // Invariant: an event behind `last` is too late; `before` is not too late.
    //     before ───────── middle ───────── last
    // Times are not strictly sorted; `widen_end` makes up for that.
    while last - before > NEAR {
        let middle = before + (last - before) / 2;
        let selection = Selection::after(middle - 1).up_to(middle);
        let event = journal.events(&session.id, selection)?.next().transpose()?;
        let is_later = event.is_some_and(|event| event.created_at > widen_end(until));
        if is_later { last = middle } else { before = middle }
    }
    Ok(last)
}

/// A page of entries, and the cursor of the next one.
fn build_page(
    journal: &Journal,
    facts: &ViewCache<Facts>,
    mut found: Vec<FeedEvent>,
    limit: usize,
) -> Result<wire::Page<wire::Happening>, ReadError> {
    let has_more = found.len() > limit;
    found.truncate(limit);
    // Without a further entry there is no next page, and so no cursor.
    let last = found.last().filter(|_| has_more);
    let next = last.map(|found| FeedCursor::at_event(&found.event).to_string());
    // Many entries come from few sessions; each title is looked up once.
    let mut titles: BTreeMap<&SessionId, Option<String>> = BTreeMap::new();
    for FeedEvent { session, .. } in &found {
        if !titles.contains_key(&session.id) {
            let title = facts.get(journal, session)?.title().map(str::to_owned);
            titles.insert(&session.id, title.or(session.title.clone()));
        }
    }
    let mut redactor = Redactor::new();
    let items = found.iter().map(|found| {
        let title = titles.get(&found.session.id).cloned().flatten();
        feed_entry(found, title, &mut redactor)
    });
    Ok(wire::Page { items: items.collect(), next })
}

/// Whether the feed shows an event. Of tool calls it shows those that publish work, and of child
/// sessions not the end of a turn: the parent has an event for that.
fn is_shown(event: &Event, session: &SessionInfo) -> bool {
    let is_of_child = matches!(session.mode(), Some(SessionMode::Child));
    if !KINDS.contains(&event.kind) || (is_of_child && event.kind == Kind::TurnCompleted) {
        return false;
    }
    let Some(call) = event.readable::<ToolCall>() else { return true };
    let used = ToolUse::from_call(&call.tool, &call.input);
    // Searched for anywhere in the line: agents write `cd x && git add -A && git commit -m …`.
    let sends = ["git commit", "git push", "gh pr", "npm publish", "cargo publish"];
    used.command().is_some_and(|line| sends.iter().any(|word| line.contains(word)))
}

/// The text of an event.
fn event_text(event: &Event) -> String {
    event.text.clone().unwrap_or_else(|| event.search_texts().join(" "))
}

fn feed_entry(
    found: &FeedEvent,
    title: Option<String>,
    redactor: &mut Redactor,
) -> wire::Happening {
    let FeedEvent { event, session, words } = found;
    // Redacted before it is shortened: a cut could leave a part of a secret that no rule
    // recognises.
    let line: String = redactor.redact(words).split_whitespace().collect::<Vec<_>>().join(" ");
    wire::Happening {
        session_id: session.id.clone(),
        seq: event.seq,
        kind: event.kind.to_string(),
        at: event.created_at,
        provider: session.provider.clone(),
        project: project_of(session),
        title,
        text: line.chars().take(TEXT_CHARS_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use event::{Draft, EventId, Raw};
    use journal::Batch;
    use serde_json::json;

    use super::*;

    const BEGUN: i64 = 1_800_000_000_000;

    /// Records prompts of a session, so many milliseconds after the beginning.
    fn record(journal: &Journal, session: &str, times: impl IntoIterator<Item = i64>) {
        let id = SessionId::new(format!("made-up:{session}")).unwrap();
        let mut batch = Batch::observed();
        for (number, millis) in times.into_iter().enumerate() {
            let at = Time::from_millis(BEGUN + millis);
            let event_id = EventId::derived(at, "made up", session, &number.to_be_bytes());
            let data = Raw::from_value(&json!({"content": format!("{session} {number}")})).unwrap();
            batch = batch.with(Draft::with_data(event_id, id.clone(), at, Kind::UserPrompt, data));
        }
        journal.append(batch).unwrap();
    }

    /// Everything, page by page.
    fn paged(journal: &Journal, filter: &SessionFilter, limit: usize) -> Vec<(Time, String)> {
        let mut told = Vec::new();
        let mut after: Option<FeedCursor> = None;
        loop {
            let page =
                feed(journal, &ViewCache::with_capacity(8), filter, after.as_ref(), limit).unwrap();
            assert!(page.items.len() <= limit);
            told.extend(page.items.into_iter().map(|item| (item.at, item.text)));
            match page.next {
                Some(next) => after = Some(next.parse().unwrap()),
                None => return told,
            }
        }
    }

    #[test]
    fn pages_hold_every_event_once() {
        const DAY: i64 = 24 * 60 * 60 * 1_000;
        let journal = Journal::in_memory();
        // One that goes on for years, some that came and went, and many things at one instant.
        record(&journal, "long", (0..600).map(|day| day * DAY));
        record(&journal, "early", (0..20).map(|number| number * 1_000));
        record(&journal, "late", (0..40).map(|number| 599 * DAY + number));
        record(&journal, "at once", (0..30).map(|_| 300 * DAY));
        record(&journal, "out of order", [5_000, 3_000, 4_000, 1_000]);
        let all = paged(&journal, &SessionFilter::default(), 10_000);
        assert_eq!(all.len(), 694);
        assert!(all.is_sorted_by(|a, b| a.0 >= b.0));
        for limit in [7, 25, 100] {
            let told = paged(&journal, &SessionFilter::default(), limit);
            assert_eq!(told.iter().zip(&all).find(|(told, one)| told != one), None, "{limit}");
            assert_eq!(told.len(), all.len(), "{limit}");
        }
        let at = |days: i64| Some(Time::from_millis(BEGUN + days * DAY));
        let between = SessionFilter {
            active_since: at(300),
            active_until: at(301),
            ..SessionFilter::default()
        };
        assert_eq!(paged(&journal, &between, 7).len(), 32);
        assert!("yesterday".parse::<FeedCursor>().is_err());
    }

    #[test]
    fn end_of_a_child_comes_from_its_parent() {
        let journal = Journal::in_memory();
        let add = |id: &str, number: i64, kind: &str, data: serde_json::Value| {
            let at = Time::from_millis(BEGUN + number);
            let event_id = EventId::derived(at, "made up", id, kind.as_bytes());
            let session = SessionId::new(format!("made-up:{id}")).unwrap();
            let draft = Draft::with_data(
                event_id,
                session,
                at,
                kind.into(),
                Raw::from_value(&data).unwrap(),
            );
            journal.append(Batch::observed().with(draft)).unwrap();
        };
        add("main", 0, "session.started", json!({"cwd": "/home/dev/app"}));
        add("main", 1, "user.prompt", json!({"content": "go"}));
        let parent = json!({"session_id": "made-up:main"});
        add("child", 2, "session.started", json!({"mode": "child", "parent": parent}));
        add("child", 3, "turn.completed", json!({"stop_reason": "completed"}));
        add("main", 4, "child.completed", json!({"child_session_id": "made-up:child"}));
        add("main", 5, "assistant.message", json!({"content": "It is done.\n\n| what |\n|---|"}));
        add("main", 6, "turn.completed", json!({"stop_reason": "completed"}));
        let all = SessionFilter::default();
        let page = feed(&journal, &ViewCache::with_capacity(8), &all, None, 10).unwrap();
        let told = page.items.iter().map(|item| (item.kind.as_str(), item.text.as_str()));
        let told: Vec<_> = told.collect();
        // What a turn came to is what was said last in it.
        let expected = [("turn.completed", "It is done."), ("child.completed", "")];
        assert_eq!(told, [expected.as_slice(), &[("user.prompt", "go")]].concat());
        assert!(page.items.iter().all(|item| item.project.as_deref() == Some("/home/dev/app")));
    }
}
