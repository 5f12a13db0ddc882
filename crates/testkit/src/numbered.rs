//! Events made from numbers: session, id and text follow from the number, so that a test can check
//! each event it reads and can tell whether every other one is there exactly once.
//!
//! All of them come from one source. Its position is the number of the last one read.

use event::payload::UserPrompt;
use event::{Draft, EventId, SessionId, Time};
use journal::{Batch, SourceMove};

use crate::Dice;

/// The source all numbered events are read from.
pub const SOURCE: &str = "numbers";

/// The sessions they are spread over.
pub const SESSIONS: u64 = 5;

/// The first event of this session tells followers that nothing more comes.
pub const END: &str = "the-end";

/// Every so many events, one is large: its payload is stored apart from its row.
const LARGE_EVERY: u64 = 17;
const LARGE_BYTES: usize = 20_000;

/// The session of the event with this number.
pub fn session_of(number: u64) -> SessionId {
    SessionId::new(format!("numbers-{}", number % SESSIONS)).expect("a plain name")
}

/// The place of the event with this number in its session.
pub fn seq_of(number: u64) -> u64 {
    number.div_ceil(SESSIONS)
}

/// The event with this number. Numbers begin with 1.
pub fn draft_at(number: u64) -> Draft {
    draft_in(session_of(number), 0, number)
}

/// The event with this number, as `writer` tells it in a session of its choice.
pub fn draft_in(session_id: SessionId, writer: u16, number: u64) -> Draft {
    // The order of ids is that of the numbers.
    let at = Time::from_millis(1_700_000_000_000 + number as i64);
    let mut tail = [0; 10];
    // [writer as 2 bytes, number as 8 bytes], which `number_of` takes apart.
    tail[..2].copy_from_slice(&writer.to_be_bytes());
    tail[2..].copy_from_slice(&number.to_be_bytes());
    let payload = UserPrompt::text(prompt_text(number));
    Draft::new(EventId::new(at, tail), session_id, at, &payload).expect("text always encodes")
}

/// The number an event was made from; forks show events under ids of their own.
pub fn number_of(id: EventId) -> u64 {
    let tail = id.tail();
    u64::from_be_bytes(tail[2..].try_into().expect("eight of ten bytes"))
}

/// The events behind `read`, up to `count` of them, and the source moved over them.
pub fn batch_after(read: u64, count: u64) -> Batch {
    let numbers = read + 1..=read + count;
    let source = SourceMove {
        source_id: SOURCE.to_owned(),
        // A source that was never read has no position.
        from: (read > 0).then(|| read.to_string()),
        to: (read + count).to_string(),
    };
    Batch::observed().with_all(numbers.map(draft_at)).from_source(source)
}

/// The number a position of the source stands for.
pub fn read_up_to(position: Option<String>) -> u64 {
    position.map_or(0, |position| position.parse().expect("positions of this source are numbers"))
}

fn prompt_text(number: u64) -> String {
    let mut text = format!("this is number {number}");
    if number.is_multiple_of(LARGE_EVERY) {
        // Nothing a compressor could make small.
        let mut dice = Dice::new(number);
        text.extend((0..LARGE_BYTES).map(|_| char::from(b' ' + dice.below(95) as u8)));
    }
    text
}
