//! `docs/tour.md` is a transcript: every line that begins with `$` was run, and what stands below it
//! was printed.
//!
//! This test runs the lines again and compares. `UPDATE_EXPECT=1 cargo nextest run -p hansard-cli
//! tour` writes the page with what they print now; the sentences between them stay. Times of the
//! present, process ids and addresses are replaced by fixed ones.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use event::{EventId, Time};
use expect_test::expect_file;
use serde_json::{Value, json};
use testkit::World;

use crate::status::register_at;
use crate::top::Terminal;
use crate::up::millis;
use crate::{empty, import};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tour.md");

/// A command that needs a terminal, the columns of that, and what its screen has at the end.
const ON_SCREEN: [(&str, u16, &str); 2] =
    [("hansard top", 100, "q quit"), ("hansard --no-open", 160, "/login?code=")];

/// The rows of a screen.
const ROWS: u16 = 24;

const MINUTE: i64 = 60_000;

/// A session that an agent works on now.
struct LiveSession {
    id: &'static str,
    project: &'static str,
    prompt: &'static str,
    /// The word of the agent's own list of sessions.
    word: &'static str,
    minutes: i64,
    rest: Vec<(&'static str, Value)>,
}

/// Processes of agents, ended with the test.
struct Agents(Vec<std::process::Child>);

impl Drop for Agents {
    fn drop(&mut self) {
        for agent in &mut self.0 {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

fn live_sessions() -> Vec<LiveSession> {
    let call = |command: &str| {
        ("tool.call", json!({"call_id": "c1", "tool": "Bash", "input": {"command": command}}))
    };
    let over = ("turn.completed", json!({"agent_id": "", "stop_reason": "completed"}));
    let answer = ("assistant.message", json!({"content": "The notes are in docs/release.md."}));
    vec![
        LiveSession {
            id: "5b1c3a7e-4f02-4c55-9a1e-0d6f2b8c7e10",
            project: "kiln",
            prompt: "Deploy the new firing curve to the test kiln",
            word: "waiting",
            minutes: 12,
            rest: vec![call("ssh kiln-test systemctl restart curve")],
        },
        LiveSession {
            id: "c27d90f4-88b3-4b6a-b1f9-3e5a7c1d2f46",
            project: "orchard",
            prompt: "Show the harvest by week",
            word: "busy",
            minutes: 3,
            rest: vec![call("cargo test --workspace")],
        },
        LiveSession {
            id: "e9a04d12-6c7b-4e38-8f25-91b0c4d6a753",
            project: "lantern",
            prompt: "Write the release notes",
            word: "idle",
            minutes: 1,
            rest: vec![answer, over],
        },
    ]
}

/// A machine on which three agents work.
fn machine() -> (World, Agents) {
    let world = empty();
    let mut agents = Agents(Vec::new());
    for live in live_sessions() {
        // Some seconds more than the minutes, so that they stay as long as the test runs.
        let begun = millis() - live.minutes * MINUTE - 2_000;
        let started = json!({"agent": "claude", "agent_version": "2.1.325", "entry_point": "cli",
            "cwd": format!("/home/dev/{}", live.project)});
        let begin =
            [("session.started", started), ("user.prompt", json!({"content": live.prompt}))];
        let mut text = String::new();
        for (number, (kind, data)) in begin.into_iter().chain(live.rest).enumerate() {
            let at = Time::from_millis(begun + number as i64);
            let event = json!({"id": EventId::derived(at, "claude", live.id, &number.to_be_bytes()),
                "session_id": format!("claude:{}", live.id), "kind": kind, "seq": number + 1,
                "created_at": at, "observed_at": at, "provider": "claude",
                "provider_session_id": live.id, "source": "transcript", "confidence": "high",
                "data": data, "metadata": {}});
            text += &format!("{event}\n");
        }
        let said = import(&world, &text);
        assert_eq!(said.code, Some(0), "{said}");
        let agent = Command::new("sleep").arg("600").spawn().unwrap();
        register_at(&world, live.id, live.word, agent.id(), begun + 3);
        agents.0.push(agent);
    }
    (world, agents)
}

/// Runs a line of the shell and returns what it printed, in the order in which it came.
fn run_line(world: &World, line: &str) -> String {
    let program = world.command(&[]);
    let folder = Path::new(program.get_program()).parent().unwrap().to_str().unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(world.home()).env_clear();
    shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", format!("{folder}:/usr/bin:/bin"));
    shell.stdin(std::process::Stdio::null()).stderr(writer.try_clone().unwrap()).stdout(writer);
    let mut child = shell.spawn().unwrap();
    // The shell's own ends are the only ones left, so that reading ends with it.
    drop(shell);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    said
}

fn run_on_screen(world: &World, line: &str, columns: u16, until: &str) -> String {
    let arguments: Vec<&str> = line.split(' ').skip(1).collect();
    let command = format!("{}; cat", Terminal::line_for(world, &arguments));
    let terminal = Terminal::with_line(world.home().join("tmux"), columns, ROWS, &command);
    let screen = terminal.with_ages(&[until]);
    let lines: Vec<&str> = screen.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// Replaces what differs from run to run: the present time, ids of processes and rules, and
/// addresses.
fn masked(said: &str, home: &str) -> String {
    let today = Time::from_millis(millis()).to_string();
    let today = &today[..10];
    let mut text = String::new();
    let (mut before, mut is_today) = (String::new(), true);
    for word in said.replace(home, "~").split_inclusive([' ', '\n']) {
        let bare = word.trim_end();
        let digit = |letter: char| if letter.is_ascii_digit() { '0' } else { letter };
        let shape: String = bare.chars().map(digit).collect();
        let fixed_time = match shape.trim_end_matches(',') {
            "00:00" => Some("14:30"),
            "00:00:00" => Some("14:30:05"),
            _ => None,
        };
        let shown = match shape.as_str() {
            "0000-00-00" if bare == today => "2026-11-18".to_owned(),
            "0000-00-00T00:00:00" if bare.starts_with(today) => "2026-11-18T14:30:05".to_owned(),
            // The time of a recorded session stays.
            _ if let (true, Some(time)) = (is_today, fixed_time) => {
                format!("{time}{}", &bare[time.len()..])
            }
            // How long it took.
            "0.0" if before == "in" => "0.1".to_owned(),
            _ if matches!(before.as_str(), "pid" | "(pid" | "process") => {
                let rest = bare.trim_start_matches(|letter: char| letter.is_ascii_digit());
                if rest.len() < bare.len() { format!("4242{rest}") } else { bare.to_owned() }
            }
            // The id of a rule.
            _ if matches!(before.as_str(), "added" | "(rule") => {
                format!("3f9a2c{}", bare.trim_start_matches(|c: char| c.is_ascii_alphanumeric()))
            }
            _ => masked_address(bare),
        };
        // A date counts for the time behind it.
        is_today = shape != "0000-00-00" || bare == today;
        if !bare.is_empty() {
            before = bare.to_owned();
        }
        text += &shown;
        text += &word[bare.len()..];
    }
    let lines = text.lines().map(|line| match line.starts_with("supervisor ") {
        // Its process, seconds and ref.
        true => "supervisor                   4242          5        0 1795000000000",
        false => line.trim_end(),
    });
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    // A screen breaks the line before or behind the path, which is as long as the test's folder.
    let path = "(~/.claude/sessions/4242.json)";
    text.replace(&format!(" {path}\n"), &format!("\n{path} "))
}

fn masked_address(word: &str) -> String {
    match word.find("http://") {
        Some(begin) if word.contains("/login?code=") => {
            format!("{}http://hansard.localhost:4100/login?code=CODE", &word[..begin])
        }
        Some(begin) => format!("{}http://hansard.localhost:4100", &word[..begin]),
        // The agent's own list has a file for each process.
        None => match word.split_once("/.claude/sessions/") {
            Some((folder, name)) => {
                let rest = name.trim_start_matches(|letter: char| letter.is_ascii_digit());
                format!("{folder}/.claude/sessions/4242{rest}")
            }
            None => word.to_owned(),
        },
    }
}

/// The page with what its lines print now. A line is a block's if it begins with `$ `; what follows
/// it in the block, up to the next such line, was printed.
fn transcript(page: &str, world: &World) -> String {
    let home = world.home().to_str().unwrap();
    let mut text = String::new();
    let mut is_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let (true, Some(command)) = (is_console, line.strip_prefix("$ ")) {
            let screen = ON_SCREEN.iter().find(|(known, ..)| *known == command);
            let said = match screen {
                Some((_, columns, until)) => run_on_screen(world, command, *columns, until),
                None => run_line(world, command),
            };
            text += &format!("{line}\n{}", masked(&said, home));
            continue;
        } else if is_console {
            // Printed by an earlier run.
            continue;
        }
        text += line;
        text.push('\n');
    }
    text
}

#[cfg(target_os = "linux")]
#[test]
fn tour_is_what_the_commands_print() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (world, _agents) = machine();
    let now = transcript(&page, &world);
    world.run(&["down"]);
    expect_file![PAGE].assert_eq(&now);
}

#[test]
fn tour_has_every_command() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let shown: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("$ hansard ")?.split(' ').next())
        .collect();
    // Agents run `hook`; every page has `help`.
    for word in crate::closed_pipe::commands()
        .iter()
        .filter(|word| !matches!(word.as_str(), "hook" | "help"))
    {
        assert!(shown.contains(word.as_str()), "docs/tour.md does not show `hansard {word}`");
    }
}
