//! Our status over time, against what really was.
//!
//! Each recording has the account of whoever drove the agent: what was typed when, when a dialog
//! was seen, when the process ended. The events of a recording become visible when its file was
//! seen to grow; registry entries, locks and processes come and go as recorded. At each state that
//! was noted we say what we think, from the agent's files alone, with everything that can be seen
//! around it, and with what its hooks told as well, and compare.
//! The result stands in `docs/reference/status-table.md`.
//! `UPDATE_EXPECT=1` writes it anew.

mod hooks; // what hooks told, as events
mod recording; // a recording, played at virtual time
mod timeline; // what really was

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use event::Confidence;
use expect_test::expect_file;
use projection::status::{ProcessEvidence, Verdict, verdict};

use self::recording::Recording;
use self::timeline::{Moment, State, Timeline};

/// What a verdict is made from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Sight {
    Files,
    All,
    /// Everything, and what the agent's hooks told.
    Hooks,
}

impl Sight {
    fn as_str(self) -> &'static str {
        match self {
            Sight::Files => "files",
            Sight::All => "all",
            Sight::Hooks => "all and hooks",
        }
    }
}

/// Where an agent's files say nothing, by tool and state. Hooks do.
const FILES_SAY_NOTHING: &[(&str, State)] = &[
    // The call is written down after the decision, or looks like one that runs.
    ("claude", State::Approval),
    ("gemini", State::Approval),
    ("opencode", State::Approval),
    ("qwen", State::Approval),
    // No file says that a process has ended, or was killed.
    ("claude", State::Exited),
    ("codex", State::Exited),
    ("copilot", State::Exited),
    ("gemini", State::Exited),
    ("opencode", State::Exited),
    ("pi", State::Exited),
    ("qwen", State::Exited),
    // Only its end is written down.
    ("claude", State::Compacting),
    // No record tells the end of a turn, and calls are written down when they are done.
    ("gemini", State::Ready),
    ("qwen", State::Ready),
];

/// What cannot be compared. A key that should have interrupted the agent had no effect, and it
/// worked on, as the requests to its model show; two compactions were over before anybody who
/// looks ten times a second could see them begin; a program was asked for an approval, and gave it at
/// once.
const NOT_COMPARED: &[(&str, &str, State)] = &[
    ("copilot", "s6_interrupt", State::Ready),
    ("codex", "s5_compact_tui", State::Compacting),
    ("codex", "s14_appserver", State::Running),
    ("copilot", "s5_compact_tui", State::Compacting),
];

/// Where nothing around an agent says more than its files.
const NOTHING_SAYS: &[(&str, State)] = &[
    ("gemini", State::Approval),
    ("opencode", State::Approval),
    ("qwen", State::Approval),
    ("gemini", State::Ready),
    ("qwen", State::Ready),
];

#[derive(Default)]
struct Row {
    right: usize,
    late: usize,
    wrong: Vec<String>,
    /// What was said where no evidence was.
    unknowable: BTreeMap<&'static str, usize>,
}

#[test]
fn the_table_is_what_the_recordings_give() {
    let mut rows: BTreeMap<(String, State, Sight), Row> = BTreeMap::new();
    for dir in recordings() {
        let recording = Recording::read(&dir);
        let timeline = Timeline::read(&dir);
        for moment in timeline.moments() {
            let (tool, scenario) = (recording.tool.as_str(), recording.scenario.as_str());
            if NOT_COMPARED.contains(&(tool, scenario, moment.state)) {
                continue;
            }
            for sight in [Sight::Files, Sight::All, Sight::Hooks] {
                if sight == Sight::Hooks && !recording.has_hooks() {
                    continue;
                }
                let key = (recording.tool.clone(), moment.state, sight);
                judge(&recording, &timeline, moment, sight, rows.entry(key).or_default());
            }
        }
    }
    let wrong: Vec<&String> = rows.values().flat_map(|row| &row.wrong).collect();
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/status-table.md");
    expect_file![table].assert_eq(&print(&rows));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Compares at the beginning of a state and at its end.
fn judge(recording: &Recording, timeline: &Timeline, moment: &Moment, sight: Sight, row: &mut Row) {
    let say = |at| {
        let state = recording.state(at, sight == Sight::Hooks)?;
        let outside = match sight {
            Sight::Files => {
                ProcessEvidence { grown_at: recording.grown_at(at), ..ProcessEvidence::default() }
            }
            Sight::All | Sight::Hooks => recording.outside(timeline, at),
        };
        Some(verdict(&state, &outside, at))
    };
    // Nothing is written before the first prompt: there is no session yet.
    let (Some(first), Some(last)) = (say(moment.soon), say(moment.end)) else { return };
    let is_right = |verdict: &Verdict| moment.state.is(verdict);
    // What cannot be known must not be said for sure.
    let is_sure = sight != Sight::Files && last.confidence == Confidence::High;
    let nothing = match sight {
        Sight::Files => FILES_SAY_NOTHING,
        Sight::All => NOTHING_SAYS,
        Sight::Hooks => &[],
    };
    if is_right(&first) && is_right(&last) {
        row.right += 1;
    } else if is_right(&last) {
        row.late += 1;
    } else if !is_sure && nothing.contains(&(recording.tool.as_str(), moment.state)) {
        *row.unknowable.entry(last.status.as_str()).or_default() += 1;
    } else {
        let place = format!("{}/{}", recording.tool, recording.scenario);
        let (status, reason) = (last.status.as_str(), last.reason.as_str());
        let said = format!("{status} ({reason}, {} confidence)", last.confidence);
        row.wrong.push(format!("{place} at {}: {:?} is told as {said}", moment.end, moment.state));
    }
}

fn recordings() -> BTreeSet<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/fixtures");
    let folders = |dir: &Path| {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let scenarios = folders(&fixtures).into_iter().flat_map(|tool| folders(&tool));
    scenarios.filter(|dir| dir.join("lab/timeline.jsonl").is_file()).collect()
}

const HEAD: &str = "\
# How right the status is

Recordings of real agents, played again at virtual time: files grow, registry entries, locks and
processes come and go as they did. At each state that was noted beside the recording, our status is
compared at its beginning (a second after it was seen) and at its end.

*Right*: both times. *Late*: only at the end. *Wrong*: at the end something else was said.
*No evidence*: nothing that was looked at can tell, and what we said instead is named; with
everything in sight it is wrong to say that with high confidence. `files` is what the agent writes
of its sessions; `all` adds its registry, its locks and the process table; `all and hooks` adds what
the agent's own hooks told.

This file is written by the test `truth::the_table_is_what_the_recordings_give` with
`UPDATE_EXPECT=1`.

| tool | state | seen | right | late | wrong | no evidence |
|---|---|---|---|---|---|---|
";

fn print(rows: &BTreeMap<(String, State, Sight), Row>) -> String {
    let mut table = HEAD.to_owned();
    for ((tool, state, sight), row) in rows {
        let sight = sight.as_str();
        let unknowable: Vec<String> =
            row.unknowable.iter().map(|(said, count)| format!("{count} (said {said})")).collect();
        let unknowable = if unknowable.is_empty() { "0".into() } else { unknowable.join(", ") };
        let Row { right, late, wrong, .. } = row;
        if *right + *late + wrong.len() + row.unknowable.len() == 0 {
            continue;
        }
        let state = state.as_str();
        let wrong = wrong.len();
        writeln!(
            table,
            "| {tool} | {state} | {sight} | {right} | {late} | {wrong} | {unknowable} |"
        )
        .unwrap();
    }
    table
}
