//! A full-text index: documents in, ranked hits out.
//!
//! A document is a set of terms under a [`DocId`] that the caller chose. The index knows which
//! documents hold a term, not where in the text it stands: positions would triple the size.
//! Therefore a search takes candidates from the index, reads each one from its
//! [`DocumentSource`] and compares the text with the query before it becomes a hit. A stale or
//! damaged index can cost time but never produce a wrong hit.
//!
//! The bytes live behind an [`IndexStore`]: rows of segments and term blocks in whatever database
//! the caller has.
//!
//! # Layout
//!
//! ```text
//! doc ids    0 ......... 262,143 | 262,144 ......... 524,287 | 524,288 ...
//!            shard 0             | shard 1                   | shard 2     SHARD_DOCS each
//!            ├─ segment 7   offsets    0..8192     merged, large
//!            ├─ segment 9   offsets 8192..8700
//!            └─ segment 12  offsets 8700..8764     newest, small
//!                 └─ term blocks in term order, about one database page each
//!                      "a" … "build"  |  "builder" … "error"  |  …
//!
//! segment row     id | shard | first offset | offset behind the last | number of documents
//! block row       segment id | first term of the block | block bytes
//! tombstone row   shard | offset      deleted, but its postings are still in a segment
//! superseded row  doc id              a later document stands in for it
//!
//! block bytes     crc32   u32, little endian, over everything that follows
//!                 per term, in byte order:
//!                   shared   u8      bytes it has in common with the term before it
//!                   suffix   u8      number of bytes that follow
//!                   …the suffix…
//!                   length   varint  bytes of the postings, so that a reader can skip them
//!                   postings varints offsets in the shard, each as the distance from the one
//!                                    before it, the first from 0
//! varint          7 bits a byte, lowest bits first; bit 7 is set on all bytes but the last
//! ```
//!
//! An offset is a doc id within its shard, so that it fits 32 bits. Keyword terms (see
//! [`keyword_term`]) stand in the same term dictionary as the words of texts; they begin with a
//! character that no word can contain.
//!
//! Not here: files and SQL (`IndexStore` is implemented by `journal`), what a document is made of
//! and which filters exist (its caller's business), clocks.

mod query; // what is asked: text, keywords, order, page
mod document; // where documents are read from, and what a hit is
mod searcher; // candidates compared, ranked and paged
mod text_query; // the terms of a query: parsed, looked up, found in a text
mod plan; // a query as boolean clauses for the index
mod candidates; // documents that may match, in order
mod score; // how much a text is about the terms
mod snippet; // the piece of a text that is shown
mod cursor; // from page to page
mod fold; // text as it is compared: case, accents, colour codes
mod tokenizer; // terms of a folded text
mod keyword; // terms that are whole values: filters and keys
mod index_writer; // documents in
mod postings_builder; // terms and postings of one segment, in memory
mod index_reader; // doc ids out
mod segment; // looking a term up in one segment
mod merge; // writing segments, merging them, dropping tombstones
mod term_block; // some terms with their postings, as bytes
mod store; // where the bytes are kept
#[cfg(test)]
mod tests;

pub use cursor::SearchCursor;
pub use document::{DocId, DocumentSource, Hit, TopDocs};
pub use index_reader::IndexReader;
pub use index_writer::{DocumentWriter, IndexWriter, delete_docs};
pub use keyword::{EVERY_DOCUMENT, keyword_number, keyword_term};
pub use query::{HITS_DEFAULT, HITS_MAX, MatchMode, Order, Query, UnknownOrder};
pub use searcher::{IndexSnapshot, search};
pub use segment::Segment;
pub use snippet::Snippet;
pub use store::{IndexStore, IndexStoreMut};
pub use term_block::CorruptBlock;
pub use text_query::TextQuery;
