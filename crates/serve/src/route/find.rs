//! Anything ever said, done or printed, and what it cost.

use axum::extract::State;
use event::Kind;
use journal::{MatchMode, Order, Query};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use wire::{SearchReply, Usage};

use super::{FilteredQuery, Refusals, RefusalsOfOne, page_limit};
use crate::answer::Answer;
use crate::server::AppState;
use crate::sources::{SessionSelector, SourceError};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// Words in any order; quotes make a phrase; nothing else is syntax.
    q: String,
    /// Only in this session: the beginning of its id.
    session: Option<String>,
    /// Only events of these kinds, with commas between them.
    kinds: Option<String>,
    /// Only calls and results of this tool.
    tool: Option<String>,
    /// Find pieces of words too.
    substring: Option<bool>,
    #[param(schema_with = order_schema, required = false)]
    #[serde(default, deserialize_with = "deserialize_order")]
    order: Order,
    /// `next` of an earlier search.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Reads an order by its word.
fn deserialize_order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Order, D::Error> {
    let word = String::deserialize(deserializer)?;
    word.parse().map_err(serde::de::Error::custom)
}

fn order_schema() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(Order::ALL.map(Order::as_str)))
        .build()
}

/// Anything ever said, done or printed
#[utoipa::path(
    get,
    path = "/api/search",
    params(SessionSelector, SearchParams),
    responses((status = OK, body = SearchReply), RefusalsOfOne)
)]
pub(crate) async fn search(
    State(app): State<AppState>,
    FilteredQuery(which, asked): FilteredQuery<SearchParams>,
) -> Answer {
    let limit = page_limit(asked.limit)?;
    let searching = app.answer_query(move |sources| -> Result<SearchReply, SourceError> {
        let session = match &asked.session {
            Some(prefix) => Some(sources.journal().resolve(prefix)?.id),
            None => None,
        };
        let kinds = asked.kinds.iter().flat_map(|kinds| kinds.split(','));
        let query = Query {
            text: asked.q,
            mode: if asked.substring == Some(true) {
                MatchMode::Substring
            } else {
                MatchMode::Words
            },
            session,
            project: which.project,
            provider: which.provider,
            kinds: kinds.filter(|kind| !kind.is_empty()).map(Kind::from).collect(),
            tool: asked.tool,
            after: which.since,
            before: which.until,
            order: asked.order,
            limit,
            cursor: asked.after,
        };
        sources.search(&query)
    });
    searching.await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageParams {
    /// What a row stands for: `daily`, `weekly`, `monthly`, `session`, `model`, `agent` or
    /// `project`.
    by: Option<String>,
    /// Count by days of UTC instead of the machine's time zone.
    utc: Option<bool>,
}

/// Tokens and money
#[utoipa::path(
    get,
    path = "/api/usage",
    params(SessionSelector, UsageParams),
    responses((status = OK, body = Usage), Refusals)
)]
pub(crate) async fn usage(
    State(app): State<AppState>,
    FilteredQuery(which, asked): FilteredQuery<UsageParams>,
) -> Answer {
    let by = asked.by.unwrap_or_else(|| "daily".to_owned());
    let is_utc = asked.utc == Some(true);
    app.answer_query(move |sources| sources.usage(&by, &which, is_utc)).await
}
