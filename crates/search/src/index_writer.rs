//! Writing the index: documents in, segments out.

use std::collections::BTreeSet;

use crate::document::DocId;
use crate::fold::{fold_into, split_at_lines};
use crate::index_reader::{IndexReader, offset_of, shard_of};
use crate::keyword::EVERY_DOCUMENT;
use crate::merge::{add_segment, purge_tombstones};
use crate::postings_builder::PostingsBuilder;
use crate::store::IndexStoreMut;

/// A text is folded in chunks of about this size: a chunk is still in the processor's cache when
/// it is tokenized, and a long text is not held twice.
const FOLD_CHUNK_BYTES: usize = 64 * 1024;

/// Adds documents to an index within one transaction of its store.
///
/// Documents are buffered in memory and become one segment per shard. Each segment has to be
/// merged with others later, so a few large transactions cost much less than many small ones.
pub struct IndexWriter<'s, S> {
    store: &'s mut S,
    /// The shard of the buffered documents.
    shard: u64,
    buffer: PostingsBuilder,
    /// Room for the text that is being tokenized, kept to spare an allocation per text.
    folded: String,
}

/// Adds texts and keywords to the newest document of an [`IndexWriter`].
pub struct DocumentWriter<'w> {
    buffer: &'w mut PostingsBuilder,
    folded: &'w mut String,
}

impl<'s, S: IndexStoreMut> IndexWriter<'s, S> {
    pub fn new(store: &'s mut S) -> IndexWriter<'s, S> {
        IndexWriter { store, shard: 0, buffer: PostingsBuilder::default(), folded: String::new() }
    }

    /// Begins the next document. Its id must be higher than that of the one before.
    pub fn start_document(&mut self, id: DocId) -> Result<DocumentWriter<'_>, S::Error> {
        // Postings are offsets in one shard, so a segment cannot cross into the next.
        if shard_of(id) != self.shard {
            let buffer = std::mem::take(&mut self.buffer);
            add_segment(self.store, self.shard, &buffer)?;
            self.shard = shard_of(id);
        }
        self.buffer.start_document(offset_of(id));
        // `has_document` asks for it: a document may have keywords only, and no word is in all of
        // them.
        self.buffer.add_term(EVERY_DOCUMENT);
        Ok(DocumentWriter { buffer: &mut self.buffer, folded: &mut self.folded })
    }

    /// Notes that a later document stands in for this one, which is found no more.
    pub fn supersede(&mut self, id: DocId) -> Result<(), S::Error> {
        // A document of this transaction has no segment yet, so it can leave without a tombstone.
        let is_buffered = shard_of(id) == self.shard && self.buffer.drop_document(offset_of(id));
        if !is_buffered && IndexReader::new(self.store).has_document(id)? {
            self.store.put_tombstone(shard_of(id), offset_of(id))?;
        }
        // Also where the index has no such document: a search that reads the documents themselves
        // asks for it.
        self.store.put_superseded(id)
    }

    /// About the bytes that the buffered documents take in memory.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.memory_bytes()
    }

    /// Writes what is buffered. The caller commits.
    pub fn finish(self) -> Result<(), S::Error> {
        add_segment(self.store, self.shard, &self.buffer)
    }
}

impl DocumentWriter<'_> {
    /// Adds the words of a text.
    pub fn add_text(&mut self, text: &str) {
        for chunk in split_at_lines(text, FOLD_CHUNK_BYTES) {
            fold_into(chunk, self.folded);
            self.buffer.add_text(self.folded);
        }
    }

    /// Adds a keyword term.
    pub fn add_keyword(&mut self, term: &str) {
        self.buffer.add_term(term);
    }
}

/// Deletes documents: their postings leave the store within this transaction, not with the next
/// merge, because a deletion has to remove every trace of a text.
pub fn delete_docs<S: IndexStoreMut>(store: &mut S, ids: &[DocId]) -> Result<(), S::Error> {
    let mut shards = BTreeSet::new();
    for id in ids {
        // All tombstones first, then one rewrite per shard.
        store.put_tombstone(shard_of(*id), offset_of(*id))?;
        shards.insert(shard_of(*id));
    }
    for shard in shards {
        purge_tombstones(store, shard)?;
    }
    Ok(())
}
