//! How the daemon does: its parts, and whether what happens can be recorded. The supervisor tells
//! it with its status, as soon as there is one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use supervise::Supervisor;

/// Shared by all parts. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    parts: BTreeMap<&'static str, &'static str>,
    disk: Option<String>,
    supervisor: Option<Arc<Supervisor>>,
}

impl Health {
    /// From now on the supervisor tells it.
    pub(crate) fn tell_by(&self, supervisor: Arc<Supervisor>) {
        let mut state = self.lock();
        for (name, word) in &state.parts {
            supervisor.set_part(name, word);
        }
        supervisor.set_disk(state.disk.clone());
        state.supervisor = Some(supervisor);
    }

    pub(crate) fn set_part(&self, name: &'static str, word: &'static str) {
        let mut state = self.lock();
        state.parts.insert(name, word);
        if let Some(supervisor) = &state.supervisor {
            supervisor.set_part(name, word);
        }
    }

    /// Why nothing can be recorded; nothing if it can.
    pub(crate) fn set_disk(&self, error: Option<String>) {
        let mut state = self.lock();
        state.disk.clone_from(&error);
        if let Some(supervisor) = &state.supervisor {
            supervisor.set_disk(error);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
