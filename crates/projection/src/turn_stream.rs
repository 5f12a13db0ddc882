//! The turns of a log that is read once, each handed on when no later event can change it.

use std::collections::VecDeque;

use event::Event;

use crate::projection::Projection;
use crate::turn::Turn;
use crate::turns::Turns;

/// Iterates over the turns of a session's events, the last of them perhaps open. It holds the last
/// few turns, however long the log is.
pub struct TurnStream<I> {
    events: I,
    /// `None` after the last event, or after one that could not be read.
    turns: Option<Turns>,
    ready: VecDeque<Turn>,
}

impl<I> TurnStream<I> {
    pub(crate) fn new(events: I) -> TurnStream<I> {
        TurnStream { events, turns: Some(Turns::default()), ready: VecDeque::new() }
    }
}

impl<E, I: Iterator<Item = Result<Event, E>>> Iterator for TurnStream<I> {
    type Item = Result<Turn, E>;

    fn next(&mut self) -> Option<Result<Turn, E>> {
        while self.ready.is_empty() {
            let mut turns = self.turns.take()?;
            match self.events.next() {
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(event)) => {
                    turns.apply(&event);
                    self.ready.extend(turns.take_settled());
                    self.turns = Some(turns);
                }
                None => self.ready.extend(turns.finish()),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
