//! Parses requests to the supervisor, field by field.

use std::time::Duration;

use bus::{FieldValue, Message};

use crate::day::Day;
use crate::run_ref::Ref;
use crate::services_file::{IfBusy, check_words};

/// The longest timeout of a task: a year.
const TIMEOUT_MAX: f64 = 365.0 * 24.0 * 3_600.0;

/// A parsed `supervisor.request`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ParsedRequest {
    pub cmd: Vec<String>,
    pub day: Option<Day>,
    pub timeout: Option<Duration>,
    pub if_busy: IfBusy,
    pub rerun: bool,
}

/// The ref of a request: absent, valid or invalid.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RequestRef {
    Absent,
    Valid(Ref),
    Invalid,
}

impl RequestRef {
    pub(crate) fn read(message: &Message) -> RequestRef {
        match non_null_field(message, "ref") {
            None => RequestRef::Absent,
            Some(field) => Ref::read(field).map_or(RequestRef::Invalid, RequestRef::Valid),
        }
    }
}

impl ParsedRequest {
    /// Parses a request; the error says what is wrong with it.
    pub(crate) fn read(message: &Message) -> Result<ParsedRequest, String> {
        Ok(ParsedRequest {
            cmd: parse_words(message)?,
            day: parse_day(message)?,
            timeout: parse_timeout(message)?,
            if_busy: match parse_choice(message, "if_busy", &["queue", "skip"])? {
                Some(1) => IfBusy::Skip,
                _ => IfBusy::Queue,
            },
            rerun: parse_choice(message, "after_crash", &["drop", "rerun"])? == Some(1),
        })
    }
}

fn parse_words(message: &Message) -> Result<Vec<String>, String> {
    let Some(field) = non_null_field(message, "cmd") else {
        return Err("`cmd` is missing".to_owned());
    };
    let words: Vec<String> =
        serde_json::from_value(field.json()).map_err(|_| "`cmd` is no list of texts".to_owned())?;
    check_words(&words)?;
    Ok(words)
}

fn parse_day(message: &Message) -> Result<Option<Day>, String> {
    let Some(field) = non_null_field(message, "day") else { return Ok(None) };
    let text = match field.text() {
        Some(text) => text.into_owned(),
        // A day such as 20250213 is also written as a number.
        None => field.integer().map(|number| number.to_string()).unwrap_or_default(),
    };
    match Day::parse(&text) {
        Some(day) => Ok(Some(day)),
        None => Err("`day` is no day such as 20250213".to_owned()),
    }
}

fn parse_timeout(message: &Message) -> Result<Option<Duration>, String> {
    let Some(field) = non_null_field(message, "timeout_seconds") else { return Ok(None) };
    // Within these bounds `from_secs_f64` does not panic.
    let seconds = field.json().as_f64().filter(|seconds| (0.001..=TIMEOUT_MAX).contains(seconds));
    match seconds {
        Some(seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
        None => Err("`timeout_seconds` is no number of seconds".to_owned()),
    }
}

/// Returns which of some words a field has.
fn parse_choice(message: &Message, name: &str, words: &[&str]) -> Result<Option<usize>, String> {
    let Some(field) = non_null_field(message, name) else { return Ok(None) };
    let text = field.text().unwrap_or_default();
    match words.iter().position(|word| *word == text) {
        Some(at) => Ok(Some(at)),
        None => Err(format!("`{name}` is one of: {}", words.join(", "))),
    }
}

/// Returns a field unless it is `null`, which is how some languages leave a field out.
fn non_null_field<'a>(message: &'a Message, name: &str) -> Option<FieldValue<'a>> {
    message.field(name).filter(|field| field.raw() != b"null")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(fields: &str) -> Result<ParsedRequest, String> {
        let line = format!(r#"{{"tract":"supervisor","event":"request"{fields}}}"#);
        ParsedRequest::read(&Message::parse(line.as_bytes()).unwrap())
    }

    fn reference(value: &str) -> RequestRef {
        let line = format!(r#"{{"tract":"supervisor","event":"request","ref":{value}}}"#);
        RequestRef::read(&Message::parse(line.as_bytes()).unwrap())
    }

    #[test]
    fn request_is_parsed_whole() {
        let read = asked(
            r#","cmd":["git","fetch"],"day":20250213,"timeout_seconds":1.5,"if_busy":"skip","after_crash":"rerun""#,
        );
        let read = read.unwrap();
        assert_eq!(read.cmd, ["git", "fetch"]);
        assert_eq!(read.day, Day::parse("20250213"));
        assert_eq!(read.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(read.if_busy, IfBusy::Skip);
        assert!(read.rerun);
        let plain = asked(r#","cmd":["x"],"day":null,"timeout_seconds":null"#).unwrap();
        assert_eq!((plain.day, plain.timeout, plain.if_busy), (None, None, IfBusy::Queue));
    }

    #[test]
    fn malformed_request_is_refused() {
        let long = format!(r#","cmd":["{}"]"#, "x".repeat(200_000));
        let many = format!(r#","cmd":[{}"x"]"#, r#""x","#.repeat(256));
        for fields in [
            "",
            r#","cmd":[]"#,
            r#","cmd":"make x""#,
            r#","cmd":["sleep",1]"#,
            r#","cmd":["a\u0000b"]"#,
            &long,
            &many,
            r#","cmd":["x"],"day":"2025-02-13""#,
            r#","cmd":["x"],"day":"20250230""#,
            r#","cmd":["x"],"day":"../../..""#,
            r#","cmd":["x"],"timeout_seconds":"5""#,
            r#","cmd":["x"],"timeout_seconds":0"#,
            r#","cmd":["x"],"timeout_seconds":-1"#,
            r#","cmd":["x"],"timeout_seconds":1e300"#,
            r#","cmd":["x"],"timeout_seconds":NaN"#,
            r#","cmd":["x"],"if_busy":"perhaps""#,
            r#","cmd":["x"],"after_crash":7"#,
        ] {
            assert!(asked(fields).is_err(), "{}", &fields[..fields.len().min(60)]);
        }
    }

    #[test]
    fn ref_is_text_or_integer() {
        let good = |value: &str| match reference(value) {
            RequestRef::Valid(reference) => reference.json().as_str().to_owned(),
            other => panic!("{value}: {other:?}"),
        };
        for value in [r#""a""#, r#""""#, "7", "-7", "123456789012345678901234567890"] {
            assert_eq!(good(value), value, "given back as it came");
        }
        assert_eq!(good(r#""\ud800""#), r#""\ud800""#);
        assert_eq!(reference("null"), RequestRef::Absent);
        let long = format!(r#""{}""#, "x".repeat(257));
        for value in ["1.5", "1e3", "true", "[]", "{}", &long] {
            assert_eq!(reference(value), RequestRef::Invalid, "{value}");
        }
        assert_ne!(reference("7"), reference(r#""7""#));
        assert_eq!(reference(r#""\u0061""#), reference(r#""a""#));
        assert_ne!(reference(r#""\udcff""#), reference(r#""\udcfe""#));
        assert_ne!(reference(r#""\udcff""#), reference(r#""\ufffd""#));
    }
}
