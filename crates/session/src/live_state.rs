//! The small state every open session keeps beside its view.

use event::{Cost, Event, EventId, SessionId};
use serde::{Deserialize, Serialize};

use crate::answer::AnswerPart;
use crate::{Latest, OpenWork, SessionCost, SessionSettings};

/// What is known of a session without reading it again. Bounded, and the same whether it was
/// folded live, in pieces or from the whole log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LiveState {
    pub open_work: OpenWork,
    pub cost: SessionCost,
    pub latest: Latest,
    pub settings: SessionSettings,
}

impl LiveState {
    pub fn new(session_id: SessionId) -> LiveState {
        LiveState {
            open_work: OpenWork::new(session_id),
            cost: SessionCost::default(),
            latest: Latest::default(),
            settings: SessionSettings::default(),
        }
    }

    /// Takes in the next event. One that was taken in before changes nothing. `instead_of` is what
    /// has been counted for the event it amends.
    pub fn apply(&mut self, event: &Event, instead_of: Option<Cost>) {
        if event.seq <= self.open_work.up_to_seq() {
            return;
        }
        // Both need it, and answers are long.
        let part = AnswerPart::from_draft(event);
        self.open_work.apply_with_part(event, part.as_ref());
        self.latest.apply_with_part(event, part.as_ref());
        self.cost.apply(event, instead_of);
        self.settings.apply(event);
    }

    /// The state of a fork that begins here: `shown` gives the ids under which the fork shows this
    /// session's events.
    pub(crate) fn inherit(&self, fork: SessionId, shown: &dyn Fn(EventId) -> EventId) -> LiveState {
        LiveState {
            open_work: self.open_work.inherit(fork, shown),
            cost: SessionCost { own: Cost::default(), inherited: self.cost.total() },
            latest: self.latest.inherit(shown),
            settings: self.settings.clone(),
        }
    }

    /// The last event taken in; 0 for none.
    pub fn up_to_seq(&self) -> u64 {
        self.open_work.up_to_seq()
    }
}
