//! Heartbeats: which senders of `status` have fallen silent.
//!
//! A sender is stale if it was heard, did not report itself idle, and has sent no `status` for a
//! minute.
//!
//! Not here: messages, clocks, reactions.

use std::collections::BTreeMap;
use std::time::Duration;

use bus::Message;

use crate::alert::Alert;
use crate::clock::Moment;

/// The length of silence that makes a sender stale.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// Senders are forgotten after this long.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Senders that are watched. Further ones are only counted.
const SENDERS_MAX: usize = 1_024;

/// The sender of a `status`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sender {
    pub tract: String,
    pub stream: Option<String>,
    /// The service or the host.
    pub origin: Option<String>,
}

impl Sender {
    pub(crate) fn from_message(message: &Message) -> Option<Sender> {
        let text = |name: &str| {
            let field = message.field(name)?;
            Some(field.text()?.into_owned())
        };
        Some(Sender {
            tract: message.tract()?.into_owned(),
            stream: text("stream"),
            origin: text("service").or_else(|| text("host")),
        })
    }

    /// Returns the name for people.
    pub(crate) fn name(&self) -> String {
        let parts = [Some(&self.tract), self.stream.as_ref(), self.origin.as_ref()];
        parts.into_iter().flatten().cloned().collect::<Vec<String>>().join("/")
    }
}

/// A change of a sender's state, or a repeated alert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HeartbeatChange {
    TurnedStale(Sender),
    StillStale(Sender),
    CameBack(Sender),
}

#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    senders: BTreeMap<Sender, Beat>,
    /// Messages of senders beyond `SENDERS_MAX`.
    pub(crate) unwatched: u64,
}

#[derive(Debug)]
struct Beat {
    last: Moment,
    is_idle: bool,
    is_stale: bool,
    alert: Alert,
}

impl Heartbeats {
    /// Takes note of a `status`.
    pub(crate) fn record_status(
        &mut self,
        sender: Sender,
        is_idle: bool,
        now: Moment,
    ) -> Option<HeartbeatChange> {
        if let Some(beat) = self.senders.get_mut(&sender) {
            beat.last = now;
            beat.is_idle = is_idle;
            beat.alert.clear();
            let was_stale = std::mem::take(&mut beat.is_stale);
            return was_stale.then_some(HeartbeatChange::CameBack(sender));
        }
        // Any client can make up senders, so their number is bounded.
        if self.senders.len() >= SENDERS_MAX {
            self.unwatched += 1;
            return None;
        }
        let beat = Beat { last: now, is_idle, is_stale: false, alert: Alert::default() };
        self.senders.insert(sender, beat);
        None
    }

    /// Finds senders that have fallen silent.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<HeartbeatChange> {
        // A sender that will never come back must not be reported forever.
        self.senders.retain(|_, beat| now.saturating_sub(beat.last) < FORGET_AFTER);
        let mut changes = Vec::new();
        for (sender, beat) in &mut self.senders {
            let is_silent = now.saturating_sub(beat.last) >= STALE_AFTER && !beat.is_idle;
            // The order matters: asking `is_due` counts as an alert.
            if !is_silent || !beat.alert.is_due(now) {
                continue;
            }
            let sender = sender.clone();
            let is_new = !std::mem::replace(&mut beat.is_stale, true);
            changes.push(if is_new {
                HeartbeatChange::TurnedStale(sender)
            } else {
                HeartbeatChange::StillStale(sender)
            });
        }
        changes
    }

    /// Forgets the senders of a service that was stopped on purpose.
    pub(crate) fn forget_service(&mut self, service: &str) {
        self.senders.retain(|sender, _| sender.origin.as_deref() != Some(service));
    }

    pub(crate) fn stale_names(&self) -> impl Iterator<Item = String> {
        let stale = self.senders.iter().filter(|(_, beat)| beat.is_stale);
        stale.map(|(sender, _)| sender.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(tract: &str) -> Sender {
        Sender { tract: tract.to_owned(), stream: None, origin: None }
    }

    fn seconds(count: u64) -> Moment {
        Duration::from_secs(count)
    }

    #[test]
    fn sender_is_stale_after_a_minute() {
        let mut beats = Heartbeats::default();
        assert_eq!(beats.record_status(sender("observe"), false, seconds(0)), None);
        assert_eq!(beats.tick(seconds(59)), []);
        assert_eq!(beats.stale_names().count(), 0);
        assert_eq!(beats.tick(seconds(60)), [HeartbeatChange::TurnedStale(sender("observe"))]);
        assert_eq!(beats.stale_names().collect::<Vec<_>>(), ["observe"]);
        let back = beats.record_status(sender("observe"), false, seconds(70));
        assert_eq!(back, Some(HeartbeatChange::CameBack(sender("observe"))));
        assert_eq!(beats.stale_names().count(), 0);
        assert_eq!(beats.tick(seconds(75)), []);
        // It can become stale again.
        assert_eq!(beats.tick(seconds(130)), [HeartbeatChange::TurnedStale(sender("observe"))]);
    }

    #[test]
    fn alerts_are_repeated_ever_more_rarely() {
        let mut beats = Heartbeats::default();
        beats.record_status(sender("sync"), false, seconds(0));
        let told: Vec<u64> = (0..4 * 3_600)
            .step_by(5)
            .filter(|second| !beats.tick(seconds(*second)).is_empty())
            .collect();
        assert_eq!(told, [60, 120, 240, 480, 960, 1_920, 3_840, 7_440, 11_040]);
    }

    #[test]
    fn idle_sender_is_not_expected() {
        let mut beats = Heartbeats::default();
        beats.record_status(sender("observe"), true, seconds(0));
        assert_eq!(beats.tick(seconds(1_000)), []);
        beats.record_status(sender("observe"), false, seconds(1_000));
        assert_eq!(beats.tick(seconds(1_060)).len(), 1);
    }

    #[test]
    fn stopped_service_is_not_expected() {
        let mut beats = Heartbeats::default();
        let origin = Some("watcher".to_owned());
        beats.record_status(Sender { origin, ..sender("watch") }, false, seconds(0));
        beats.forget_service("watcher");
        assert_eq!(beats.tick(seconds(100)), []);
    }

    #[test]
    fn senders_are_forgotten_after_a_day() {
        let mut beats = Heartbeats::default();
        beats.record_status(sender("observe"), false, seconds(0));
        assert_eq!(beats.tick(seconds(60)).len(), 1);
        assert_eq!(beats.tick(seconds(24 * 3_600)), []);
        assert_eq!(beats.stale_names().count(), 0);
    }

    #[test]
    fn senders_are_distinct_and_bounded() {
        let mut beats = Heartbeats::default();
        for stream in ["claude", "codex"] {
            let stream = Some(stream.to_owned());
            beats.record_status(Sender { stream, ..sender("observe") }, false, seconds(0));
        }
        beats.record_status(
            Sender { stream: Some("codex".to_owned()), ..sender("observe") },
            false,
            seconds(50),
        );
        beats.tick(seconds(60));
        assert_eq!(beats.stale_names().collect::<Vec<_>>(), ["observe/claude"]);
        for number in 0..2_000 {
            beats.record_status(sender(&number.to_string()), false, seconds(60));
        }
        assert_eq!(beats.unwatched, 2_000 - (1_024 - 2));
    }
}
