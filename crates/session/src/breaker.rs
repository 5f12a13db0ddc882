//! Switches off an approval policy that only denies.
//!
//! A row of automated denials usually means that the policy does not fit the work. The breaker
//! then leaves decisions to people until one of them allows a request.

use event::Event;
use event::payload::{ApprovalResolved, Decision};
use serde::{Deserialize, Serialize};

/// Automated denials in a row that switch the policy off, unless the host says otherwise.
pub const DENIALS_MAX: u32 = 3;

/// The row of automated denials since a person last allowed a request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Denials {
    in_a_row: u32,
    /// The longest row: an automated decision that was already on its way must not switch the
    /// policy on again.
    longest: u32,
}

impl Denials {
    /// Whether `max` automated denials in a row have switched the policy off.
    pub fn policy_is_off(&self, max: u32) -> bool {
        self.longest >= max.max(1)
    }

    pub fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        let Some(resolved) = event.readable::<ApprovalResolved>() else { return };
        match (resolved.decision, resolved.automated) {
            (Decision::Deny, true) => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                self.longest = self.longest.max(self.in_a_row);
            }
            // The policy allows again, so the row is over. `longest` stays: only a person switches
            // it on.
            (Decision::Allow, true) => self.in_a_row = 0,
            (Decision::Allow, false) if is_person(resolved.by.as_deref()) => {
                *self = Denials::default();
            }
            // A denial by a person agrees with the policy and does not switch it on again.
            _ => {}
        }
    }
}

fn is_person(by: Option<&str>) -> bool {
    // Hosts that do not say are taken for a person, because `automated` is false already.
    by.is_none_or(|by| by == "person")
}
