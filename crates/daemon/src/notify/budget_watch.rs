//! What is used of the budgets, kept up to date at the cost of the news.

use std::path::Path;
use std::time::SystemTime;

use event::Time;
use journal::{Journal, SessionInfo};
use projection::{BudgetUse, Budgets, Day, Facts};
use segments::Zone;
use views::ViewCache;

use crate::api::{ListingError, budget_uses_of, own_prices_path};

/// Sessions whose facts are held: those of a busy day. Facts of further ones are continued from
/// their saved state at each look.
const FACTS_HELD: usize = 256;

/// Adds up the budgets when an event was recorded since the last look.
pub(super) struct BudgetWatch {
    facts: ViewCache<Facts>,
    last: Option<Look>,
}

/// What a look depends on.
#[derive(PartialEq, Eq)]
struct Look {
    /// The last event of the journal.
    position: u64,
    day: Day,
    budgets: Budgets,
    prices_changed_at: Option<SystemTime>,
}

impl BudgetWatch {
    pub(super) fn new() -> BudgetWatch {
        BudgetWatch { facts: ViewCache::with_capacity(FACTS_HELD), last: None }
    }

    /// What is used today; `None` if nothing has changed since the last look.
    pub(super) fn look(
        &mut self,
        journal: &Journal,
        budgets: &Budgets,
        now: Time,
        zone: &Zone,
    ) -> Result<Option<Vec<BudgetUse>>, ListingError> {
        let prices = own_prices_path(journal);
        let look = Look {
            position: journal.tail()?,
            day: zone.usage_day(now),
            budgets: budgets.clone(),
            prices_changed_at: prices.as_deref().and_then(changed_at),
        };
        if self.last.as_ref() == Some(&look) {
            return Ok(None);
        }
        let facts_of = |session: &SessionInfo| self.facts.get(journal, session);
        let uses = budget_uses_of(journal, budgets, now, zone, facts_of)?;
        // After an error the next look tries again.
        self.last = Some(look);
        Ok(Some(uses))
    }
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|told| told.modified()).ok()
}

#[cfg(test)]
mod tests {
    use event::{Draft, EventId, Kind, Raw, SessionId};
    use journal::Batch;
    use serde_json::json;

    use super::*;

    fn spend(journal: &Journal, session: &str, at: Time, usd: u32) {
        let session = SessionId::new(session).expect("a plain id");
        let id = EventId::derived(at, "test", session.as_str(), &usd.to_be_bytes());
        let usage = json!({"usage": {"input_tokens": 1, "cost": usd}});
        let data = Raw::from_value(&usage).expect("it encodes");
        let draft = Draft::with_data(id, session, at, Kind::StepCompleted, data);
        journal.append(Batch::observed().with(draft)).expect("it is recorded");
    }

    #[test]
    fn budgets_are_added_up_after_news_only() {
        let journal = Journal::in_memory();
        let now: Time = "2026-11-18T12:00:00Z".parse().expect("a time");
        let tomorrow: Time = "2026-11-19T00:00:00Z".parse().expect("a time");
        let budgets = Budgets { day: "5".parse().ok(), ..Budgets::default() };
        let mut watch = BudgetWatch::new();
        let mut spent = |now: Time, budgets: &Budgets| {
            let uses = watch.look(&journal, budgets, now, &Zone::UTC).expect("it is read");
            uses.map(|uses| uses[0].spent.to_string())
        };
        assert_eq!(spent(now, &budgets).as_deref(), Some("0"));
        assert_eq!(spent(now, &budgets), None);
        spend(&journal, "claude:a", now, 2);
        spend(&journal, "claude:b", now, 1);
        assert_eq!(spent(now, &budgets).as_deref(), Some("3"));
        assert_eq!(spent(now, &budgets), None);
        // The day and the limits count, too.
        assert_eq!(spent(tomorrow, &budgets).as_deref(), Some("0"));
        let budgets = Budgets { day: "6".parse().ok(), ..budgets };
        assert_eq!(spent(now, &budgets).as_deref(), Some("3"));
    }
}
