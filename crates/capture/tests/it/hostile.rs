//! Whatever bytes come in: events or unknowns, never a panic, and the same in any split.
//!
//! The body is shared with `fuzz/`, where a fuzzer chooses the bytes.

mod home; // what is read, and who takes it
mod rows; // databases of agents
mod transcript; // what agents write
mod position; // how far it was read

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use crate::scenario::fixtures;

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

/// One that fits every source.
const POSITION: &str = r#"{"path":"","device":0,"inode":0,"generation":0,"size":0,"changed":0,"offset":0,"records":0,"head":{"length":0,"hash":""},"tail":{"length":0,"hash":""},"threads":{},"state":"{}"}"#;

/// Lines of recordings in any order, each with something else in the place of one of its parts.
fn damaged_lines() -> impl Strategy<Value = (u8, Vec<u8>)> {
    const RECORDED: [&str; 7] = ["claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen"];
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
    let mut folders: Vec<PathBuf> = vec![fixtures().join(provider)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("lab") {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "jsonl") {
                let text = fs::read_to_string(path).unwrap();
                // Long ones are long in places that nobody reads.
                lines.extend(text.lines().filter(|line| line.len() < 20_000).map(str::to_owned));
            }
        }
    }
    lines.sort_unstable();
    lines
}
