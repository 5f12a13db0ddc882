//! What a session used, kept so that it can be grouped and priced later in any way.
//!
//! One row per day, model, place, size of context and mode. Prices are not in it: a new price table
//! changes what is shown and not what was folded.

use event::Cost;
use event::payload::StepCompleted;
use serde::{Deserialize, Serialize};

use crate::day::Day;
use crate::model_name::bare_name;
use crate::price::PriceTable;
use crate::price_list::Terms;
use crate::tokens::{Basis, TokenTotals, is_zero};

/// Rows of one session. Further use is added to one row more that names no model and no place:
/// the sum stays right, its parts are no longer told apart, and it has no price.
const ROWS_MAX: usize = 1_024;

/// Sizes of context from which on some provider charges more. A request belongs to the largest
/// one that it exceeds, or to 0.
pub const CONTEXT_STEPS: [u64; 6] = [32_000, 100_000, 128_000, 200_000, 256_000, 272_000];

/// What tells one row from another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct UsageKey {
    pub day: Day,
    pub model: Option<String>,
    pub project: Option<String>,
    pub cwd: Option<String>,
    /// The step of [`CONTEXT_STEPS`] the requests exceeded, or 0.
    pub context_above: u64,
    /// A mode with a price of its own, such as `batch` or `fast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl UsageKey {
    pub fn terms(&self) -> Terms<'_> {
        Terms { context_above: self.context_above, mode: self.mode.as_deref() }
    }
}

/// Tokens and money of any number of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageTotals {
    pub tokens: TokenTotals,
    /// The part of `tokens` for which the agent named no money.
    pub unpriced: TokenTotals,
    /// The part of `tokens` whose money is in a report over many requests.
    #[serde(skip_serializing_if = "TokenTotals::is_zero")]
    pub covered: TokenTotals,
    /// The money that single requests named.
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

/// What a session used, and what its agent says that it cost.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionUsage {
    /// In the order their first requests came.
    rows: Vec<UsageRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reports: Vec<ModelReport>,
    /// The reports include requests of subagents or of a fork's origin, which count in the sessions
    /// they were made in.
    #[serde(skip_serializing_if = "is_false")]
    includes_others: bool,
}

/// What the agent says the requests to one model have cost so far.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct ModelReport {
    /// As [`bare_name`] writes it.
    model: String,
    /// The sums of the last report, which grow as long as the session does.
    last: ReportedUsage,
    /// The money of all reports.
    usd: Cost,
    /// Tokens that no request of this session accounts for.
    rest: TokenTotals,
    /// The row of the last report with such tokens.
    rest_row: Option<RowNumber>,
}

/// Models of which a session's reports are kept. Money of further ones is marked as incomplete: no
/// session uses so many, and each costs a pass over the rows.
const REPORTS_MAX: usize = 64;

/// Sums over the requests to a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReportedUsage {
    pub usd: Cost,
    pub tokens: TokenTotals,
}

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
            ..UsageTotals::default()
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
        self.covered += other.covered;
        self.told_cost += other.told_cost;
        self.estimated += other.estimated;
        self.untold += other.untold;
    }

    /// Counts the money of these tokens as reported.
    pub(crate) fn cover(&mut self) {
        self.covered += std::mem::take(&mut self.unpriced);
    }

    /// The reverse of [`UsageTotals::add`].
    pub fn remove(&mut self, other: &UsageTotals) {
        self.tokens -= other.tokens;
        self.unpriced -= other.unpriced;
        self.covered -= other.covered;
        self.told_cost = self.told_cost - other.told_cost;
        self.estimated = self.estimated.saturating_sub(other.estimated);
        self.untold = self.untold.saturating_sub(other.untold);
    }
}

impl SessionUsage {
    /// The rows that are not empty.
    pub fn rows(&self) -> impl Iterator<Item = &UsageRow> {
        self.rows.iter().filter(|row| !row.used.is_nothing())
    }

    /// All rows, also those that only have money of a report.
    pub(crate) fn all_rows(&self) -> impl Iterator<Item = &UsageRow> {
        self.rows.iter()
    }

    /// All rows together.
    pub fn total(&self) -> UsageTotals {
        let mut total = UsageTotals::default();
        self.rows().for_each(|row| total.add(&row.used));
        total
    }

