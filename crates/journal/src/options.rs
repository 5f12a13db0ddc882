//! How a journal is opened.

/// How a journal is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The store of a journal that does not exist yet. An existing one keeps its store.
    pub store: StoreKind,
    pub durability: Durability,
    pub access: Access,
}

/// How events are stored on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// One SQLite database: for a person with years of history.
    #[default]
    Sqlite,
    /// One file of JSON lines per session, to be read with other tools.
    Files,
}

/// When an append is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After the commit is synced to disk.
    #[default]
    Full,
    /// Before that. A power cut may lose the newest commits, but only whole ones. For imports that
    /// can be repeated. Only for SQLite: other stores refuse to be opened with it.
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
