//! A leaf of the index: some words by the alphabet, each with its places.
//!
//! A word is written as how much of the word before it begins with, and the rest. Places are
//! written as steps from one to the next. In front of all stands a checksum: what is damaged is
//! never believed.

/// Bytes after which a leaf is full. With what SQLite adds to a row, one fills a page of its file.
const LEAF_BYTES: usize = 3_900;

/// A leaf that is not as it was written.
#[derive(Debug)]
pub(super) struct Damaged;

/// A leaf that is being written.
#[derive(Default)]
pub(super) struct Leaf {
    pub(super) first: Vec<u8>,
    last: Vec<u8>,
    bytes: Vec<u8>,
    /// The places of the word that is being written.
    steps: Vec<u8>,
}

impl Leaf {
    /// Adds the next word with its places, both in order. Words have at most 255 bytes.
    pub(super) fn push(&mut self, word: &[u8], places: &[u32]) {
        let shared = self.last.iter().zip(word).take_while(|(a, b)| a == b).count();
        if self.bytes.is_empty() {
            self.first.clear();
            self.first.extend(word);
            self.bytes.extend([0; CHECKSUM_LEN]);
        }
        self.bytes.extend([shared as u8, (word.len() - shared) as u8]);
        self.bytes.extend(&word[shared..]);
        self.steps.clear();
        let mut last = 0;
        for place in places {
            push_number(&mut self.steps, place - last);
            last = *place;
        }
        push_number(&mut self.bytes, self.steps.len() as u32);
        self.bytes.extend(&self.steps);
        self.last.truncate(shared);
        self.last.extend(&word[shared..]);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= LEAF_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The leaf as it is kept.
    pub(super) fn sealed(&mut self) -> &[u8] {
        let sum = crc32fast::hash(&self.bytes[CHECKSUM_LEN..]);
        self.bytes[..CHECKSUM_LEN].copy_from_slice(&sum.to_le_bytes());
        &self.bytes
    }

    /// Begins the next leaf.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.last.clear();
    }
}

/// The words of a leaf, one after the other.
pub(super) struct Words {
    bytes: Vec<u8>,
    at: usize,
    /// The present word.
    pub(super) word: Vec<u8>,
    /// Where its places end; they begin at `at`.
    end: usize,
}

impl Words {
    /// Stands before the first word.
    pub(super) fn of(bytes: Vec<u8>) -> Result<Words, Damaged> {
        let (sum, rest) = bytes.split_first_chunk::<CHECKSUM_LEN>().ok_or(Damaged)?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*sum) {
            return Err(Damaged);
        }
        Ok(Words { bytes, at: CHECKSUM_LEN, word: Vec::new(), end: CHECKSUM_LEN })
    }

    /// Goes to the next word; `false` at the end.
    pub(super) fn next(&mut self) -> Result<bool, Damaged> {
        let at = self.end;
        let Some(head) = self.bytes.get(at..at + 2) else { return Ok(false) };
        let (shared, rest) = (usize::from(head[0]), usize::from(head[1]));
        let letters = self.bytes.get(at + 2..at + 2 + rest).ok_or(Damaged)?;
        self.word.truncate(shared);
        self.word.extend(letters);
        self.at = at + 2 + rest;
        let len = self.number()? as usize;
        self.end = self.at + len;
        Ok(true)
    }

    /// Adds the places of the present word to a list.
    pub(super) fn places(&mut self, places: &mut Vec<u32>) -> Result<(), Damaged> {
        let mut place = 0u32;
        while self.at < self.end {
            place = place.checked_add(self.number()?).ok_or(Damaged)?;
            places.push(place);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<u32, Damaged> {
        let mut number = 0;
        for shift in (0..32).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(Damaged)?;
            self.at += 1;
            number |= u32::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damaged)
    }
}

const CHECKSUM_LEN: usize = 4;

/// Seven bits a byte, the lowest first; the last byte is below 128.
fn push_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(words: &[(&str, &[u32])]) -> Vec<u8> {
        let mut leaf = Leaf::default();
        words.iter().for_each(|(word, places)| leaf.push(word.as_bytes(), places));
        leaf.sealed().to_vec()
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<(String, Vec<u32>)>, Damaged> {
        let mut words = Words::of(bytes)?;
        let mut all = Vec::new();
        while words.next()? {
            let word = String::from_utf8(words.word.clone()).unwrap();
            let mut places = Vec::new();
            words.places(&mut places)?;
            all.push((word, places));
        }
        Ok(all)
    }

    const WORDS: &[(&str, &[u32])] = &[
        ("a", &[0]),
        ("ab", &[1, 2, 300]),
        ("abc", &[127, 128, 16_384, u32::MAX]),
        ("b", &[7]),
        ("用户", &[5]),
    ];

    #[test]
    fn words_and_places_come_back_as_they_were() {
        let given: Vec<(String, Vec<u32>)> =
            WORDS.iter().map(|(word, places)| ((*word).to_owned(), places.to_vec())).collect();
        assert_eq!(read(written(WORDS)).unwrap(), given);
    }

    #[test]
    fn places_nobody_asks_for_are_passed_over() {
        let mut words = Words::of(written(WORDS)).unwrap();
        while words.next().unwrap() && words.word != b"b" {}
        let mut places = Vec::new();
        words.places(&mut places).unwrap();
        assert_eq!(places, [7]);
    }

    #[test]
    fn a_flipped_bit_is_seen() {
        let whole = written(WORDS);
        for place in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[place] ^= 4;
            assert!(read(flipped).is_err(), "{place}");
        }
        assert!(read(Vec::new()).is_err());
    }
}
