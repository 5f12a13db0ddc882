//! A query as the index takes it: boolean clauses over terms.

use crate::query::Order;
use crate::text_query::{TermExtent, TermLookup, TermLookups};

/// Tiers a query can have: whole words, and prefixes.
pub(crate) const TIERS_MAX: usize = 2;

/// What to ask the index.
#[derive(Debug)]
pub(crate) struct QueryPlan {
    /// Every match is in exactly one tier; all of a tier rank before the next.
    pub(crate) tiers: Vec<BooleanQuery>,
    /// All matches that hold the words of the query whole.
    pub(crate) whole: BooleanQuery,
}

/// What a document must have.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BooleanQuery {
    /// All of these clauses hold…
    pub(crate) must: Vec<Clause>,
    /// …but not all of these; empty if nothing is excluded.
    pub(crate) must_not_all: Vec<Clause>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Clause {
    Term(String),
    /// Any term that begins so.
    Prefix(String),
    AnyOf(Vec<String>),
}

impl BooleanQuery {
    /// Asks for a term of each list.
    pub(crate) fn with_keywords(lists: Vec<Vec<String>>) -> BooleanQuery {
        BooleanQuery::all_of(lists.into_iter().map(Clause::AnyOf).collect())
    }

    fn all_of(must: Vec<Clause>) -> BooleanQuery {
        BooleanQuery { must, must_not_all: Vec::new() }
    }

    /// Whether a clause is a prefix, which costs as much as there are matches in a shard.
    pub(crate) fn has_prefix(&self) -> bool {
        self.must.iter().any(|clause| matches!(clause, Clause::Prefix(_)))
    }
}

/// Plans a query. `None` if the index has nothing to narrow the candidates by.
pub(crate) fn plan_query(
    lookups: &TermLookups,
    keywords: &[Vec<String>],
    order: Order,
) -> Option<QueryPlan> {
    let with_keywords = |clause: &dyn Fn(&TermLookup) -> Clause| {
        let keywords = keywords.iter().cloned().map(Clause::AnyOf);
        BooleanQuery::all_of(keywords.chain(lookups.terms.iter().map(clause)).collect())
    };
    let whole = with_keywords(&|lookup| match lookup.extent {
        TermExtent::Whole | TermExtent::WholeOrPrefix => Clause::Term(lookup.term.clone()),
        TermExtent::Prefix => Clause::Prefix(lookup.term.clone()),
    });
    // Neither a filter nor a word that is indexed: for instance a query in substring mode.
    if whole.must.is_empty() {
        return None;
    }
    // Without prefixes both tiers would find the same documents.
    if !lookups.have_prefixes() {
        return Some(QueryPlan { tiers: vec![whole.clone()], whole });
    }
    let any = with_keywords(&|lookup| match lookup.extent {
        TermExtent::Whole => Clause::Term(lookup.term.clone()),
        TermExtent::WholeOrPrefix | TermExtent::Prefix => Clause::Prefix(lookup.term.clone()),
    });
    let tiers = match order {
        // Ordered by id, a prefix match may stand before a whole word.
        Order::Newest | Order::Oldest => vec![any],
        // A prefix clause finds whole words too, so the second tier leaves out the first.
        Order::Best => {
            let rest = BooleanQuery { must_not_all: whole.must.clone(), ..any };
            vec![whole.clone(), rest]
        }
    };
    Some(QueryPlan { tiers, whole })
}

/// The tier a match belongs to, as the plan would sort it.
pub(crate) fn tier_of(order: Order, is_whole: bool) -> usize {
    usize::from(order == Order::Best && !is_whole)
}
