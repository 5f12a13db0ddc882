//! Keeps services alive, runs queued tasks, and stores their output.
//!
//! A service is a program of the user that is restarted when it exits. A task runs once, and only
//! one of its name runs at a time. Every request with a ref is answered exactly once, also after a
//! crash. Requests and events go over the bus; a request runs only what the user has allowed. No
//! process outlives the supervisor: the next daemon ends what a crash left running.
//!
//! Not here: what a segment or a session is, the journal, the bus itself, printing.

mod day; // a day in the form of folder names
mod run_ref; // the ref that names one run
mod run; // a run, as the part of the daemon sees it that asked for it
mod safe; // names from messages as parts of paths
mod clock; // wall and monotonic time
mod services_file; // services.toml
mod own_command; // what the bus may ask of our own program
mod program; // which program a command means, and whether the bus may run it
mod request; // parses requests from the bus
mod fill; // commands with placeholders
mod reaction; // tasks that answer messages
mod schedule; // tasks that run at set times
mod queue; // the task queue: pure
mod alert; // how often an alert is repeated
mod services; // service states and restarts: pure
mod heartbeat; // senders that have fallen silent: pure
mod line_splitter; // splits output into lines
mod log_file; // output on disk, with rotation
mod sweep; // removes old logs
mod output; // from a pipe into the log and onto the bus
mod process; // starts one process
mod group; // process groups: signals and waiting
mod children; // the list of running processes, for the time after a crash
mod runs; // all running processes, their threads and the kill ladder
mod state_file; // small JSON files
mod announce; // builds messages
mod publisher; // publishes without blocking
mod status; // builds supervisor.status
mod keeper_input; // the inputs of the keeper
mod keeper; // the one thread that decides
mod settings; // paths
mod supervisor; // the handle for the rest of the program

pub use day::Day;
pub use fill::{FillError, fill_placeholders};
pub use own_command::{BusAccess, GLOBAL_OPTIONS, OWN_COMMANDS, OwnCommand};
pub use run::{RunEvent, TaskRun};
pub use run_ref::Ref;
pub use safe::{folder_below, safe_form};
pub use services_file::{Chain, FileError, Handler, ServicesFile};
pub use settings::SupervisorSettings;
pub use supervisor::{DaemonTask, EnqueueError, StartError, Supervisor};
