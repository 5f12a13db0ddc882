//! Documents in a list, and an index of them in memory.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::{Bound, ControlFlow, Range, RangeInclusive};

use crate::{
    CorruptBlock, DocId, DocumentSource, HITS_DEFAULT, IndexSnapshot, IndexStore, IndexStoreMut,
    IndexWriter, MatchMode, Order, Query, SearchCursor, Segment, TextQuery, TopDocs, delete_docs,
    search,
};

/// Documents on a page: few, so that tests turn pages.
const PAGE_LEN: usize = 16;

/// A document of a test.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct TestDoc {
    pub(super) id: DocId,
    pub(super) texts: Vec<String>,
    boost: f64,
    supersedes: Option<DocId>,
}

/// What a test asks.
#[derive(Clone, Debug)]
pub(super) struct TestQuery {
    pub(super) text: String,
    pub(super) mode: MatchMode,
    pub(super) order: Order,
    pub(super) limit: usize,
    pub(super) cursor: Option<SearchCursor>,
}

/// Documents in order, and their index.
#[derive(Default)]
pub(super) struct Collection {
    docs: Vec<TestDoc>,
    last_id: DocId,
    index: RefCell<MemoryIndex>,
    indexed: Cell<DocId>,
}

impl TestQuery {
    pub(super) fn new(text: impl Into<String>) -> TestQuery {
        TestQuery {
            text: text.into(),
            mode: MatchMode::Words,
            order: Order::Best,
            limit: HITS_DEFAULT,
            cursor: None,
        }
    }
}

impl Collection {
    pub(super) fn with_texts(texts: &[&str]) -> Collection {
        let mut collection = Collection::default();
        for text in texts {
            collection.add(text);
        }
        collection
    }

    pub(super) fn add(&mut self, text: &str) -> DocId {
        self.add_doc(&[text], 0.0, None)
    }

    pub(super) fn add_boosted(&mut self, text: &str) -> DocId {
        self.add_doc(&[text], 1.0, None)
    }

    pub(super) fn add_doc(
        &mut self,
        texts: &[&str],
        boost: f64,
        supersedes: Option<DocId>,
    ) -> DocId {
        // Ids have gaps, as in a log where other things take numbers too.
        self.last_id += 2;
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        self.docs.push(TestDoc { id: self.last_id, texts, boost, supersedes });
        self.last_id
    }

    /// Adds a document with an id of its own, which must be higher than the others.
    pub(super) fn add_at(&mut self, id: DocId, text: &str) -> DocId {
        self.last_id = id - 2;
        self.add(text)
    }

    /// Removes documents from the list, and from the index.
    pub(super) fn delete(&mut self, ids: &[DocId]) {
        self.docs.retain(|doc| !ids.contains(&doc.id));
        delete_docs(&mut *self.index.borrow_mut(), ids).unwrap();
    }

    /// Indexes everything there is in one transaction.
    pub(super) fn index_all(&self) {
        let mut index = self.index.borrow_mut();
        let mut writer = IndexWriter::new(&mut *index);
        for doc in self.docs.iter().filter(|doc| doc.id > self.indexed.get()) {
            let mut document = writer.start_document(doc.id).unwrap();
            doc.texts.iter().for_each(|text| document.add_text(text));
            if let Some(superseded) = doc.supersedes {
                writer.supersede(superseded).unwrap();
            }
        }
        writer.finish().unwrap();
        self.indexed.set(self.last_id);
    }

    /// Whether a block of the index holds these bytes.
    pub(super) fn index_holds(&self, bytes: &[u8]) -> bool {
        let index = self.index.borrow();
        index.blocks.values().any(|block| block.windows(bytes.len()).any(|part| part == bytes))
    }

    /// Searches with the index as far as it has got.
    pub(super) fn search(&self, query: &TestQuery) -> TopDocs<TestDoc> {
        let index = self.index.borrow();
        let snapshot = IndexSnapshot { store: &*index, indexed: self.indexed.get() };
        self.run(Some(snapshot), query)
    }

    /// Searches by reading through everything.
    pub(super) fn scan(&self, query: &TestQuery) -> TopDocs<TestDoc> {
        self.run(None, query)
    }

    fn run(
        &self,
        index: Option<IndexSnapshot<'_, MemoryIndex>>,
        query: &TestQuery,
    ) -> TopDocs<TestDoc> {
        let text = TextQuery::parse(&query.text, query.mode);
        if text.is_empty() {
            let hits = Vec::new();
            return TopDocs { hits, total: 0, total_is_exact: true, complete: true, next: None };
        }
        let query = Query {
            text: &text,
            keywords: Vec::new(),
            keywords_are_exact: true,
            order: query.order,
            limit: query.limit,
            cursor: query.cursor,
        };
        search(self, index, &query).unwrap()
    }
}

/// The ids of the hits in the order they are given.
pub(super) fn hit_ids(found: &TopDocs<TestDoc>) -> Vec<DocId> {
    found.hits.iter().map(|hit| hit.document.id).collect()
}

impl DocumentSource for Collection {
    type Document = TestDoc;
    type Error = IndexDamaged;

    fn last_id(&self) -> Result<DocId, IndexDamaged> {
        Ok(self.last_id)
    }

    fn read_page(
        &self,
        ids: RangeInclusive<DocId>,
        order: Order,
    ) -> Result<Vec<TestDoc>, IndexDamaged> {
        let from = self.docs.partition_point(|doc| doc.id < *ids.start());
        let to = self.docs.partition_point(|doc| doc.id <= *ids.end());
        let docs = self.docs[from..to].iter();
        Ok(match order.is_newest_first() {
            true => docs.rev().take(PAGE_LEN).cloned().collect(),
            false => docs.take(PAGE_LEN).cloned().collect(),
        })
    }

