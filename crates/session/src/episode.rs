//! What is worth remembering of a run: the calls that worked, and how it ended.

use event::payload::Outcome;
use event::{Cost, EventId, Metadata, Raw, SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::run::{Run, RunCall, RunResult, RunStep};

/// A run in short.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Episode {
    /// The same for the same session up to the same event.
    pub id: String,
    pub session_id: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Of all events shown, inherited ones included.
    #[serde(default)]
    pub total_cost: Cost,
    /// What the session was started with.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// The calls that succeeded, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<EpisodeCall>,
    /// How many calls came back without success.
    #[serde(default)]
    pub failed_calls: u64,
    /// The last thing said without asking for a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EpisodeCall {
    pub tool: String,
    pub input: Raw,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Raw>,
}

/// Takes the essence out of a run.
pub fn distill_run(run: &Run) -> Episode {
    let mut episode = Episode {
        id: episode_id(&run.session_id, run.last_seq),
        session_id: run.session_id.clone(),
        agent_id: run.agent_id.clone(),
        started_at: run.started_at,
        ended_at: run.ended_at,
        total_cost: run.total_cost,
        metadata: run.metadata.clone(),
        calls: Vec::new(),
        failed_calls: 0,
        conclusion: None,
    };
    for step in run.turns.iter().flat_map(|turn| &turn.steps) {
        for (call, result) in answered(step) {
            if result.result.outcome == Outcome::Ok {
                episode.calls.push(EpisodeCall {
                    tool: call.tool.clone(),
                    input: call.input.clone(),
                    output: result.result.output.clone(),
                });
            } else {
                episode.failed_calls += 1;
            }
        }
        let said = step.output.joined_text();
        // The last such answer wins: earlier ones were followed by more work.
        if step.calls.is_empty() && !said.trim().is_empty() {
            episode.conclusion = Some(said);
        }
    }
    episode
}

impl Episode {
    /// The conclusion and the names of the tools, as one text to search in.
    pub fn search_text(&self) -> String {
        let tools = self.calls.iter().map(|call| call.tool.as_str());
        let words: Vec<&str> = self.conclusion.as_deref().into_iter().chain(tools).collect();
        words.join(" ")
    }
}

/// Episodes by id, in the order they were first put.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Episodes(Vec<Episode>);

impl Episodes {
    /// Adds an episode, or replaces the one with its id at its place.
    pub fn put_episode(&mut self, episode: Episode) {
        match self.0.iter_mut().find(|known| known.id == episode.id) {
            Some(known) => *known = episode,
            None => self.0.push(episode),
        }
    }

    /// The episodes of a session, oldest first.
    pub fn by_session<'a>(
        &'a self,
        session_id: &'a SessionId,
    ) -> impl Iterator<Item = &'a Episode> {
        self.0.iter().filter(move |episode| episode.session_id == *session_id)
    }

    /// The episodes with all the words in their text, case aside, newest first.
    pub fn search(&self, words: &str, limit: usize) -> Vec<&Episode> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let fits = |episode: &&Episode| {
            let text = episode.search_text().to_lowercase();
            words.iter().all(|word| text.contains(word.as_str()))
        };
        // No words would fit every episode.
        if words.is_empty() {
            return Vec::new();
        }
        self.0.iter().rev().filter(fits).take(limit).collect()
    }
}

/// The calls of a step that have a result, each with its first one. Of a call id used twice, the
/// first result is for the first call.
fn answered(step: &RunStep) -> Vec<(&RunCall, &RunResult)> {
    let mut results: Vec<&RunResult> = step.results.iter().collect();
    let mut pairs = Vec::new();
    for call in &step.calls {
        let place = results.iter().position(|result| result.result.call_id == call.call_id);
        if let Some(place) = place {
            pairs.push((call, results.remove(place)));
        }
    }
    pairs
}

fn episode_id(session_id: &SessionId, last_seq: u64) -> String {
    let identity = format!("episode:{last_seq}");
    // A fixed time: the id must not depend on when the run was distilled.
    EventId::derived(Time::EPOCH, "hansard", session_id.as_str(), identity.as_bytes()).to_string()
}
