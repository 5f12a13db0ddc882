//! Tokens and money of many sessions, grouped as people ask for them.
//!
//! Tokens are as sure as the provider's own numbers. Money is exact where the agent reported it,
//! estimated where it comes from a table of prices, and incomplete where a model has no price or
//! a request no numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::{Cost, SessionId, Time, is_in_project};

use crate::day::Day;
use crate::facts::Facts;
use crate::price::PriceTable;
use crate::reported_usage::ReportedMoney;
use crate::tokens::{Basis, TokenTotals};
use crate::usage::{SessionUsage, UsageKey, UsageRow, UsageTotals};

/// What rows stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// Days, `2026-11-16`.
    Daily,
    /// Weeks of ISO 8601, `2026-W47`.
    Weekly,
    /// Months, `2026-11`.
    Monthly,
    Session,
    Model,
    /// The provider of the session.
    Agent,
    /// Projects, else folders.
    Project,
}

impl Grouping {
    pub const ALL: [Grouping; 7] = [
        Grouping::Daily,
        Grouping::Weekly,
        Grouping::Monthly,
        Grouping::Session,
        Grouping::Model,
        Grouping::Agent,
        Grouping::Project,
    ];

    /// The word that people and programs use for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Grouping::Daily => "daily",
            Grouping::Weekly => "weekly",
            Grouping::Monthly => "monthly",
            Grouping::Session => "session",
            Grouping::Model => "model",
            Grouping::Agent => "agent",
            Grouping::Project => "project",
        }
    }

    /// The grouping with this word.
    pub fn parse(word: &str) -> Option<Grouping> {
        Grouping::ALL.into_iter().find(|grouping| grouping.as_str() == word)
    }
}

/// The day that an instant falls on. The time zone is the caller's; by default it is UTC.
pub type DayOf = Arc<dyn Fn(Time) -> Day + Send + Sync>;

/// Which use of sessions is added up; the default is all of it. A session may go on for months and
/// over many projects, and counts with the part that fits.
#[derive(Clone, Debug, Default)]
pub struct SpendingFilter {
    /// The first and the last day.
    pub since: Option<Day>,
    pub until: Option<Day>,
    /// A project, or a folder.
    pub project: Option<String>,
}

impl SpendingFilter {
    fn takes_row(&self, day: Option<Day>, project: Option<&String>, cwd: Option<&String>) -> bool {
        let is_in = |day: Day| {
            self.since.is_none_or(|since| day >= since)
                && self.until.is_none_or(|until| day <= until)
        };
        let is_there = |wanted: &String| {
            is_in_project(project.map(String::as_str), cwd.map(String::as_str), wanted)
        };
        day.is_none_or(is_in) && self.project.as_ref().is_none_or(is_there)
    }
}

/// An amount of money and how sure it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Money {
    /// What is known of it; `None` if nothing is.
    pub usd: Option<Cost>,
    pub basis: Basis,
    pub parts: MoneyParts,
}

/// Known money by where it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MoneyParts {
    /// The agent or the provider named it.
    pub reported: Cost,
    /// Tokens times the list prices of their model.
    pub computed: Cost,
    /// Tokens times a price that may not be theirs, or tokens that the agent estimated.
    pub estimated: Cost,
}

/// Tokens with what they cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    pub tokens: TokenTotals,
    pub tokens_basis: Basis,
    pub money: Money,
}

impl Spent {
    /// How sure the whole is: both its tokens and its money.
    pub fn basis(&self) -> Basis {
        self.tokens_basis.weaker_of(self.money.basis)
    }

    /// What one session spent.
    pub fn from_facts(facts: &Facts, prices: &PriceTable) -> Spent {
        let mut spent = Spent::default();
        price_rows(facts.usage(), prices).for_each(|(_, row)| spent.add_spent(&row));
        if facts.is_untold() {
            spent.add_spent(&Spent::unknown_amount());
        }
        spent
    }

    /// An unknown amount.
    fn unknown_amount() -> Spent {
        let tokens = TokenTotals::default();
        Spent { tokens, tokens_basis: Basis::Incomplete, money: Money::UNKNOWN }
    }

