//! How a page that is open comes back after a restart of the daemon.

use serde::Serialize;
use utoipa::ToSchema;

/// What a page keeps in memory. The secret is never sent.
#[derive(Serialize, ToSchema)]
pub struct Ticket {
    pub id: String,
    pub secret: String,
}

/// The present host name of the page, which only the owner of the ticket can read. All fields are
/// hexadecimal digits.
#[derive(Serialize)]
pub struct Welcome {
    pub salt: String,
    pub sealed: String,
    pub proof: String,
}
