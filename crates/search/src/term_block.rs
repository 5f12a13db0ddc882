//! A term block: some terms in byte order, each with its postings.
//!
//! ```text
//! crc32 | shared suffix_len suffix… postings_len postings… | shared suffix_len …
//! ```
//!
//! Terms are prefix-compressed against the term before them, postings are distances as varints;
//! the crate's page has the details. The checksum stands in front of everything: a damaged block
//! is an error, never a wrong posting.

/// Bytes after which a block is full. With what SQLite adds to a row, one block fills a page of
/// 4,096 bytes.
const BLOCK_BYTES: usize = 3_900;

const CHECKSUM_LEN: usize = 4;

/// The bytes of a term block are not as they were written.
#[derive(Debug)]
pub struct CorruptBlock;

/// A block that is being written.
#[derive(Default)]
pub(crate) struct TermBlockWriter {
    first_term: Vec<u8>,
    last_term: Vec<u8>,
    /// Begins with room for the checksum.
    bytes: Vec<u8>,
    /// The encoded postings of one term. They go through a buffer of their own because their
    /// length stands before them.
    encoded: Vec<u8>,
}

impl TermBlockWriter {
    /// Adds the next term with its postings, both in order. Terms have at most 255 bytes.
    pub(crate) fn push(&mut self, term: &[u8], postings: &[u32]) {
        // At most 255, like every term, so it fits the byte it is stored in.
        let shared = self.last_term.iter().zip(term).take_while(|(a, b)| a == b).count();
        if self.bytes.is_empty() {
            self.first_term.clear();
            self.first_term.extend(term);
            self.bytes.extend([0; CHECKSUM_LEN]);
        }
        self.bytes.extend([shared as u8, (term.len() - shared) as u8]);
        self.bytes.extend(&term[shared..]);
        self.encoded.clear();
        let mut previous = 0;
        // Rising offsets, so the distances are small and most take one byte.
        for offset in postings {
            push_varint(&mut self.encoded, offset - previous);
            previous = *offset;
        }
        push_varint(&mut self.bytes, self.encoded.len() as u32);
        self.bytes.extend(&self.encoded);
        self.last_term.truncate(shared);
        self.last_term.extend(&term[shared..]);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes the checksum; nothing may be added afterwards.
    pub(crate) fn seal(&mut self) {
        let checksum = crc32fast::hash(&self.bytes[CHECKSUM_LEN..]);
        self.bytes[..CHECKSUM_LEN].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The key under which the block is stored.
    pub(crate) fn first_term(&self) -> &[u8] {
        &self.first_term
    }

    /// The block as it is stored, once it is sealed.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins the next block. Its first term shares nothing: a block can be read by itself.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.last_term.clear();
    }
}

/// The terms of a block, one after the other.
pub(crate) struct TermBlockReader {
    bytes: Vec<u8>,
    /// Where the postings of the present term begin, or the rest of them.
    at: usize,
    /// Where they end, and the next term begins.
    end: usize,
    /// The present term.
    pub(crate) term: Vec<u8>,
}

impl TermBlockReader {
    /// Stands before the first term.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<TermBlockReader, CorruptBlock> {
        // Checked once here: behind it only the writer's own mistakes are left, and the readers
        // below turn those into errors instead of panics.
        let (checksum, rest) = bytes.split_first_chunk::<CHECKSUM_LEN>().ok_or(CorruptBlock)?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*checksum) {
            return Err(CorruptBlock);
        }
        Ok(TermBlockReader { bytes, at: CHECKSUM_LEN, end: CHECKSUM_LEN, term: Vec::new() })
    }

    /// Goes to the next term, past postings that were not read; `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, CorruptBlock> {
        let at = self.end;
        let Some(head) = self.bytes.get(at..at + 2) else { return Ok(false) };
        let (shared, suffix_len) = (usize::from(head[0]), usize::from(head[1]));
        let suffix = self.bytes.get(at + 2..at + 2 + suffix_len).ok_or(CorruptBlock)?;
        self.term.truncate(shared);
        self.term.extend(suffix);
        self.at = at + 2 + suffix_len;
        let postings_len = self.read_varint()? as usize;
        // A reader that is not interested goes on from `end` without decoding a posting.
        self.end = self.at + postings_len;
        Ok(true)
    }

    /// Adds the postings of the present term to a list.
    pub(crate) fn read_postings(&mut self, postings: &mut Vec<u32>) -> Result<(), CorruptBlock> {
        let mut offset = 0u32;
        while self.at < self.end {
            // A sum that overflows would wrap to a wrong document.
            offset = offset.checked_add(self.read_varint()?).ok_or(CorruptBlock)?;
            postings.push(offset);
        }
        Ok(())
    }

    fn read_varint(&mut self) -> Result<u32, CorruptBlock> {
        let mut number = 0;
        // Five bytes at most: 32 bits need no more, and a longer run is damage.
        for shift in (0..32).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(CorruptBlock)?;
            self.at += 1;
            number |= u32::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(CorruptBlock)
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_block(terms: &[(&str, &[u32])]) -> Vec<u8> {
        let mut block = TermBlockWriter::default();
        terms.iter().for_each(|(term, postings)| block.push(term.as_bytes(), postings));
        block.seal();
        block.bytes().to_vec()
    }

    fn read_block(bytes: Vec<u8>) -> Result<Vec<(String, Vec<u32>)>, CorruptBlock> {
        let mut block = TermBlockReader::new(bytes)?;
        let mut terms = Vec::new();
        while block.advance()? {
            let term = String::from_utf8(block.term.clone()).unwrap();
            let mut postings = Vec::new();
            block.read_postings(&mut postings)?;
            terms.push((term, postings));
        }
        Ok(terms)
    }

    const TERMS: &[(&str, &[u32])] = &[
        ("a", &[0]),
        ("ab", &[1, 2, 300]),
        ("abc", &[127, 128, 16_384, u32::MAX]),
        ("b", &[7]),
        ("用户", &[5]),
    ];

    #[test]
    fn terms_and_postings_survive_round_trip() {
        let given: Vec<(String, Vec<u32>)> =
            TERMS.iter().map(|(term, postings)| ((*term).to_owned(), postings.to_vec())).collect();
        assert_eq!(read_block(write_block(TERMS)).unwrap(), given);
    }

    /// A stored index must stay readable: these bytes were written by an earlier version.
    #[test]
    fn stored_bytes_stay_the_same() {
        let bytes = write_block(&[("ab", &[1, 300]), ("abc", &[0])]);
        assert_eq!(bytes[4..], [0, 2, b'a', b'b', 3, 1, 0xAB, 2, 2, 1, b'c', 1, 0]);
        assert_eq!(bytes[..4], crc32fast::hash(&bytes[4..]).to_le_bytes());
    }

    #[test]
    fn unread_postings_are_skipped() {
        let mut block = TermBlockReader::new(write_block(TERMS)).unwrap();
        while block.advance().unwrap() && block.term != b"b" {}
        let mut postings = Vec::new();
        block.read_postings(&mut postings).unwrap();
        assert_eq!(postings, [7]);
    }

    #[test]
    fn flipped_bit_is_detected() {
        let whole = write_block(TERMS);
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            assert!(read_block(flipped).is_err(), "{at}");
        }
        assert!(read_block(Vec::new()).is_err());
    }
}
