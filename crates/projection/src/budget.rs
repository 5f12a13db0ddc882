//! How much may be spent on a day, in a project and in a session, and how much of it is.
//!
//! Days are those of the usage report. Money counts as it is shown: what has no price is
//! not in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::{Cost, SessionId, is_in_project};

use crate::day::Day;
use crate::facts::Facts;
use crate::price::PriceTable;
use crate::spend::{DayOf, Grouping, Money, Spending, SpendingFilter, Spent};
use crate::tokens::Basis;

/// From this part of a limit on, a project or a session is mentioned.
const NEAR_PERCENT: i128 = 80;

/// Limits in dollars; those that are missing do not exist.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Budgets {
    /// On one day, all sessions together.
    pub day: Option<Cost>,
    /// On one day in any one project.
    pub project: Option<Cost>,
    /// In any one session, from its beginning.
    pub session: Option<Cost>,
    /// On one day in the named project, instead of `project`.
    pub projects: BTreeMap<String, Cost>,
}

impl Budgets {
    pub fn is_empty(&self) -> bool {
        *self == Budgets::default()
    }

    fn project_limit(&self, project: &str) -> Option<Cost> {
        // The whole name before a last part of it.
        let exact = self.projects.get(project);
        let matching = self
            .projects
            .iter()
            .find(|(named, _)| is_in_project(Some(project), Some(project), named));
        exact.or(matching.map(|(_, limit)| limit)).copied().or(self.project)
    }
}

/// What a limit is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BudgetScope {
    Day,
    Project,
    Session,
}

impl BudgetScope {
    pub fn as_str(self) -> &'static str {
        match self {
            BudgetScope::Day => "day",
            BudgetScope::Project => "project",
            BudgetScope::Session => "session",
        }
    }
}

/// A limit and what is used of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BudgetUse {
    pub scope: BudgetScope,
    /// The day, the project or the session.
    pub name: String,
    pub limit: Cost,
    pub spent: Cost,
    pub basis: Basis,
    /// The session that spent most of it on the day.
    pub session: Option<SessionId>,
}

impl BudgetUse {
    pub fn is_exceeded(&self) -> bool {
        self.spent >= self.limit
    }

    /// In whole percent of the limit.
    pub fn percent(&self) -> u64 {
        let limit = i128::from(self.limit.nanos()).max(1);
        u64::try_from(i128::from(self.spent.nanos()) * 100 / limit).unwrap_or(u64::MAX)
    }

    fn is_near(&self) -> bool {
        i128::from(self.percent()) >= NEAR_PERCENT
    }
}

/// Adds up what sessions spent, beside the limits.
pub struct BudgetAccount<'a> {
    budgets: &'a Budgets,
    day: Day,
    day_of: DayOf,
    projects: Spending,
    /// The largest spenders of the day, in all and by project.
    most: BTreeMap<Option<String>, (Cost, SessionId)>,
    sessions: Vec<BudgetUse>,
}

impl<'a> BudgetAccount<'a> {
    /// An account of this day, which is one of `day_of`.
    pub fn new(budgets: &'a Budgets, day: Day, day_of: DayOf) -> BudgetAccount<'a> {
        let projects = on_day(day, &day_of);
        let (most, sessions) = (BTreeMap::new(), Vec::new());
        BudgetAccount { budgets, day, day_of, projects, most, sessions }
    }

    pub fn add_session(
        &mut self,
        session_id: &SessionId,
        provider: &str,
        facts: &Facts,
        prices: &PriceTable,
    ) {
        self.projects.add_session(session_id, provider, facts, prices);
        let mut own = on_day(self.day, &self.day_of);
        own.add_session(session_id, provider, facts, prices);
        let rows = own.rows().filter_map(|row| Some((row.key?, row.spent)));
        for (project, spent) in rows.collect::<Vec<_>>() {
            self.note_most(Some(project), &spent.money, session_id);
        }
        self.note_most(None, &own.total().money, session_id);
        let Some(limit) = self.budgets.session else { return };
        let money = Spent::from_facts(facts, prices).money;
        let session = Some(session_id.clone());
        let name = session_id.to_string();
        let used = budget_use(BudgetScope::Session, name, limit, &money, session);
        self.sessions.extend(Some(used).filter(BudgetUse::is_near));
    }

    /// The limit of the day, and those of projects and sessions that are nearly used up; first what
    /// is used most.
    pub fn uses(self) -> Vec<BudgetUse> {
        let most = |key: &Option<String>| self.most.get(key).map(|(_, session)| session.clone());
        let mut uses = self.sessions.clone();
        for row in self.projects.rows() {
            let Some(name) = row.key.clone() else { continue };
            let Some(limit) = self.budgets.project_limit(&name) else { continue };
            let money = &row.spent.money;
            let used = budget_use(BudgetScope::Project, name, limit, money, most(&row.key));
            uses.extend(Some(used).filter(BudgetUse::is_near));
        }
        if let Some(limit) = self.budgets.day {
            let money = &self.projects.total().money;
            let name = self.day.to_string();
            uses.push(budget_use(BudgetScope::Day, name, limit, money, most(&None)));
        }
        uses.sort_by_key(|used| (std::cmp::Reverse(used.percent()), used.scope, used.name.clone()));
        uses
    }

    fn note_most(&mut self, key: Option<String>, money: &Money, session: &SessionId) {
        let spent = money.usd.unwrap_or(Cost::ZERO);
        if spent > self.most.get(&key).map_or(Cost::ZERO, |(most, _)| *most) {
            self.most.insert(key, (spent, session.clone()));
        }
    }
}

fn on_day(day: Day, day_of: &DayOf) -> Spending {
    let within = SpendingFilter { since: Some(day), until: Some(day), project: None };
    Spending::grouped_by(Grouping::Project).by_days(Arc::clone(day_of)).within(within)
}

fn budget_use(
    scope: BudgetScope,
    name: String,
    limit: Cost,
    money: &Money,
    session: Option<SessionId>,
) -> BudgetUse {
    let spent = money.usd.unwrap_or(Cost::ZERO);
    BudgetUse { scope, name, limit, spent, basis: money.basis, session }
}
