//! The keyword terms of an event: what filters and keyed lookups ask the index for.
//!
//! | field | value                                     |
//! |-------|-------------------------------------------|
//! | `s`   | session                                   |
//! | `j`   | project of the session                    |
//! | `p`   | provider                                  |
//! | `t`   | tool                                      |
//! | `k`   | kind: its code, or its name if it has none |
//! | `x`   | session, family and name of a key         |
//! | `d`   | day since 1970, hexadecimal               |
//! | `m`   | month of [`MONTH_DAYS`] days, hexadecimal |
//!
//! They are stored: a change makes a new format of `derived.db`.

use ::search::{keyword_number, keyword_term};
use event::{Draft, EventKey, Kind, SearchFields, SessionId, Time};

/// Days in the larger of the two steps by which times are indexed. A power of two near a month:
/// no calendar is needed.
pub(super) const MONTH_DAYS: i64 = 32;

pub(super) fn session(session_id: &SessionId) -> String {
    keyword_term('s', &[session_id.as_str()])
}

pub(super) fn project(project: &str) -> String {
    keyword_term('j', &[project])
}

pub(super) fn provider(provider: &str) -> String {
    keyword_term('p', &[provider])
}

pub(super) fn tool(tool: &str) -> String {
    keyword_term('t', &[tool])
}

pub(super) fn kind(kind: &Kind) -> String {
    match kind.code() {
        // A kind of a newer program has no code here. Its name may be of any length, so it is
        // hashed.
        0 => keyword_term('k', &[kind.as_str()]),
        code => keyword_number('k', code),
    }
}

/// A key within the session that recorded it.
pub(super) fn key(session_id: &SessionId, key: &EventKey) -> String {
    let family = key.family.letter().to_string();
    // The session is part of the term: call ids such as `call_1` repeat in every session.
    keyword_term('x', &[session_id.as_str(), &family, &key.name])
}

/// The day of a time, counted from 1970.
pub(super) fn day_of(time: Time) -> i64 {
    const MICROS_PER_DAY: i64 = 86_400_000_000;
    // Euclidean, so that a day before 1970 is not mixed with the first day after it.
    time.micros_and_rest().0.div_euclid(MICROS_PER_DAY)
}

pub(super) fn day(day: i64) -> String {
    keyword_number('d', format_args!("{day:x}"))
}

/// A span of [`MONTH_DAYS`] days.
pub(super) fn month(month: i64) -> String {
    keyword_number('m', format_args!("{month:x}"))
}

/// Makes the keyword terms of one event after the other. Neighbouring events have most of theirs
/// in common, and those are made once.
#[derive(Default)]
pub(super) struct EventKeywords {
    origin: Option<EventOrigin>,
    common: Vec<String>,
}

/// What the common keyword terms are made of.
struct EventOrigin {
    session_id: SessionId,
    provider: String,
    project: Option<String>,
    day: i64,
}

impl EventKeywords {
    /// Visits the keyword terms of an event.
    pub(super) fn visit(
        &mut self,
        event: &Draft,
        fields: &SearchFields<'_>,
        project_of_session: Option<&str>,
        mut visit: impl FnMut(&str),
    ) {
        let event_day = day_of(event.created_at);
        // Each term of these costs a hash, and a session writes its events one after the other.
        let is_same = self.origin.as_ref().is_some_and(|origin| {
            origin.day == event_day
                && origin.session_id == event.session_id
                && origin.provider == event.provider
                && origin.project.as_deref() == project_of_session
        });
        if !is_same {
            self.common = vec![
                session(&event.session_id),
                provider(&event.provider),
                day(event_day),
                month(event_day.div_euclid(MONTH_DAYS)),
            ];
            self.common.extend(project_of_session.map(project));
            self.origin = Some(EventOrigin {
                session_id: event.session_id.clone(),
                provider: event.provider.clone(),
                project: project_of_session.map(str::to_owned),
                day: event_day,
            });
        }
        self.common.iter().for_each(|term| visit(term));
        visit(&kind(&event.kind));
        if let Some(name) = &fields.tool {
            visit(&tool(name));
        }
        for name in &fields.keys {
            visit(&key(&event.session_id, name));
        }
    }
}
