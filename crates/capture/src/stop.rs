//! How a pass is asked to end before everything is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks for an end, from any thread. What was read by then is recorded, and the next pass goes on
/// behind it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
