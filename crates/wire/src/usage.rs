//! Tokens and money, grouped.

use event::{Cost, SessionId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::TokenCounts;

#[derive(Serialize, ToSchema)]
pub struct Usage {
    pub rows: Vec<UsageRow>,
    pub total: Spent,
    /// The limits of today: that of the day, and those of projects and sessions from 80 % on.
    pub budgets: Vec<Budget>,
}

/// A limit of `[budget]` in the settings, and what is used of it.
#[derive(Serialize, ToSchema)]
pub struct Budget {
    /// `day`, `project` or `session`.
    pub scope: &'static str,
    /// The day, the project or the session.
    pub name: String,
    #[schema(value_type = f64)]
    pub limit: Cost,
    #[schema(value_type = f64)]
    pub usd: Cost,
    /// `exact`, `estimated` or `incomplete`.
    pub basis: &'static str,
    pub percent: u64,
    pub exceeded: bool,
    /// The session that spent most of it.
    #[schema(value_type = Option<String>)]
    pub session_id: Option<SessionId>,
}

#[derive(Serialize, ToSchema)]
pub struct UsageRow {
    pub key: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    #[serde(flatten)]
    pub spent: Spent,
}

#[derive(Serialize, ToSchema)]
pub struct Spent {
    #[serde(flatten)]
    pub tokens: TokenCounts,
    #[schema(value_type = Option<f64>)]
    pub usd: Option<Cost>,
    /// `exact`, `estimated` or `incomplete`.
    pub basis: &'static str,
    pub usd_parts: MoneyParts,
}

/// Known money by where it comes from; the parts add up to `usd`.
#[derive(Serialize, ToSchema)]
pub struct MoneyParts {
    /// The agent named it.
    #[schema(value_type = f64)]
    pub reported: Cost,
    /// Tokens times the list prices of their model.
    #[schema(value_type = f64)]
    pub computed: Cost,
    /// Tokens times the price of another model of the family, or tokens that the agent estimated.
    #[schema(value_type = f64)]
    pub estimated: Cost,
}
