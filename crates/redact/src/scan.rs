//! Findings in order, merged, as kept text and marks.
//!
//! ```text
//!            emitted        settled                looked            end of what is here
//!   ───────────┼───────────────┼──── LEAD_MAX ───────┼─ WINDOW + MARGIN ───┤
//!    gone out    to go out now   a finding may still   words not looked at
//!                                begin here, or at     yet
//!                                the start of a run
//! ```
//!
//! Every decision depends on the text around one place and never on where the text was cut, so
//! any pieces give what the whole gives.

use crate::cut::run_start;
use crate::mark::{Hash, Marks};
use crate::rules::{Finding, LEAD_MAX, MARGIN, Rules, WINDOW};
use crate::tail::Tail;

/// What becomes of the text, in order.
pub(crate) enum Piece<'a> {
    Kept(&'a str),
    Mark(&'a str),
}

/// How far a text was looked at. Places count from the beginning of what was not forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// Words that begin before this were looked at.
    looked: usize,
    /// Text before this has gone out, or into the hash of the open secret.
    emitted: usize,
    /// Found, but another one may still begin before it.
    pending: Vec<Finding>,
    open: Option<Open>,
}

/// A secret whose end is not settled.
#[derive(Clone, Debug)]
struct Open {
    /// The first of the rules that found it.
    rule: usize,
    end: usize,
    /// How it goes on, and from where.
    tail: Option<(Tail, usize)>,
    hash: Hash,
}

impl Scan {
    /// Goes on as far as the text allows: to its end if nothing comes behind it. Returns how many
    /// bytes it looked at, some of them more than once.
    pub(crate) fn advance(
        &mut self,
        rules: &Rules,
        marks: &mut Marks,
        text: &str,
        is_all: bool,
        out: &mut dyn FnMut(Piece<'_>),
    ) -> u64 {
        let mut looked_at = 0;
        let margin = if is_all { 0 } else { WINDOW + MARGIN };
        let look_to = text.len().saturating_sub(margin);
        if look_to > self.looked {
            let pending = &mut self.pending;
            let range = self.looked..look_to;
            looked_at = rules.search(text.as_bytes(), range, |finding| pending.push(finding));
            self.looked = look_to;
        }
        let settled = if is_all { self.looked } else { settled(text, self.looked) };
        self.settle(rules, marks, text, settled, out);
        if is_all {
            self.close(rules, marks, text, out);
        }
        if settled > self.emitted {
            self.emit(text, settled, out);
        }
        looked_at
    }

    /// Forgets text that has gone out; returns how much, to be taken off its beginning.
    pub(crate) fn forget(&mut self) -> usize {
        let gone = std::mem::take(&mut self.emitted);
        self.looked -= gone;
        for finding in &mut self.pending {
            finding.range = finding.range.start - gone..finding.range.end - gone;
        }
        if let Some(open) = &mut self.open {
            open.end -= gone;
            if let Some((_, from)) = &mut open.tail {
                *from -= gone;
            }
        }
        gone
    }

    /// Takes the findings that begin before `settled`: no other can begin before them any more.
    fn settle(
        &mut self,
        rules: &Rules,
        marks: &mut Marks,
        text: &str,
        settled: usize,
        out: &mut dyn FnMut(Piece<'_>),
    ) {
        self.pending.sort_by_key(|finding| (finding.range.start, finding.rule));
        let count = self.pending.partition_point(|finding| finding.range.start < settled);
        let findings: Vec<Finding> = self.pending.drain(..count).collect();
        for finding in findings {
            let start = finding.range.start;
            self.grow(text.as_bytes(), start);
            match &mut self.open {
                Some(open) if open.reaches(start) => open.merge(&finding),
                _ => {
                    self.close(rules, marks, text, out);
                    self.emit(text, start, out);
                    self.open = Some(Open::new(&finding));
                }
            }
        }
        self.grow(text.as_bytes(), settled);
        if self.open.as_ref().is_some_and(|open| !open.reaches(settled)) {
            self.close(rules, marks, text, out);
        }
    }

    fn grow(&mut self, text: &[u8], up_to: usize) {
        let Some(open) = &mut self.open else { return };
        while let Some((tail, from)) = open.tail
            && from < up_to
        {
            open.tail = tail.step(text, from).map(|to| (tail, to));
            open.end = open.end.max(open.tail.map_or(0, |(_, to)| to));
        }
    }

    /// Text before `to` goes out, or into the hash of the open secret.
    fn emit(&mut self, text: &str, to: usize, out: &mut dyn FnMut(Piece<'_>)) {
        match &mut self.open {
            Some(open) => open.hash.add(&text.as_bytes()[self.emitted..to]),
            None if to > self.emitted => out(Piece::Kept(&text[self.emitted..to])),
            None => {}
        }
        self.emitted = to;
    }

    fn close(
        &mut self,
        rules: &Rules,
        marks: &mut Marks,
        text: &str,
        out: &mut dyn FnMut(Piece<'_>),
    ) {
        let Some(end) = self.open.as_ref().map(|open| open.end) else { return };
        self.emit(text, end, out);
        if let Some(open) = self.open.take() {
            out(Piece::Mark(&marks.of(&open.hash, rules.kind(open.rule))));
        }
    }
}

/// Where no finding can begin any more that is made by words behind `looked`.
fn settled(text: &str, looked: usize) -> usize {
    let settled = text.floor_char_boundary(looked.saturating_sub(LEAD_MAX));
    settled.min(run_start(text.as_bytes(), looked))
}

impl Open {
    fn new(finding: &Finding) -> Open {
        let end = finding.range.end;
        let tail = finding.tail.map(|tail| (tail, end));
        Open { rule: finding.rule, end, tail, hash: Hash::new() }
    }

    /// Whether it goes on at `at`, or may.
    fn reaches(&self, at: usize) -> bool {
        self.end > at || self.tail.is_some()
    }

    /// What overlaps is one secret. A tail that is under way is not changed for another one.
    fn merge(&mut self, finding: &Finding) {
        self.rule = self.rule.min(finding.rule);
        self.end = self.end.max(finding.range.end);
        if self.tail.is_none() {
            self.tail = finding.tail.map(|tail| (tail, finding.range.end));
        }
    }
}
