//! How a journal is opened.

/// What to open, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How a journal that does not exist yet is kept. One that exists stays as it is.
    pub store: StoreKind,
    pub durability: Durability,
    pub access: Access,
}

/// How events are kept on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// One database: for a person with years of history.
    #[default]
    Sqlite,
    /// One file of JSON lines per session: for those who want to read them with their own tools.
    Files,
}

/// When `Recorded` is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After the commit is on the disk.
    #[default]
    Full,
    /// Before: a power cut may take the newest commits, whole ones only. For imports that can be
    /// repeated.
    Relaxed,
}

/// What the journal is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    #[default]
    ReadWrite,
    /// Appending is refused.
    ReadOnly,
}
