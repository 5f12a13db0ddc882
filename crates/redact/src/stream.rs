//! Redaction of a text that comes in pieces.

use crate::scan::Scan;

/// The minimum number of bytes per step. With smaller steps, the text that is held back would be
/// searched again for every small piece.
const STEP_MIN: usize = 8 * 1024;

/// A text that comes in pieces, each of them given to [`Redactor::push`](crate::Redactor::push).
///
/// It holds back the text that cannot be decided yet, never more than a few kilobytes.
#[derive(Clone, Debug)]
pub struct Stream {
    pub(crate) scan: Scan,
    pub(crate) held: String,
    pub(crate) step_min: usize,
}

impl Stream {
    pub fn new() -> Stream {
        Stream::with_step_min(STEP_MIN)
    }

    /// Creates a stream that decides when it holds this many bytes. The result is the same for
    /// every value; smaller steps give it sooner and cost more.
    pub fn with_step_min(step_min: usize) -> Stream {
        Stream { scan: Scan::default(), held: String::new(), step_min }
    }
}

impl Default for Stream {
    fn default() -> Stream {
        Stream::new()
    }
}
