//! When the message about running agents is sent: every few seconds while any runs, and once more
//! when the last has ended.
//!
//! Pure: the caller passes the time.

use std::time::{Duration, Instant};

use bus::Draft;

use super::cortex::{REV, RunningAgent};

/// Time between two status messages.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// Decides when a status message is due.
#[derive(Default)]
pub(super) struct RunningReport {
    told_at: Option<Instant>,
    was_running: bool,
}

impl RunningReport {
    /// The time until the next message, if no event comes.
    pub(super) fn due_in(&self, is_running: bool, now: Instant) -> Option<Duration> {
        // One more message is due after the last agent ended.
        let is_wanted = self.was_running || is_running;
        let due = |told_at| STATUS_EVERY.saturating_sub(now - told_at);
        is_wanted.then(|| self.told_at.map_or(Duration::ZERO, due))
    }

    /// The message, if one is due. `agents` is called only then.
    pub(super) fn message(
        &mut self,
        now: Instant,
        agents: impl FnOnce() -> Vec<RunningAgent>,
    ) -> Option<Draft> {
        if self.told_at.is_some_and(|told| now - told < STATUS_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        let agents = agents();
        let is_running = !agents.is_empty();
        // Silent while nothing runs: only the change to idle is published.
        if !std::mem::replace(&mut self.was_running, is_running) && !is_running {
            return None;
        }
        let draft = Draft::new("cortex", "status")
            .with("running_agents", agents.len())
            .with("agents", agents)
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
        let mut report = RunningReport::default();
        let begin = Instant::now();
        let mut sent = Vec::new();
        for second in 0..40 {
            let now = begin + Duration::from_secs(second);
            let is_running = (3..20).contains(&second);
            let agents = || is_running.then(RunningAgent::default).into_iter().collect();
            if let Some(message) = report.message(now, agents) {
                let message = message.build().expect("it is short").to_json();
                sent.push((second, message["running_agents"].clone(), message["idle"].clone()));
            }
        }
        let shown: Vec<String> =
            sent.iter().map(|(at, agents, idle)| format!("{at} {agents} {idle}")).collect();
        assert_eq!(shown, ["5 1 null", "10 1 null", "15 1 null", "20 0 true"]);
    }
}
