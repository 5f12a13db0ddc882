//! The newest part of a session, at a glance.

use event::Time;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = Recent)]
pub struct RecentActivity {
    /// The last event that counts; a stream behind it goes on from here.
    pub seq: u64,
    /// The last events, oldest first; at most 200.
    pub events: Vec<EventGlance>,
    /// What was said last, oldest first; at most 64 KiB.
    pub said: Vec<RecentMessage>,
    /// The last turns, oldest first; at most 10.
    pub turns: Vec<RecentTurn>,
}

/// An event at a glance.
#[derive(Serialize, ToSchema)]
#[schema(as = Glance)]
pub struct EventGlance {
    pub seq: u64,
    pub kind: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Time,
    pub text: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Said)]
pub struct RecentMessage {
    pub seq: u64,
    /// `user` or `assistant`.
    pub role: &'static str,
    pub text: String,
}

/// A turn at a glance.
#[derive(Serialize, ToSchema)]
pub struct RecentTurn {
    pub seq_from: u64,
    pub seq_to: u64,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    pub prompt: String,
    pub tool_calls: u64,
    pub failures: u64,
    /// `open` or `completed`.
    pub status: &'static str,
}
