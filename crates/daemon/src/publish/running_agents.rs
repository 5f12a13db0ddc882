//! Which agents are at work, told every few seconds while any is, and once when none is any more.
//!
//! Pure: what time it is is handed in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bus::Draft;
use event::SessionId;
use serde_json::json;

use super::cortex::REV;

/// How often it is told.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// A run of which nothing is heard for so long is no longer counted as work.
const SILENT_AFTER: Duration = Duration::from_secs(30 * 60);

/// Sessions whose start was told and whose end was not.
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
    pub(super) fn has(&self, session: &SessionId) -> bool {
        self.running.contains_key(session)
    }

    /// Something was heard of a session that works.
    pub(super) fn goes_on(&mut self, session: &SessionId, provider: &str, now: Instant) {
        let running = self.running.entry(session.clone());
        running.and_modify(|running| running.heard_at = now).or_insert_with(|| RunningAgent {
            provider: provider.to_owned(),
            since: now,
            heard_at: now,
        });
    }

    pub(super) fn is_over(&mut self, session: &SessionId) {
        self.running.remove(session);
    }

    /// When there will be something to tell, if nothing else happens.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        let is_wanted = self.was_running || !self.running.is_empty();
        let due = |told_at| STATUS_EVERY.saturating_sub(now - told_at);
        is_wanted.then(|| self.told_at.map_or(Duration::ZERO, due))
    }

    /// What to tell now, if something.
    pub(super) fn status(&mut self, now: Instant) -> Option<Draft> {
        if self.told_at.is_some_and(|told| now - told < STATUS_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        self.running.retain(|_, running| now - running.heard_at < SILENT_AFTER);
        let is_running = !self.running.is_empty();
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
        // Nobody should wait for the next one.
        Some(if is_running { draft } else { draft.with("idle", true) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_while_somebody_works_and_the_last_one_says_that_nobody_does() {
        let session = SessionId::new("claude:a").expect("a plain id");
        let mut running_agents = RunningAgents::default();
        let begin = Instant::now();
        let mut told = Vec::new();
        for second in 0..40 {
            let now = begin + Duration::from_secs(second);
            match second {
                // It writes without a pause.
                3..20 => running_agents.goes_on(&session, "claude", now),
                20 => running_agents.is_over(&session),
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