    fn add_spent(&mut self, other: &Spent) {
        self.tokens += other.tokens;
        self.tokens_basis = self.tokens_basis.weaker_of(other.tokens_basis);
        self.money.add_money(&other.money);
    }
}

impl Default for Money {
    fn default() -> Money {
        Money::NOTHING
    }
}

impl Money {
    /// Nothing was spent.
    const NOTHING: Money = Money {
        usd: Some(Cost::ZERO),
        basis: Basis::Exact,
        parts: MoneyParts { reported: Cost::ZERO, computed: Cost::ZERO, estimated: Cost::ZERO },
    };

    /// It is not known what was spent.
    const UNKNOWN: Money = Money { usd: None, basis: Basis::Incomplete, ..Money::NOTHING };

    /// The money of a row: what requests named, its part of the agent's reports, and the rest by
    /// the table.
    fn from_usage(row: &UsageRow, reported: ReportedMoney, prices: &PriceTable) -> Money {
        let UsageRow { key, used } = row;
        let mut money = Money::from_reported(used.told_cost + reported.usd);
        if reported.is_estimate {
            money.basis = Basis::Estimated;
        }
        if used.unpriced.requests > 0 {
            money.add_money(&Money::from_table(key, used, prices));
        }
        if used.untold > 0 {
            money.basis = Basis::Incomplete;
        }
        money
    }

    fn from_reported(reported: Cost) -> Money {
        let parts = MoneyParts { reported, ..MoneyParts::default() };
        Money { usd: Some(reported), basis: Basis::Exact, parts }
    }

    /// A rate times a count is only an estimate.
    fn from_table(key: &UsageKey, used: &UsageTotals, prices: &PriceTable) -> Money {
        let Some(cost) = prices.cost(key.model.as_deref(), key.terms(), &used.unpriced) else {
            return Money::UNKNOWN;
        };
        let basis = used.tokens_basis().weaker_of(Basis::Estimated);
        let parts = if cost.is_estimate || used.estimated > 0 {
            MoneyParts { estimated: cost.usd, ..MoneyParts::default() }
        } else {
            MoneyParts { computed: cost.usd, ..MoneyParts::default() }
        };
        Money { usd: Some(cost.usd), basis, parts }
    }

    fn add_money(&mut self, other: &Money) {
        // What is not known does not become zero by adding it to nothing.
        if *self == Money::NOTHING {
            *self = *other;
            return;
        }
        self.usd = match (self.usd, other.usd) {
            (Some(ours), Some(theirs)) => Some(ours + theirs),
            // The known part of a sum is shown; its basis says that a part is missing.
            (ours, theirs) => ours.or(theirs),
        };
        self.basis = self.basis.weaker_of(other.basis);
        self.parts.reported += other.parts.reported;
        self.parts.computed += other.parts.computed;
        self.parts.estimated += other.parts.estimated;
    }
}

/// What each row of a session cost.
fn price_rows<'a>(
    usage: &'a SessionUsage,
    prices: &PriceTable,
) -> impl Iterator<Item = (&'a UsageKey, Spent)> {
    let reported = usage.reported_money(prices);
    usage.all_rows().zip(reported).filter_map(move |(row, reported)| {
        let is_empty = row.used.is_nothing() && reported == ReportedMoney::default();
        let spent = Spent {
            tokens: row.used.tokens,
            tokens_basis: row.used.tokens_basis(),
            money: Money::from_usage(row, reported, prices),
        };
        (!is_empty).then_some((&row.key, spent))
    })
}

/// One row of a report. Where its parts differ in provider or model, it has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpentRow {
    /// The day, week, month, session, model, agent or project; `None` where that is not known.
    pub key: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub spent: Spent,
}

/// A report over sessions: one row per key, and the total.
#[derive(Clone)]
pub struct Spending {
    grouping: Grouping,
    day_of: DayOf,
    within: SpendingFilter,
    rows: BTreeMap<Option<String>, RowTotals>,
    total: Spent,
}

