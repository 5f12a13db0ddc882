//! The words of events on their way into the index: gathered event by event, given back word by
//! word.

use std::ops::Range;

use super::words::index_words;

/// The words of some events of one part, each event at its place in the part.
#[derive(Default)]
pub(super) struct Gathering {
    words: Vec<Word>,
    /// All words, one behind the other.
    letters: Vec<u8>,
    short: Table,
    long: Table,
    /// Words met lately, each mixed with the event it was met in. Most words of a long text are
    /// repetitions, and the tables are too large for the processor to have at hand.
    lately: Vec<u64>,
    events: Vec<Gathered>,
    /// The numbers of the distinct words of one event after the other.
    occurrences: Vec<u32>,
}

/// Where a word stands in the letters.
struct Word {
    start: u32,
    len: u32,
}

/// Words by their hashes: a table with open addressing, at most half full.
#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    len: usize,
}

/// All that has to be known of a word that is met again: to look further is to wait for memory.
#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u64,
    /// The number of the word, counted from 1; 0 for an empty slot.
    number: u32,
    /// How many events were there when it was met last: in one event it counts once.
    met: u32,
}

struct Gathered {
    place: u32,
    /// Where its words end among the occurrences.
    end: usize,
    is_dropped: bool,
}

impl Gathering {
    /// Begins the next event. Places rise.
    pub(super) fn begin(&mut self, place: u32) {
        self.events.push(Gathered { place, end: self.occurrences.len(), is_dropped: false });
    }

    /// Adds the words of a folded text to the event.
    pub(super) fn add_text(&mut self, folded: &str) {
        index_words(folded, |word| self.add(word));
    }

    /// Adds one word to the event.
    pub(super) fn add(&mut self, word: &str) {
        /// The hashes of shorter words tell them apart: no two of them have the same.
        const LONG_LEN: usize = 8;
        let Gathering { words, letters, short, long, lately, events, occurrences } = self;
        let hash = hash(word.as_bytes());
        // That two words of one event have one hash is less likely than a fault of the memory.
        let met = hash ^ (events.len() as u64).wrapping_mul(MIX);
        let place = hash as usize % LATELY_LEN;
        if lately.get(place) == Some(&met) {
            return;
        }
        lately.resize(LATELY_LEN, 0);
        lately[place] = met;
        let slot = if word.len() < LONG_LEN {
            short.slot(hash, |_| true)
        } else {
            long.slot(hash, |number| words[number as usize].of(letters) == word.as_bytes())
        };
        if slot.number == 0 {
            words.push(Word { start: letters.len() as u32, len: word.len() as u32 });
            letters.extend(word.as_bytes());
            slot.number = words.len() as u32;
        }
        if slot.met != events.len() as u32 {
            slot.met = events.len() as u32;
            occurrences.push(slot.number - 1);
            if let Some(event) = events.last_mut() {
                event.end = occurrences.len();
            }
        }
    }

    /// Forgets an event; whether it was there.
    pub(super) fn drop(&mut self, place: u32) -> bool {
        let found = self.events.binary_search_by_key(&place, |event| event.place);
        if let Ok(number) = found {
            self.events[number].is_dropped = true;
        }
        found.is_ok()
    }