    /// The part of each row in what the agent reported: money is split as the list prices would
    /// split it.
    pub(crate) fn reported_money(&self, prices: &PriceTable) -> Vec<Cost> {
        let mut money = vec![Cost::ZERO; self.rows.len()];
        for report in &self.reports {
            let weigh = |terms: Terms<'_>, tokens: &TokenTotals| {
                let cost = prices.cost(Some(&report.model), terms, tokens);
                cost.map_or_else(|| usual_weight(tokens), |cost| i128::from(cost.usd.nanos()))
            };
            // The rest stands behind the rows. Where it belongs to other sessions, nothing of it
            // counts here.
            let rows = self.rows.iter().map(|row| match is_model(&row.key, &report.model) {
                true => weigh(row.key.terms(), &row.used.covered),
                false => 0,
            });
            let weights: Vec<_> = rows.chain([weigh(Terms::default(), &report.rest)]).collect();
            let mut shares = split(report.usd, &weights);
            let rest = shares.pop().unwrap_or(Cost::ZERO);
            for (row, share) in money.iter_mut().zip(shares) {
                *row += share;
            }
            if let Some(row) = report.rest_row.filter(|_| !self.includes_others) {
                money[row] += rest;
            }
        }
        money
    }

    pub(crate) fn add(&mut self, key: UsageKey, used: &UsageTotals) -> RowNumber {
        let number = self.find_row(key);
        self.rows[number].used.add(used);
        number
    }

    /// Takes back what was added to a row.
    pub(crate) fn remove(&mut self, number: RowNumber, used: &UsageTotals) {
        if let Some(row) = self.rows.get_mut(number) {
            row.used.remove(used);
        }
    }

    /// Marks a row as incomplete.
    pub(crate) fn mark_incomplete(&mut self, key: UsageKey) {
        let number = self.find_row(key);
        self.rows[number].used.untold += 1;
    }

    /// Marks that reports include what other sessions used.
    pub(crate) fn include_others(&mut self) {
        self.includes_others = true;
    }

    /// Takes sums of the agent over all requests to a model. Of an inherited report only later
    /// growth counts.
    pub(crate) fn add_report(&mut self, key: UsageKey, reported: ReportedUsage, is_own: bool) {
        let Some(model) = key.model.as_deref().map(bare_name) else { return };
        let known = self.reports.iter().position(|report| report.model == model);
        if known.is_none() && self.reports.len() == REPORTS_MAX {
            return self.mark_incomplete(key);
        }
        let number = known.unwrap_or_else(|| {
            self.reports.push(ModelReport {
                model: model.clone(),
                last: ReportedUsage::default(),
                usd: Cost::ZERO,
                rest: TokenTotals::default(),
                rest_row: None,
            });
            self.reports.len() - 1
        });
        let last = std::mem::replace(&mut self.reports[number].last, reported);
        // Sums that have become smaller were begun anew.
        let ReportedUsage { usd, tokens: mut rest } = match reported.covers(&last) {
            true => reported.since(&last),
            false => reported,
        };
        if !is_own || (usd == Cost::ZERO && rest.is_empty()) {
            return;
        }
        for row in self.rows.iter_mut().filter(|row| is_model(&row.key, &model)) {
            let covered = row.used.unpriced.take_common(&mut rest);
            row.used.covered += covered;
        }
        // What no request accounts for is counted by the day of the report.
        let rest_row = (!rest.is_empty()).then(|| self.find_row(key));
        let report = &mut self.reports[number];
        report.usd += usd;
        report.rest += rest;
        report.rest_row = rest_row.or(report.rest_row);
    }

    /// Whether a row belongs to a model, by whatever name.
    pub(crate) fn is_of_model(&self, number: RowNumber, model: &str) -> bool {
        self.rows.get(number).is_some_and(|row| is_model(&row.key, &bare_name(model)))
    }

    fn find_row(&mut self, key: UsageKey) -> RowNumber {
        // Most requests are made where the last one was.
        if let Some(number) = self.rows.iter().rposition(|row| row.key == key) {
            return number;
        }
        let key = match self.rows.len() {
            // The row at `ROWS_MAX` takes the rest. It keeps only the day and the context of its
            // first request.
            0..ROWS_MAX => key,
            ROWS_MAX => UsageKey { model: None, project: None, cwd: None, ..key },
            _ => return ROWS_MAX,
        };
        // Rows are never removed, so a `RowNumber` stays valid.
        self.rows.push(UsageRow { key, used: UsageTotals::default() });
        self.rows.len() - 1
    }
}

impl ReportedUsage {
    /// Whether the sums that every report has are at least as large. Others come and go with the
    /// version of the agent.
    fn covers(&self, earlier: &ReportedUsage) -> bool {
        self.usd >= earlier.usd
            && self.tokens.input >= earlier.tokens.input
            && self.tokens.output >= earlier.tokens.output
    }

    fn since(&self, earlier: &ReportedUsage) -> ReportedUsage {
        let mut tokens = self.tokens;
        tokens -= earlier.tokens;
        ReportedUsage { usd: self.usd - earlier.usd, tokens }
    }
}

fn is_model(key: &UsageKey, bare: &str) -> bool {
    key.model.as_deref().is_some_and(|model| bare_name(model) == bare)
}

/// How much tokens weigh beside others of a model that has no price: as the prices of most models
/// relate to each other.
fn usual_weight(tokens: &TokenTotals) -> i128 {
    let written_5m = tokens.cache_creation.saturating_sub(tokens.cache_creation_1h);
    let weights = [
        (20, tokens.input),
        (100, tokens.output),
        (2, tokens.cache_read),
        (25, written_5m),
        (40, tokens.cache_creation_1h),
    ];
    weights.into_iter().map(|(weight, tokens)| weight * i128::from(tokens)).sum()
}

/// Splits money by weights so that the parts add up to it. Without any weight the last has it all.
fn split(usd: Cost, weights: &[i128]) -> Vec<Cost> {
    let all: i128 = weights.iter().sum();
    let nanos = i128::from(usd.nanos());
    let (mut weighed, mut given) = (0, 0);
    let last = weights.len().saturating_sub(1);
    let parts = weights.iter().enumerate().map(|(index, weight)| {
        weighed += weight;
        let until =
            if index == last { nanos } else { (nanos * weighed).checked_div(all).unwrap_or(0) };
        let part = until - given;
        given = until;
        Cost::from_nanos(part as i64)
    });
    parts.collect()
}

/// The largest step of context that so many tokens exceed.
pub(crate) fn context_step(tokens: u64) -> u64 {
    CONTEXT_STEPS.into_iter().rev().find(|step| tokens > *step).unwrap_or(0)
}

fn is_false(flag: &bool) -> bool {
    !flag
}