#[derive(Clone, Debug, Default)]
struct RowTotals {
    provider: CommonName,
    model: CommonName,
    spent: Spent,
}

impl Spending {
    pub fn grouped_by(grouping: Grouping) -> Spending {
        Spending {
            grouping,
            day_of: Arc::new(Day::from_time),
            within: SpendingFilter::default(),
            rows: BTreeMap::new(),
            total: Spent::default(),
        }
    }

    /// Counts by these days.
    #[must_use]
    pub fn by_days(self, day_of: DayOf) -> Spending {
        Spending { day_of, ..self }
    }

    /// Of what is added from now on, only this.
    #[must_use]
    pub fn within(self, within: SpendingFilter) -> Spending {
        Spending { within, ..self }
    }

    /// Adds what a session spent by itself.
    pub fn add_session(
        &mut self,
        session_id: &SessionId,
        provider: &str,
        facts: &Facts,
        prices: &PriceTable,
    ) {
        let grouping = self.grouping;
        let group =
            |day: Option<Day>, model: Option<&String>, place: Option<&String>| match grouping {
                Grouping::Daily => day.map(|day| day.to_string()),
                Grouping::Weekly => day.map(Day::week),
                Grouping::Monthly => day.map(Day::month),
                Grouping::Session => Some(session_id.to_string()),
                Grouping::Model => model.cloned(),
                Grouping::Agent => Some(provider.to_owned()),
                Grouping::Project => place.cloned(),
            };
        for (key, spent) in price_rows(facts.usage(), prices) {
            let UsageKey { quarter, project, cwd, .. } = key;
            let day = (self.day_of)(quarter.begin());
            if !self.within.takes_row(Some(day), project.as_ref(), cwd.as_ref()) {
                continue;
            }
            let model = key.model.as_ref().map(|model| prices.model_name(model));
            let place = project.as_ref().or(cwd.as_ref());
            let key = group(Some(day), model.as_ref(), place);
            self.add_row(key, provider, model.as_deref(), &spent);
        }
        let about = facts.about();
        // Use without a record has no day, so a filter by day does not exclude it.
        let is_meant = self.within.takes_row(None, about.project.as_ref(), about.cwd.as_ref());
        if facts.is_untold() && is_meant {
            let model = about.model.as_ref().map(|model| prices.model_name(model));
            let place = about.project.as_ref().or(about.cwd.as_ref());
            let key = group(None, model.as_ref(), place);
            self.add_row(key, provider, model.as_deref(), &Spent::unknown_amount());
        }
    }

    /// The rows in the order of their keys; the one without a key comes first.
    pub fn rows(&self) -> impl Iterator<Item = SpentRow> {
        self.rows.iter().map(|(key, row)| SpentRow {
            key: key.clone(),
            provider: row.provider.common_name(),
            model: row.model.common_name(),
            spent: row.spent,
        })
    }

    pub fn total(&self) -> &Spent {
        &self.total
    }

    fn add_row(&mut self, key: Option<String>, provider: &str, model: Option<&str>, spent: &Spent) {
        let row = self.rows.entry(key).or_default();
        row.provider.add_name(Some(provider));
        row.model.add_name(model);
        row.spent.add_spent(spent);
        self.total.add_spent(spent);
    }
}

/// A name that all parts of a row have, if they do.
#[derive(Clone, Debug, Default)]
enum CommonName {
    #[default]
    Unset,
    One(String),
    Several,
}

impl CommonName {
    fn add_name(&mut self, name: Option<&str>) {
        *self = match (std::mem::take(self), name) {
            (CommonName::Unset, Some(name)) => CommonName::One(name.to_owned()),
            (CommonName::One(one), Some(name)) if one == name => CommonName::One(one),
            // A part without a name makes the row mixed, too: the name would not hold for all of
            // it.
            _ => CommonName::Several,
        };
    }

    fn common_name(&self) -> Option<String> {
        match self {
            CommonName::One(name) => Some(name.clone()),
            CommonName::Unset | CommonName::Several => None,
        }
    }
}
