//! The event log of a segment: `events.jsonl` in its folder, one message a line.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bus::Message;
use rustix::fs::OFlags;
use serde_json::Value;

use supervise::Day;

use crate::segment::{SegmentKey, folder_of};

const NAME: &str = "events.jsonl";

/// Bytes of a log. At the limit a last line says that messages are missing.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

const TRUNCATED: &[u8] = b"{\"tract\":\"callosum\",\"event\":\"truncated\"}\n";

/// The tracts with messages about segments.
const TRACTS: [&str; 3] = ["observe", "dream", "activity"];

/// The event logs of all segments of a journal.
pub(super) struct EventLogs {
    root: PathBuf,
    /// Messages that match no folder or several, or could not be written.
    pub(super) unplaced: u64,
}

impl EventLogs {
    pub(super) fn new(root: &Path) -> EventLogs {
        EventLogs { root: root.to_owned(), unplaced: 0 }
    }

    /// Appends a message of another sender to the log of its segment.
    pub(super) fn log_message(&mut self, message: &Message) -> io::Result<()> {
        let is_ours = message.tract().is_some_and(|tract| TRACTS.contains(&tract.as_ref()));
        // Most messages of these tracts name a segment; the others are about days or activities.
        if !is_ours || message.field("segment").is_none() {
            return Ok(());
        }
        let folder = self.folder_of(&message.to_json());
        match folder.map(|folder| append_message(&folder, &message.readable_line())) {
            Some(Ok(())) => {}
            // The caller retries: a full disk gets room again.
            Some(Err(error)) if super::is_disk_full(&error) => return Err(error),
            Some(Err(_)) | None => self.unplaced += 1,
        }
        Ok(())
    }

    /// Returns the segment of a message if its folder exists. A message without a stream matches
    /// only if one stream has the segment.
    pub(super) fn segment_of(&self, message: &Value) -> Option<SegmentKey> {
        if has_stream(message) {
            // A message must not create folders: any client may send any name.
            return segment_key(message).filter(|key| folder_of(&self.root, key).is_some());
        }
        let (day, segment) = (text_field(message, "day")?, text_field(message, "segment")?);
        self.only_segment(&SegmentKey::without_stream(&day, &segment)?)
    }

    /// Returns the segment that a message names, also if it has no folder. `today` stands in for a
    /// missing day.
    pub(super) fn named_segment(&self, message: &Value, today: Day) -> Option<SegmentKey> {
        let day = match message.get("day").filter(|day| !day.is_null()) {
            Some(_) => text_field(message, "day")?,
            None => today.to_string(),
        };
        let segment = text_field(message, "segment")?;
        if has_stream(message) {
            return SegmentKey::parse(&day, &text_field(message, "stream")?, &segment);
        }
        let plain = SegmentKey::without_stream(&day, &segment)?;
        Some(self.only_segment(&plain).unwrap_or(plain))
    }

