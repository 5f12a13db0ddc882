//! Chance that can be repeated: the same seed throws the same numbers.

use std::time::SystemTime;

/// Numbers that look like chance. Not for secrets.
#[derive(Debug, Clone)]
pub struct Dice {
    seed: u64,
    state: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice { seed, state: seed }
    }

    /// A seed from `HANSARD_TEST_SEED`, to repeat a run, or else from the clock.
    pub fn from_environment() -> Dice {
        // Tests print the seed, so that a run can be repeated.
        let told = std::env::var("HANSARD_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        Dice::new(told.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.map_or(1, |now| now.as_nanos() as u64)
        }))
    }

    /// What to set `HANSARD_TEST_SEED` to for the same throws again.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.throw() % end.max(1)
    }

    /// SplitMix64: every state is good, also zero.
    fn throw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
