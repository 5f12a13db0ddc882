//! A list that changes at its end only, and of which a copy costs the same at any length.

use std::sync::Arc;

/// Elements per piece. A push copies at most this many if a copy of the list is in use.
const PIECE: usize = 128;

/// Full pieces that are never touched again, and the one that still grows.
#[derive(Debug)]
pub(crate) struct List<T> {
    full: Arc<Vec<Arc<Vec<T>>>>,
    last: Arc<Vec<T>>,
}

impl<T: Clone> List<T> {
    pub(crate) fn push(&mut self, element: T) {
        // Copies the piece only if an earlier copy of the list still uses it.
        let last = Arc::make_mut(&mut self.last);
        last.push(element);
        if last.len() == PIECE {
            let piece = std::mem::take(&mut self.last);
            Arc::make_mut(&mut self.full).push(piece);
        }
    }

    /// Drops everything from `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        if let Some(piece) = self.full.get(len / PIECE) {
            // The full piece that holds the new end becomes the growing one again.
            self.last = Arc::clone(piece);
            Arc::make_mut(&mut self.full).truncate(len / PIECE);
        }
        let rest = len - self.full.len() * PIECE;
        if rest < self.last.len() {
            Arc::make_mut(&mut self.last).truncate(rest);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len()
    }

    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        match self.full.get(place / PIECE) {
            Some(piece) => piece.get(place % PIECE),
            None => self.last.get(place - self.full.len() * PIECE),
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.full.iter().flat_map(|piece| piece.iter()).chain(self.last.iter())
    }
}

impl<T: Clone> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List { full: Arc::default(), last: Arc::default() }
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> List<T> {
        List { full: Arc::clone(&self.full), last: Arc::clone(&self.last) }
    }
}
