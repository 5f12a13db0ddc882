//! One segment: documents that were indexed or merged together, with a term dictionary of their
//! own.

use std::ops::{ControlFlow, Range};

use crate::store::IndexStore;
use crate::term_block::TermBlockReader;

/// Some documents of a shard that were indexed together. Segments of a shard do not overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    pub id: i64,
    /// From its first document up to behind its last, as offsets in the shard.
    pub offsets: Range<u32>,
    pub doc_count: usize,
}

impl Segment {
    /// Adds the postings of a term to a list.
    pub(crate) fn read_term<S: IndexStore>(
        &self,
        store: &S,
        term: &str,
        postings: &mut Vec<u32>,
    ) -> Result<(), S::Error> {
        let term = term.as_bytes();
        let Some(bytes) = store.block_at(self.id, term)? else { return Ok(()) };
        let mut block = TermBlockReader::new(bytes)?;
        // Terms are sorted, so the first larger one ends the search.
        while block.advance()? && &*block.term <= term {
            if block.term == term {
                block.read_postings(postings)?;
            }
        }
        Ok(())
    }

    /// Adds the postings of all terms with a prefix to a list, term by term: the list has to be
    /// sorted afterwards.
    pub(crate) fn read_prefix<S: IndexStore>(
        &self,
        store: &S,
        prefix: &str,
        postings: &mut Vec<u32>,
    ) -> Result<(), S::Error> {
        let prefix = prefix.as_bytes();
        let mut visit = |bytes: Vec<u8>| -> Result<ControlFlow<()>, S::Error> {
            let mut block = TermBlockReader::new(bytes)?;
            while block.advance()? {
                if block.term.starts_with(prefix) {
                    block.read_postings(postings)?;
                } else if &*block.term > prefix {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        // The block that would hold the prefix itself may begin with a smaller term; every
        // further block begins with a larger one.
        let flow = match store.block_at(self.id, prefix)? {
            Some(bytes) => visit(bytes)?,
            None => ControlFlow::Continue(()),
        };
        match flow {
            ControlFlow::Continue(()) => store.visit_blocks_after(self.id, prefix, &mut visit),
            ControlFlow::Break(()) => Ok(()),
        }
    }
}
