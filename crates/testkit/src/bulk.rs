//! Events that fill a log quickly and can be counted, like the [`crate::numbered`] ones: stretches
//! of one session, with small ones that are packed together and a large one now and then.

use event::payload::UserPrompt;
use event::{Draft, EventId, SessionId, Time};
use journal::{Batch, SourceMove};

use crate::Dice;

/// The source all of them are read from.
pub const SOURCE: &str = "bulk";

/// Events of a batch, which is a stretch of one session.
pub const STRETCH: u64 = 32;

/// The sessions that stretches go to in turn.
const SESSIONS: u64 = 3;

/// Every so many events, one is large. Those between are enough for a block.
const LARGE_EVERY: u64 = 16;
const LARGE_BYTES: usize = 1024 * 1024;
const SMALL_BYTES: usize = 400;

/// The event with this number. Numbers begin with 1.
pub fn draft_at(number: u64) -> Draft {
    let session = (number - 1) / STRETCH % SESSIONS;
    let session_id = SessionId::new(format!("bulk-{session}")).expect("a plain name");
    let at = Time::from_millis(1_700_000_000_000 + number as i64);
    // The first two bytes keep these ids apart from those of `numbered` events.
    let mut tail = [0xB; 10];
    tail[2..].copy_from_slice(&number.to_be_bytes());
    let payload = UserPrompt::text(long_word(number));
    Draft::new(EventId::new(at, tail), session_id, at, &payload).expect("text always encodes")
}

/// The place of the event with this number in its session.
pub fn seq_of(number: u64) -> u64 {
    let (stretch, place) = ((number - 1) / STRETCH, (number - 1) % STRETCH);
    // Whole stretches of this session before, then the place in the present one.
    stretch / SESSIONS * STRETCH + place + 1
}

/// The stretch behind `read`, and the source moved over it.
pub fn batch_after(read: u64) -> Batch {
    let source = SourceMove {
        source_id: SOURCE.to_owned(),
        from: (read > 0).then(|| read.to_string()),
        to: (read + STRETCH).to_string(),
    };
    Batch::observed().with_all((read + 1..=read + STRETCH).map(draft_at)).from_source(source)
}

/// One long word, which search makes little of, and nothing a compressor could make much smaller.
fn long_word(number: u64) -> String {
    const LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ00";
    let mut dice = Dice::new(number);
    let length = if number.is_multiple_of(LARGE_EVERY) { LARGE_BYTES } else { SMALL_BYTES };
    // Ten letters of six bits from each throw: a megabyte with a throw for each letter would be
    // slow.
    let throws = (0..length / 10).map(|_| dice.below(u64::MAX));
    let letter = |throw: u64, place: u64| LETTERS[(throw >> (6 * place)) as usize % LETTERS.len()];
    let bytes = throws.flat_map(|throw| (0..10).map(move |place| letter(throw, place)));
    bytes.map(char::from).collect()
}
