//! The name of a segment: a day, a stream, and when and how long within the day.
//!
//! Names become parts of paths, and they come from anywhere: only what is checked becomes a key.

use std::path::PathBuf;

use event::Time;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::zone::Zone;
use supervise::Day;

const STREAM_BYTES_MAX: usize = 64;
const SECONDS_DIGITS_MAX: usize = 7;

/// The longest a segment is said to be: as many digits as there is room for.
const SECONDS_MAX: i128 = 9_999_999;

/// Where a segment is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct SegmentKey {
    day: Day,
    stream: String,
    segment: String,
}

impl SegmentKey {
    /// The key of an epoch of a provider, in the time on the wall when it began.
    pub fn of(provider: &str, from: Time, to: Time, zone: &Zone) -> SegmentKey {
        let seconds = ((to.nanos() - from.nanos()) / 1_000_000_000).clamp(0, SECONDS_MAX);
        let is_fine = is_stream(provider);
        SegmentKey {
            day: zone.day(from),
            stream: if is_fine { provider.to_owned() } else { safe(provider) },
            segment: format!("{}_{seconds}", zone.clock(from)),
        }
    }

    /// A key somebody named; `None` for what cannot be one.
    pub fn parse(day: &str, stream: &str, segment: &str) -> Option<SegmentKey> {
        let day = Day::parse(day)?;
        (is_stream(stream) && is_segment(segment)).then(|| SegmentKey {
            day,
            stream: stream.to_owned(),
            segment: segment.to_owned(),
        })
    }

    pub fn day(&self) -> Day {
        self.day
    }

    pub fn stream(&self) -> &str {
        &self.stream
    }

    pub fn segment(&self) -> &str {
        &self.segment
    }

    /// The folder, within the journal's.
    pub fn path(&self) -> PathBuf {
        [self.day.to_string().as_str(), &self.stream, &self.segment].iter().collect()
    }

    /// The same a second longer; after the longest comes the shortest.
    pub(super) fn next(&self) -> SegmentKey {
        let (clock, seconds) = self.segment.split_once('_').expect("every key has its seconds");
        let seconds = (seconds.parse::<i128>().unwrap_or(0) + 1) % (SECONDS_MAX + 1);
        SegmentKey { segment: format!("{clock}_{seconds}"), ..self.clone() }
    }
}

impl std::fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.day, self.stream, self.segment)
    }
}

impl<'de> Deserialize<'de> for SegmentKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SegmentKey, D::Error> {
        #[derive(Deserialize)]
        struct Shape {
            day: String,
            stream: String,
            segment: String,
        }
        let Shape { day, stream, segment } = Shape::deserialize(deserializer)?;
        SegmentKey::parse(&day, &stream, &segment).ok_or_else(|| D::Error::custom("no segment"))
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

/// A name that is nothing but a name: no way up, no hidden file, and nothing else of a day's folder.
fn is_stream(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=STREAM_BYTES_MAX).contains(&text.len())
        && text.bytes().all(is_fine)
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && !text.contains("..")
        && text != "health"
        && text != "activities"
        && !is_segment(text)
}

/// A stream's name made of any text.
fn safe(text: &str) -> String {
    let fine = text.chars().filter(char::is_ascii_alphanumeric).take(STREAM_BYTES_MAX - 2);
    format!("x-{}", fine.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_nowhere_else() {
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
    fn an_epoch_is_named_by_when_it_began_and_how_long_it_took() {
        let at = |text: &str| text.parse::<Time>().expect("a time");
        let (from, to) = (at("2026-11-16T08:00:01Z"), at("2026-11-16T08:00:36.9Z"));
        let key = SegmentKey::of("claude", from, to, &Zone::UTC);
        assert_eq!(key.path(), PathBuf::from("20261116/claude/080001_35"));
        assert_eq!(key.next().segment(), "080001_36");
        let longest = SegmentKey::of("claude", at("1970-01-01T00:00:00Z"), to, &Zone::UTC);
        assert_eq!(longest.segment(), "000000_9999999");
        assert_eq!(longest.next().segment(), "000000_0");
        let odd = SegmentKey::of("../odd one", from, from, &Zone::UTC);
        assert_eq!(odd.path(), PathBuf::from("20261116/x-oddone/080001_0"));
    }
}
