//! Events that may match a query, in the order they should be looked at.
//!
//! Three sources take turns: what the index has not reached yet, which was read through before;
//! the parts of the index; and, where the index has nothing to say, the log itself.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use super::expression::{Expression, Expressions};
use super::index::{Direction, Index, is_part_in};
use super::{CANDIDATES_MAX, Corpus};
use crate::Recorded;
use crate::derived::Failure;

/// Positions asked of a part at first. Most pages need no more.
const FIRST_FETCH_LEN: usize = 512;

/// Events that are read rather than asked for, to spare a look at every beginning of a common word.
const NEAR_LEN: u64 = 256;

/// Where candidates come from.
pub(super) struct Sources<'a> {
    pub(super) corpus: &'a dyn Corpus,
    pub(super) direction: Direction,
    pub(super) index: Option<Index<'a>>,
    /// `None` where the index cannot narrow anything down and the log is read through.
    pub(super) expressions: Option<Expressions>,
    /// The last position that is indexed and may be seen.
    pub(super) indexed: u64,
    pub(super) tail: Tail,
    /// How many positions the parts are known to have for an expression.
    pub(super) counted: RefCell<HashMap<(Expression, u64), usize>>,
}

/// The matches among the events the index has not reached.
#[derive(Default)]
pub(super) struct Tail {
    /// For each list the positions, newest first.
    pub(super) lists: Vec<Vec<u64>>,
    /// Events that one of the tail is a fuller account of.
    pub(super) replaced: HashSet<u64>,
}

/// An event that may match.
pub(super) struct Candidate {
    pub(super) position: u64,
    /// The event, where it had to be read anyway.
    pub(super) recorded: Option<Recorded>,
}

/// The candidates of one list, one after the other.
pub(super) struct Candidates<'a> {
    sources: &'a Sources<'a>,
    list: usize,
    done: Option<u64>,
    ready: VecDeque<Candidate>,
    stages: VecDeque<Stage>,
}

enum Stage {
    Tail,
    Part {
        part: u64,
        is_begun: bool,
    },
    /// The log up to and including a position, in the direction of the search.
    Log {
        until: u64,
    },
}

impl Sources<'_> {
    /// Whether an event is told more fully by a later one.
    pub(super) fn is_replaced(&self, position: u64) -> Result<bool, Failure> {
        if self.tail.replaced.contains(&position) {
            return Ok(true);
        }
        match &self.index {
            Some(index) => Ok(index.is_replaced(position)?),
            None => Ok(false),
        }
    }

    /// How many events of the indexed part of the log fit an expression, counted up to `limit`.
    pub(super) fn count(&self, expression: &Expression, limit: usize) -> Result<usize, Failure> {
        let Some(index) = &self.index else { return Ok(0) };
        let range = self.range_after(None);
        let mut total = 0;
        for part in index.parts()?.into_iter().rev() {
            let mut counted = self.counted.borrow_mut();
            let known = counted.entry((expression.clone(), part));
            total += match known {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(_) if total >= limit => break,
                Entry::Vacant(unknown) => {
                    *unknown.insert(index.count(part, expression, &range, limit - total)?)
                }
            };
        }
        Ok(total.min(limit))
    }

    /// How far to read the log before the index is asked.
    ///
    /// To look up a beginning is to gather all matches of a part. Where whole words alone fill a
    /// page from the next few events, reading these is quicker, and what they miss among them
    /// is found as well.
    fn near(
        &self,
        expressions: &Expressions,
        parts: &[u64],
        list: usize,
        done: Option<u64>,
        wanted: usize,
    ) -> Result<Option<u64>, Failure> {
        let by_position = expressions.lists.len() == 1 && expressions.lists[0].has_beginnings();
        let (Some(index), true, 0) = (&self.index, by_position, list) else { return Ok(None) };
        let Range { start, end } = self.range_after(done);
        let near = match self.direction {
            Direction::NewestFirst => end.saturating_sub(NEAR_LEN).max(start)..end,
            Direction::OldestFirst => start..end.min(start.saturating_add(NEAR_LEN)),
        };
        let mut found = 0;
        for part in parts.iter().filter(|part| is_part_in(**part, &near)) {
            let limit = wanted - found;
            let positions =
                index.positions(*part, &expressions.whole, &near, self.direction, limit)?;
            found += positions.len();
            if found >= wanted {
                return Ok(positions.last().copied());
            }
        }
        Ok(None)
    }

    /// The positions of the indexed part of the log after `done`, in the direction of the search.
    fn range_after(&self, done: Option<u64>) -> Range<u64> {
        match (self.direction, done) {
            (_, None) => 0..self.indexed + 1,
            (Direction::NewestFirst, Some(done)) => 0..done.min(self.indexed + 1),
            (Direction::OldestFirst, Some(done)) => done + 1..self.indexed + 1,
        }
    }
}

