//! The words of a failure: the same for people and scripts, at every interface.

use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct Failure {
    pub error: FailureBody,
}

#[derive(Serialize, ToSchema)]
pub struct FailureBody {
    /// A word for scripts.
    pub kind: &'static str,
    pub message: String,
    pub causes: Vec<String>,
    /// What to try.
    pub hint: Option<String>,
}
