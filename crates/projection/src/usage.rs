//! What a session used, kept so that it can be grouped and priced later in any way.
//!
//! One row per day, model, place and size of context. Prices are not in it: a new price table
//! changes what is shown and not what was folded.

use event::Cost;
use event::payload::StepCompleted;
use serde::{Deserialize, Serialize};

use crate::day::Day;
use crate::tokens::{Basis, TokenTotals, is_zero};

/// Rows of one session. Further use is added to one row more that names no model and no place:
/// the sum stays right, its parts are no longer told apart, and it has no price.
const ROWS_MAX: usize = 1_024;

/// Sizes of context from which on some provider charges more. A request belongs to the largest
/// one that it exceeds, or to 0.
pub const CONTEXT_STEPS: [u64; 4] = [128_000, 200_000, 256_000, 272_000];

/// What tells one row from another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct UsageKey {
    pub day: Day,
    pub model: Option<String>,
    pub project: Option<String>,
    pub cwd: Option<String>,
    /// The step of [`CONTEXT_STEPS`] the requests exceeded, or 0.
    pub context_above: u64,
}

/// Tokens and money of any number of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageTotals {
    pub tokens: TokenTotals,
    /// The part of `tokens` for which the provider named no money.
    pub unpriced: TokenTotals,
    /// The money the provider named.
    pub told_cost: Cost,
    /// Requests of which the agent only estimated the tokens.
    #[serde(skip_serializing_if = "is_zero")]
    pub estimated: u64,
    /// Requests without token counts.
    #[serde(skip_serializing_if = "is_zero")]
    pub untold: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UsageRow {
    pub key: UsageKey,
    pub used: UsageTotals,
}

/// The rows of a session in the order their first requests came.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionUsage(Vec<UsageRow>);

/// The index of a row of [`SessionUsage`].
pub(crate) type RowNumber = usize;

impl UsageTotals {
    /// What one request used, or `None` if it failed before it used anything.
    pub fn from_step(step: &StepCompleted, envelope_cost: Option<Cost>) -> Option<UsageTotals> {
        let Some(usage) = &step.usage else {
            // The provider named money and no tokens: the sum of money is exact, that of tokens is
            // not.
            if let Some(cost) = envelope_cost {
                return Some(UsageTotals {
                    tokens: TokenTotals::unreported(),
                    untold: 1,
                    ..UsageTotals::from_cost(cost)
                });
            }
            let tokens = TokenTotals::unreported();
            let untold =
                UsageTotals { tokens, unpriced: tokens, untold: 1, ..UsageTotals::default() };
            // A request that failed is taken to have used nothing; one that went well used an
            // unknown amount.
            return step.error.is_none().then_some(untold);
        };
        let tokens = TokenTotals::from_usage(usage);
        // One of the two: both tell the money of the same request.
        let told_cost = usage.cost.or(envelope_cost);
        Some(UsageTotals {
            tokens,
            unpriced: if told_cost.is_some() { TokenTotals::default() } else { tokens },
            told_cost: told_cost.unwrap_or(Cost::ZERO),
            estimated: u64::from(usage.estimated == Some(true)),
            untold: 0,
        })
    }

    /// Money without a request, such as a host charges for a tool.
    pub fn from_cost(cost: Cost) -> UsageTotals {
        UsageTotals { told_cost: cost, ..UsageTotals::default() }
    }

    pub fn is_nothing(&self) -> bool {
        *self == UsageTotals::default()
    }

    /// How sure the tokens are.
    pub fn tokens_basis(&self) -> Basis {
        match self {
            UsageTotals { untold: 1.., .. } => Basis::Incomplete,
            UsageTotals { estimated: 1.., .. } => Basis::Estimated,
            _ => Basis::Exact,
        }
    }

    pub fn add(&mut self, other: &UsageTotals) {
        self.tokens += other.tokens;
        self.unpriced += other.unpriced;
        self.told_cost += other.told_cost;
        self.estimated += other.estimated;
        self.untold += other.untold;
    }

    /// The reverse of [`UsageTotals::add`].
    pub fn remove(&mut self, other: &UsageTotals) {
        self.tokens -= other.tokens;
        self.unpriced -= other.unpriced;
        self.told_cost = self.told_cost - other.told_cost;
        self.estimated = self.estimated.saturating_sub(other.estimated);
        self.untold = self.untold.saturating_sub(other.untold);
    }
}

impl SessionUsage {
    /// The rows that are not empty.
    pub fn rows(&self) -> impl Iterator<Item = &UsageRow> {
        self.0.iter().filter(|row| !row.used.is_nothing())
    }

    /// All rows together.
    pub fn total(&self) -> UsageTotals {
        let mut total = UsageTotals::default();
        self.rows().for_each(|row| total.add(&row.used));
        total
    }

    pub(crate) fn add(&mut self, key: UsageKey, used: &UsageTotals) -> RowNumber {
        let number = self.find_row(key);
        self.0[number].used.add(used);
        number
    }

    /// Takes back what was added to a row.
    pub(crate) fn remove(&mut self, number: RowNumber, used: &UsageTotals) {
        if let Some(row) = self.0.get_mut(number) {
            row.used.remove(used);
        }
    }

    /// Marks a row as incomplete.
    pub(crate) fn mark_incomplete(&mut self, key: UsageKey) {
        let number = self.find_row(key);
        self.0[number].used.untold += 1;
    }

    fn find_row(&mut self, key: UsageKey) -> RowNumber {
        // Most requests are made where the last one was.
        if let Some(number) = self.0.iter().rposition(|row| row.key == key) {
            return number;
        }
        let key = match self.0.len() {
            // The row at `ROWS_MAX` takes the rest. It keeps only the day and the context of its
            // first request.
            0..ROWS_MAX => key,
            ROWS_MAX => UsageKey { model: None, project: None, cwd: None, ..key },
            _ => return ROWS_MAX,
        };
        // Rows are never removed, so a `RowNumber` stays valid.
        self.0.push(UsageRow { key, used: UsageTotals::default() });
        self.0.len() - 1
    }
}

/// The largest step of context that so many tokens exceed.
pub(crate) fn context_step(tokens: u64) -> u64 {
    CONTEXT_STEPS.into_iter().rev().find(|step| tokens > *step).unwrap_or(0)
}
