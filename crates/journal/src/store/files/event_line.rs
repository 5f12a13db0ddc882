//! One event as one line: its JSON, followed by the members of this store.
//!
//! ```text
//! {"id":…,"session_id":…,"seq":3,…,"position":7,"payload":"<sha256>","check":"1c291ca3"}
//! ```
//!
//! `check` is the CRC-32 of everything before its comma; together with the closing brace it is the
//! seal of the line. `payload` is there if `data` is in a file of its own and `null` in the line.
//! These members are found by their place at the end, so an event may have members of the same
//! names. A line that a user wrote by hand may lack all of them.

use std::io::Write;

use event::json::string_end;
use event::{BadEvent, Draft, Raw};
use sha2::{Digest, Sha256};

use crate::limit::INLINE_DATA_MAX;
use crate::name::{digest_from_hex, hex};
use crate::store::{EventRow, PackedEvent, StoredPayload};

/// A parsed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventLine {
    pub draft: Draft,
    pub seq: Option<u64>,
    pub position: Option<u64>,
    /// The digest of the `data` that is in a file of its own.
    pub payload: Option<[u8; 32]>,
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error("the check does not fit")]
    Check,
    #[error("it is not UTF-8: {0}")]
    NotText(#[from] std::str::Utf8Error),
    #[error(transparent)]
    Event(#[from] BadEvent),
}

const CHECK: &[u8] = b",\"check\":\"";
// Eight hex digits, a quote and the closing brace.
const CHECK_LEN: usize = CHECK.len() + 8 + 2;
const PAYLOAD: &[u8] = b",\"payload\":\"";
// 64 hex digits and a quote.
const PAYLOAD_LEN: usize = PAYLOAD.len() + 64 + 1;
const POSITION: &[u8] = b",\"position\":";

/// Large texts are written once and read seldom, so they may take longer to compress.
const PAYLOAD_LEVEL: i32 = 3;

/// Encodes an event for its line, without its numbers.
pub(super) fn pack(draft: &Draft) -> PackedEvent {
    let text = draft.data.get();
    if text.len() <= INLINE_DATA_MAX {
        return PackedEvent { rest: draft.encode().into_bytes(), payload: None };
    }
    let digest = Sha256::digest(text.as_bytes()).into();
    let bytes = zstd::bulk::compress(text.as_bytes(), PAYLOAD_LEVEL)
        .expect("a buffer of the size zstd asks for is large enough");
    let rest = Draft { data: Raw::null(), ..draft.clone() }.encode().into_bytes();
    PackedEvent { rest, payload: Some(StoredPayload { digest, bytes: bytes.into() }) }
}

/// Writes the line of an event that [`pack`] encoded, with its line break.
pub(super) fn write(out: &mut Vec<u8>, row: &EventRow) {
    let start = out.len();
    let rest = &row.packed.rest;
    // `seq` goes where an encoded event has it, so that the line begins with exactly that text.
    let (head, tail) = rest[..rest.len() - 1].split_at(after_session_id(rest));
    out.extend_from_slice(head);
    put(out, format_args!(",\"seq\":{}", row.seq));
    out.extend_from_slice(tail);
    put(out, format_args!(",\"position\":{}", row.position));
    if let Some(payload) = &row.packed.payload {
        put(out, format_args!(",\"payload\":\"{}\"", hex(&payload.digest)));
    }
    seal(out, start);
}

/// Parses a line, with or without its line break.
pub(super) fn read(bytes: &[u8]) -> Result<EventLine, LineError> {
    let text = bytes.trim_ascii();
    // A line without a seal, or with a seal and no position, is no event line of this store.
    let Some(LineMembers { body, position, payload }) = unseal(text)?.and_then(split_members)
    else {
        return read_plain(text);
    };
    let mut json = String::with_capacity(body.len() + 1);
    json.push_str(std::str::from_utf8(body)?);
    json.push('}');
    let (draft, seq) = Draft::decode(&json)?;
    Ok(EventLine { draft, seq, position: Some(position), payload })
}

/// Returns the position of a damaged line, if its end is intact.
pub(super) fn position_of_damaged(bytes: &[u8]) -> Option<u64> {
    // The seal itself may be what is damaged, so its bytes are skipped and not verified.
    let text = bytes.trim_ascii();
    split_members(&text[..text.len().checked_sub(CHECK_LEN)?]).map(|members| members.position)
}

/// Closes the object that began at `start` with the seal, and ends the line.
pub(super) fn seal(out: &mut Vec<u8>, start: usize) {
    let check = crc32fast::hash(&out[start..]);
    put(out, format_args!(",\"check\":\"{check:08x}\"}}\n"));
}

/// Verifies the seal and returns what it covers: an object without its closing brace. `None` if
/// there is no seal.
pub(super) fn unseal(text: &[u8]) -> Result<Option<&[u8]>, LineError> {
    let Some(at) = text.len().checked_sub(CHECK_LEN) else { return Ok(None) };
    let (body, seal) = text.split_at(at);
    // By place and not with a JSON parser: the sum covers bytes, which a parser does not give back.
    let digits = seal.strip_prefix(CHECK).and_then(|rest| rest.strip_suffix(b"\"}"));
    // `from_str_radix` would also accept a sign.
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let check = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    match check.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
        Some(check) if check == crc32fast::hash(body) => Ok(Some(body)),
        Some(_) => Err(LineError::Check),
        // Our members stand before it, so these bytes were a seal once: damaged, not written by
        // hand.
        None if split_members(body).is_some() => Err(LineError::Check),
        None => Ok(None),
    }
}

