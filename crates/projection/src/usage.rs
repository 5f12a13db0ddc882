//! What a session used, kept so that it can be grouped and priced later in any way.
//!
//! One row per quarter of an hour, model, place, size of context and mode. Prices and time zones are
//! not in it: a new price table or another zone changes what is shown and not what was folded.

use event::Cost;
use event::payload::StepCompleted;
use serde::{Deserialize, Serialize};

use crate::model_name::bare_name;
use crate::price::PriceTable;
use crate::price_list::Terms;
use crate::quarter_hour::QuarterHour;
use crate::reported_usage::{Growth, MODELS_MAX, ModelSums, ReportedMoney, ReportedUsage};
use crate::tokens::{Basis, TokenTotals, is_zero};

/// Rows of one session that tell quarters of an hour apart: weeks without a pause. Further use is
/// told apart by the day in UTC, and may be counted on a neighbouring day in other zones.
const FINE_ROWS_MAX: usize = 4_096;

/// Rows of one session. Further use is added to one row more that names no model and no place:
/// the sum stays right, its parts are no longer told apart, and it has no price.
const ROWS_MAX: usize = FINE_ROWS_MAX + 1_024;

/// Sizes of context from which on some provider charges more. A request belongs to the largest
/// one that it exceeds, or to 0.
pub const CONTEXT_STEPS: [u64; 6] = [32_000, 100_000, 128_000, 200_000, 256_000, 272_000];

/// What tells one row from another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct UsageKey {
    pub quarter: QuarterHour,
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
    #[serde(skip_serializing_if = "ReportedUsage::is_empty")]
    reported: ReportedUsage,
    /// The reports may include requests of subagents, which count in their own sessions.
    #[serde(skip_serializing_if = "is_false")]
    includes_others: bool,
    /// Requests of a fork's origin that no report includes yet, by model. They count in the session
    /// they were made in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inherited: Vec<(String, TokenTotals)>,
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

    /// The part of each row in what the agent reported.
    pub(crate) fn reported_money(&self, prices: &PriceTable) -> Vec<ReportedMoney> {
        self.reported.money(&self.rows, prices)
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

    /// Marks that reports include what subagents used.
    pub(crate) fn include_others(&mut self) {
        self.includes_others = true;
    }

    /// Notes an inherited request and returns the number of its model; `None` if it is not told what
    /// it used.
    pub(crate) fn add_inherited(
        &mut self,
        model: Option<&str>,
        used: &UsageTotals,
    ) -> Option<RowNumber> {
        let model = model.map(bare_name).filter(|_| used.untold == 0);
        let known = model.as_ref().and_then(|model| self.position_of_inherited(model));
        let number = match (known, model) {
            (Some(number), _) => number,
            (None, Some(model)) if self.inherited.len() < MODELS_MAX => {
                self.inherited.push((model, TokenTotals::default()));
                self.inherited.len() - 1
            }
            _ => {
                self.includes_others = true;
                return None;
            }
        };
        self.inherited[number].1 += used.tokens;
        Some(number)
    }

    /// Takes back what an inherited request added.
    pub(crate) fn remove_inherited(&mut self, number: RowNumber, used: &UsageTotals) {
        if let Some((_, tokens)) = self.inherited.get_mut(number) {
            *tokens -= used.tokens;
        }
    }

    fn position_of_inherited(&self, model: &str) -> Option<usize> {
        self.inherited.iter().position(|(known, _)| known == model)
    }

    /// Takes the agent's sums over all requests so far, by model; the key is that of the report, for
    /// any model. Of an inherited report only later growth counts.
    pub(crate) fn add_report(&mut self, key: &UsageKey, sums: ModelSums, is_own: bool) {
        let (rows, inherited) = (&self.rows, &self.inherited);
        let uncovered = |model: &str| {
            let inherited = inherited.iter().filter(|(known, _)| known == model);
            let mut tokens = TokenTotals::default();
            inherited.for_each(|(_, known)| tokens += *known);
            let rows = rows.iter().filter(|row| is_model(&row.key, model));
            rows.for_each(|row| tokens += row.used.unpriced);
            tokens
        };
        let growth = self.reported.take_sums(sums, uncovered);
        for (model, grown) in growth {
            let mut rest = grown.tokens;
            let mut elsewhere = TokenTotals::default();
            if let Some(number) = self.position_of_inherited(&model) {
                elsewhere = self.inherited[number].1.take_common(&mut rest);
            }
            if !is_own {
                continue;
            }
            if grown.usd == Cost::ZERO && grown.tokens.is_empty() {
                continue;
            }
            let key = UsageKey { model: Some(model.clone()), ..key.clone() };
            let row = self.find_row(key);
            if !self.reported.has_room_for(&model) {
                self.rows[row].used.untold += 1;
                continue;
            }
            let mut covered = Vec::new();
            for (number, row) in self.rows.iter_mut().enumerate() {
                if row.used.unpriced.is_empty() || !is_model(&row.key, &model) {
                    continue;
                }
                let common = row.used.unpriced.take_common(&mut rest);
                row.used.covered += common;
                if !common.is_empty() {
                    covered.push((number, common));
                }
            }
            let is_shared = self.includes_others;
            let usd = grown.usd;
            let growth = Growth { model, usd, covered, elsewhere, rest, row, is_shared };
            self.reported.add_growth(growth);
        }
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
            0..FINE_ROWS_MAX => key,
            FINE_ROWS_MAX..ROWS_MAX => {
                let key = UsageKey { quarter: key.quarter.first_of_day(), ..key };
                if let Some(number) = self.rows.iter().rposition(|row| row.key == key) {
                    return number;
                }
                key
            }
            // The row at `ROWS_MAX` takes the rest. It keeps only the time and the context of its
            // first request.
            ROWS_MAX => UsageKey { model: None, project: None, cwd: None, ..key },
            _ => return ROWS_MAX,
        };
        // Rows are never removed, so a `RowNumber` stays valid.
        self.rows.push(UsageRow { key, used: UsageTotals::default() });
        self.rows.len() - 1
    }
}

fn is_model(key: &UsageKey, bare: &str) -> bool {
    key.model.as_deref().is_some_and(|model| bare_name(model) == bare)
}

/// The largest step of context that so many tokens exceed.
pub(crate) fn context_step(tokens: u64) -> u64 {
    CONTEXT_STEPS.into_iter().rev().find(|step| tokens > *step).unwrap_or(0)
}

fn is_false(flag: &bool) -> bool {
    !flag
}
