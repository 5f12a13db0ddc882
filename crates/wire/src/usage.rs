//! Tokens and money, grouped.

use event::Cost;
use serde::Serialize;
use utoipa::ToSchema;

use crate::TokenCounts;

#[derive(Serialize, ToSchema)]
pub struct Usage {
    pub rows: Vec<UsageRow>,
    pub total: Spent,
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
}
