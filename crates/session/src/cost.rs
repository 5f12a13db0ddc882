//! What a session cost: by itself, and in what it shares with its parent.

use event::{Cost, Event};
use serde::{Deserialize, Serialize};

/// The known costs of a session's events, counted exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionCost {
    /// Of what happened in this session.
    pub own: Cost,
    /// Of what it shows of its parent; it belongs to the session that made it.
    pub inherited: Cost,
}

impl SessionCost {
    pub fn total(&self) -> Cost {
        self.own + self.inherited
    }

    /// Takes in the next event. `instead_of` is what has been counted so far for the event it is a
    /// fuller account of; a fuller account that names no cost leaves that as it is.
    pub fn apply(&mut self, event: &Event, instead_of: Option<Cost>) {
        let Some(cost) = event.cost else { return };
        let side = match event.fork_origin() {
            Some(_) => &mut self.inherited,
            None => &mut self.own,
        };
        *side = *side + cost - instead_of.unwrap_or_default();
    }
}
