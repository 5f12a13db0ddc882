//! Lists sessions and their counters, without reading a single event.

use event::payload::SessionMode;
use event::{Cost, SessionId, Time, USER_RECORDS, is_in_project};

use crate::ReadError;
use crate::batch::Ancestry;
use crate::store::{SessionCursor, SessionRow, StoreReader};

/// A session in the catalogue. Counters cover its own events; inherited ones count in the session
/// they were made in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionInfo {
    pub id: SessionId,
    pub provider: String,
    pub provider_session_id: Option<String>,
    pub ancestry: Ancestry,
    /// The last event, inherited ones counted.
    pub tail_seq: u64,
    /// The last event it shows of its parent; 0 if all of them are its own.
    pub inherited_seq: u64,
    pub events: u64,
    /// About the bytes of its events as JSON.
    pub bytes: u64,
    pub cost: Cost,
    pub started_at: Time,
    pub last_event_at: Time,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub cwd: Option<String>,
    pub project: Option<String>,
    pub title: Option<String>,
}

impl SessionInfo {
    /// How it came from its parent; `None` for a root.
    pub fn mode(&self) -> Option<&SessionMode> {
        self.ancestry.mode.as_ref()
    }
}

/// Which sessions to list. Records of the user are listed only if `provider` names them.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    pub provider: Option<String>,
    /// A project, or the folder a session works in; the last part of its name will do.
    pub project: Option<String>,
    pub active_since: Option<Time>,
    pub active_until: Option<Time>,
}

/// A page of a listing and where the next one begins.
#[derive(Clone, Debug)]
pub struct SessionPage {
    pub items: Vec<SessionInfo>,
    pub next: Option<String>,
}

impl From<SessionRow> for SessionInfo {
    fn from(row: SessionRow) -> SessionInfo {
        SessionInfo {
            ancestry: row.ancestry(),
            id: row.id,
            provider: row.provider,
            provider_session_id: row.provider_session_id,
            tail_seq: row.tail_seq,
            inherited_seq: row.base_seq,
            events: row.events,
            bytes: row.bytes,
            cost: row.cost,
            started_at: row.created_at,
            last_event_at: row.last_at,
            agent: row.agent,
            model: row.model,
            cwd: row.cwd,
            project: row.project,
            title: row.title,
        }
    }
}

impl SessionFilter {
    fn matches(&self, row: &SessionRow) -> bool {
        let is_in =
            |wanted: &String| is_in_project(row.project.as_deref(), row.cwd.as_deref(), wanted);
        let provider = match &self.provider {
            Some(provider) => *provider == row.provider,
            None => row.provider != USER_RECORDS,
        };
        provider
            && self.project.as_ref().is_none_or(is_in)
            && self.active_since.is_none_or(|since| row.last_at >= since)
            && self.active_until.is_none_or(|until| row.created_at <= until)
    }
}

/// Sessions per request to the store.
const ROWS_PER_READ: usize = 256;

/// One page, newest activity first.
///
/// A session that gets events between two pages moves to the front. No session is listed twice, and
/// none without new events is left out.
pub(crate) fn sessions(
    reader: &dyn StoreReader,
    filter: &SessionFilter,
    cursor: Option<&str>,
    limit: usize,
) -> Result<SessionPage, ReadError> {
    let mut after = cursor.map(parse_cursor).transpose()?;
    let mut items = Vec::new();
    let mut last = None;
    loop {
        let rows = reader.sessions(after, ROWS_PER_READ)?;
        let is_end = rows.len() < ROWS_PER_READ;
        for row in rows {
            let place = SessionCursor { last_at: row.last_at, number: row.number };
            after = Some(place);
            if !filter.matches(&row) {
                continue;
            }
            // One match more than fits proves that there is a next page, which then begins behind
            // the last item of this one.
            if items.len() == limit {
                return Ok(SessionPage { items, next: last.map(encode_cursor) });
            }
            last = Some(place);
            items.push(row.into());
        }
        if is_end {
            return Ok(SessionPage { items, next: None });
        }
    }
}

