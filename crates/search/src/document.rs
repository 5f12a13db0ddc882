//! Documents as a search reads them, and as it gives them back.

use std::ops::RangeInclusive;

use crate::cursor::SearchCursor;
use crate::query::Order;
use crate::snippet::Snippet;

/// The number a document has in the index. Later documents have higher ones.
pub type DocId = u64;

/// Where a search reads the documents themselves, one query's filters included.
pub trait DocumentSource {
    type Document;
    type Error;

    /// The id of the newest document; 0 if there is none.
    fn last_id(&self) -> Result<DocId, Self::Error>;

    /// Documents within a range of ids, newest first or oldest first as the order says: as many
    /// as fit a page, and at least one if there is any.
    fn read_page(
        &self,
        ids: RangeInclusive<DocId>,
        order: Order,
    ) -> Result<Vec<Self::Document>, Self::Error>;

    /// One document; `None` if it was deleted.
    fn read_document(&self, id: DocId) -> Result<Option<Self::Document>, Self::Error>;

    fn doc_id(&self, document: &Self::Document) -> DocId;

    /// The earlier document that this one stands in for, if there is one.
    fn supersedes(&self, document: &Self::Document) -> Result<Option<DocId>, Self::Error>;

    /// Whether the filters of the query let the document through.
    fn accepts(&self, document: &Self::Document) -> Result<bool, Self::Error>;

    /// The texts that are searched, most telling first. A phrase never spans two of them.
    fn texts(&self, document: &Self::Document) -> Vec<String>;

    /// What is added to the score of the texts, which lies between 0 and 1.
    fn boost(&self, document: &Self::Document) -> f64;
}

/// A document that matches.
#[derive(Clone, PartialEq, Debug)]
pub struct Hit<D> {
    pub document: D,
    /// More is better. Comparable within one search only.
    pub score: f64,
    pub snippet: Snippet,
}

/// A page of hits.
#[derive(Clone, PartialEq, Debug)]
pub struct TopDocs<D> {
    pub hits: Vec<Hit<D>>,
    /// How many documents match; at least this many where `total_is_exact` is false.
    pub total: usize,
    pub total_is_exact: bool,
    /// False when a limit ended the search before every candidate was looked at. What was left
    /// out is older, and `next` leads there.
    pub complete: bool,
    /// Where the next page begins, if there may be one.
    pub next: Option<SearchCursor>,
}
