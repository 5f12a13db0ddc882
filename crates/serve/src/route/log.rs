//! What was recorded of a session.

use axum::extract::State;
use event::payload::ToolCall;
use event::{Event, Kind};
use journal::{ReadError, Selection};
use serde::Deserialize;
use utoipa::IntoParams;
use wire::{Messages, Page, RecordedEvent, SessionMessage};

use super::{IdPath, QueryParams, RefusalsOfOne, page_limit};
use crate::answer::{Answer, Refusal};
use crate::server::AppState;

/// Bytes of events in one answer. A page ends there, however many were asked for.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The least `text_max` that a client may ask for. Names are shorter than this and must not be cut.
const TEXT_CHARS_MIN: usize = 256;

/// Characters of one message. The event has all of it.
const MESSAGE_CHARS_MAX: usize = 16_384;

/// What people mean by messages, and what each is called.
const ROLES: &[(Kind, &str)] = &[
    (Kind::UserPrompt, "user"),
    (Kind::AssistantMessage, "assistant"),
    (Kind::AssistantThinking, "thinking"),
    (Kind::ToolCall, "tool_call"),
    (Kind::ToolResult, "tool_result"),
];

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsParams {
    /// Only what is behind this `seq`.
    after: Option<u64>,
    /// Only what is before this `seq`: the last of it, and `next` is then what to give here.
    before: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Characters of one text in an event, at least 256: longer ones are cut, and the event is
    /// `truncated`.
    #[param(minimum = 256)]
    text_max: Option<usize>,
}

/// The events of a session from a place on, or before one
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/capture/events",
    params(IdPath, EventsParams),
    responses((status = OK, body = Page<RecordedEvent>), RefusalsOfOne)
)]
pub(crate) async fn events(
    State(app): State<AppState>,
    IdPath(id): IdPath,
    QueryParams(asked): QueryParams<EventsParams>,
) -> Answer {
    let limit = page_limit(asked.limit)?;
    if asked.text_max.is_some_and(|chars| chars < TEXT_CHARS_MIN) {
        let told = format!("`text_max` is a number from {TEXT_CHARS_MIN} on");
        return Err(Refusal::bad_argument(told));
    }
    let reading = app.answer_query(move |sources| {
        let journal = sources.journal();
        let id = journal.resolve(&id)?.id;
        let behind = Selection::after(asked.after.unwrap_or(0));
        let selection = match asked.before {
            None => behind,
            // The last ones before the place are read backwards, and turned around below.
            Some(before) => behind.up_to(before.saturating_sub(1)).newest_first(),
        };
        let shape = |event: Event| match asked.text_max {
            None => RecordedEvent::whole(&event),
            Some(chars) => RecordedEvent::cut(event, chars),
        };
        let len = |event: &RecordedEvent| event.get().len();
        let mut page = collect_page(journal.events(&id, selection)?, limit, shape, len)?;
        if asked.before.is_some() {
            page.items.reverse();
        }
        Ok::<_, ReadError>(page)
    });
    reading.await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct MessagesParams {
    /// The beginning of a session's id.
    session: String,
    /// Only what is behind this `seq`.
    after: Option<u64>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// What was said in a session from a place on
#[utoipa::path(
    get,
    path = "/api/session/messages",
    params(MessagesParams),
    responses((status = OK, body = Messages), RefusalsOfOne)
)]
pub(crate) async fn messages(
    State(app): State<AppState>,
    QueryParams(asked): QueryParams<MessagesParams>,
) -> Answer {
    let (after, limit) = (asked.after.unwrap_or(0), page_limit(asked.limit)?);
    let reading = app.answer_query(move |sources| {
        let journal = sources.journal();
        let id = journal.resolve(&asked.session)?.id;
        let kinds = ROLES.iter().map(|(kind, _)| kind.clone());
        let events = journal.events(&id, Selection::after(after).of_kinds(kinds))?;
        let len = |message: &Option<SessionMessage>| message.as_ref().map_or(0, |it| it.text.len());
        let Page { items, next } =
            collect_page(events, limit, |event| session_message(&event), len)?;
        let items = items.into_iter().flatten().collect();
        Ok::<_, ReadError>(Messages { session_id: id, items, next })
    });
    reading.await
}

/// So many of these events in some shape, and where to go on if there are more.
fn collect_page<T>(
    mut events: impl Iterator<Item = Result<Event, ReadError>>,
    limit: usize,
    shape: impl Fn(Event) -> T,
    len: impl Fn(&T) -> usize,
) -> Result<Page<T>, ReadError> {
    let mut items = Vec::new();
    let mut bytes = 0;
    let mut last = 0;
    while items.len() < limit && bytes < PAGE_BYTES_MAX {
        let Some(event) = events.next().transpose()? else { return Ok(Page::whole(items)) };
        last = event.seq;
        let item = shape(event);
        bytes += len(&item);
        items.push(item);
    }
    // Read one more to know: `next` must not lead to an empty page.
    let has_more = events.next().is_some();
    Ok(Page { items, next: has_more.then(|| last.to_string()) })
}

fn session_message(event: &Event) -> Option<SessionMessage> {
    let (_, role) = ROLES.iter().find(|(kind, _)| *kind == event.kind)?;
    // An event without a text of its own, such as a tool call, is told by the texts that search
    // looks at.
    let whole = event.text.clone().unwrap_or_else(|| event.search_texts().join("\n"));
    let end = whole.char_indices().nth(MESSAGE_CHARS_MAX).map(|(at, _)| at);
    Some(SessionMessage {
        seq: event.seq,
        event_id: event.id.to_string(),
        role,
        created_at: event.created_at,
        turn_id: event.turn_id.clone(),
        tool: event.readable::<ToolCall>().map(|call| call.tool),
        text: whole[..end.unwrap_or(whole.len())].to_owned(),
        truncated: end.is_some(),
    })
}
