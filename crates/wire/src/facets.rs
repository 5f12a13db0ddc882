//! What there is to choose from.

use serde::Serialize;
use utoipa::ToSchema;

/// Agents and projects, those with the most sessions first.
#[derive(Serialize, ToSchema)]
pub struct Facets {
    pub providers: Vec<Facet>,
    pub projects: Vec<Facet>,
}

#[derive(Serialize, ToSchema)]
pub struct Facet {
    pub name: String,
    pub sessions: u64,
}
