//! The ids under which a fork shows its parent's events: computed both ways, never stored.

use event::{EventId, SessionId};
use sha2::{Digest, Sha256};

/// Returns the id under which a fork shows an event that its parent shows as `id`.
pub fn inherited_id(fork: &SessionId, id: EventId) -> EventId {
    ForkIds::for_fork(fork).fork_id(id)
}

/// Translates between the ids of a fork and those of its parent.
///
/// A bijection on the 80 bits of an id that are not time, keyed by the fork's own id. It gives the
/// same ids on every read, distinct ones within the fork, and it is reversible, so that an event
/// can be looked up by the id that the fork shows. Four rounds of a Feistel network over two halves
/// of 40 bits: it has to mix, not to keep a secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkIds {
    keys: [u64; 4],
}

const HALF: u64 = (1 << 40) - 1;

impl ForkIds {
    pub(crate) fn for_fork(fork: &SessionId) -> ForkIds {
        let mut hash = Sha256::new();
        // A label of its own, so that these keys are no other hash of the session id.
        hash.update(b"hansard fork ids\0");
        hash.update(fork.as_str());
        let digest = hash.finalize();
        let key = |place: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&digest[place * 8..place * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        ForkIds { keys: [key(0), key(1), key(2), key(3)] }
    }

    /// Returns the id that the fork shows for the parent's `id`.
    pub(crate) fn fork_id(&self, id: EventId) -> EventId {
        let (mut left, mut right) = halves(id);
        // A round swaps the halves and is undone by the same function, whatever `mix` is.
        for key in self.keys {
            (left, right) = (right, left ^ mix(right, key));
        }
        join(id, left, right)
    }

    /// Returns the parent's id of an event that the fork shows as `id`.
    pub(crate) fn parent_id(&self, id: EventId) -> EventId {
        let (mut left, mut right) = halves(id);
        for key in self.keys.iter().rev() {
            (left, right) = (right ^ mix(left, *key), left);
        }
        join(id, left, right)
    }
}

fn halves(id: EventId) -> (u64, u64) {
    let tail = id.tail();
    let half = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    (half(&tail[..5]), half(&tail[5..]))
}

fn join(id: EventId, left: u64, right: u64) -> EventId {
    // `[3..]`: the lower 40 bits of the 64, most significant byte first, as `halves` read them.
    let mut tail = [0; 10];
    tail[..5].copy_from_slice(&left.to_be_bytes()[3..]);
    tail[5..].copy_from_slice(&right.to_be_bytes()[3..]);
    id.with_tail(tail)
}

/// Spreads every bit of the half over the result.
fn mix(half: u64, key: u64) -> u64 {
    let mut value = half ^ key;
    value = (value ^ (value >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (value ^ (value >> 32)) & HALF
}

#[cfg(test)]
mod tests {
    use event::Time;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fork_ids_are_reversible(tail: [u8; 10], millis in 0i64..1 << 47) {
            let ids = ForkIds::for_fork(&SessionId::new("fork").unwrap());
            let id = EventId::new(Time::from_millis(millis), tail);
            let fresh = ids.fork_id(id);
            prop_assert_eq!(ids.parent_id(fresh), id);
            prop_assert_eq!(&fresh.bytes()[..6], &id.bytes()[..6]);
        }
    }

    #[test]
    fn forks_show_different_ids() {
        let id = EventId::new(Time::EPOCH, [7; 10]);
        let [a, b] =
            ["a", "b"].map(|name| ForkIds::for_fork(&SessionId::new(name).unwrap()).fork_id(id));
        assert_ne!(a, b);
        assert_ne!(a, id);
    }
}
