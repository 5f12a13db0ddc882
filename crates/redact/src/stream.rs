//! Text without secrets, piece by piece.

use crate::scan::Scan;

/// Text is looked at in steps of this many bytes at least. With fewer, what is held back would be
/// gone through again for every small piece.
const STEP_MIN: usize = 8 * 1024;

/// A text that comes in pieces, each of them given to [`Redactor::push`](crate::Redactor::push).
///
/// It holds back what cannot be decided yet, never more than a few kilobytes.
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

    /// A stream that decides when it holds this many bytes. What comes out in the end is the same;
    /// smaller steps give it sooner and cost more.
    pub fn with_step_min(step_min: usize) -> Stream {
        Stream { scan: Scan::default(), held: String::new(), step_min }
    }
}

impl Default for Stream {
    fn default() -> Stream {
        Stream::new()
    }
}
