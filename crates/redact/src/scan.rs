//! Sorts and merges findings and writes the text with marks.
//!
//! ```text
//!            emitted        settled                searched          end of the text so far
//!   ───────────┼───────────────┼──── LEAD_MAX ───────┼─ WINDOW + MARGIN ───┤
//!    written     to write now    a finding may still   keywords not
//!                                begin here, or at     searched yet
//!                                the start of a run
//!                                or of a key
//! ```
//!
//! Every decision depends on the text around one place and never on where the text was split, so
//! any pieces give the same result as the whole. That is why a keyword is searched only when its
//! whole window is there, and why text is written only when no later keyword can reach back to it.

use crate::cut::run_start;
use crate::key;
use crate::mark::{Hash, mark};
use crate::rules::{Finding, LEAD_MAX, MARGIN, Rules, WINDOW};
use crate::tail::Tail;

/// A part of the redacted text, in order.
pub(crate) enum Piece<'a> {
    Kept(&'a str),
    Mark(&'a str),
}

/// The progress in one text. Offsets count from the beginning of the text that is still held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// Keywords that begin before this offset were searched.
    searched: usize,
    /// Text before this offset was written, or added to the hash of the open secret.
    emitted: usize,
    /// Findings before which another one may still begin.
    pending: Vec<Finding>,
    open: Option<OpenSecret>,
}

/// A secret without a settled end.
#[derive(Clone, Debug)]
struct OpenSecret {
    /// The first of the rules that found it.
    rule: usize,
    end: usize,
    /// How the secret continues, and from which offset.
    tail: Option<(Tail, usize)>,
    hash: Hash,
}

impl Scan {
    /// Advances as far as the text allows: to its end if `is_all` says that no more text follows.
    /// Returns how many bytes it examined.
    pub(crate) fn advance(
        &mut self,
        rules: &Rules,
        text: &str,
        is_all: bool,
        out: &mut dyn FnMut(Piece<'_>),
    ) -> u64 {
        let mut bytes_examined = 0;
        // A keyword near the end waits for more text: its rules must see the whole window.
        let margin = if is_all { 0 } else { WINDOW + MARGIN };
        let search_to = text.len().saturating_sub(margin);
        if search_to > self.searched {
            let pending = &mut self.pending;
            let range = self.searched..search_to;
            bytes_examined = rules.search(text.as_bytes(), range, |finding| pending.push(finding));
            self.searched = search_to;
        }
        // The order must hold: findings are applied before text is written, or a secret that begins
        // before `settled` would be written with it.
        let settled = if is_all { self.searched } else { settled_before(text, self.searched) };
        self.settle(rules, text, settled, out);
        if is_all {
            self.close(rules, text, out);
        }
        if settled > self.emitted {
            self.emit(text, settled, out);
        }
        bytes_examined
    }

    /// Moves all offsets back by the length of the written text and returns that length. The
    /// caller removes as many bytes from the beginning of the text.
    pub(crate) fn forget(&mut self) -> usize {
        let gone = std::mem::take(&mut self.emitted);
        // `emitted` never passes the search, a pending finding or the end of the open secret, so no
        // offset falls below zero.
        self.searched -= gone;
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

    /// Applies the findings that begin before `settled`. No later finding can begin before them.
    fn settle(
        &mut self,
        rules: &Rules,
        text: &str,
        settled: usize,
        out: &mut dyn FnMut(Piece<'_>),
    ) {
        // Findings arrive in the order of their keywords, but a finding may begin before its
        // keyword. At the same start the earlier rule names the kind.
        self.pending.sort_by_key(|finding| (finding.range.start, finding.rule));
        let count = self.pending.partition_point(|finding| finding.range.start < settled);
        let findings: Vec<Finding> = self.pending.drain(..count).collect();
        for finding in findings {
            let start = finding.range.start;
            // Follow the open secret up to this finding first: only then is it known whether they
            // overlap.
            self.grow(text.as_bytes(), start);
            match &mut self.open {
                Some(open) if open.reaches(start) => open.merge(&finding),
                _ => {
                    self.close(rules, text, out);
                    self.emit(text, start, out);
                    self.open = Some(OpenSecret::new(&finding));
                }
            }
        }
        // Not beyond `settled`: `step` looks ahead, and the text there may be incomplete.
        self.grow(text.as_bytes(), settled);
        if self.open.as_ref().is_some_and(|open| !open.reaches(settled)) {
            self.close(rules, text, out);
        }
    }

    /// Follows the tail of the open secret up to an offset.
    fn grow(&mut self, text: &[u8], up_to: usize) {
        let Some(open) = &mut self.open else { return };
        while let Some((tail, from)) = open.tail
            && from < up_to
        {
            open.tail = tail.step(text, from).map(|to| (tail, to));
            // At the end of the tail nothing is added: a merged finding may reach further than the
            // tail.
            open.end = open.end.max(open.tail.map_or(0, |(_, to)| to));
        }
    }

    /// Writes the text before `to`, or adds it to the hash of the open secret.
    fn emit(&mut self, text: &str, to: usize, out: &mut dyn FnMut(Piece<'_>)) {
        match &mut self.open {
            // Inside of a secret text is only hashed: a key of any length needs no memory.
            Some(open) => open.hash.add(&text.as_bytes()[self.emitted..to]),
            None if to > self.emitted => out(Piece::Kept(&text[self.emitted..to])),
            None => {}
        }
        self.emitted = to;
    }

    /// Ends the open secret, if there is one, and writes its mark.
    fn close(&mut self, rules: &Rules, text: &str, out: &mut dyn FnMut(Piece<'_>)) {
        let Some(end) = self.open.as_ref().map(|open| open.end) else { return };
        // The rest of the secret has to be in the hash before the mark is chosen by it.
        self.emit(text, end, out);
        if let Some(open) = self.open.take() {
            out(Piece::Mark(&mark(rules.kind(open.rule), &open.hash, rules.is_random(open.rule))));
        }
    }
}

/// Returns the offset before which no keyword at or after `searched` can begin a finding.
fn settled_before(text: &str, searched: usize) -> usize {
    // A rule sees LEAD_MAX bytes before its keyword. Two findings may begin further back: a cut
    // secret (`…`) at the start of its run of token characters, and a key without its first line
    // at the lines before its end marker.
    let settled = text.floor_char_boundary(searched.saturating_sub(LEAD_MAX));
    let run = run_start(text.as_bytes(), searched);
    settled.min(run).min(key::settled_before(text.as_bytes(), searched))
}

impl OpenSecret {
    fn new(finding: &Finding) -> OpenSecret {
        let end = finding.range.end;
        let tail = finding.tail.map(|tail| (tail, end));
        OpenSecret { rule: finding.rule, end, tail, hash: Hash::new() }
    }

    /// Whether the secret covers `at`, or may still grow to cover it.
    fn reaches(&self, at: usize) -> bool {
        self.end > at || self.tail.is_some()
    }

    /// Merges an overlapping finding into this secret. A tail that has begun is kept: replacing
    /// it would make the end depend on the order of the findings.
    fn merge(&mut self, finding: &Finding) {
        // The earliest rule names the kind, so that the order of findings makes no difference.
        self.rule = self.rule.min(finding.rule);
        self.end = self.end.max(finding.range.end);
        if self.tail.is_none() {
            self.tail = finding.tail.map(|tail| (tail, finding.range.end));
        }
    }
}
