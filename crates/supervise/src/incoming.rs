//! Everything that can happen to the supervisor, in one place.

use std::sync::mpsc::SyncSender;

use bus::Message;

use crate::queue::RunId;
use crate::run::Watcher;
use crate::run_ref::Ref;
use crate::services_file::FileError;
use crate::supervisor::{EnqueueError, Task};

/// What waits for the supervisor's turn. Whoever has more to say waits; the bus, which never
/// does, keeps what its listener has not taken.
pub(crate) const INCOMING_MAX: usize = 1_024;

/// What happened.
pub(crate) enum Incoming {
    /// Somebody asks for something, or says how it is.
    Said(Message),
    /// Something that a reaction may answer.
    Heard(Message),
    /// The main process of a run has ended.
    Exited {
        run: RunId,
        exit_code: i32,
    },
    /// All it printed is read.
    Drained {
        run: RunId,
    },
    /// Nobody of its group lives.
    Gone {
        run: RunId,
    },
    Reload {
        done: SyncSender<Result<(), FileError>>,
    },
    Enqueue {
        task: Task,
        watcher: Option<Watcher>,
        done: SyncSender<Result<Ref, EnqueueError>>,
    },
    Stop,
    KillAll,
}