/// The one session that has an id, its own or its provider's, that is `prefix` or begins with it.
pub(crate) fn resolve(reader: &dyn StoreReader, prefix: &str) -> Result<SessionInfo, ReadError> {
    const CANDIDATES_MAX: usize = 20;
    // A whole id always wins, even if other ids begin with it.
    if let Ok(id) = SessionId::new(prefix)
        && let Some(row) = reader.session(&id)?
    {
        return Ok(row.into());
    }
    if prefix.trim().is_empty() {
        let argument = prefix.to_owned();
        return Err(ReadError::BadArgument { argument, expected: "the beginning of a session id" });
    }
    let mut rows = reader.sessions_with_prefix(prefix, CANDIDATES_MAX)?;
    // The same for the provider's id, unless two sessions share it: then the user has to choose.
    let exact: Vec<_> =
        rows.iter().filter(|row| row.provider_session_id.as_deref() == Some(prefix)).collect();
    if let [row] = exact[..] {
        return Ok(row.clone().into());
    }
    match rows.len() {
        0 => Err(ReadError::NoSuchPrefix(prefix.to_owned())),
        1 => Ok(rows.remove(0).into()),
        _ => {
            let candidates = rows.into_iter().map(|row| row.id).collect();
            Err(ReadError::Ambiguous { prefix: prefix.to_owned(), candidates })
        }
    }
}

/// The fewest characters of a short id. More are given where ids share a beginning.
const SHORT_ID_CHARS_MIN: usize = 8;

/// The shortest beginning that names this session and no other: of its provider's id, else of its
/// own.
pub(crate) fn short_id(
    reader: &dyn StoreReader,
    id: &SessionId,
    provider_id: Option<&str>,
) -> Result<String, ReadError> {
    if let Some(provider_id) = provider_id.filter(|provider_id| !provider_id.is_empty())
        && let Some(short) = unique_beginning(reader, provider_id, id, SHORT_ID_CHARS_MIN)?
    {
        return Ok(short);
    }
    // The provider's name in front, as in `claude:`, is the same in many ids.
    let name_chars = id.as_str().find(':').map_or(0, |colon| colon + 1);
    let short = unique_beginning(reader, id.as_str(), id, name_chars + SHORT_ID_CHARS_MIN)?;
    Ok(short.unwrap_or_else(|| id.as_str().to_owned()))
}

/// The shortest beginning of `name` that fits only the session `own`; `None` if even the whole name
/// is another session's too.
fn unique_beginning(
    reader: &dyn StoreReader,
    name: &str,
    own: &SessionId,
    chars_min: usize,
) -> Result<Option<String>, ReadError> {
    /// Sessions that are compared at a time; of the others a longer beginning is asked for.
    const RIVALS_MAX: usize = 32;
    let beginning = |chars: usize| -> &str {
        name.char_indices().nth(chars).map_or(name, |(end, _)| &name[..end])
    };
    let mut chars = chars_min;
    loop {
        let prefix = beginning(chars);
        let rows = reader.sessions_with_prefix(prefix, RIVALS_MAX)?;
        let rivals = rows.iter().filter(|row| row.id != *own);
        let names = rivals.flat_map(|row| {
            std::iter::once(row.id.as_str()).chain(row.provider_session_id.as_deref())
        });
        let mut shared_max = 0;
        for other in names {
            if other == name {
                return Ok(None);
            }
            shared_max = shared_max.max(shared_chars(name, other));
        }
        if prefix.len() == name.len() || shared_max < chars {
            return Ok(Some(prefix.to_owned()));
        }
        // One more than the longest shared beginning tells them apart.
        chars = shared_max.max(chars) + 1;
    }
}

/// The length of the common beginning, in characters, so that no cut falls inside one.
fn shared_chars(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

fn encode_cursor(place: SessionCursor) -> String {
    // The number tells sessions apart that were last active at the same instant.
    format!("{}:{}", place.last_at.nanos(), place.number)
}

fn parse_cursor(text: &str) -> Result<SessionCursor, ReadError> {
    let parse = || {
        let (nanos, number) = text.split_once(':')?;
        let last_at = Time::from_nanos(nanos.parse().ok()?);
        Some(SessionCursor { last_at, number: number.parse().ok()? })
    };
    parse().ok_or_else(|| ReadError::BadArgument {
        argument: text.to_owned(),
        expected: "a cursor of this listing",
    })
}
