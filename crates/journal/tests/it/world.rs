//! A journal, and where it lives.

use std::ops::Deref;
use std::path::PathBuf;

use journal::{Access, Journal, Options, StoreKind};
use tempfile::TempDir;

/// Makes every case a test of every store. A store is one line here and one function below.
macro_rules! cases {
    (@in $store:ident $($case:ident)*) => {
        mod $store {
            $(
                #[test]
                fn $case() {
                    super::$case($crate::world::$store());
                }
            )*
        }
    };
    ($($case:ident)*) => {
        cases! { @in memory $($case)* }
        cases! { @in sqlite $($case)* }
        cases! { @in files $($case)* }
    };
}

/// The same for what only a journal on disk can do.
macro_rules! durable_cases {
    ($($case:ident)*) => {
        cases! { @in sqlite $($case)* }
        cases! { @in files $($case)* }
    };
}

/// An empty journal for one case.
pub(crate) struct World {
    /// `None` while it is opened again, and once it was let go.
    journal: Option<Journal>,
    home: Option<Home>,
}

/// Where a journal on disk lives.
pub(crate) struct Home {
    dir: TempDir,
    options: Options,
}

pub(crate) fn memory() -> World {
    World { journal: Some(Journal::in_memory()), home: None }
}

pub(crate) fn sqlite() -> World {
    World::on_disk(StoreKind::Sqlite)
}

pub(crate) fn files() -> World {
    World::on_disk(StoreKind::Files)
}

impl World {
    fn on_disk(store: StoreKind) -> World {
        let home = Home::new(Options { store, ..Options::default() });
        World { journal: Some(home.open()), home: Some(home) }
    }

    /// Ends the journal and opens it again, where there is something to open: what lives in
    /// memory just goes on.
    pub(crate) fn reopen(&mut self) {
        if let Some(home) = &self.home {
            // The old one has to end before the new one begins.
            drop(self.journal.take());
            self.journal = Some(home.open());
        }
    }

    /// Drops the journal and keeps its folder.
    pub(crate) fn let_go(&mut self) {
        drop(self.journal.take());
    }

    /// The same journal as another process would have it.
    pub(crate) fn another(&self) -> Journal {
        self.home().open()
    }

    /// The same, for one that only reads.
    pub(crate) fn another_for_reading(&self) -> Journal {
        let options = Options { access: Access::ReadOnly, ..self.home().options };
        Journal::open(&self.home().path(), &options).unwrap()
    }

    /// Where there is no journal yet.
    pub(crate) fn elsewhere(&self) -> Home {
        Home::new(self.home().options)
    }

    fn home(&self) -> &Home {
        self.home.as_ref().expect("only what is on disk can be opened twice")
    }
}

impl Home {
    fn new(options: Options) -> Home {
        Home { dir: tempfile::tempdir().unwrap(), options }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    pub(crate) fn open(&self) -> Journal {
        Journal::open_or_create(&self.path(), &self.options).unwrap()
    }
}

impl Deref for World {
    type Target = Journal;

    fn deref(&self) -> &Journal {
        self.journal.as_ref().expect("it was not let go")
    }
}
