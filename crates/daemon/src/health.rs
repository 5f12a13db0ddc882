//! How the daemon does: its parts, and whether what happens can be recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by all parts. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    parts: BTreeMap<&'static str, &'static str>,
    disk: Option<String>,
}

impl Health {
    pub(crate) fn set_part(&self, name: &'static str, state: &'static str) {
        self.lock().parts.insert(name, state);
    }

    /// Why nothing can be recorded; nothing if it can.
    pub(crate) fn set_disk(&self, error: Option<String>) {
        self.lock().disk = error;
    }

    pub(crate) fn parts(&self) -> Vec<(&'static str, &'static str)> {
        self.lock().parts.iter().map(|(name, state)| (*name, *state)).collect()
    }

    pub(crate) fn disk(&self) -> Option<String> {
        self.lock().disk.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
