//! Limits by day, project and session.

use event::{Cost, SessionId};
use projection::{BudgetAccount, Budgets, Day, Facts, PriceTable, Projection};
use serde_json::json;

use crate::given::Log;

fn usd(text: &str) -> Option<Cost> {
    Some(text.parse().unwrap())
}

/// Two sessions in two projects: $4 today and $8 the day before; $1 today.
fn told(budgets: &Budgets) -> Vec<String> {
    let mut first = Log::new();
    first.add("session.started", json!({"project": "org/app", "cwd": "/home/dev/app"}));
    first.step("claude-opus-5-5", 2_000_000, 0);
    first.at = "2026-11-17T08:00:00Z".parse().unwrap();
    first.step("claude-opus-5-5", 1_000_000, 0);
    let mut second = Log::new();
    second.at = "2026-11-17T09:00:00Z".parse().unwrap();
    second.add("session.started", json!({"project": "org/lib", "cwd": "/home/dev/lib"}));
    second.step("claude-opus-5-5", 250_000, 0);
    let day: Day = "2026-11-17".parse().unwrap();
    let mut account = BudgetAccount::new(budgets, day, std::sync::Arc::new(Day::from_time));
    for (id, log) in [("claude:1", &first), ("claude:2", &second)] {
        let mut facts = Facts::default();
        log.events.iter().for_each(|event| facts.apply(event));
        let id = SessionId::new(id).unwrap();
        account.add_session(&id, "claude", &facts, &PriceTable::shipped());
    }
    let uses = account.uses();
    let line = |used: &projection::BudgetUse| {
        let most = used.session.as_ref().map_or("-", |session| session.as_str());
        let is_over = if used.is_exceeded() { "over" } else { "within" };
        let (scope, percent) = (used.scope.as_str(), used.percent());
        format!(
            "{scope} {}: {} of {}, {percent} %, {is_over}, {most}",
            used.name, used.spent, used.limit
        )
    };
    uses.iter().map(line).collect()
}

#[test]
fn a_day_counts_all_sessions_of_that_day() {
    let budgets = Budgets { day: usd("10"), ..Budgets::default() };
    assert_eq!(told(&budgets), ["day 2026-11-17: 5 of 10, 50 %, within, claude:1"]);
    let budgets = Budgets { day: usd("5"), ..Budgets::default() };
    assert_eq!(told(&budgets), ["day 2026-11-17: 5 of 5, 100 %, over, claude:1"]);
}

#[test]
fn a_session_counts_from_its_beginning() {
    let budgets = Budgets { session: usd("12"), ..Budgets::default() };
    assert_eq!(told(&budgets), ["session claude:1: 12 of 12, 100 %, over, claude:1"]);
}

#[test]
fn a_named_project_has_its_own_limit() {
    let budgets = Budgets { project: usd("4.5"), ..Budgets::default() };
    assert_eq!(told(&budgets), ["project org/app: 4 of 4.5, 88 %, within, claude:1"]);
    let projects = [("lib".to_owned(), usd("0.5").unwrap())].into();
    let budgets = Budgets { project: usd("100"), projects, ..Budgets::default() };
    assert_eq!(told(&budgets), ["project org/lib: 1 of 0.5, 200 %, over, claude:2"]);
}
