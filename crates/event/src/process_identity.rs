//! A process of this machine, named so that no other process has the same name.

use serde::{Deserialize, Deserializer, Serialize};

use crate::Time;

/// A process. The kernel reuses pids, so a pid alone names none: together with its start it does,
/// until the machine is started again.
///
/// The JSON field names are a stored format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    pub start: ProcessStart,
    /// The start by the clock of this machine, for the order of processes and events. Two looks at
    /// one process may differ by a few hundredths of a second.
    pub started_at: Time,
}

/// When a process started, as its kernel counts. Only starts of the same kind can be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessStart {
    /// Linux: clock ticks since the boot.
    Ticks(u64),
    /// macOS: seconds since 1970.
    UnixSecs(u64),
}

impl ProcessIdentity {
    /// Whether both name one process.
    pub fn is_same(&self, other: &ProcessIdentity) -> bool {
        self.pid == other.pid && self.start == other.start
    }

    /// Reads an identity that may be of a newer form; such a one counts as absent, so that what
    /// stands beside it is still read.
    pub fn read_known<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ProcessIdentity>, D::Error> {
        let json = Option::<serde_json::Value>::deserialize(deserializer)?;
        Ok(json.and_then(|json| serde_json::from_value(json).ok()))
    }
}
