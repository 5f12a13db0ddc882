//! What an agent says that a session has cost: sums over all requests so far, told now and then.
//!
//! A report continues an earlier one, and only the growth between the two is new. Two windows that
//! resume one session both continue the report they found; neither knows of the other's.

use std::collections::BTreeMap;

use event::Cost;
use serde::{Deserialize, Serialize};

use crate::price::PriceTable;
use crate::price_list::Terms;
use crate::tokens::TokenTotals;
use crate::usage::{RowNumber, UsageRow};

/// Reports that a later one can continue. With more, the oldest is forgotten: a window that stayed
/// open so long continues a newer one.
const SUMS_MAX: usize = 16;

/// Growths and the rows they include, together. Further growth is added to the last one of its
/// model: the sum stays right, its money is split over all of these rows.
const PARTS_MAX: usize = 4_096;

/// Models of which a session's reports are kept. Money of further ones is marked as incomplete.
pub(crate) const MODELS_MAX: usize = 64;

/// The reports of a session's agent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReportedUsage {
    /// The sums of the newest reports, the last one at the end.
    sums: Vec<ModelSums>,
    growths: Vec<Growth>,
}

/// The sums of one report by model, as `bare_name` writes it.
pub(crate) type ModelSums = BTreeMap<String, ReportedSum>;

/// The sum over the requests to a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReportedSum {
    pub usd: Cost,
    pub tokens: TokenTotals,
}

/// What one report adds to the one it continues.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Growth {
    pub model: String,
    pub usd: Cost,
    /// The rows of the requests it includes, with their tokens.
    pub covered: Vec<(RowNumber, TokenTotals)>,
    /// Requests of a fork's origin, whose money counts there.
    #[serde(default, skip_serializing_if = "TokenTotals::is_zero")]
    pub elsewhere: TokenTotals,
    /// Tokens that no request of this session accounts for.
    pub rest: TokenTotals,
    /// The row of the time it was told.
    pub row: RowNumber,
    /// The rest may be that of subagents, which count in their own sessions.
    pub is_shared: bool,
}

/// What the reports say of one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReportedMoney {
    pub usd: Cost,
    /// A part of a report was left out that may have been the session's own.
    pub is_estimate: bool,
}

impl ReportedUsage {
    pub(crate) fn is_empty(&self) -> bool {
        *self == ReportedUsage::default()
    }

    /// Takes the sums of a report and returns what they add to the report that they continue.
    /// `uncovered` has the tokens of recorded requests that no report includes yet.
    pub(crate) fn take_sums(
        &mut self,
        sums: ModelSums,
        uncovered: impl Fn(&str) -> TokenTotals,
    ) -> ModelSums {
        let growth = self.growth_of(&sums, uncovered);
        self.sums.retain(|earlier| *earlier != sums);
        if self.sums.len() == SUMS_MAX {
            self.sums.remove(0);
        }
        self.sums.push(sums);
        growth
    }

    /// Whether there is room for one more model.
    pub(crate) fn has_room_for(&self, model: &str) -> bool {
        let models = self.growths.iter().map(|growth| growth.model.as_str());
        let mut known: Vec<&str> = models.collect();
        known.sort_unstable();
        known.dedup();
        known.len() < MODELS_MAX || known.contains(&model)
    }

    pub(crate) fn add_growth(&mut self, growth: Growth) {
        let parts: usize = self.growths.iter().map(|growth| growth.covered.len() + 1).sum();
        let last = self.growths.iter_mut().rfind(|known| known.model == growth.model);
        match last.filter(|_| parts >= PARTS_MAX) {
            Some(last) => last.merge(growth),
            None => self.growths.push(growth),
        }
    }

