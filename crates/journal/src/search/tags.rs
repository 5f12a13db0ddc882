//! The tokens beside the words: what filters and keyed lookups ask the index for.
//!
//! Each begins with a character that no word can contain, so words and tags share one index and
//! every filter is one more list of positions to intersect. Names are kept as short hashes; what
//! is found is compared with the event itself, so two names with one hash do no harm.

use event::{Draft, EventKey, Kind, SearchFields, SessionId, Time};

use super::gathering::hash;

/// Set apart for private use and no letter: the word rules never let it through.
const MARK: char = '\u{E000}';

/// What every document has.
pub(super) const ANY: &str = "\u{E000}";

/// Days in the larger of the two steps by which times are kept.
pub(super) const MONTH_DAYS: i64 = 32;

pub(super) fn session(session_id: &SessionId) -> String {
    named('s', &[session_id.as_str()])
}

pub(super) fn project(project: &str) -> String {
    named('j', &[project])
}

pub(super) fn provider(provider: &str) -> String {
    named('p', &[provider])
}

pub(super) fn tool(tool: &str) -> String {
    named('t', &[tool])
}

pub(super) fn kind(kind: &Kind) -> String {
    match kind.code() {
        0 => named('k', &[kind.as_str()]),
        code => format!("{MARK}k{code}"),
    }
}

/// A key within the session that recorded it.
pub(super) fn key(session_id: &SessionId, key: &EventKey) -> String {
    let family = key.family.letter().to_string();
    named('x', &[session_id.as_str(), &family, &key.name])
}

/// The day of a time, counted from 1970.
pub(super) fn day_of(time: Time) -> i64 {
    const MICROS_PER_DAY: i64 = 86_400_000_000;
    time.micros_and_rest().0.div_euclid(MICROS_PER_DAY)
}

pub(super) fn day(day: i64) -> String {
    format!("{MARK}d{day:x}")
}

/// A stretch of [`MONTH_DAYS`] days.
pub(super) fn month(month: i64) -> String {
    format!("{MARK}m{month:x}")
}

/// Tells the tags of one event after the other. Neighbours have most of theirs in common, and
/// those are made once.
#[derive(Default)]
pub(super) struct Tagging {
    about: Option<About>,
    common: Vec<String>,
}

/// What tags that neighbours have in common are made of.
struct About {
    session_id: SessionId,
    provider: String,
    project: Option<String>,
    day: i64,
}

impl Tagging {
    /// Tells everything beside its words that an event can be asked for.
    pub(super) fn of_event(
        &mut self,
        event: &Draft,
        found_by: &SearchFields<'_>,
        project_of_session: Option<&str>,
        mut tell: impl FnMut(&str),
    ) {
        let today = day_of(event.created_at);
        let is_alike = self.about.as_ref().is_some_and(|about| {
            about.day == today
                && about.session_id == event.session_id
                && about.provider == event.provider
                && about.project.as_deref() == project_of_session
        });
        if !is_alike {
            self.common = vec![
                ANY.to_owned(),
                session(&event.session_id),
                provider(&event.provider),
                day(today),
                month(today.div_euclid(MONTH_DAYS)),
            ];
            self.common.extend(project_of_session.map(project));
            self.about = Some(About {
                session_id: event.session_id.clone(),
                provider: event.provider.clone(),
                project: project_of_session.map(str::to_owned),
                day: today,
            });
        }
        self.common.iter().for_each(|tag| tell(tag));
        tell(&kind(&event.kind));
        if let Some(name) = &found_by.tool {
            tell(&tool(name));
        }
        for name in &found_by.keys {
            tell(&key(&event.session_id, name));
        }
    }
}

fn named(letter: char, parts: &[&str]) -> String {
    /// Enough to tell the names of any journal apart, give or take one.
    const DIGITS: u32 = 12;
    // Turned in between, so that the order of the parts counts.
    let hash = parts.iter().fold(0u64, |all, part| all.rotate_left(13) ^ hash(part.as_bytes()));
    let mut tag = String::with_capacity(MARK.len_utf8() + 1 + DIGITS as usize);
    tag.extend([MARK, letter]);
    tag.extend(
        (0..DIGITS).filter_map(|digit| char::from_digit((hash >> (4 * digit)) as u32 & 15, 16)),
    );
    tag
}
