//! What happened to a segment, in its own folder: `events.jsonl`, a message a line.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bus::Message;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::segment::{SegmentKey, folder_of, is_folder};

const NAME: &str = "events.jsonl";

/// Bytes of a log. Behind them one last line says that there was more.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

const TRUNCATED: &[u8] = b"{\"tract\":\"callosum\",\"event\":\"truncated\"}\n";

/// The tracts whose messages are about segments.
const TRACTS: [&str; 3] = ["observe", "dream", "activity"];

/// The event logs of all segments of a journal.
pub(super) struct EventLogs {
    root: PathBuf,
    /// Messages that belong to no folder, or to several.
    pub(super) homeless: u64,
}

impl EventLogs {
    pub(super) fn of(root: &Path) -> EventLogs {
        EventLogs { root: root.to_owned(), homeless: 0 }
    }

    /// Writes down a message that somebody else put on the bus.
    pub(super) fn note(&mut self, message: &Message) -> io::Result<()> {
        let is_ours = message.tract().is_some_and(|tract| TRACTS.contains(&tract.as_ref()));
        if !is_ours || message.field("segment").is_none() {
            return Ok(());
        }
        let folder = self.folder_of(&message.to_json());
        match folder.map(|folder| append(&folder, &message.readable_line())) {
            Some(Ok(())) => {}
            // It is waited for: there will be room again.
            Some(Err(error)) if super::is_full(&error) => return Err(error),
            Some(Err(_)) | None => self.homeless += 1,
        }
        Ok(())
    }

    /// The segment a message is about, if its folder is there. Without a stream it has to be the
    /// only one.
    pub(super) fn segment_of(&self, message: &Value) -> Option<SegmentKey> {
        if has_stream(message) {
            return key_of(message).filter(|key| folder_of(&self.root, key).is_some());
        }
        let folder = self.folder_of(message)?;
        let stream = folder.parent()?.file_name()?.to_str()?;
        let [day, segment] = ["day", "segment"].map(|name| text(message, name));
        // One that is in no stream has no key.
        SegmentKey::parse(&day?, stream, &segment?)
            .filter(|key| folder_of(&self.root, key).is_some_and(|its| its == folder))
    }

    /// The folder a message is about, if it is there. Without a stream it has to be the only one.
    fn folder_of(&self, message: &Value) -> Option<PathBuf> {
        if has_stream(message) {
            return folder_of(&self.root, &key_of(message)?);
        }
        let (day, segment) = (text(message, "day")?, text(message, "segment")?);
        let any = SegmentKey::parse(&day, "any", &segment)?;
        let day = self.root.join(any.day().to_string());
        let plain = day.join(any.segment());
        if is_folder(&day) && is_folder(&plain) {
            return Some(plain);
        }
        let mut fitting = day.read_dir().ok()?.filter_map(|entry| {
            let stream = entry.ok()?.file_name().into_string().ok()?;
            folder_of(&self.root, &SegmentKey::parse(&any.day().to_string(), &stream, &segment)?)
        });
        fitting.next().filter(|_| fitting.next().is_none())
    }
}

/// Whether a message says which stream it is about: `null` is how some languages leave one out.
fn has_stream(message: &Value) -> bool {
    message.get("stream").is_some_and(|stream| !stream.is_null())
}

/// The segment that a message names.
pub(super) fn key_of(message: &Value) -> Option<SegmentKey> {
    let [day, stream, segment] = ["day", "stream", "segment"].map(|name| text(message, name));
    SegmentKey::parse(&day?, &stream?, &segment?)
}

/// A field that may be a text or a number.
pub(super) fn text(message: &Value, name: &str) -> Option<String> {
    match message.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Appends a message to the log of a segment. What a crash left half written goes.
pub(super) fn append(folder: &Path, message: &str) -> io::Result<()> {
    let path = folder.join(NAME);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // A link in its place leads elsewhere.
    let mut file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    let end = cut_torn_line(&mut file)?;
    if ends_with_truncated(&mut file, end)? {
        return Ok(());
    }
    let line = format!("{message}\n");
    let is_too_much = end + line.len() as u64 > BYTES_MAX;
    file.write_all(if is_too_much { TRUNCATED } else { line.as_bytes() })
}

/// Whether the log of a segment has a message like this: all its fields with the same values, and
/// without those that are `null`.
pub(super) fn has(folder: &Path, like: &Value) -> io::Result<bool> {
    has_any(folder, |message| is_like(message, like))
}

/// The values that a field has in all messages like this that are in the log of a segment.
pub(super) fn numbers(folder: &Path, like: &Value, name: &str) -> io::Result<HashSet<i64>> {
    let mut numbers = HashSet::new();
    has_any(folder, |message| {
        numbers.extend(message[name].as_i64().filter(|_| is_like(message, like)));
        false
    })?;
    Ok(numbers)
}

fn is_like(message: &Value, like: &Value) -> bool {
    let mut wanted = like.as_object().into_iter().flatten();
    wanted.all(|(name, value)| message[name] == *value)
}

fn has_any(folder: &Path, mut is_it: impl FnMut(&Value) -> bool) -> io::Result<bool> {
    // A line that a crash has torn may end within a letter.
    let text = match std::fs::read(folder.join(NAME)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        text => text?,
    };
    let text = String::from_utf8_lossy(&text);
    let mut messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.any(|message| is_it(&message)))
}

/// Goes to the end of the last whole line.
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
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place as u64 + 1);
    file.set_len(whole)?;
    file.seek(SeekFrom::Start(whole))
}

