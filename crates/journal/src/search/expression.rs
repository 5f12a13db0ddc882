//! A query in the language of the full-text index.
//!
//! Only words and tags of our own making get here, each in quotes, so no query is a syntax error.

use super::filter::Filter;
use super::index::State;
use super::query::Order;
use super::terms::{Extent, Lookups};

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

#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    /// Whether words may be beginnings, which costs as much as there are matches in a part.
    pub(super) has_beginnings: bool,
}

/// The lists for a query. `None` if the index has nothing to narrow the candidates by.
pub(super) fn expressions(
    lookups: &Lookups,
    filter: &Filter<'_>,
    state: &State,
    order: Order,
) -> Option<Expressions> {
    let mut demands: Vec<String> =
        filter.tags((state.first_day, state.last_day)).iter().map(|tags| any_of(tags)).collect();
    let filter_demands = demands.len();
    demands.extend(lookups.words.iter().map(|lookup| match lookup.extent {
        Extent::Whole | Extent::WholeOrBeginning => quoted(&lookup.word),
        Extent::Beginning => beginning(&lookup.word),
    }));
    if demands.is_empty() {
        return None;
    }
    let whole = demands.join(" AND ");
    let has_beginnings = lookups.have_beginnings();
    let any = if has_beginnings {
        demands.truncate(filter_demands);
        demands.extend(lookups.words.iter().map(|lookup| match lookup.extent {
            Extent::Whole => quoted(&lookup.word),
            Extent::WholeOrBeginning | Extent::Beginning => beginning(&lookup.word),
        }));
        demands.join(" AND ")
    } else {
        whole.clone()
    };
    let whole = Expression { text: whole, has_beginnings: false };
    let lists = match order {
        Order::Newest | Order::Oldest => vec![Expression { text: any, has_beginnings }],
        Order::Best if has_beginnings => {
            let text = format!("({any}) NOT ({})", whole.text);
            vec![whole.clone(), Expression { text, has_beginnings }]
        }
        Order::Best => vec![whole.clone()],
    };
    Some(Expressions { lists, whole })
}

/// The list a match belongs to, as the index would sort it.
pub(super) fn list_of(order: Order, is_whole: bool) -> usize {
    usize::from(order == Order::Best && !is_whole)
}

/// The expression for one tag.
pub(super) fn tag(tag: &str) -> String {
    quoted(tag)
}

fn any_of(tags: &[String]) -> String {
    let tags: Vec<String> = tags.iter().map(|tag| quoted(tag)).collect();
    if tags.is_empty() {
        // A tag that nothing has.
        return quoted("\u{E000}");
    }
    format!("({})", tags.join(" OR "))
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

fn beginning(word: &str) -> String {
    format!("\"{word}\" *")
}
