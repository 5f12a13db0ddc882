//! What agents ask to be allowed.

use std::borrow::Cow;

use event::{SessionId, Time};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A request for approval, and what has become of it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    pub id: String,
    #[schema(value_type = String)]
    pub session_id: SessionId,
    pub provider: String,
    /// What would be done, in short.
    pub action: Option<String>,
    pub tool: String,
    /// The exact input of the tool.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Box<RawValue>>,
    pub cwd: Option<String>,
    pub risk: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub requested_at: Time,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
    /// `pending`, `resolved`, `canceled`, or `over` where no record says how.
    pub state: Cow<'static, str>,
    /// `allow` or `deny`.
    pub decision: Option<String>,
    /// How the answer reached the agent, if it came from here.
    pub delivered: Cow<'static, str>,
    /// Where the request was seen; `from the transcript` if it is concluded from an open call.
    pub source: String,
    pub confidence: String,
}
