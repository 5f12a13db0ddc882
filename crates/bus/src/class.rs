//! How much a message matters to one who falls behind.

/// In the order they are given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Lines of output and live deltas: skipped for a client that is far behind.
    Bulk,
    /// `*.status`: the newest of each sender and tract is enough.
    Status,
    /// What can be read from the journal.
    Recorded,
    Ordinary,
    /// Somebody waits for it: kept aside for the client.
    Lifecycle,
}

impl Class {
    pub(crate) const ALL: [Class; 5] =
        [Class::Bulk, Class::Status, Class::Recorded, Class::Ordinary, Class::Lifecycle];

    /// The class of a message by its names.
    pub fn of(tract: &str, event: &str) -> Class {
        match (tract, event) {
            (_, "status") => Class::Status,
            ("logs", "line") => Class::Bulk,
            ("journal", event) if event.ends_with(".delta") => Class::Bulk,
            ("activity", "live") => Class::Ordinary,
            ("supervisor" | "observe" | "importer" | "dream" | "activity", _)
            | ("notification" | "navigate" | "callosum", _)
            | ("logs", "exec" | "exit")
            | ("cortex", "request" | "start" | "finish" | "error") => Class::Lifecycle,
            _ => Class::Ordinary,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Class::Bulk => "bulk",
            Class::Status => "status",
            Class::Recorded => "recorded",
            Class::Ordinary => "ordinary",
            Class::Lifecycle => "lifecycle",
        }
    }
}
