//! Message classes: what the bus drops first for a client that falls behind.

/// A message's class. Variants are in the order in which the bus drops them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Output lines and live deltas. The bus skips them for a client that is far behind.
    Bulk,
    /// `*.status`. The bus keeps only the newest of each sender and tract.
    Status,
    /// Messages that a client can also read from the journal.
    Recorded,
    Ordinary,
    /// Requests, answers and changes of state that clients wait for. The bus retains them for a client.
    Lifecycle,
}

impl Class {
    pub(crate) const ALL: [Class; 5] =
        [Class::Bulk, Class::Status, Class::Recorded, Class::Ordinary, Class::Lifecycle];

    /// Returns the class of a message with these names.
    pub fn for_event(tract: &str, event: &str) -> Class {
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
