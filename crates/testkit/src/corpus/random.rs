//! Numbers that look random and are the same on every machine: integers only.

/// A stream of numbers that follows from its seed.
#[derive(Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// A stream of its own for each number; this one does not move.
    pub(super) fn branch(&self, number: u64) -> Random {
        let mut random = Random { state: self.state ^ mix_bits(number.wrapping_add(STEP)) };
        random.next();
        random
    }

    /// The next number: a counter, thoroughly mixed.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix_bits(self.state)
    }

    /// A number from 0 up to, not including, `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // A multiplication instead of a remainder: the result follows from the high bits.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `first` to `last`, both included.
    pub(super) fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Any of them, all alike.
    pub(super) fn pick_one<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len() as u64) as usize]
    }

    /// An index into a list ordered by use: the one at place k is drawn about 1/k as often as the
    /// first, as words of a language are. Each doubling of the place is equally likely.
    pub(super) fn pick_rank(&mut self, len: usize) -> usize {
        let octaves = u64::from(usize::BITS - len.leading_zeros());
        loop {
            let octave = self.below(octaves);
            let place = (1 << octave) + self.below(1 << octave) as usize - 1;
            // The last octave may reach beyond the list; such a draw is repeated.
            if place < len {
                return place;
            }
        }
    }

    /// A number with the given distribution: pairs of permille and the value reached there.
    pub(super) fn pick_along(&mut self, curve: &[(u64, u64)]) -> u64 {
        let at = self.below(1_000);
        let above = curve.partition_point(|(permille, _)| *permille <= at).min(curve.len() - 1);
        let ((from, low), (to, high)) = (curve[above - 1], curve[above]);
        low + (high - low) * (at - from) / (to - from)
    }

    pub(super) fn random_bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        bytes
    }
}

/// The fraction of the golden ratio: steps of it visit all numbers and keep their distance.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix_bits(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