    /// The part of each row in what the agent reported: the money of a report is split over its
    /// requests as the list prices would split it.
    pub(crate) fn money(&self, rows: &[UsageRow], prices: &PriceTable) -> Vec<ReportedMoney> {
        let mut money = vec![ReportedMoney::default(); rows.len()];
        for growth in &self.growths {
            let weigh = |terms: Terms<'_>, tokens: &TokenTotals| {
                let cost = prices.cost(Some(&growth.model), terms, tokens);
                cost.map_or_else(|| usual_weight(tokens), |cost| i128::from(cost.usd.nanos()))
            };
            let covered =
                growth.covered.iter().map(|(row, tokens)| weigh(rows[*row].key.terms(), tokens));
            // What is in no row stands behind them.
            let others = [&growth.elsewhere, &growth.rest];
            let others = others.map(|tokens| weigh(Terms::default(), tokens));
            let weights: Vec<_> = covered.chain(others).collect();
            let shares = split(growth.usd, &weights);
            let rest = shares.last().copied().unwrap_or(Cost::ZERO);
            for ((row, _), share) in growth.covered.iter().zip(shares) {
                money[*row].usd += share;
            }
            let told = &mut money[growth.row];
            match growth.is_shared {
                true => told.is_estimate |= rest > Cost::ZERO,
                false => told.usd += rest,
            }
        }
        money
    }

    /// What the sums add to the report they continue, by model.
    fn growth_of(&self, sums: &ModelSums, uncovered: impl Fn(&str) -> TokenTotals) -> ModelSums {
        let last = self.sums.last();
        // The newest first; the sums may also have begun anew.
        let begun_anew = ModelSums::new();
        let earlier = self.sums.iter().rev().filter(|earlier| continues(sums, earlier));
        let candidates: Vec<&ModelSums> = earlier.chain([&begun_anew]).collect();
        // A window adds the requests that it made itself, so the report it continues is the one
        // from which exactly those requests are missing.
        let is_told_by_requests = |earlier: &&&ModelSums| {
            since(sums, earlier).iter().any(|(model, grown)| {
                let requests = uncovered(model);
                !requests.is_empty() && grown.tokens.is_paid_as(&requests)
            })
        };
        let distance = |earlier: &&&ModelSums| -> i128 {
            let grown = since(sums, earlier).into_iter();
            grown
                .map(|(model, grown)| {
                    usual_weight(&grown.tokens).abs_diff(usual_weight(&uncovered(&model))) as i128
                })
                .sum()
        };
        let continued = candidates.iter().find(is_told_by_requests).or_else(|| {
            // Some requests are in no record and some in no report, so mostly it is a guess: the
            // last report, else the one that leaves the least unexplained.
            let is_last = |earlier: &&&ModelSums| Some(**earlier) == last;
            candidates.iter().find(is_last).or_else(|| candidates.iter().min_by_key(distance))
        });
        since(sums, continued.copied().unwrap_or(&begun_anew))
    }
}

impl Growth {
    fn merge(&mut self, other: Growth) {
        self.usd += other.usd;
        self.elsewhere += other.elsewhere;
        self.rest += other.rest;
        self.row = other.row;
        self.is_shared |= other.is_shared;
        for (row, tokens) in other.covered {
            match self.covered.iter_mut().find(|(known, _)| *known == row) {
                Some((_, known)) => *known += tokens,
                None => self.covered.push((row, tokens)),
            }
        }
    }
}

/// Whether no sum of the earlier report is larger. Compared is what every report has; other counts
/// come and go with the version of the agent.
fn continues(sums: &ModelSums, earlier: &ModelSums) -> bool {
    earlier.iter().all(|(model, earlier)| {
        sums.get(model).is_some_and(|sum| {
            sum.usd >= earlier.usd
                && sum.tokens.input >= earlier.tokens.input
                && sum.tokens.output >= earlier.tokens.output
        })
    })
}

fn since(sums: &ModelSums, earlier: &ModelSums) -> ModelSums {
    let grown = sums.iter().map(|(model, sum)| {
        let earlier = earlier.get(model).copied().unwrap_or_default();
        let mut tokens = sum.tokens;
        tokens -= earlier.tokens;
        (model.clone(), ReportedSum { usd: sum.usd - earlier.usd, tokens })
    });
    grown.collect()
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
