//! Epochs: the stretches of a session between starts, compactions, clears and long silences.
//!
//! Where one ends is told by `epoch.closed`; its range follows from the log. An epoch begins with
//! the next thing that is said or done, so none of them is empty, and a second report of one end
//! closes nothing.

use event::payload::EpochClosed;
use event::{Draft, Event, Kind, Time};
use serde::{Deserialize, Serialize};

/// One stretch of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Epoch {
    /// 0, 1, 2 …
    pub number: u64,
    pub from_seq: u64,
    /// The event that closed it, or the last one so far.
    pub to_seq: u64,
    pub started_at: Time,
    pub last_at: Time,
    /// How it ended; absent while it is open.
    pub closed: Option<EpochEnd>,
}

/// How an epoch ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EpochEnd {
    /// `compaction`, `clear`, `exit` or `silence`.
    pub cause: String,
    pub day: String,
    pub stream: String,
    pub segment: String,
}

impl Epoch {
    /// The name of an epoch beyond its session: `session:<provider>:<id>`, and `:e1`, `:e2` … for
    /// all but the first. The id is always whole, because beginnings collide.
    pub fn tag(&self, provider: &str, provider_session_id: &str) -> String {
        match self.number {
            0 => format!("session:{provider}:{provider_session_id}"),
            number => format!("session:{provider}:{provider_session_id}:e{number}"),
        }
    }
}

/// The epochs of a session, told from its events in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Epochs {
    seq: u64,
    epochs: Vec<Epoch>,
    /// Events behind the last end that say nothing yet: they belong to what comes next.
    next_from: Option<(u64, Time)>,
}

impl Epochs {
    /// All epochs so far; the last may be open.
    pub fn list(&self) -> &[Epoch] {
        &self.epochs
    }

    /// Takes the next event, and tells the epoch that ended with it.
    pub fn apply(&mut self, event: &Event) -> Option<&Epoch> {
        if event.seq <= self.seq || event.fork_origin().is_some() {
            return None;
        }
        self.seq = event.seq;
        let open = self.epochs.last_mut().filter(|epoch| epoch.closed.is_none());
        if event.kind == Kind::EpochClosed {
            // A second report of one end finds no open epoch, and closes nothing.
            let epoch = open?;
            let told = event.readable::<EpochClosed>().unwrap_or_default();
            epoch.to_seq = event.seq;
            epoch.last_at = event.created_at;
            epoch.closed = Some(EpochEnd {
                cause: told.cause,
                day: told.day,
                stream: told.stream,
                segment: told.segment,
            });
            self.next_from = None;
            return self.epochs.last();
        }
        match open {
            Some(epoch) => {
                epoch.to_seq = event.seq;
                // A note may be about an earlier time.
                epoch.last_at = epoch.last_at.max(event.created_at);
            }
            None => {
                // Settings and notes before the first word belong to the epoch that begins with it.
                let (from_seq, started_at) =
                    *self.next_from.get_or_insert((event.seq, event.created_at));
                if is_content(&event.kind) {
                    self.next_from = None;
                    self.epochs.push(Epoch {
                        number: self.epochs.len() as u64,
                        from_seq,
                        to_seq: event.seq,
                        started_at,
                        last_at: event.created_at,
                        closed: None,
                    });
                }
            }
        }
        None
    }
}

/// How many epochs there are, without their ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EpochCount {
    closed: u64,
    is_open: bool,
}

impl EpochCount {
    /// The number of the epoch that is open, or comes next.
    pub(crate) fn number(self) -> u64 {
        self.closed
    }

    pub(crate) fn count(self) -> u64 {
        self.closed + u64::from(self.is_open)
    }

    pub(crate) fn apply(&mut self, event: &Draft) {
        if event.kind != Kind::EpochClosed {
            self.is_open |= is_content(&event.kind);
        } else if std::mem::take(&mut self.is_open) {
            self.closed += 1;
        }
    }
}

/// Whether an epoch can begin with this kind of event: talk or work.
pub(crate) fn is_content(kind: &Kind) -> bool {
    kind.is_shown()
        || matches!(
            kind,
            Kind::TurnStarted
                | Kind::StepStarted
                | Kind::ExternalInput
                | Kind::ToolStarted
                | Kind::ApprovalRequested
                | Kind::Compaction
                | Kind::Error
                | Kind::ChildRequested
                | Kind::ChildStarted
        )
}
