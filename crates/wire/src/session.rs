//! Sessions as listings show them.

use std::collections::BTreeMap;

use event::{Cost, SessionId, Time};
use serde::Serialize;
use utoipa::ToSchema;

/// A session. What no adapter has told yet is `null`.
#[derive(Serialize, ToSchema)]
pub struct Session {
    pub id: String,
    pub provider: String,
    pub provider_session_id: Option<String>,
    pub agent_version: Option<String>,
    #[schema(value_type = Option<String>)]
    pub parent_id: Option<SessionId>,
    /// `main`, `fork`, `resume`, `child` or `subagent`.
    pub relation: &'static str,
    pub project: Option<String>,
    pub cwd: Option<String>,
    pub branch: Option<String>,
    pub model: Option<String>,
    pub title: Option<String>,
    /// The origin of the title: `given` by a person or the provider, `model` or `heuristic`.
    pub title_origin: Option<&'static str>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Time>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_event_at: Option<Time>,
    pub status: Option<String>,
    pub ending: Option<&'static str>,
    pub epochs: Option<u64>,
    pub counts: SessionCounts,
    pub tokens: Option<TokenCounts>,
    #[schema(value_type = Option<f64>)]
    pub usd: Option<Cost>,
    /// How sure the money is: `exact`, `estimated` or `incomplete`.
    pub basis: Option<&'static str>,
    /// The agent has deleted its file.
    pub source_missing: Option<bool>,
    /// Where one session is told, not a list of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<Turn>>,
    /// Earlier turns that are not told, where there are so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_left_out: Option<usize>,
}

impl Session {
    /// With so many turns at most, the last ones, whose texts have at most so many characters.
    #[must_use]
    pub fn cut(mut self, turns_max: usize, chars_max: Option<usize>) -> Session {
        let Some(turns) = &mut self.turns else { return self };
        let left_out = turns.len().saturating_sub(turns_max);
        if left_out > 0 {
            turns.drain(..left_out);
            self.turns_left_out = Some(left_out);
        }
        if let Some(chars_max) = chars_max {
            turns.iter_mut().for_each(|turn| turn.cut(chars_max));
        }
        self
    }
}

/// What a session did by itself.
#[derive(Serialize, ToSchema)]
#[schema(as = Counts)]
pub struct SessionCounts {
    pub prompts: u64,
    pub queued: u64,
    pub responses: u64,
    pub tool_calls: u64,
    pub tool_results: u64,
    pub compactions: u64,
    pub events: u64,
    pub unknown: u64,
}

/// Each request to a model once, however often it is written down.
#[derive(Serialize, ToSchema)]
#[schema(as = Tokens)]
pub struct TokenCounts {
    pub requests: u64,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    pub reasoning: u64,
}

/// From a prompt to the end of its answer.
#[derive(Serialize, ToSchema)]
pub struct Turn {
    pub id: String,
    pub seq_from: u64,
    pub seq_to: u64,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Time>,
    /// `open`, `completed` or `failed`.
    pub status: &'static str,
    /// `done`, `failed`, `interrupted`, `died` or `replaced`, once it has ended.
    pub outcome: Option<&'static str>,
    pub prompt: Option<String>,
    /// What was typed meanwhile and handed over in the middle.
    pub queued: Vec<String>,
    pub answer: Option<String>,
    /// How often each tool was called.
    pub tools: BTreeMap<String, u64>,
    pub approvals: u64,
    pub errors: u64,
    pub files: Files,
    /// Texts of it were cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl Turn {
    fn cut(&mut self, chars_max: usize) {
        let Turn { prompt, queued, answer, truncated, .. } = self;
        for text in prompt.iter_mut().chain(queued).chain(answer) {
            if let Some((end, _)) = text.char_indices().nth(chars_max) {
                text.truncate(end);
                *truncated = true;
            }
        }
    }
}

/// What was done to files in a turn.
#[derive(Serialize, ToSchema)]
pub struct Files {
    pub read: Vec<String>,
    pub modified: Vec<String>,
    pub failed: Vec<String>,
}

/// One thing that was said in a session.
#[derive(Serialize, ToSchema)]
#[schema(as = Message)]
pub struct SessionMessage {
    pub seq: u64,
    pub event_id: String,
    /// `user`, `assistant`, `thinking`, `tool_call` or `tool_result`.
    pub role: &'static str,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    pub turn_id: Option<String>,
    /// The tool, of a call.
    pub tool: Option<String>,
    pub text: String,
    /// The text goes on in the event.
    pub truncated: bool,
}
