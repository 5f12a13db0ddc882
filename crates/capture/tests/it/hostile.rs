//! Whatever bytes come in: events or unknowns, never a panic, and the same in any split.
//!
//! The body is shared with `fuzz/`, where a fuzzer chooses the bytes.

mod home; // what is read, and who takes it
mod rows; // databases of agents
mod transcript; // what agents write
mod position; // how far it was read

use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;

use self::home::{AT_ONCE, Taken};
use crate::scenario::{files, fixtures};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        transcript::check(&bytes);
    }

    #[test]
    fn damaged_recordings_are_survived(
        (form, lines) in damaged_lines(),
        cut in any::<u8>(),
    ) {
        transcript::check(&[&[form, cut], &*lines].concat());
    }

    #[test]
    fn damaged_positions_are_survived(
        (form, lines) in damaged_lines(),
        (at, piece) in (any::<prop::sample::Index>(), piece()),
    ) {
        let position = damage(POSITION, at, piece);
        position::check(&[&[form], &*position, &*lines].concat());
    }
}

/// What was remembered of the first half of a recording says that everything was counted up to
/// its limit; then the second half comes.
#[test]
fn counters_at_their_limit_are_survived() {
    for (name, limit) in
        RECORDED.iter().flat_map(|name| [(name, u32::MAX.into()), (name, u64::MAX)])
    {
        let form = transcript::FORMS.iter().find(|form| form.name == *name).unwrap();
        for text in recordings(name) {
            let half = text[..text.len() / 2].rfind('\n').map_or(0, |end| end + 1);
            let mut taken = Taken::default();
            form.home(&text.as_bytes()[..half]).read(form.agent(), AT_ONCE, &mut taken);
            for (_, position) in &mut taken.positions {
                let mut known: Value = serde_json::from_str(position).unwrap();
                if let Some(state) = known["state"].as_str() {
                    let mut state: Value = serde_json::from_str(state).unwrap();
                    count_up(&mut state, limit);
                    known["state"] = state.to_string().into();
                }
                *position = known.to_string();
            }
            form.home(text.as_bytes()).read(form.agent(), AT_ONCE, &mut taken);
            taken.check_drafts();
        }
    }
}

fn count_up(state: &mut Value, limit: u64) {
    match state {
        Value::Number(number) => *number = limit.into(),
        Value::Array(values) => values.iter_mut().for_each(|value| count_up(value, limit)),
        Value::Object(members) => members.values_mut().for_each(|value| count_up(value, limit)),
        _ => {}
    }
}

/// The forms of which there are recordings.
const RECORDED: [&str; 7] = ["claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen"];

/// One that fits every source.
const POSITION: &str = r#"{"path":"","device":0,"inode":0,"generation":0,"size":0,"changed":0,"offset":0,"records":0,"head":{"length":0,"hash":""},"tail":{"length":0,"hash":""},"threads":{},"state":"{}"}"#;

/// Lines of recordings in any order, each with something else in the place of one of its parts.
fn damaged_lines() -> impl Strategy<Value = (u8, Vec<u8>)> {
    prop::sample::select(&RECORDED[..]).prop_flat_map(|name| {
        let form = transcript::FORMS.iter().position(|form| form.name == name).unwrap() as u8;
        let lines = recorded(name);
        let line = (prop::sample::select(lines), any::<prop::sample::Index>(), piece());
        let damaged = line.prop_map(|(line, at, piece)| damage(&line, at, piece));
        let lines = prop::collection::vec(damaged, 1..12).prop_map(|lines| lines.concat());
        lines.prop_map(move |lines| (form, lines))
    })
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "null",
        "{}",
        "[]",
        "[null]",
        "true",
        "0",
        "-1",
        "1e999",
        "\"\"",
        "\"x\"",
        "{\"a\":[]}",
        "\u{0}",
        "\\ud83d",
        "\"<persisted-output>\\nsaved to: /../../x\"",
        "99999999999999999999",
    ])
}

/// Puts a piece in the place of one value.
fn damage(line: &str, at: prop::sample::Index, piece: &str) -> Vec<u8> {
    let values: Vec<usize> = line.match_indices(':').map(|(place, _)| place + 1).collect();
    if values.is_empty() {
        return format!("{line}{piece}\n").into_bytes();
    }
    let from = *at.get(&values);
    let rest = &line[from..];
    let to = rest.find([',', '}']).map_or(line.len(), |end| from + end);
    format!("{}{piece}{}\n", &line[..from], &line[to..]).into_bytes()
}

/// The lines an agent was seen to write.
fn recorded(provider: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for text in recordings(provider) {
        // Long ones are long in places that no adapter reads.
        lines.extend(text.lines().filter(|line| line.len() < 20_000).map(str::to_owned));
    }
    lines.sort_unstable();
    lines
}

/// The files of lines that an agent was seen to write.
fn recordings(provider: &str) -> Vec<String> {
    let is_told = |path: &Path| {
        path.extension().is_some_and(|kind| kind == "jsonl")
            && path.iter().all(|folder| folder != "lab")
    };
    let files = files(&fixtures().join(provider)).into_iter();
    let texts = files.filter(|(path, _)| is_told(path)).map(|(_, bytes)| String::from_utf8(bytes));
    texts.collect::<Result<_, _>>().unwrap()
}
