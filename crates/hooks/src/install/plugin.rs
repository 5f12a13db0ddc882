//! The program that OpenCode loads: it calls a hook of ours for what happens on OpenCode's bus.

/// The first line of the file. If the user changes this line, the file is not ours any more.
const MARK: &str = "// Written by `hansard hooks install`, removed by `hansard hooks uninstall`.";

/// The start of the line with the command.
const COMMAND: &str = "const COMMAND = ";

const BODY: &str = r#"
import { spawn } from "node:child_process"

// Calls that wait for the one before. With more, what is told is dropped: OpenCode never waits.
const WAITING_MAX = 1000
const waiting = []
let isBusy = false

const next = () => {
  const call = waiting.shift()
  isBusy = call !== undefined
  if (!isBusy) return
  let isOver = false
  const over = () => {
    if (!isOver) {
      isOver = true
      next()
    }
  }
  try {
    const command = `${COMMAND} ${call.event}`
    const child = spawn("/bin/sh", ["-c", command], { stdio: ["pipe", "ignore", "ignore"] })
    child.on("error", over)
    child.on("close", over)
    child.stdin.on("error", () => {})
    child.stdin.end(call.payload)
  } catch {
    over()
  }
}

const tell = (event, payload) => {
  if (!EVENTS.includes(event) || waiting.length >= WAITING_MAX) return
  waiting.push({ event, payload: JSON.stringify(payload) })
  if (!isBusy) next()
}

export const Hansard = async ({ directory }) => ({
  event: async ({ event }) => tell(event.type, { directory, ...event }),
  "chat.message": async (input) => tell("chat.message", { directory, input }),
})
"#;

/// The whole file. `command` is the part before the event.
pub(super) fn text(command: &str, events: &[(&str, u32)]) -> String {
    let events: Vec<&str> = events.iter().map(|(event, _)| *event).collect();
    let events = serde_json::to_string(&events).expect("texts always encode");
    // A text in JSON is also a text in JavaScript.
    let command = serde_json::to_string(command).expect("a text always encodes");
    format!("{MARK}\n{COMMAND}{command}\nconst EVENTS = {events}\n{BODY}")
}

/// The command in a file of ours, without the event.
pub(super) fn command(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(COMMAND))?;
    serde_json::from_str(line).ok()
}

pub(super) fn is_ours(text: &str) -> bool {
    text.starts_with(MARK)
}
