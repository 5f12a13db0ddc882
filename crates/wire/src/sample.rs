//! What importing the sample did.

use serde::Serialize;
use utoipa::ToSchema;

/// The three recorded sessions that come with the program, now in the journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct SampleImport {
    pub sessions: u64,
    /// Events that are new.
    pub events: u64,
    /// Events that were there before.
    pub already_recorded: u64,
    /// Events of sessions that were deleted here, which does not bring them back.
    pub deleted: u64,
}
