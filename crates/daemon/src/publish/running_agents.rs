//! Which agents run: a status message every few seconds while any does, and one when the last has
//! ended.
//!
//! Pure: the caller passes the time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bus::Draft;
use event::SessionId;
use serde_json::json;

use super::cortex::REV;

/// Time between two status messages.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// A run without an event for so long no longer counts as running: its end may never come.
const SILENT_AFTER: Duration = Duration::from_secs(30 * 60);

/// Sessions with a published start and no published end.
#[derive(Default)]
pub(super) struct RunningAgents {
    running: HashMap<SessionId, RunningAgent>,
    told_at: Option<Instant>,
    was_running: bool,
}

struct RunningAgent {
    provider: String,
    since: Instant,
    heard_at: Instant,
}

impl RunningAgents {
    pub(super) fn contains(&self, session: &SessionId) -> bool {
        self.running.contains_key(session)
    }

    /// Notes an event of a running session.
    pub(super) fn note_event(&mut self, session: &SessionId, provider: &str, now: Instant) {
        let running = self.running.entry(session.clone());
        running.and_modify(|running| running.heard_at = now).or_insert_with(|| RunningAgent {
            provider: provider.to_owned(),
            since: now,
            heard_at: now,
        });
    }

    pub(super) fn remove(&mut self, session: &SessionId) {
        self.running.remove(session);
    }

    /// The time until the next status message, if no event comes.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        // One more message is due after the last agent ended.
        let is_wanted = self.was_running || !self.running.is_empty();
        let due = |told_at| STATUS_EVERY.saturating_sub(now - told_at);
        is_wanted.then(|| self.told_at.map_or(Duration::ZERO, due))
    }

    /// The status message, if one is due.
    pub(super) fn status(&mut self, now: Instant) -> Option<Draft> {
        if self.told_at.is_some_and(|told| now - told < STATUS_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        // An agent that was killed writes no end.
        self.running.retain(|_, running| now - running.heard_at < SILENT_AFTER);
        let is_running = !self.running.is_empty();
        // Silent while nothing runs: only the change to idle is published.
        if !std::mem::replace(&mut self.was_running, is_running) && !is_running {
            return None;
        }
        let agents = self.running.iter().map(|(session, running)| {
            json!({
                "agent_id": session.as_str(),
                "name": running.provider,
                "provider": running.provider,
                "status": "running",
                "elapsed_seconds": (now - running.since).as_secs(),
            })
        });
        let draft = Draft::new("cortex", "status")
            .with("running_agents", self.running.len())
            .with("agents", agents.collect::<Vec<_>>())
            .with("rev", REV);
        // Tells watchers that no further status follows.
        Some(if is_running { draft } else { draft.with("idle", true) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_sent_until_the_last_agent_ends() {
        let session = SessionId::new("claude:a").expect("a plain id");
        let mut running_agents = RunningAgents::default();
        let begin = Instant::now();
        let mut told = Vec::new();
        for second in 0..40 {
            let now = begin + Duration::from_secs(second);
            match second {
                // It writes without a pause.
                3..20 => running_agents.note_event(&session, "claude", now),
                20 => running_agents.remove(&session),
                _ => {}
            }
            if let Some(status) = running_agents.status(now) {
                let status = status.build().expect("it can be told").to_json();
                told.push((second, status["running_agents"].clone(), status["idle"].clone()));
            }
        }
        let shown: Vec<String> =
            told.iter().map(|(at, agents, idle)| format!("{at} {agents} {idle}")).collect();
        assert_eq!(shown, ["5 1 null", "10 1 null", "15 1 null", "20 0 true"]);
    }
}
