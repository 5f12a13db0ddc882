//! A query as the full-text index takes it: words and tags that a document must have.

use super::filter::Filter;
use super::index::State;
use super::query::Order;
use super::terms::{Extent, Lookup, Lookups};

/// Lists a query can have: whole words, and beginnings.
pub(super) const LISTS_MAX: usize = 2;

/// What to ask the index, best candidates first.
#[derive(Debug)]
pub(super) struct Expressions {
    /// Every match is in exactly one list; a list before another ranks before it.
    pub(super) lists: Vec<Expression>,
    /// All matches that hold the words whole.
    pub(super) whole: Expression,
}

/// What a document must have.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Expression {
    /// All of these…
    pub(super) demands: Vec<Demand>,
    /// …but not all of these; none if there is no exception.
    pub(super) exception: Vec<Demand>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Demand {
    Word(String),
    /// A word that begins so.
    Beginning(String),
    AnyOf(Vec<String>),
}

impl Expression {
    pub(super) fn word(word: &str) -> Expression {
        Expression::all(vec![Demand::Word(word.to_owned())])
    }

    pub(super) fn any_of(words: Vec<String>) -> Expression {
        Expression::all(vec![Demand::AnyOf(words)])
    }

    fn all(demands: Vec<Demand>) -> Expression {
        Expression { demands, exception: Vec::new() }
    }

    /// Whether words may be beginnings, which costs as much as there are matches in a part.
    pub(super) fn has_beginnings(&self) -> bool {
        self.demands.iter().any(|demand| matches!(demand, Demand::Beginning(_)))
    }
}

/// The lists for a query. `None` if the index has nothing to narrow the candidates by.
pub(super) fn expressions(
    lookups: &Lookups,
    filter: &Filter<'_>,
    state: &State,
    order: Order,
) -> Option<Expressions> {
    let tags = filter.tags((state.first_day, state.last_day));
    let with_tags = |words: &dyn Fn(&Lookup) -> Demand| {
        let tags = tags.iter().cloned().map(Demand::AnyOf);
        Expression::all(tags.chain(lookups.words.iter().map(words)).collect())
    };
    let whole = with_tags(&|lookup| match lookup.extent {
        Extent::Whole | Extent::WholeOrBeginning => Demand::Word(lookup.word.clone()),
        Extent::Beginning => Demand::Beginning(lookup.word.clone()),
    });
    if whole.demands.is_empty() {
        return None;
    }
    if !lookups.have_beginnings() {
        return Some(Expressions { lists: vec![whole.clone()], whole });
    }
    let any = with_tags(&|lookup| match lookup.extent {
        Extent::Whole => Demand::Word(lookup.word.clone()),
        Extent::WholeOrBeginning | Extent::Beginning => Demand::Beginning(lookup.word.clone()),
    });
    let lists = match order {
        Order::Newest | Order::Oldest => vec![any],
        Order::Best => {
            let rest = Expression { exception: whole.demands.clone(), ..any };
            vec![whole.clone(), rest]
        }
    };
    Some(Expressions { lists, whole })
}

/// The list a match belongs to, as the index would sort it.
pub(super) fn list_of(order: Order, is_whole: bool) -> usize {
    usize::from(order == Order::Best && !is_whole)
}
