//! Saying things on the bus without ever waiting for it, and without losing what somebody waits
//! for.

use std::collections::VecDeque;

use bus::{Draft, Handle, Message, PublishError};

/// Messages held back while the bus has no room. With more, the newest are given up and counted.
const HELD_MAX: usize = 65_536;

pub(crate) struct Voice {
    bus: Handle,
    held: VecDeque<Message>,
    /// Messages that were given up.
    pub(crate) lost: u64,
}

impl Voice {
    pub(crate) fn new(bus: Handle) -> Voice {
        Voice { bus, held: VecDeque::new(), lost: 0 }
    }

    /// Says it, after everything that was said before.
    pub(crate) fn say(&mut self, draft: Draft) {
        // Too long for a message; whatever is in it, a shorter one could not say it.
        let Ok(message) = draft.build() else {
            self.lost += 1;
            return;
        };
        if self.held.len() < HELD_MAX {
            self.held.push_back(message);
        } else {
            self.lost += 1;
        }
        self.go_on();
    }

    /// Says what was held back, as far as there is room.
    pub(crate) fn go_on(&mut self) {
        while let Some(message) = self.held.front() {
            match self.bus.publish(message.clone()) {
                Err(PublishError::Full) => return,
                // A bus that has stopped has nobody to tell.
                Ok(()) | Err(PublishError::Stopped) => drop(self.held.pop_front()),
            }
        }
    }

    /// Whether something is held back.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn clients(&self) -> usize {
        self.bus.clients()
    }
}
