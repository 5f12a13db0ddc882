//! All inputs of the keeper thread.

use std::sync::mpsc::SyncSender;

use bus::Message;

use crate::queue::RunId;
use crate::run::Watcher;
use crate::run_ref::Ref;
use crate::services_file::FileError;
use crate::supervisor::{DaemonTask, EnqueueError};

/// Inputs that wait for the keeper. Senders block beyond that, except the bus: the listener
/// queues hold the messages instead.
pub(crate) const INPUTS_MAX: usize = 1_024;

/// An input of the keeper thread.
pub(crate) enum KeeperInput {
    /// A request to the supervisor, or a `status`.
    Request(Message),
    /// A message that a reaction may answer.
    Message(Message),
    /// The main process of a run has exited.
    Exited {
        run: RunId,
        exit_code: i32,
    },
    /// The output of a run is read to its end.
    Drained {
        run: RunId,
    },
    /// The process group of a run is empty.
    GroupGone {
        run: RunId,
    },
    Reload {
        done: SyncSender<Result<(), FileError>>,
    },
    Enqueue {
        task: DaemonTask,
        watcher: Option<Watcher>,
        done: SyncSender<Result<Ref, EnqueueError>>,
    },
    Stop,
    KillAll,
}