impl<'a> Candidates<'a> {
    /// The candidates of a list that come after `done`, of which some `wanted` will be looked at.
    pub(super) fn new(
        sources: &'a Sources<'a>,
        list: usize,
        done: Option<u64>,
        wanted: usize,
    ) -> Result<Candidates<'a>, Failure> {
        let mut stages = VecDeque::new();
        match (&sources.index, &sources.expressions) {
            (Some(index), Some(expressions)) => {
                let mut parts = index.parts()?;
                if sources.direction == Direction::NewestFirst {
                    parts.reverse();
                }
                let near = sources.near(expressions, &parts, list, done, wanted)?;
                stages.extend(near.map(|until| Stage::Log { until }));
                stages.extend(parts.into_iter().map(|part| Stage::Part { part, is_begun: false }));
            }
            // What is read through has no further lists.
            (Some(_), None) if list == 0 => stages.push_back(Stage::Log {
                until: match sources.direction {
                    Direction::NewestFirst => 0,
                    Direction::OldestFirst => sources.indexed,
                },
            }),
            _ => {}
        }
        match sources.direction {
            Direction::NewestFirst => stages.push_front(Stage::Tail),
            Direction::OldestFirst => stages.push_back(Stage::Tail),
        }
        Ok(Candidates { sources, list, done, ready: VecDeque::new(), stages })
    }

    pub(super) fn next(&mut self) -> Result<Option<Candidate>, Failure> {
        loop {
            if let Some(candidate) = self.ready.pop_front() {
                self.done = Some(candidate.position);
                return Ok(Some(candidate));
            }
            let Some(stage) = self.stages.pop_front() else { return Ok(None) };
            if let Some(rest) = self.fetch(stage)? {
                self.stages.push_front(rest);
            }
        }
    }

    /// Gets the next candidates of a stage ready; gives back what is left of it.
    fn fetch(&mut self, stage: Stage) -> Result<Option<Stage>, Failure> {
        match stage {
            Stage::Tail => {
                self.fetch_tail();
                Ok(None)
            }
            Stage::Part { part, is_begun } => self.fetch_part(part, is_begun),
            Stage::Log { until } => self.fetch_log(until),
        }
    }

    fn fetch_tail(&mut self) {
        let positions = self.sources.tail.lists.get(self.list).map_or(&[][..], Vec::as_slice);
        let done = self.done;
        match self.sources.direction {
            Direction::NewestFirst => {
                let rest = positions.iter().filter(|at| done.is_none_or(|done| **at < done));
                self.ready.extend(rest.copied().map(Candidate::unread));
            }
            Direction::OldestFirst => {
                let rest = positions.iter().rev().filter(|at| done.is_none_or(|done| **at > done));
                self.ready.extend(rest.copied().map(Candidate::unread));
            }
        }
    }

    fn fetch_part(&mut self, part: u64, is_begun: bool) -> Result<Option<Stage>, Failure> {
        let sources = self.sources;
        let (Some(index), Some(expressions)) = (&sources.index, &sources.expressions) else {
            return Ok(None);
        };
        let range = sources.range_after(self.done);
        let Some(expression) = expressions.lists.get(self.list) else { return Ok(None) };
        if range.is_empty() || !is_part_in(part, &range) {
            return Ok(None);
        }
        // Beginnings are gathered as a whole by every question, so one question takes them all.
        let limit =
            if is_begun || expression.has_beginnings() { CANDIDATES_MAX } else { FIRST_FETCH_LEN };
        let positions = index.positions(part, expression, &range, sources.direction, limit)?;
        let is_whole = positions.len() < limit;
        if is_whole && range == sources.range_after(None) {
            let known = (expression.clone(), part);
            sources.counted.borrow_mut().insert(known, positions.len());
        }
        self.ready.extend(positions.into_iter().map(Candidate::unread));
        Ok((!is_whole).then_some(Stage::Part { part, is_begun: true }))
    }

    fn fetch_log(&mut self, until: u64) -> Result<Option<Stage>, Failure> {
        let Range { start, end } = self.sources.range_after(self.done);
        let range = match self.sources.direction {
            Direction::NewestFirst => start.max(until)..end,
            Direction::OldestFirst => start..end.min(until + 1),
        };
        if range.is_empty() {
            return Ok(None);
        }
        let page = self.sources.corpus.page(range.start..=range.end - 1, self.sources.direction)?;
        let is_over = page.is_empty();
        self.ready.extend(
            page.into_iter().map(|recorded| Candidate {
                position: recorded.position,
                recorded: Some(recorded),
            }),
        );
        Ok((!is_over).then_some(Stage::Log { until }))
    }
}

impl Candidate {
    fn unread(position: u64) -> Candidate {
        Candidate { position, recorded: None }
    }
}
