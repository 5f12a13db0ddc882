//! A bounded queue that keeps the newest elements.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

/// At most `MAX` elements, the oldest first. A further one takes the place of the oldest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RingBuffer<T, const MAX: usize>(VecDeque<T>);

impl<T, const MAX: usize> RingBuffer<T, MAX> {
    pub(crate) fn push(&mut self, element: T) {
        // What was saved may have had more room.
        while self.0.len() >= MAX {
            self.0.pop_front();
        }
        self.0.push_back(element);
    }

    /// Takes out the newest element that fits.
    pub(crate) fn take(&mut self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.0.iter().rposition(fits)?;
        self.0.remove(place)
    }
}

impl<T, const MAX: usize> Default for RingBuffer<T, MAX> {
    fn default() -> RingBuffer<T, MAX> {
        RingBuffer(VecDeque::new())
    }
}

impl<T, const MAX: usize> Deref for RingBuffer<T, MAX> {
    type Target = VecDeque<T>;

    fn deref(&self) -> &VecDeque<T> {
        &self.0
    }
}

impl<T, const MAX: usize> DerefMut for RingBuffer<T, MAX> {
    fn deref_mut(&mut self) -> &mut VecDeque<T> {
        &mut self.0
    }
}