    fn read_document(&self, id: DocId) -> Result<Option<TestDoc>, IndexDamaged> {
        Ok(self.docs.iter().find(|doc| doc.id == id).cloned())
    }

    fn doc_id(&self, document: &TestDoc) -> DocId {
        document.id
    }

    fn supersedes(&self, document: &TestDoc) -> Result<Option<DocId>, IndexDamaged> {
        Ok(document.supersedes)
    }

    fn accepts(&self, _: &TestDoc) -> Result<bool, IndexDamaged> {
        Ok(true)
    }

    fn texts(&self, document: &TestDoc) -> Vec<String> {
        document.texts.clone()
    }

    fn boost(&self, document: &TestDoc) -> f64 {
        document.boost
    }
}

#[derive(Debug)]
pub(super) struct IndexDamaged;

impl From<CorruptBlock> for IndexDamaged {
    fn from(_: CorruptBlock) -> IndexDamaged {
        IndexDamaged
    }
}

/// The rows of an index.
#[derive(Default)]
struct MemoryIndex {
    segments: BTreeMap<i64, (u64, Segment)>,
    /// By segment and first term.
    blocks: BTreeMap<(i64, Vec<u8>), Vec<u8>>,
    tombstones: BTreeSet<(u64, u32)>,
    superseded: HashSet<DocId>,
}

impl MemoryIndex {
    fn blocks_after(&self, segment_id: i64, term: &[u8]) -> impl Iterator<Item = &Vec<u8>> {
        let from = Bound::Excluded((segment_id, term.to_vec()));
        let behind = Bound::Excluded((segment_id + 1, Vec::new()));
        self.blocks.range((from, behind)).map(|(_, bytes)| bytes)
    }
}

impl IndexStore for MemoryIndex {
    type Error = IndexDamaged;

    fn shards(&self) -> Result<Vec<u64>, IndexDamaged> {
        let shards: BTreeSet<u64> = self.segments.values().map(|(shard, _)| *shard).collect();
        Ok(shards.into_iter().collect())
    }

    fn segments(&self, shard: u64) -> Result<Vec<Segment>, IndexDamaged> {
        let of_shard = self.segments.values().filter(|(other, _)| *other == shard);
        let mut segments: Vec<Segment> = of_shard.map(|(_, segment)| segment.clone()).collect();
        segments.sort_by_key(|segment| segment.offsets.start);
        Ok(segments)
    }

    fn tombstones(&self, shard: u64) -> Result<HashSet<u32>, IndexDamaged> {
        let of_shard = self.tombstones.iter().filter(|(other, _)| *other == shard);
        Ok(of_shard.map(|(_, offset)| *offset).collect())
    }

    fn is_superseded(&self, id: DocId) -> Result<bool, IndexDamaged> {
        Ok(self.superseded.contains(&id))
    }

    fn block_at(&self, segment_id: i64, term: &[u8]) -> Result<Option<Vec<u8>>, IndexDamaged> {
        let up_to = (segment_id, Vec::new())..=(segment_id, term.to_vec());
        Ok(self.blocks.range(up_to).next_back().map(|(_, bytes)| bytes.clone()))
    }

    fn block_after(&self, segment_id: i64, term: &[u8]) -> Result<Option<Vec<u8>>, IndexDamaged> {
        Ok(self.blocks_after(segment_id, term).next().cloned())
    }

    fn visit_blocks_after(
        &self,
        segment_id: i64,
        term: &[u8],
        visit: &mut dyn FnMut(Vec<u8>) -> Result<ControlFlow<()>, IndexDamaged>,
    ) -> Result<(), IndexDamaged> {
        for bytes in self.blocks_after(segment_id, term) {
            if visit(bytes.clone())?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl IndexStoreMut for MemoryIndex {
    fn next_segment_id(&self) -> Result<i64, IndexDamaged> {
        Ok(self.segments.last_key_value().map_or(1, |(id, _)| id + 1))
    }

    fn put_block(
        &mut self,
        segment_id: i64,
        first_term: &[u8],
        bytes: &[u8],
    ) -> Result<(), IndexDamaged> {
        let before = self.blocks.insert((segment_id, first_term.to_vec()), bytes.to_vec());
        assert_eq!(before, None, "a block is written once");
        Ok(())
    }

    fn put_segment(&mut self, shard: u64, segment: &Segment) -> Result<(), IndexDamaged> {
        let before = self.segments.insert(segment.id, (shard, segment.clone()));
        assert_eq!(before, None, "a segment is written once");
        Ok(())
    }

    fn remove_segment(&mut self, segment_id: i64) -> Result<(), IndexDamaged> {
        self.segments.remove(&segment_id);
        self.blocks.retain(|(segment, _), _| *segment != segment_id);
        Ok(())
    }

    fn put_tombstone(&mut self, shard: u64, offset: u32) -> Result<(), IndexDamaged> {
        self.tombstones.insert((shard, offset));
        Ok(())
    }

    fn remove_tombstones(&mut self, shard: u64, offsets: Range<u32>) -> Result<(), IndexDamaged> {
        self.tombstones.retain(|(other, offset)| *other != shard || !offsets.contains(offset));
        Ok(())
    }

    fn put_superseded(&mut self, id: DocId) -> Result<(), IndexDamaged> {
        self.superseded.insert(id);
        Ok(())
    }
}