/// Whether the last line says that there was more. The file stands at its end before and after.
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

    fn world(streams: &[&str]) -> (tempfile::TempDir, EventLogs) {
        let dir = tempfile::tempdir().expect("a folder can be made");
        for stream in streams {
            let folder = dir.path().join("20261116").join(stream).join("080001_5");
            std::fs::create_dir_all(folder).expect("a folder can be made");
        }
        let logs = EventLogs::of(dir.path());
        (dir, logs)
    }

    fn log(dir: &tempfile::TempDir, stream: &str) -> String {
        let folder = dir.path().join("20261116").join(stream).join("080001_5");
        std::fs::read_to_string(folder.join(NAME)).unwrap_or_default()
    }

    fn observed(day: Value, stream: Value) -> Message {
        message(
            &json!({"tract": "observe", "event": "observed", "day": day, "segment": "080001_5", "stream": stream}),
        )
    }

    fn message(value: &Value) -> Message {
        Message::parse(value.to_string().as_bytes()).expect("it is a message")
    }

    #[test]
    fn a_message_goes_to_the_folder_it_names_and_makes_none() {
        let (dir, mut logs) = world(&["claude"]);
        logs.note(&observed(json!("20261116"), json!("claude"))).expect("it is written");
        logs.note(&observed(json!("20261117"), json!("claude"))).expect("it is passed over");
        logs.note(&observed(json!("20261116"), json!("../.."))).expect("it is passed over");
        logs.note(&message(
            &json!({"tract": "logs", "event": "line", "day": "20261116", "segment": "080001_5"}),
        ))
        .expect("it is passed over");
        assert_eq!(log(&dir, "claude").lines().count(), 1);
        assert_eq!(logs.homeless, 2);
        assert!(!dir.path().join("20261117").exists());
    }

    #[test]
    fn without_a_stream_the_only_folder_is_meant_and_a_day_may_be_a_number() {
        let (dir, mut logs) = world(&["claude"]);
        logs.note(&observed(json!(20261116), Value::Null)).expect("it is written");
        assert_eq!(log(&dir, "claude").lines().count(), 1);
        let (dir, mut logs) = world(&["claude", "codex"]);
        logs.note(&observed(json!("20261116"), Value::Null)).expect("it is passed over");
        assert_eq!((log(&dir, "claude"), logs.homeless), (String::new(), 1));
    }

    #[test]
    fn a_segment_in_no_stream_has_a_log_too() {
        let (dir, mut logs) = world(&["claude"]);
        let plain = dir.path().join("20261116/080001_5");
        std::fs::create_dir(&plain).expect("a folder can be made");
        let message = observed(json!("20261116"), Value::Null);
        logs.note(&message).expect("it is written");
        let text = std::fs::read_to_string(plain.join(NAME)).expect("it is there");
        assert_eq!((text.lines().count(), log(&dir, "claude").as_str()), (1, ""));
        assert_eq!(logs.segment_of(&message.to_json()), None, "it has no key");
    }

    #[test]
    fn half_a_line_goes_when_the_next_one_comes() {
        let (dir, mut logs) = world(&["claude"]);
        let message = observed(json!("20261116"), json!("claude"));
        logs.note(&message).expect("it is written");
        let path = dir.path().join("20261116/claude/080001_5").join(NAME);
        let mut file = OpenOptions::new().append(true).open(path).expect("it is there");
        file.write_all(b"{\"tract\":\"obs").expect("it is written");
        logs.note(&message).expect("it is written");
        let line = message.readable_line();
        assert_eq!(log(&dir, "claude"), format!("{line}\n{line}\n"));
    }

    #[test]
    fn a_log_that_is_full_says_so_once() {
        let (dir, mut logs) = world(&["claude"]);
        let mut message = observed(json!("20261116"), json!("claude")).to_json();
        message["error"] = json!("x".repeat(9 << 20));
        let message = self::message(&message);
        for _ in 0..3 {
            logs.note(&message).expect("it is written or passed over");
        }
        let log = log(&dir, "claude");
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("truncated"));
    }

    #[test]
    fn what_was_said_is_written_as_it_was_said_with_its_letters_readable() {
        let (dir, mut logs) = world(&["claude"]);
        let said = br#"{"tract":"observe","event":"x","day":"20261116","segment":"080001_5","stream":"claude","z":"gr\u00fc\u00dfe \ud800","a":NaN,"n":123456789012345678901234567890}"#;
        logs.note(&Message::parse(said).expect("it is a message")).expect("it is written");
        let wanted = String::from_utf8_lossy(said).replace("gr\\u00fc\\u00dfe", "grüße");
        assert_eq!(log(&dir, "claude"), format!("{wanted}\n"));
    }

    #[test]
    fn a_link_leads_nowhere() {
        let (dir, mut logs) = world(&["claude"]);
        let day = dir.path().join("20261116");
        let elsewhere = dir.path().join("elsewhere");
        std::fs::create_dir_all(elsewhere.join("080001_5")).expect("a folder can be made");
        std::os::unix::fs::symlink(&elsewhere, day.join("phone")).expect("a link can be made");
        logs.note(&observed(json!("20261116"), json!("phone"))).expect("it is passed over");
        let file = elsewhere.join("file");
        let link = day.join("claude/080001_5").join(NAME);
        std::os::unix::fs::symlink(&file, link).expect("a link can be made");
        logs.note(&observed(json!("20261116"), json!("claude"))).expect("it is passed over");
        assert_eq!(logs.homeless, 2);
        assert!(!file.exists() && !elsewhere.join("080001_5").join(NAME).exists());
    }
}
