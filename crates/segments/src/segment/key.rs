//! The name of a segment: a day, a stream, a time of day and a duration.
//!
//! Keys become parts of paths, and other programs send them: every part is checked before a key
//! exists.

use std::path::PathBuf;

use event::Time;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::zone::Zone;
use supervise::Day;

const STREAM_BYTES_MAX: usize = 64;
const SECONDS_DIGITS_MAX: usize = 7;

/// The longest duration in a key: the largest number with `SECONDS_DIGITS_MAX` digits.
const SECONDS_MAX: i128 = 9_999_999;

/// Identifies a segment and its folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct SegmentKey {
    day: Day,
    /// The folder between the day and the segment. Other programs may have none.
    stream: Option<String>,
    segment: String,
}

impl SegmentKey {
    /// Builds the key of an epoch from its provider and its local start time.
    pub fn for_epoch(provider: &str, from: Time, to: Time, zone: &Zone) -> SegmentKey {
        // Events may be out of order, which would make the duration negative.
        let seconds = ((to.nanos() - from.nanos()) / 1_000_000_000).clamp(0, SECONDS_MAX);
        let is_fine = is_stream(provider);
        SegmentKey {
            day: zone.day(from),
            stream: Some(if is_fine { provider.to_owned() } else { safe_stream(provider) }),
            segment: format!("{}_{seconds}", zone.clock(from)),
        }
    }

    /// Parses the three parts of a key. Returns `None` if one of them is invalid.
    pub fn parse(day: &str, stream: &str, segment: &str) -> Option<SegmentKey> {
        let day = Day::parse(day)?;
        (is_stream(stream) && is_segment(segment)).then(|| SegmentKey {
            day,
            stream: Some(stream.to_owned()),
            segment: segment.to_owned(),
        })
    }

    /// Parses the key of a segment whose folder is directly in that of the day.
    pub fn without_stream(day: &str, segment: &str) -> Option<SegmentKey> {
        let day = Day::parse(day)?;
        is_segment(segment).then(|| SegmentKey { day, stream: None, segment: segment.to_owned() })
    }

    pub fn day(&self) -> Day {
        self.day
    }

    pub fn stream(&self) -> Option<&str> {
        self.stream.as_deref()
    }

    pub fn segment(&self) -> &str {
        &self.segment
    }

    /// Returns the path of the folder relative to the journal.
    pub fn path(&self) -> PathBuf {
        let day = self.day.to_string();
        let stream = self.stream.as_deref();
        [Some(day.as_str()), stream, Some(&self.segment)].into_iter().flatten().collect()
    }

    /// Returns the key that is one second longer; the longest is followed by zero seconds.
    pub(super) fn next(&self) -> SegmentKey {
        let (clock, seconds) = self.segment.split_once('_').expect("every key has its seconds");
        // Another number of seconds is the only free part of the name.
        let seconds = (seconds.parse::<i128>().unwrap_or(0) + 1) % (SECONDS_MAX + 1);
        SegmentKey { segment: format!("{clock}_{seconds}"), ..self.clone() }
    }
}

impl std::fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path().display())
    }
}

impl<'de> Deserialize<'de> for SegmentKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SegmentKey, D::Error> {
        #[derive(Deserialize)]
        struct UncheckedKey {
            day: String,
            stream: Option<String>,
            segment: String,
        }
        let UncheckedKey { day, stream, segment } = UncheckedKey::deserialize(deserializer)?;
        let key = match &stream {
            Some(stream) => SegmentKey::parse(&day, stream, &segment),
            None => SegmentKey::without_stream(&day, &segment),
        };
        key.ok_or_else(|| D::Error::custom("not a segment key"))
    }
}

fn is_segment(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('_').is_some_and(|(clock, seconds)| {
        clock.len() == 6
            && is_number(clock)
            && is_number(seconds)
            && seconds.len() <= SECONDS_DIGITS_MAX
    })
}

/// Returns whether a text is a safe name for a stream: not a path, not hidden, and not the name of
/// any other entry in the folder of a day.
fn is_stream(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=STREAM_BYTES_MAX).contains(&text.len())
        && text.bytes().all(is_fine)
        && text.as_bytes()[0].is_ascii_alphanumeric()
        // `is_fine` allows dots, as in `v1.2`.
        && !text.contains("..")
        && text != "health"
        && text != "activities"
        && !is_segment(text)
}

/// Makes a valid stream name of any text.
fn safe_stream(text: &str) -> String {
    let fine = text.chars().filter(char::is_ascii_alphanumeric).take(STREAM_BYTES_MAX - 2);
    // The prefix keeps the name apart from reserved ones such as `health`.
    format!("x-{}", fine.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_parts_are_checked() {
        assert!(SegmentKey::parse("20261116", "claude", "080001_35").is_some());
        assert!(SegmentKey::parse("20261116", "import.claude-2", "080001_0").is_some());
        for (day, stream, segment) in [
            ("20261345", "claude", "080001_35"),
            ("2026-11-16", "claude", "080001_35"),
            ("../../..", "claude", "080001_35"),
            ("20261116", "..", "080001_35"),
            ("20261116", "a/b", "080001_35"),
            ("20261116", ".hidden", "080001_35"),
            ("20261116", "a..b", "080001_35"),
            ("20261116", "health", "080001_35"),
            ("20261116", "080001_35", "080001_35"),
            ("20261116", "", "080001_35"),
            ("20261116", "claude", "080001"),
            ("20261116", "claude", "080001_"),
            ("20261116", "claude", "080001_12345678"),
            ("20261116", "claude", "08000x_1"),
            ("20261116", "claude", "../../x"),
        ] {
            let key = SegmentKey::parse(day, stream, segment);
            assert_eq!(key, None, "{day} {stream} {segment}");
        }
    }

    #[test]
    fn key_has_start_and_duration() {
        let at = |text: &str| text.parse::<Time>().expect("a time");
        let (from, to) = (at("2026-11-16T08:00:01Z"), at("2026-11-16T08:00:36.9Z"));
        let key = SegmentKey::for_epoch("claude", from, to, &Zone::UTC);
        assert_eq!(key.path(), PathBuf::from("20261116/claude/080001_35"));
        assert_eq!(key.next().segment(), "080001_36");
        let longest = SegmentKey::for_epoch("claude", at("1970-01-01T00:00:00Z"), to, &Zone::UTC);
        assert_eq!(longest.segment(), "000000_9999999");
        assert_eq!(longest.next().segment(), "000000_0");
        let plain = SegmentKey::without_stream("20261116", "080001_35").expect("a key");
        assert_eq!(plain.path(), PathBuf::from("20261116/080001_35"));
        assert_eq!(SegmentKey::without_stream("20261116", "../x"), None);
        let odd = SegmentKey::for_epoch("../odd one", from, from, &Zone::UTC);
        assert_eq!(odd.path(), PathBuf::from("20261116/x-oddone/080001_0"));
    }
}
