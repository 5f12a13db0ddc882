//! What really was, as the script that drove the agent wrote it down.

use std::fs;
use std::path::Path;

use event::Time;
use projection::status::{Reason, Status, Verdict};
use serde_json::Value;

/// How long after a state was seen our status may take to follow.
const SOON_SECS: f64 = 1.0;

/// How far before its end a state is looked at once more.
const BEFORE_END_SECS: f64 = 0.05;

/// A shorter state says more about the clock of the recorder than about us.
const STATE_SECS_MIN: f64 = 0.4;

/// How long after an exit it has to be known.
const EXIT_SECS: f64 = 5.0;

/// What an agent was doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum State {
    Running,
    Compacting,
    Approval,
    Question,
    Ready,
    Exited,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Compacting => "compacting",
            State::Approval => "waiting for approval",
            State::Question => "asking a question",
            State::Ready => "ready for a prompt",
            State::Exited => "exited",
        }
    }

    /// Whether a verdict tells it.
    pub(crate) fn is(self, verdict: &Verdict) -> bool {
        match (self, verdict.status) {
            (State::Running | State::Compacting, status) => status == Status::Running,
            (State::Approval, status) => status == Status::WaitingApproval,
            (State::Question, status) => {
                status == Status::Waiting && verdict.reason == Reason::Question
            }
            (State::Ready, status) => {
                matches!(status, Status::Waiting | Status::Idle)
                    && verdict.reason != Reason::Question
            }
            (State::Exited, status) => status == Status::Exited,
        }
    }
}

/// A state, and when it is looked at.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) state: State,
    pub(crate) soon: Time,
    pub(crate) end: Time,
}

pub(crate) struct Timeline {
    moments: Vec<Moment>,
    /// From when to when a process of the agent ran.
    runs: Vec<(f64, f64)>,
}

impl Timeline {
    pub(crate) fn read(dir: &Path) -> Timeline {
        let text = fs::read_to_string(dir.join("lab/timeline.jsonl")).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Timeline { moments: moments(&lines, &requests(dir)), runs: runs(&lines) }
    }

    pub(crate) fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// When the process of the agent that runs began; `None` if none runs.
    pub(crate) fn alive_since(&self, at: Time) -> Option<Time> {
        let at = at.nanos() as f64 / 1e9;
        let run = self.runs.iter().rfind(|(from, to)| (*from..*to).contains(&at));
        run.map(|(from, _)| time(*from))
    }
}

fn what(line: &Value) -> &str {
    line["what"].as_str().unwrap()
}

fn at(line: &Value) -> f64 {
    line["t"].as_f64().unwrap()
}

/// Agents that a daemon of their own outlives end with that.
fn has_daemon(lines: &[Value]) -> bool {
    lines.iter().any(|line| what(line) == "stop_daemon")
}

fn runs(lines: &[Value]) -> Vec<(f64, f64)> {
    let is_end = |line: &&Value| match what(line) {
        "exit" | "tui_exit" | "kill9" => !has_daemon(lines),
        "stop_daemon" => true,
        _ => false,
    };
    let begins = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| matches!(what(line), "tui_started" | "started"));
    let runs = begins.map(|(number, line)| {
        let end = lines[number..].iter().find(is_end).map_or(f64::MAX, at);
        (at(line), end)
    });
    let runs: Vec<_> = runs.collect();
    if runs.is_empty() {
        // Started by another program, before the account begins.
        return lines.iter().find(is_end).map(|end| (0.0, at(end))).into_iter().collect();
    }
    runs
}

fn moments(lines: &[Value], requests: &[f64]) -> Vec<Moment> {
    let mut moments = working(lines, requests);
    for (number, line) in lines.iter().enumerate() {
        let from = at(line);
        let next = lines.get(number + 1).map_or(from + EXIT_SECS, at);
        let (state, end) = match what(line) {
            "state" => match line["state"].as_str().unwrap() {
                // A script that did not see the dialog it waited for only supposes one.
                "waiting_approval" if was_missed(&lines[..number]) => continue,
                "waiting_approval" => (State::Approval, next),
                "waiting_answer" => (State::Question, next),
                "waiting_input" | "idle_60s" => (State::Ready, next),
                "running" => {
                    moments.push(moment(State::Running, from, from));
                    continue;
                }
                "compacting" => {
                    // The script that drives the agent only knows that it was asked for.
                    let asked =
                        requests.iter().find(|request| (from - 1.0..next).contains(*request));
                    moments.extend(asked.map(|asked| moment(State::Compacting, *asked, *asked)));
                    continue;
                }
                _ => continue,
            },
            "exit" | "tui_exit" | "kill9" if !has_daemon(lines) => {
                let is_next_run = |line: &&Value| matches!(what(line), "tui_spawn" | "spawn");
                let begun = lines[number..].iter().find(is_next_run).map_or(f64::MAX, at);
                (State::Exited, begun.min(from + EXIT_SECS))
            }
            _ => continue,
        };
        if end - from >= STATE_SECS_MIN {
            moments.push(moment(state, from, end));
        }
    }
    moments
}

/// Whether the last thing that was looked for was not there.
fn was_missed(before: &[Value]) -> bool {
    let looked = |line: &&Value| matches!(what(line), "seen" | "NOT_SEEN");
    before.iter().rev().find(looked).is_some_and(|line| what(line) == "NOT_SEEN")
}

/// From one request to a model to the next one, an agent works, unless something else was noted in
/// between.
fn working(lines: &[Value], requests: &[f64]) -> Vec<Moment> {
    let is_quiet = |from: f64, to: f64| !lines.iter().any(|line| (from..to).contains(&at(line)));
    let is_long = |pair: &&[f64]| pair[1] - pair[0] >= STATE_SECS_MIN / 2.0;
    let pairs = requests.windows(2).filter(is_long).filter(|pair| is_quiet(pair[0], pair[1]));
    pairs.map(|pair| moment(State::Running, (pair[0] + pair[1]) / 2.0, pair[1])).collect()
}

/// When the model was asked for something, but for what the agent asks for itself.
fn requests(dir: &Path) -> Vec<f64> {
    let text = fs::read_to_string(dir.join("lab/model_log.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_own = |line: &Value| matches!(line["rule"].as_str(), Some("aux" | "end"));
    let asked = lines.filter(|line| line["kind"] == "request" && !is_own(line));
    asked.map(|line| at(&line)).collect()
}

fn moment(state: State, from: f64, to: f64) -> Moment {
    let end = (to - BEFORE_END_SECS).max(from);
    let soon = (from + SOON_SECS).min(end);
    Moment { state, soon: time(soon), end: time(end) }
}

pub(crate) fn time(secs: f64) -> Time {
    Time::from_millis((secs * 1_000.0) as i64)
}
