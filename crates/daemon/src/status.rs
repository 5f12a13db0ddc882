//! What each session is doing, and the approvals that agents ask for.

mod tracker; // assesses sessions and remembers them between two looks
mod service; // keeps the board of statuses current while it is watched
mod approvals; // requests for approval

pub use approvals::{ApprovalFilter, approvals};
pub(crate) use service::StatusService;
pub use tracker::{SessionStatus, StatusTracker};
