//! The program that OpenCode loads, run in Node with a command that answers as a hook would.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use capture::Environment;
use event::Time;
use hooks::HookInstall;
use tempfile::TempDir;

/// A refused call, a permitted one, and requests for permission that rules decide or leave alone.
const DRIVER: &str = r#"
import { Hansard } from "./hansard.mjs"

const replies = []
let answered = () => {}
const client = {
  postSessionIdPermissionsPermissionId: async ({ path, body }) => {
    if (path.permissionID === "per_0") throw new Error("the request is gone")
    replies.push(`${path.id} ${path.permissionID} ${body.response}`)
    answered()
  },
}
const plugin = await Hansard({ client, directory: "/home/dev/project" })
const before = async (command) => {
  const input = { tool: "bash", sessionID: "ses_1", callID: "call_1" }
  try {
    await plugin["tool.execute.before"](input, { args: { command } })
    return "runs"
  } catch (error) {
    return `refused: ${error.message}`
  }
}
console.log(await before("rm -rf /"))
console.log(await before("ls"))
console.log(await before("prints no answer"))
// What cannot be written as JSON is not asked about, and runs.
const cyclic = {}
cyclic.self = cyclic
await plugin["tool.execute.before"]({ tool: "bash" }, { args: cyclic })
// An event without the usual fields, and a client that fails, hold up nothing.
await plugin.event({ event: { type: "permission.asked" } })
const failing = { id: "per_0", sessionID: "ses_1", metadata: { command: "rm -rf /" } }
await plugin.event({ event: { type: "permission.asked", properties: failing } })
const asked = (id, command) => {
  const properties = { id, sessionID: "ses_1", permission: "bash", metadata: { command } }
  return plugin.event({ event: { type: "permission.asked", properties } })
}
const second = new Promise((resolve) => {
  answered = () => replies.length === 2 && resolve()
})
await asked("per_1", "rm -rf /")
await asked("per_2", "ls")
await asked("per_3", "cargo test")
await second
console.log(replies.join("\n"))
"#;

/// Stands for `hansard hook`: a rule blocks `rm`, another allows `cargo test`.
const HOOK: &str = r#"#!/bin/sh
payload=$(cat)
case $payload in
*"rm -rf"*) echo '{"answer":"deny","reason":"use trash"}' ;;
*cargo*) echo '{"answer":"allow","reason":""}' ;;
*"no answer"*) echo 'not JSON' ;;
esac
"#;

#[test]
fn plugin_does_what_rules_answer() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("SKIPPED: `node` is not installed");
        return;
    }
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("hook"), HOOK).unwrap();
    fs::set_permissions(at("hook"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(at(".config/opencode")).unwrap();
    let environment = Environment::new(dir.path(), []);
    let install = HookInstall {
        environment: &environment,
        journal: &at("journal"),
        command: format!("'{}'", at("hook").display()),
        project: None,
        now: Time::from_millis(1_800_000_000_000),
    };
    let written = install.install("opencode", false).unwrap().path;
    // OpenCode loads a `.js` file as a module; Node wants its name to say so.
    fs::copy(written, at("hansard.mjs")).unwrap();
    fs::write(at("driver.mjs"), DRIVER).unwrap();
    let output = Command::new("node").arg("driver.mjs").current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let expected = "refused: use trash\nruns\nruns\nses_1 per_1 reject\nses_1 per_3 once\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
