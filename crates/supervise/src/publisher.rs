//! Publishes messages without blocking and without losing those that clients wait for.

use std::collections::VecDeque;

use bus::{Draft, Handle, Message, PublishError};

/// Messages held back while the bus is full. Beyond that, the newest are dropped and counted.
const HELD_MAX: usize = 65_536;

pub(crate) struct Publisher {
    bus: Handle,
    held: VecDeque<Message>,
    /// Messages that were dropped.
    pub(crate) lost: u64,
}

impl Publisher {
    pub(crate) fn new(bus: Handle) -> Publisher {
        Publisher { bus, held: VecDeque::new(), lost: 0 }
    }

    /// Publishes a message behind all earlier ones.
    pub(crate) fn publish(&mut self, draft: Draft) {
        // Too long for a message; there is no shorter form of it.
        let Ok(message) = draft.build() else {
            self.lost += 1;
            return;
        };
        // Always through the queue, so that a message never overtakes one that is held back.
        if self.held.len() < HELD_MAX {
            self.held.push_back(message);
        } else {
            self.lost += 1;
        }
        self.flush();
    }

    /// Publishes what was held back, as far as the bus has room.
    pub(crate) fn flush(&mut self) {
        while let Some(message) = self.held.front() {
            match self.bus.publish(message.clone()) {
                Err(PublishError::Full) => return,
                // A stopped bus has no clients left.
                Ok(()) | Err(PublishError::Stopped) => drop(self.held.pop_front()),
            }
        }
    }

    /// Returns whether messages are held back.
    pub(crate) fn has_pending(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn clients(&self) -> usize {
        self.bus.clients()
    }
}
