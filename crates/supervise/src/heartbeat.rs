//! Who says regularly that it is well, and who has stopped saying so.
//!
//! A `status` is kept per sender. Stale is one that was heard, was not idle, and has said nothing
//! for a minute.
//!
//! Not here: messages, clocks, what is done about it.

use std::collections::BTreeMap;
use std::time::Duration;

use bus::Message;

use crate::alert::Alert;
use crate::clock::Moment;

/// Silence of this length is stale.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// Nobody is remembered for longer.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Senders that are remembered. Further ones are not watched; they are counted.
const SENDERS_MAX: usize = 1_024;

/// Who sends a `status`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sender {
    pub tract: String,
    pub stream: Option<String>,
    /// The service, or the host.
    pub who: Option<String>,
}

impl Sender {
    pub(crate) fn of(message: &Message) -> Option<Sender> {
        let text = |name: &str| {
            let field = message.field(name)?;
            Some(field.text()?.into_owned())
        };
        Some(Sender {
            tract: message.tract()?.into_owned(),
            stream: text("stream"),
            who: text("service").or_else(|| text("host")),
        })
    }

    /// As it is shown.
    pub(crate) fn name(&self) -> String {
        let parts = [Some(&self.tract), self.stream.as_ref(), self.who.as_ref()];
        parts.into_iter().flatten().cloned().collect::<Vec<String>>().join("/")
    }
}

/// What has changed, or has to be said again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    TurnedStale(Sender),
    StillStale(Sender),
    CameBack(Sender),
}

#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    senders: BTreeMap<Sender, Beat>,
    /// Messages of senders for whom there was no room.
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
    /// Somebody said how it is.
    pub(crate) fn heard(&mut self, sender: Sender, is_idle: bool, now: Moment) -> Option<Change> {
        if let Some(beat) = self.senders.get_mut(&sender) {
            beat.last = now;
            beat.is_idle = is_idle;
            beat.alert.clear();
            let was_stale = std::mem::take(&mut beat.is_stale);
            return was_stale.then_some(Change::CameBack(sender));
        }
        if self.senders.len() >= SENDERS_MAX {
            self.unwatched += 1;
            return None;
        }
        let beat = Beat { last: now, is_idle, is_stale: false, alert: Alert::default() };
        self.senders.insert(sender, beat);
        None
    }

    /// Looks who has fallen silent.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Change> {
        self.senders.retain(|_, beat| now.saturating_sub(beat.last) < FORGET_AFTER);
        let mut changes = Vec::new();
        for (sender, beat) in &mut self.senders {
            let is_silent = now.saturating_sub(beat.last) >= STALE_AFTER && !beat.is_idle;
            if !is_silent || !beat.alert.is_due(now) {
                continue;
            }
            let sender = sender.clone();
            let is_new = !std::mem::replace(&mut beat.is_stale, true);
            changes.push(if is_new {
                Change::TurnedStale(sender)
            } else {
                Change::StillStale(sender)
            });
        }
        changes
    }

    /// A service was ended on purpose: nothing is expected of it.
    pub(crate) fn ended(&mut self, service: &str) {
        self.senders.retain(|sender, _| sender.who.as_deref() != Some(service));
    }

    pub(crate) fn stale(&self) -> impl Iterator<Item = String> {
        let stale = self.senders.iter().filter(|(_, beat)| beat.is_stale);
        stale.map(|(sender, _)| sender.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(tract: &str) -> Sender {
        Sender { tract: tract.to_owned(), stream: None, who: None }
    }

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    #[test]
    fn silence_of_a_minute_is_stale_until_the_next_word() {
        let mut beats = Heartbeats::default();
        assert_eq!(beats.heard(sender("observe"), false, at(0)), None);
        assert_eq!(beats.tick(at(59)), []);
        assert_eq!(beats.stale().count(), 0);
        assert_eq!(beats.tick(at(60)), [Change::TurnedStale(sender("observe"))]);
        assert_eq!(beats.stale().collect::<Vec<_>>(), ["observe"]);
        let back = beats.heard(sender("observe"), false, at(70));
        assert_eq!(back, Some(Change::CameBack(sender("observe"))));
        assert_eq!(beats.stale().count(), 0);
        assert_eq!(beats.tick(at(75)), []);
        // It can happen again.
        assert_eq!(beats.tick(at(130)), [Change::TurnedStale(sender("observe"))]);
    }

    #[test]
    fn it_is_told_at_once_and_then_ever_more_rarely() {
        let mut beats = Heartbeats::default();
        beats.heard(sender("sync"), false, at(0));
        let told: Vec<u64> = (0..4 * 3_600)
            .step_by(5)
            .filter(|second| !beats.tick(at(*second)).is_empty())
            .collect();
        assert_eq!(told, [60, 120, 240, 480, 960, 1_920, 3_840, 7_440, 11_040]);
    }

    #[test]
    fn one_that_was_idle_or_never_heard_is_not_expected() {
        let mut beats = Heartbeats::default();
        beats.heard(sender("observe"), true, at(0));
        assert_eq!(beats.tick(at(1_000)), []);
        beats.heard(sender("observe"), false, at(1_000));
        assert_eq!(beats.tick(at(1_060)).len(), 1);
    }

    #[test]
    fn a_service_that_was_ended_is_not_expected() {
        let mut beats = Heartbeats::default();
        let who = Some("watcher".to_owned());
        beats.heard(Sender { who, ..sender("watch") }, false, at(0));
        beats.ended("watcher");
        assert_eq!(beats.tick(at(100)), []);
    }

    #[test]
    fn nobody_is_remembered_for_more_than_a_day() {
        let mut beats = Heartbeats::default();
        beats.heard(sender("observe"), false, at(0));
        assert_eq!(beats.tick(at(60)).len(), 1);
        assert_eq!(beats.tick(at(24 * 3_600)), []);
        assert_eq!(beats.stale().count(), 0);
    }

    #[test]
    fn senders_are_told_apart_and_bounded() {
        let mut beats = Heartbeats::default();
        for stream in ["claude", "codex"] {
            let stream = Some(stream.to_owned());
            beats.heard(Sender { stream, ..sender("observe") }, false, at(0));
        }
        beats.heard(
            Sender { stream: Some("codex".to_owned()), ..sender("observe") },
            false,
            at(50),
        );
        beats.tick(at(60));
        assert_eq!(beats.stale().collect::<Vec<_>>(), ["observe/claude"]);
        for number in 0..2_000 {
            beats.heard(sender(&number.to_string()), false, at(60));
        }
        assert_eq!(beats.unwatched, 2_000 - (1_024 - 2));
    }
}
