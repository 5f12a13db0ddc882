//! The cost of a session: its own, and that of inherited events.

use event::{Cost, Event};
use serde::{Deserialize, Serialize};

/// The known costs of a session's events, counted exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionCost {
    /// The cost of the events of this session.
    pub own: Cost,
    /// The cost of inherited events, which belongs to the session that first recorded them.
    pub inherited: Cost,
}

impl SessionCost {
    pub fn total(&self) -> Cost {
        self.own + self.inherited
    }

    /// Applies the next event. `instead_of` is the cost that was counted for the event it amends;
    /// an amendment without a cost leaves that unchanged.
    pub fn apply(&mut self, event: &Event, instead_of: Option<Cost>) {
        let Some(cost) = event.cost else { return };
        let side = match event.fork_origin() {
            Some(_) => &mut self.inherited,
            None => &mut self.own,
        };
        *side = *side + cost - instead_of.unwrap_or_default();
    }
}