/// Parses a line without a seal. A user wrote it, and may have put our members anywhere.
fn read_plain(text: &[u8]) -> Result<EventLine, LineError> {
    let (mut draft, seq) = Draft::decode(std::str::from_utf8(text)?)?;
    let position = take(&mut draft, "position").and_then(|raw| raw.read().ok());
    let payload = take(&mut draft, "payload").and_then(|raw| digest_from_hex(&raw.text()?));
    Ok(EventLine { draft, seq, position, payload })
}

fn take(draft: &mut Draft, name: &str) -> Option<Raw> {
    let span = draft.extra.iter().position(|(other, _)| other == name)?;
    Some(draft.extra.remove(span).1)
}

/// The offset behind the members `id` and `session_id`, with which every event begins.
fn after_session_id(json: &[u8]) -> usize {
    // The id has a fixed length.
    const SESSION_ID: usize = "{\"id\":\"01234567890123456789012345\",\"session_id\":\"".len();
    string_end(json, SESSION_ID)
}

/// The members between an event and its seal.
struct LineMembers<'a> {
    /// The event without its closing brace.
    body: &'a [u8],
    position: u64,
    payload: Option<[u8; 32]>,
}

fn split_members(sealed: &[u8]) -> Option<LineMembers<'_>> {
    // Read from the end, in the reverse order of `write`. An event may end with a member of the
    // same name, but ours stands behind it.
    let (sealed, payload) = match split_payload(sealed) {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (sealed, None),
    };
    let digits = sealed.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, digits) = sealed.split_at(sealed.len() - digits);
    let position = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(LineMembers { body: rest.strip_suffix(POSITION)?, position, payload })
}