    /// From the first event up to behind the last; `None` if there are none.
    pub(super) fn places(&self) -> Option<Range<u32>> {
        Some(self.events.first()?.place..self.events.last()?.place + 1)
    }

    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// About the bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.letters.len() + 64 * self.words.len() + 8 * self.occurrences.len()
    }

    /// Tells every word with its places, words and places in order.
    pub(super) fn by_word<E>(
        &self,
        mut tell: impl FnMut(&[u8], &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Where the places of each word begin, behind those of the words before it.
        let mut starts = vec![0; self.words.len() + 1];
        self.occurrences.iter().for_each(|number| starts[*number as usize + 1] += 1);
        for number in 1..starts.len() {
            starts[number] += starts[number - 1];
        }
        // Every place that is filled in moves the end of its word's on.
        let mut ends = starts.clone();
        let mut places = vec![0; self.occurrences.len()];
        let mut from = 0;
        for event in &self.events {
            for number in &self.occurrences[from..event.end] {
                if !event.is_dropped {
                    let end = &mut ends[*number as usize];
                    places[*end] = event.place;
                    *end += 1;
                }
            }
            from = event.end;
        }
        for number in self.in_order() {
            let places = &places[starts[number]..ends[number]];
            if !places.is_empty() {
                tell(self.words[number].of(&self.letters), places)?;
            }
        }
        Ok(())
    }

    /// The numbers of all words, by the alphabet.
    fn in_order(&self) -> impl Iterator<Item = usize> {
        // The first letters decide nearly always, and as a number they are quickly compared.
        let beginning = |word: &Word| {
            let letters = word.of(&self.letters);
            let mut first = [0; 8];
            let len = letters.len().min(8);
            first[..len].copy_from_slice(&letters[..len]);
            u64::from_be_bytes(first)
        };
        let numbered = self.words.iter().enumerate();
        let mut order: Vec<(u64, usize)> =
            numbered.map(|(number, word)| (beginning(word), number)).collect();
        order.sort_unstable_by(|(first, a), (second, b)| {
            let letters = |number: usize| self.words[number].of(&self.letters);
            first.cmp(second).then_with(|| letters(*a).cmp(letters(*b)))
        });
        order.into_iter().map(|(_, number)| number)
    }
}

impl Word {
    fn of<'a>(&self, letters: &'a [u8]) -> &'a [u8] {
        &letters[self.start as usize..(self.start + self.len) as usize]
    }
}

impl Table {
    /// The slot of a word, by its hash and whether the word of a number is it: an empty one if it
    /// was not met before, to be filled.
    fn slot(&mut self, hash: u64, is_it: impl Fn(u32) -> bool) -> &mut Slot {
        if 2 * self.len >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        while let Slot { hash: other, number: 1.., .. } = self.slots[place]
            && !(other == hash && is_it(self.slots[place].number - 1))
        {
            place = (place + 1) & mask;
        }
        let slot = &mut self.slots[place];
        if slot.number == 0 {
            slot.hash = hash;
            self.len += 1;
        }
        slot
    }

    fn grow(&mut self) {
        const SLOTS_MIN: usize = 4_096;
        let len = (4 * self.slots.len()).max(SLOTS_MIN);
        let slots = std::mem::replace(&mut self.slots, vec![Slot::default(); len]);
        for slot in slots.into_iter().filter(|slot| slot.number != 0) {
            let mut place = slot.hash as usize & (len - 1);
            while self.slots[place].number != 0 {
                place = (place + 1) & (len - 1);
            }
            self.slots[place] = slot;
        }
    }
}

/// Words that are remembered as met lately: what fits beside everything else that is at hand.
const LATELY_LEN: usize = 4_096;

/// An odd number without a pattern: multiplied by it, every bit has a say in those above.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash of a word, eight bytes at a time.
pub(super) fn hash(word: &[u8]) -> u64 {
    let (chunks, rest) = word.as_chunks::<8>();
    let mut hash = word.len() as u64;
    let mut mix = |bytes: u64| {
        hash = (hash ^ bytes).wrapping_mul(MIX);
        hash ^= hash >> 32;
    };
    chunks.iter().for_each(|chunk| mix(u64::from_le_bytes(*chunk)));
    mix(end(word, rest));
    hash
}

/// What eights leave over of a word, as a number. Words are short and many, so that it is put
/// together from pieces that overlap: to copy a few bytes would be a call.
fn end(word: &[u8], rest: &[u8]) -> u64 {
    let shift = |bytes: usize| 8 * bytes as u32;
    if let Some(last) = word.last_chunk::<8>() {
        return u64::from_le_bytes(*last).checked_shr(shift(8 - rest.len())).unwrap_or(0);
    }
    if let (Some(first), Some(last)) = (word.first_chunk::<4>(), word.last_chunk::<4>()) {
        let [first, last] = [first, last].map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
        return first | last << shift(word.len() - 4);
    }
    word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_word_is_what_eight_bytes_leave() {
        let word = b"abcdefghijklmnopqrstuvwxyz";
        for len in 0..word.len() {
            let (_, rest) = word[..len].as_chunks::<8>();
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            assert_eq!(end(&word[..len], rest), u64::from_le_bytes(bytes), "{len}");
        }
    }
}
