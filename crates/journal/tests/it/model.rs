//! Generated actions against a plain model: after every one of them, every reading agrees.
//!
//! The model keeps what a session shows in a `Vec` and knows the rules of the page, not the
//! journal's code. What only the journal can know, the ids a fork gives to what it inherits and
//! where copies are put, is learned once, checked for what it must be, and never may change.

mod action; // what can be done
mod expected; // what must be true afterwards
mod compare; // every reading, side by side

use std::time::Duration;

use event::{Draft, Time};
use journal::{
    AppendError, AppendMode, Batch, Check, Delivery, EventReceipt, FollowFrom, OnLag, Receipt,
    Recorded, Subscription,
};
use proptest::collection::vec;
use proptest::test_runner::{Config, TestRunner};

use self::action::{Action, Told};
use self::expected::{Answer, Model};
use crate::world::World;

/// Cases per store: one on disk costs about as much as ten in memory.
macro_rules! models {
    ($($store:ident $cases:literal)*) => {
        $(mod $store {
            #[test]
            fn reads_agree_with_model() {
                super::check($crate::world::$store, $cases);
            }
        })*
    };
}

models! { memory 96 sqlite 16 files 16 }

fn check(open: fn() -> World, cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&vec(action::any(), 1..40), |actions| {
        let mut run = Run::new(open());
        for action in &actions {
            run.act(action);
        }
        run.end();
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// A journal, its model, and a subscriber to all of it.
struct Run {
    world: World,
    model: Model,
    stream: Subscription,
    /// The drafts made so far: no two have the same id.
    drafts: u64,
    followed: Vec<Recorded>,
}

impl Run {
    fn new(world: World) -> Run {
        let stream = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
        Run { world, model: Model::default(), stream, drafts: 0, followed: Vec::new() }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Append(told) => self.append(std::slice::from_ref(told)),
            Action::Burst(told) => self.append(told),
            Action::Again(which, how) => {
                if let Some((door, draft)) = how.retell(&self.model, which) {
                    self.append_one(action::batch(*door), door, draft);
                }
            }
            Action::Fork { door, .. } => {
                self.drafts += 1;
                let draft = action.fork(&self.model, self.drafts);
                self.append_one(action::batch(*door), door, draft);
            }
            Action::Import { .. } => {
                let ancestry = action.ancestry(&self.model);
                let expected = self.model.import(&ancestry);
                let answer = self.world.import_ancestry(vec![ancestry]);
                assert_eq!(expected::answer(answer), expected);
            }
            Action::Delete { session, forks } => {
                let (id, at) = (action::name(*session), Time::from_millis(7));
                let expected = self.model.delete(&id, at, *forks);
                assert_eq!(expected::answer(self.world.delete(&id, at, *forks)), expected);
            }
            Action::Advance { consumer, position } => {
                let name = format!("consumer {consumer}");
                self.model.consumers.insert(name.clone(), *position);
                self.world.advance_consumer(&name, *position).unwrap();
            }
            Action::Reopen => {
                let next = self.model.tail() + 1;
                self.world.reopen();
                self.stream = self.world.follow(FollowFrom::At(next), OnLag::CatchUp).unwrap();
            }
        }
        self.model.learn(&self.world);
        compare::everything(&self.world, &self.model);
        self.drain();
    }

    /// What was recorded is sound: there is nothing to repair, and a repair changes nothing.
    fn end(&mut self) {
        for repair in [false, true] {
            let checks = self.world.doctor(repair, Time::EPOCH).unwrap();
            // A parent that was deleted, or never seen, is a fact of the log and no damage of it.
            let bad = checks.iter().filter(|check| !check.ok && check.name != "ancestry");
            assert_eq!(bad.collect::<Vec<_>>(), Vec::<&Check>::new());
            self.act(&Action::Reopen);
        }
    }

    /// Appends without waiting in between; the answers are those of one after the other.
    fn append(&mut self, told: &[Told]) {
        let mut tickets = Vec::new();
        for told in told {
            let reading = told.reading(&self.model);
            let expected = told.expected_tail(&self.model);
            let drafts = told.drafts(&self.model, &mut self.drafts);
            let mut batch = action::batch(told.door).with_all(drafts.clone());
            batch =
                expected.iter().fold(batch, |batch, (id, seq)| batch.expecting(id.clone(), *seq));
            batch = reading.iter().fold(batch, |batch, reading| batch.from_source(reading.clone()));
            let answer = self.model.append(told.door, &drafts, expected.as_ref(), reading.as_ref());
            tickets.push((self.world.submit(batch).unwrap(), answer));
        }
        for (ticket, expected) in tickets {
            assert_eq!(recorded(ticket.wait()), expected);
        }
    }

    fn append_one(&mut self, batch: Batch, door: &AppendMode, draft: Draft) {
        let expected = self.model.append(*door, std::slice::from_ref(&draft), None, None);
        assert_eq!(recorded(self.world.append(batch.with(draft))), expected);
    }

    /// The subscriber has got exactly what is in the log now, in its order.
    fn drain(&mut self) {
        while let Some(next) = self.stream.next_within(Duration::ZERO).unwrap() {
            let Delivery::Event(recorded) = next else { panic!("{next:?}") };
            self.followed.push(Recorded::clone(&recorded));
        }
        self.followed.retain(|recorded| self.model.knows(recorded));
        assert_eq!(self.followed, self.model.log());
    }
}

fn recorded(answer: Result<Receipt, AppendError>) -> Answer<Vec<EventReceipt>> {
    expected::answer(answer).map(|receipt| receipt.events)
}
