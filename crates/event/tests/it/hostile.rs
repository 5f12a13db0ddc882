//! Any bytes decode to an event or an error, without a panic and without loss.
//!
//! The checks are shared with `fuzz/`, where a fuzzer chooses the bytes.

#[macro_use]
mod decode;

use proptest::prelude::*;

use crate::golden;

proptest! {
    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode::check(&bytes);
    }

    #[test]
    fn any_json_is_safe(json in crate::any::json()) {
        decode::check(json.as_bytes());
    }

    #[test]
    fn any_payload_is_safe(event in crate::any::event()) {
        decode::check(event.encode().as_bytes());
    }

    #[test]
    fn damaged_golden_line_is_safe(
        line in prop::sample::select(golden::V1.lines().collect::<Vec<_>>()),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let mut bytes = line.as_bytes().to_vec();
        for damage in damages {
            damage.strike(&mut bytes);
        }
        decode::check(&bytes);
    }
}

/// One kind of damage to stored bytes.
#[derive(Debug, Clone)]
enum Damage {
    Cut(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    Drop(prop::sample::Index, usize),
    Copy(prop::sample::Index, prop::sample::Index, usize),
    Insert(prop::sample::Index, &'static str),
}

const PIECES: &[&str] = &[
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "-",
    "1e999",
    "\\ud800",
    "\\u0000",
    "\n",
    "\"id\":",
    "\"data\":",
    "\"entries\":[{\"event_id\":7}],",
    "\u{FFFD}",
    "0",
    "é",
];

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        1 => place().prop_map(Damage::Cut),
        3 => (place(), any::<u8>()).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        3 => (place(), 1..20usize).prop_map(|(at, len)| Damage::Drop(at, len)),
        3 => (place(), place(), 1..60usize)
            .prop_map(|(from, to, len)| Damage::Copy(from, to, len)),
        4 => (place(), prop::sample::select(PIECES))
            .prop_map(|(at, piece)| Damage::Insert(at, piece)),
    ]
}

impl Damage {
    fn strike(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match self {
            Damage::Cut(at) => bytes.truncate(at.index(len)),
            Damage::Flip(at, mask) => bytes[at.index(len)] ^= mask,
            Damage::Drop(at, count) => {
                let start = at.index(len);
                bytes.drain(start..(start + count).min(len));
            }
            Damage::Copy(from, to, count) => {
                let start = from.index(len);
                let piece = bytes[start..(start + count).min(len)].to_vec();
                let at = to.index(len);
                bytes.splice(at..at, piece);
            }
            Damage::Insert(at, piece) => {
                let at = at.index(len);
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
}
