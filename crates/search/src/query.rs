//! What is asked.

use std::fmt;
use std::str::FromStr;

use crate::cursor::SearchCursor;
use crate::text_query::TextQuery;

/// Hits on a page unless the caller says otherwise.
pub const HITS_DEFAULT: usize = 20;

/// Hits a page may have at most; a larger limit gives this many.
pub const HITS_MAX: usize = 1_000;

/// A question to the index.
#[derive(Debug)]
pub struct Query<'a> {
    pub text: &'a TextQuery,
    /// Lists of keyword terms; a document must have at least one term of every list. They only
    /// narrow down the candidates: [`DocumentSource::accepts`] has the last word.
    ///
    /// [`DocumentSource::accepts`]: crate::DocumentSource::accepts
    pub keywords: Vec<Vec<String>>,
    /// Whether the keywords alone decide which documents are accepted. Then hits can be counted
    /// without reading them.
    pub keywords_are_exact: bool,
    pub order: Order,
    pub limit: usize,
    /// Where the page before this one ended.
    pub cursor: Option<SearchCursor>,
}

/// What a word of the query has to be in the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MatchMode {
    /// A word, or from three characters on the prefix of one.
    #[default]
    Words,
    /// Any piece, also in the middle of a word. The index cannot help: all texts are read.
    Substring,
}

/// Which hits come first. New and old go by doc id, not by clocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// Whole words before prefixes. Candidates are visited newest first and ranked by score
    /// within a window of them; the next window follows.
    #[default]
    Best,
    Newest,
    Oldest,
}

impl Order {
    pub const ALL: [Order; 3] = [Order::Best, Order::Newest, Order::Oldest];

    /// The word that people and programs use for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Order::Best => "best",
            Order::Newest => "newest",
            Order::Oldest => "oldest",
        }
    }

    /// Whether documents are visited from the highest doc id down.
    pub fn is_newest_first(self) -> bool {
        match self {
            Order::Best | Order::Newest => true,
            Order::Oldest => false,
        }
    }
}

/// A word that names no [`Order`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownOrder(String);

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(word: &str) -> Result<Order, UnknownOrder> {
        let named = Order::ALL.into_iter().find(|order| order.as_str() == word);
        named.ok_or_else(|| UnknownOrder(word.to_owned()))
    }
}

impl fmt::Display for UnknownOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown variant `{}`, expected one of `best`, `newest`, `oldest`", self.0)
    }
}

impl std::error::Error for UnknownOrder {}
