//! What the forms of sources have in common: records, one after the other.

use std::io;

/// The records of a source from a known place on, in its order.
pub(crate) trait RecordReader {
    /// The next record. Its bytes are put behind what is kept already, so that those of many are
    /// together; of one that is too long to be held nothing is.
    fn next<'a>(&'a mut self, kept: &'a mut Vec<u8>) -> io::Result<NextRecord<'a>>;

    /// Where reading has to go on behind what [`next`](RecordReader::next) gave, for a form that
    /// does not go by places in a file.
    fn watermark(&self) -> Option<String> {
        None
    }

    /// Whether reading has cost as much as a turn may, however few bytes it gave.
    fn is_spent(&self) -> bool {
        false
    }
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextRecord<'a> {
    /// A whole record: a line with its end, a row, an entry.
    Whole {
        offset: u64,
        bytes: &'a [u8],
        /// What tells it from all others of the source, where its place does not.
        key: &'a str,
    },
    /// A whole record that is too long to be held; so many bytes were passed over.
    TooLong {
        offset: u64,
        length: u64,
    },
    /// Bytes that are no whole record yet: so many, and they themselves unless they are too many
    /// to be held.
    Open {
        offset: u64,
        length: u64,
        bytes: &'a [u8],
    },
    End,
}
