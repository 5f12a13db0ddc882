//! Long text, cut in the middle.

/// The part of what is shown that is the beginning; the end often says how it went.
const BEGINNING_SHARE: (usize, usize) = (2, 3);

/// A text, or its beginning and end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) beginning: String,
    /// What is missing, and what comes behind it.
    pub(crate) rest: Option<(LeftOut, String)>,
}

/// How much is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeftOut {
    lines: usize,
    bytes: usize,
}

impl Cut {
    /// The text with about `bytes_max` bytes of it, cut between lines where there are some.
    pub(crate) fn new(text: &str, bytes_max: usize) -> Cut {
        let text = text.trim_end();
        if text.len() <= bytes_max {
            return Cut { beginning: text.to_owned(), rest: None };
        }
        let (part, whole) = BEGINNING_SHARE;
        let room = bytes_max * part / whole;
        // Both cuts move outwards to a line break, if one is near:
        //
        //     beginning   |   left out                 |   end
        //     0 ....... to|.... limit ........ from ...|from' ....... len
        let limit = text.floor_char_boundary(room);
        let from = text.ceil_char_boundary(text.len() - (bytes_max - room));
        // A line that is longer than half of the room is cut in the middle.
        let to = text[..limit].rfind('\n').filter(|at| at * 2 > limit).unwrap_or(limit);
        let end = &text[from..];
        let from = end.find('\n').filter(|at| at * 2 < end.len()).map_or(from, |at| from + at + 1);
        let middle = &text[to..from];
        let lines = middle.trim_matches('\n').lines().count();
        let left_out = LeftOut { lines, bytes: middle.len() };
        Cut { beginning: text[..to].to_owned(), rest: Some((left_out, text[from..].to_owned())) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.beginning.is_empty() && self.rest.is_none()
    }

    /// All of it as one text, with a line that says what is missing.
    pub(crate) fn join_text(&self) -> String {
        match &self.rest {
            None => self.beginning.clone(),
            Some((left_out, end)) => format!("{}\n{left_out}\n{end}", self.beginning),
        }
    }
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = match self.bytes {
            bytes @ 0..1_000 => format!("{bytes} bytes"),
            bytes => format!("{} KB", bytes.div_ceil(1_000)),
        };
        match self.lines {
            0 | 1 => write!(f, "… {size} left out …"),
            lines => write!(f, "… {lines} lines ({size}) left out …"),
        }
    }
}
