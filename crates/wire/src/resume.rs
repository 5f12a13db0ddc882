//! How to go on with a session.

use serde::Serialize;
use utoipa::ToSchema;

/// The agent's own command, if it has one.
#[derive(Serialize, ToSchema)]
pub struct Resume {
    /// The session that is resumed; for a subagent, its parent.
    pub session_id: String,
    pub command: Option<Vec<String>>,
    pub cwd: Option<String>,
    /// What a person types.
    pub line: Option<String>,
}