    /// Returns the segment with a key without a stream: the folder directly in the day, else the one
    /// stream that has it. Two matches are ambiguous.
    fn only_segment(&self, plain: &SegmentKey) -> Option<SegmentKey> {
        if folder_of(&self.root, plain).is_some() {
            return Some(plain.clone());
        }
        let day = plain.day().to_string();
        let mut fitting = self.root.join(&day).read_dir().ok()?.filter_map(|entry| {
            let stream = entry.ok()?.file_name().into_string().ok()?;
            let key = SegmentKey::parse(&day, &stream, plain.segment())?;
            folder_of(&self.root, &key).map(|_| key)
        });
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Returns the folder of a message, by the same rule.
    fn folder_of(&self, message: &Value) -> Option<PathBuf> {
        folder_of(&self.root, &self.segment_of(message)?)
    }
}

/// Returns whether a message names a stream. Some clients send `null` for a missing field.
fn has_stream(message: &Value) -> bool {
    message.get("stream").is_some_and(|stream| !stream.is_null())
}

/// Parses the segment that a message names.
pub(super) fn segment_key(message: &Value) -> Option<SegmentKey> {
    let [day, stream, segment] = ["day", "stream", "segment"].map(|name| text_field(message, name));
    SegmentKey::parse(&day?, &stream?, &segment?)
}

/// Returns a field that may be a text or a number.
pub(super) fn text_field(message: &Value, name: &str) -> Option<String> {
    match message.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Appends a message to the log of a segment. A line that a crash left half written is cut off.
pub(super) fn append_message(folder: &Path, message: &str) -> io::Result<()> {
    let path = folder.join(NAME);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // A link planted as `events.jsonl` could point to any file of the user.
    let mut file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    let end = cut_torn_line(&mut file)?;
    // Once truncated, nothing follows: a gap in the middle would not be seen.
    if ends_with_truncated(&mut file, end)? {
        return Ok(());
    }
    let line = format!("{message}\n");
    // The marker may pass the limit by its own length; it is the last line in any case.
    let is_too_much = end + line.len() as u64 > BYTES_MAX;
    file.write_all(if is_too_much { TRUNCATED } else { line.as_bytes() })
}

/// Returns whether the log of a segment has a message with all fields of `like`. A `null` field must
/// be absent.
pub(super) fn contains(folder: &Path, like: &Value) -> io::Result<bool> {
    any_message(folder, |message| has_fields(message, like))
}

/// Collects the numbers that a field has in all messages with the fields of `like`.
pub(super) fn field_values(folder: &Path, like: &Value, name: &str) -> io::Result<HashSet<i64>> {
    let mut numbers = HashSet::new();
    any_message(folder, |message| {
        numbers.extend(message[name].as_i64().filter(|_| has_fields(message, like)));
        false
    })?;
    Ok(numbers)
}

fn has_fields(message: &Value, like: &Value) -> bool {
    let mut wanted = like.as_object().into_iter().flatten();
    // A missing field indexes as `null`, so `null` in `like` means that the field is absent.
    wanted.all(|(name, value)| message[name] == *value)
}

fn any_message(folder: &Path, mut is_match: impl FnMut(&Value) -> bool) -> io::Result<bool> {
    // Bytes, because a half-written line may end within a UTF-8 character.
    let text = match std::fs::read(folder.join(NAME)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        text => text?,
    };
    let text = String::from_utf8_lossy(&text);
    // A torn or foreign line is no message.
    let mut messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.any(|message| is_match(&message)))
}

/// Cuts off a half-written last line and seeks to the end.
fn cut_torn_line(file: &mut File) -> io::Result<u64> {
    let end = file.seek(SeekFrom::End(0))?;
    if end == 0 {
        return Ok(0);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(end - 1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(end);
    }
    // Only after a crash: read the whole log to find its last line end.
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place as u64 + 1);
    file.set_len(whole)?;
    file.seek(SeekFrom::Start(whole))
}

/// Returns whether the log was truncated. The file is at its end before and after.
fn ends_with_truncated(file: &mut File, end: u64) -> io::Result<bool> {
    let Some(begin) = end.checked_sub(TRUNCATED.len() as u64) else { return Ok(false) };
    let mut last = vec![0; TRUNCATED.len()];
    file.seek(SeekFrom::Start(begin))?;
    file.read_exact(&mut last)?;
    Ok(last == TRUNCATED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn make_world(streams: &[&str]) -> (tempfile::TempDir, EventLogs) {
        let dir = tempfile::tempdir().expect("a folder can be made");
        for stream in streams {
            let folder = dir.path().join("20261116").join(stream).join("080001_5");
            std::fs::create_dir_all(folder).expect("a folder can be made");
        }
        let logs = EventLogs::new(dir.path());
        (dir, logs)
    }

    fn read_log(dir: &tempfile::TempDir, stream: &str) -> String {
        let folder = dir.path().join("20261116").join(stream).join("080001_5");
        std::fs::read_to_string(folder.join(NAME)).unwrap_or_default()
    }

    fn observed(day: Value, stream: Value) -> Message {
        make_message(
            &json!({"tract": "observe", "event": "observed", "day": day, "segment": "080001_5", "stream": stream}),
        )
    }

    fn make_message(value: &Value) -> Message {
        Message::parse(value.to_string().as_bytes()).expect("it is a message")
    }

    #[test]
    fn message_goes_to_its_folder() {
        let (dir, mut logs) = make_world(&["claude"]);
        logs.log_message(&observed(json!("20261116"), json!("claude"))).expect("it is written");
        logs.log_message(&observed(json!("20261117"), json!("claude"))).expect("it is passed over");
        logs.log_message(&observed(json!("20261116"), json!("../.."))).expect("it is passed over");
        logs.log_message(&make_message(
            &json!({"tract": "logs", "event": "line", "day": "20261116", "segment": "080001_5"}),
        ))
        .expect("it is passed over");
        assert_eq!(read_log(&dir, "claude").lines().count(), 1);
        assert_eq!(logs.unplaced, 2);
        assert!(!dir.path().join("20261117").exists());
    }

    #[test]
    fn missing_stream_means_the_only_one() {
        let (dir, mut logs) = make_world(&["claude"]);
        logs.log_message(&observed(json!(20261116), Value::Null)).expect("it is written");
        assert_eq!(read_log(&dir, "claude").lines().count(), 1);
        let (dir, mut logs) = make_world(&["claude", "codex"]);
        logs.log_message(&observed(json!("20261116"), Value::Null)).expect("it is passed over");
        assert_eq!((read_log(&dir, "claude"), logs.unplaced), (String::new(), 1));
    }

    #[test]
    fn segment_without_stream_has_a_log() {
        let (dir, mut logs) = make_world(&["claude"]);
        let plain = dir.path().join("20261116/080001_5");
        std::fs::create_dir(&plain).expect("a folder can be made");
        let message = observed(json!("20261116"), Value::Null);
        logs.log_message(&message).expect("it is written");
        let text = std::fs::read_to_string(plain.join(NAME)).expect("it is there");
        assert_eq!((text.lines().count(), read_log(&dir, "claude").as_str()), (1, ""));
        let key = SegmentKey::without_stream("20261116", "080001_5");
        assert_eq!(logs.segment_of(&message.to_json()), key);
    }

    #[test]
    fn segment_may_be_named_without_folder() {
        let (_dir, logs) = make_world(&["claude"]);
        let today = Day::parse("20261117").expect("a day");
        let named = |mut message: Value| {
            message["segment"] = json!("080001_5");
            logs.named_segment(&message, today).map(|key| key.to_string())
        };
        let key = |text: &str| Some(text.to_owned());
        assert_eq!(named(json!({})), key("20261117/080001_5"));
        assert_eq!(named(json!({"day": null, "stream": "phone"})), key("20261117/phone/080001_5"));
        assert_eq!(named(json!({"day": 20261116})), key("20261116/claude/080001_5"));
        assert_eq!(named(json!({"day": "20261116", "stream": ".."})), None);
        assert_eq!(named(json!({"day": "20261345"})), None);
        assert_eq!(named(json!({"day": []})), None);
    }

    #[test]
    fn half_written_line_is_cut_off() {
        let (dir, mut logs) = make_world(&["claude"]);
        let message = observed(json!("20261116"), json!("claude"));
        logs.log_message(&message).expect("it is written");
        let path = dir.path().join("20261116/claude/080001_5").join(NAME);
        let mut file = OpenOptions::new().append(true).open(path).expect("it is there");
        file.write_all(b"{\"tract\":\"obs").expect("it is written");
        logs.log_message(&message).expect("it is written");
        let line = message.readable_line();
        assert_eq!(read_log(&dir, "claude"), format!("{line}\n{line}\n"));
    }

    #[test]
    fn full_log_says_so_once() {
        let (dir, mut logs) = make_world(&["claude"]);
        let mut message = observed(json!("20261116"), json!("claude")).to_json();
        message["error"] = json!("x".repeat(9 << 20));
        let message = self::make_message(&message);
        for _ in 0..3 {
            logs.log_message(&message).expect("it is written or passed over");
        }
        let log = read_log(&dir, "claude");
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("truncated"));
    }

    #[test]
    fn message_is_logged_with_readable_letters() {
        let (dir, mut logs) = make_world(&["claude"]);
        let said = br#"{"tract":"observe","event":"x","day":"20261116","segment":"080001_5","stream":"claude","z":"gr\u00fc\u00dfe \ud800","a":NaN,"n":123456789012345678901234567890}"#;
        logs.log_message(&Message::parse(said).expect("it is a message")).expect("it is written");
        let wanted = String::from_utf8_lossy(said).replace("gr\\u00fc\\u00dfe", "grüße");
        assert_eq!(read_log(&dir, "claude"), format!("{wanted}\n"));
    }

    #[test]
    fn links_are_not_followed() {
        let (dir, mut logs) = make_world(&["claude"]);
        let day = dir.path().join("20261116");
        let elsewhere = dir.path().join("elsewhere");
        std::fs::create_dir_all(elsewhere.join("080001_5")).expect("a folder can be made");
        std::os::unix::fs::symlink(&elsewhere, day.join("phone")).expect("a link can be made");
        logs.log_message(&observed(json!("20261116"), json!("phone"))).expect("it is passed over");
        let file = elsewhere.join("file");
        let link = day.join("claude/080001_5").join(NAME);
        std::os::unix::fs::symlink(&file, link).expect("a link can be made");
        logs.log_message(&observed(json!("20261116"), json!("claude"))).expect("it is passed over");
        assert_eq!(logs.unplaced, 2);
        assert!(!file.exists() && !elsewhere.join("080001_5").join(NAME).exists());
    }
}
