//! Which answers of a history get parts after the talk has moved on, and when the last one comes.
//!
//! A history that is handed on entry by entry has to hold such an answer until it is whole.

use std::collections::{HashMap, HashSet};

use super::contribution::Contribution;
use super::fold::hash;

/// The answers with late parts, by the hash of the message id. Hashes keep the memory small; a
/// collision only holds an answer longer.
#[derive(Debug, Default)]
pub(super) struct LateAnswers {
    /// The piece of the reading that has the last part of each.
    last_parts: HashMap<u64, usize>,
}

/// Looks for late parts in the events of a history, in order.
#[derive(Debug, Default)]
pub(super) struct LateAnswerFinder {
    found: LateAnswers,
    /// All answers so far, of which any may get a late part.
    known: HashSet<u64>,
    /// The answer of the part before, unless other talk came since.
    current: Option<u64>,
}

impl LateAnswerFinder {
    /// Takes in what an event of this piece contributes.
    pub(super) fn add_event(&mut self, piece: usize, said: &Contribution) {
        match said.message_id() {
            // A part without an id belongs to no earlier answer.
            Some("") => self.current = None,
            Some(id) => {
                let answer = hash(id);
                let is_new = self.known.insert(answer);
                if self.current != Some(answer) && !is_new {
                    self.found.last_parts.insert(answer, piece);
                } else if let Some(last_part) = self.found.last_parts.get_mut(&answer) {
                    // Goes on with a part that came late.
                    *last_part = piece;
                }
                self.current = Some(answer);
            }
            None if matches!(said, Contribution::Prompt(_) | Contribution::Unreadable(_)) => {
                self.end_talk();
            }
            None => {}
        }
    }

    /// Notes that a part that comes next is late, whatever its answer.
    pub(super) fn end_talk(&mut self) {
        self.current = None;
    }

    pub(super) fn finish(self) -> LateAnswers {
        self.found
    }
}

impl LateAnswers {
    /// Whether the answer gets a part after this piece.
    pub(super) fn is_awaited(&self, message_id: &str, piece: usize) -> bool {
        // Most histories have no late part, and an id need not be hashed.
        !self.last_parts.is_empty()
            && self.last_parts.get(&hash(message_id)).is_some_and(|last_part| *last_part > piece)
    }
}
