//! Every face counts the same sessions in the same groups: HTTP, from which the page counts, and each
//! command.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::World;

use crate::status::{register_as, session};
use crate::top::Terminal;
use crate::up::up;
use crate::web::{get, ways_in};
use crate::{empty, import, json as lines};

/// A process that only lives, as the agent of a session.
struct Agent(std::process::Child);

impl Agent {
    fn start() -> Agent {
        Agent(std::process::Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sessions of every group, each with a process of its own.
fn filled(world: &World) -> Vec<Agent> {
    let call = json!({"call_id": "c", "tool": "Bash", "input": {"command": "npm test"}});
    let over = json!({"agent_id": "", "stop_reason": "completed"});
    let failed = json!({"agent_id": "", "stop_reason": "error", "error": "overloaded"});
    // The word of the agent's own list, and what comes after the prompt.
    let sessions: [(&str, &[(&str, Value)]); 7] = [
        ("waiting", &[("tool.call", call.clone())]),
        ("waiting", &[("tool.call", call.clone())]),
        ("busy", &[("tool.call", call.clone())]),
        ("busy", &[("tool.call", call)]),
        ("busy", &[]),
        ("idle", &[("turn.completed", over)]),
        ("idle", &[("turn.completed", failed)]),
    ];
    let mut agents = Vec::new();
    for (number, (word, rest)) in sessions.into_iter().enumerate() {
        let id = format!("{number}000aaaa-0000");
        import(world, &session(&id, rest));
        let agent = Agent::start();
        register_as(world, &id, word, agent.0.id());
        agents.push(agent);
    }
    agents
}

/// How many of these statuses name each group.
fn by_group<'a>(statuses: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for status in statuses {
        *counts.entry(status["group"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

#[cfg(target_os = "linux")]
#[test]
fn every_face_counts_alike() {
    let world = empty();
    let _agents = filled(&world);
    let daemon = up(&world);
    let (address, token) = ways_in(&world);
    let (_, board) = get(&address, &token, "/api/status");
    let counts = by_group(board["items"].as_array().unwrap());
    let of = |group: &str| counts.get(group).copied().unwrap_or(0);
    assert!(of("needs_you") >= 2 && of("running") >= 2, "{board}");

    assert_eq!(by_group(&lines(&world.run(&["--json", "status"]))), counts);
    let shown = world.run(&["status"]).stdout;
    let headings = [
        ("needs you", "needs_you"),
        ("running", "running"),
        ("waiting", "waiting"),
        ("idle", "idle"),
        ("unknown", "unknown"),
    ];
    for (heading, group) in headings {
        let line = format!("{heading} ({})\n", of(group));
        assert_eq!(shown.contains(&line), of(group) > 0, "{line}{shown}");
    }
    let line = lines(&world.run(&["--json", "statusline"])).remove(0);
    for group in ["needs_you", "running", "waiting", "idle"] {
        assert_eq!(line[group], of(group), "{group}");
    }
    let words = |joint: &str, groups: &[(&str, &str)]| {
        let told = groups.iter().filter(|(_, group)| of(group) > 0);
        told.map(|(word, group)| format!("{} {word}", of(group))).collect::<Vec<_>>().join(joint)
    };
    let urgent = [("need you", "needs_you"), ("running", "running"), ("waiting", "waiting")];
    assert_eq!(world.run(&["statusline"]).stdout.trim_end(), words(" · ", &urgent));

    let all = [&urgent[..], &[("idle", "idle"), ("unknown", "unknown")]].concat();
    let head = format!("hansard  {}", words(" · ", &all));
    Terminal::open(&world, 120, 30, &["top"]).with(&[&head, "q quit"]);
    let open = [&urgent[..], &[("idle", "idle")]].concat();
    let command = format!("{}; cat", Terminal::line_for(&world, &["--no-open"]));
    let told = format!("7 sessions of claude; {}", words(", ", &open));
    Terminal::with_line(world.home().join("alone"), 200, 20, &command).with(&[&told]);
    assert_eq!(daemon.terminate().code, Some(0));
}
