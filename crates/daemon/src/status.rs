//! What each session is doing, and the approvals that agents ask for.

mod tracker; // assesses sessions and remembers them between two looks
mod service; // keeps the statuses of all sessions current while they are watched
mod shown; // which sessions those are, and when each check of them is due
mod changes; // which statuses have changed, for readers that follow them
mod looping; // what is said of equal failures
mod approvals; // requests for approval

pub use approvals::{ApprovalFilter, FROM_TRANSCRIPT, approvals};
pub(crate) use changes::{AssessedStatus, ChangesCursor};
pub(crate) use service::{BoardWatch, StatusService, StatusThread};
pub use tracker::{SessionStatus, StatusTracker};
