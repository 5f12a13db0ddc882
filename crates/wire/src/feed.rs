//! What happened, over all sessions.

use event::{SessionId, Time};
use serde::Serialize;
use utoipa::ToSchema;

/// An event of a session that is worth telling.
#[derive(Serialize, ToSchema)]
pub struct Happening {
    #[schema(value_type = String)]
    pub session_id: SessionId,
    pub seq: u64,
    pub kind: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Time,
    pub provider: String,
    pub project: Option<String>,
    pub title: Option<String>,
    /// In one line, without secrets.
    pub text: String,
}