fn split_payload(sealed: &[u8]) -> Option<(&[u8], [u8; 32])> {
    let (rest, member) = sealed.split_at(sealed.len().checked_sub(PAYLOAD_LEN)?);
    let digits = member.strip_prefix(PAYLOAD)?.strip_suffix(b"\"")?;
    Some((rest, digest_from_hex(std::str::from_utf8(digits).ok()?)?))
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Event, EventId, Kind, SessionId, Time};
    use proptest::prelude::*;

    use super::*;

    fn draft(session: &str, data: &str) -> Draft {
        let id = EventId::new(Time::from_millis(1_700_000_000_000), [7; 10]);
        let session_id = SessionId::new(session).unwrap();
        Draft::with_data(id, session_id, Time::EPOCH, Kind::Note, Raw::parse(data).unwrap())
    }

    fn written(draft: &Draft, seq: u64, position: u64) -> Vec<u8> {
        let packed = pack(draft);
        let draft = Arc::new(draft.clone());
        let mut out = Vec::new();
        write(&mut out, &EventRow { position, session: 1, seq, draft, packed });
        out
    }

    #[test]
    fn line_is_event_plus_our_members() {
        let draft = draft("s\"1", "{\"text\":\"hi\"}");
        let line = String::from_utf8(written(&draft, 3, 9)).unwrap();
        let event = draft.clone().with_seq(3).encode();
        let rest = line.strip_prefix(&event[..event.len() - 1]).unwrap();
        assert!(rest.starts_with(",\"position\":9,\"check\":\""), "{rest}");
        assert!(rest.ends_with("\"}\n"));
        let line = read(line.as_bytes()).unwrap();
        assert_eq!(line, EventLine { draft, seq: Some(3), position: Some(9), payload: None });
    }

    #[test]
    fn large_data_moves_to_payload() {
        let text = format!("\"{}\"", "x".repeat(INLINE_DATA_MAX));
        let large = draft("s", &text);
        let line = written(&large, 1, 1);
        assert!(line.len() < 1_000);
        let line = read(&line).unwrap();
        assert_eq!(line.payload, Some(Sha256::digest(text.as_bytes()).into()));
        assert!(line.draft.data.is_null());
        let packed = pack(&large).payload.unwrap();
        assert_eq!(zstd::decode_all(&packed.bytes[..]).unwrap(), text.as_bytes());
        let small = draft("s", &format!("\"{}\"", "x".repeat(INLINE_DATA_MAX - 2)));
        assert_eq!(pack(&small).payload.map(|payload| payload.digest), None);
    }

    #[test]
    fn event_may_use_our_member_names() {
        let mut odd = draft("s", "null");
        let digest = hex(&[3; 32]);
        for (name, value) in [
            ("position", "5".to_owned()),
            ("check", "\"00000000\"".to_owned()),
            ("payload", format!("\"{digest}\"")),
        ] {
            odd.extra.push((name.to_owned(), Raw::parse(value).unwrap()));
            let line = read(&written(&odd, 1, 2)).unwrap();
            assert_eq!(line.draft, odd);
            assert_eq!((line.position, line.payload), (Some(2), None));
        }
    }

    #[test]
    fn handwritten_line_lacks_our_members() {
        let event = draft("s", "1").with_seq(4);
        let line = read(format!(" \t{} \r\n", event.encode()).as_bytes()).unwrap();
        assert_eq!(
            line,
            EventLine { draft: event.draft.clone(), seq: Some(4), position: None, payload: None }
        );
        let mut text = event.encode();
        text.insert_str(1, "\"position\": 12, ");
        let line = read(text.as_bytes()).unwrap();
        assert_eq!((line.draft, line.position), (event.draft, Some(12)));
    }

    proptest! {
        #[test]
        fn every_line_reads_back(session in "\\PC{1,30}", text in "\\PC{0,200}", seq: u32, position: u64) {
            prop_assume!(SessionId::new(&session).is_ok());
            let mut draft = draft(&session, "null");
            draft.text = Some(text.clone()).filter(|text| !text.is_empty());
            draft.data = Raw::from_value(&text).unwrap();
            let line = read(&written(&draft, seq.into(), position)).unwrap();
            let event = Event { seq: line.seq.unwrap(), draft: line.draft };
            prop_assert_eq!(event, draft.with_seq(seq.into()));
            prop_assert_eq!(line.position, Some(position));
        }

        #[test]
        fn changed_byte_is_noticed(at: prop::sample::Index, bit in 0u8..8) {
            let mut line = written(&draft("s", "{\"text\":\"hello\"}"), 1, 1);
            line.pop();
            let at = at.index(line.len());
            let before = read(&line).unwrap();
            line[at] ^= 1 << bit;
            // A flipped bit may turn a hex digit of the check into a capital, which reads the same.
            if let Ok(after) = read(&line) {
                prop_assert_eq!(after, before);
            }
        }

        #[test]
        fn any_bytes_can_be_parsed(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
