//! Asks a pass to end before everything is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set from any thread. What was read by then is recorded, and the next pass goes on behind it.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    asked: Arc<AtomicBool>,
    /// A second flag that counts, too.
    other: Option<Arc<AtomicBool>>,
}

impl StopFlag {
    /// A flag that can be set by itself, and counts as set when this one is.
    #[must_use]
    pub fn or_earlier(&self) -> StopFlag {
        StopFlag { asked: Arc::default(), other: Some(Arc::clone(&self.asked)) }
    }

    pub fn request_stop(&self) {
        // Relaxed is enough: the flag guards no other memory.
        self.asked.store(true, Ordering::Relaxed);
    }

    /// The flag itself: setting it is all that a signal handler may do.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    pub fn is_asked(&self) -> bool {
        let is_set = |asked: &Arc<AtomicBool>| asked.load(Ordering::Relaxed);
        is_set(&self.asked) || self.other.as_ref().is_some_and(is_set)
    }
}
