//! What a search has found.

use event::{EventId, SessionId, Time};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = Found)]
pub struct SearchReply {
    pub total: usize,
    pub total_is_exact: bool,
    /// Everything was looked at.
    pub complete: bool,
    pub hits: Vec<Hit>,
    pub next: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct Hit {
    #[schema(value_type = String)]
    pub session_id: SessionId,
    pub seq: u64,
    #[schema(value_type = String)]
    pub event_id: EventId,
    pub kind: String,
    pub provider: String,
    pub project: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    pub snippet: String,
    /// Where the words stand in the snippet: first and behind the last byte.
    #[schema(value_type = Vec<Vec<usize>>)]
    pub highlights: Vec<(usize, usize)>,
    pub score: f64,
}
