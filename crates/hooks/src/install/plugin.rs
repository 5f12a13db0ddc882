//! The program that OpenCode loads: it calls a hook of ours for what happens on OpenCode's bus, and
//! hands the answer of a rule to OpenCode.

/// The first line of the file. If the user changes this line, the file is not ours any more.
const MARK: &str = "// Written by `hansard hooks install`, removed by `hansard hooks uninstall`.";

/// The start of the line with the command.
const COMMAND: &str = "const COMMAND = ";

const BODY: &str = r#"
import { spawn } from "node:child_process"

// Calls that wait for the one before. With more, what is told is dropped: OpenCode never waits.
const WAITING_MAX = 1000
// How long a hook may take. A tool then runs as if there were no rules.
const HOOK_MS = 1000
const waiting = []
let isBusy = false

// Runs the command for an event; resolves to its answer, or to nothing whatever happens.
const run = (event, payload) =>
  new Promise((resolve) => {
    let printed = ""
    try {
      const stdio = ["pipe", "pipe", "ignore"]
      const child = spawn("/bin/sh", ["-c", `${COMMAND} ${event}`], { stdio })
      const end = () => {
        clearTimeout(late)
        resolve(answer(printed))
      }
      const late = setTimeout(() => {
        child.kill("SIGKILL")
        end()
      }, HOOK_MS)
      child.on("error", end)
      child.on("close", end)
      child.stdout.on("data", (piece) => (printed += piece))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      resolve(undefined)
    }
  })

const answer = (printed) => {
  try {
    return JSON.parse(printed)
  } catch {
    return undefined
  }
}

const next = async () => {
  const call = waiting.shift()
  isBusy = call !== undefined
  if (!isBusy) return
  const said = await run(call.event, call.payload)
  try {
    await call.take(said)
  } catch {
    // The user is asked as ever.
  }
  next()
}

const tell = (event, payload, take = () => {}) => {
  if (!EVENTS.includes(event) || waiting.length >= WAITING_MAX) return
  waiting.push({ event, payload, take })
  if (!isBusy) next()
}

export const Hansard = async ({ client, directory }) => {
  // Answers a request for permission as a rule says. Without a rule the user is asked as ever.
  const reply = (asked) => async (said) => {
    const response = { allow: "once", deny: "reject" }[said?.answer]
    if (response === undefined) return
    const path = { id: asked.sessionID, permissionID: asked.id }
    await client.postSessionIdPermissionsPermissionId({ path, body: { response } })
  }
  return {
    event: async ({ event }) => {
      const take = event.type === "permission.asked" ? reply(event.properties) : undefined
      tell(event.type, { directory, ...event }, take)
    },
    "chat.message": async (input) => tell("chat.message", { directory, input }),
    "tool.execute.before": async (input, output) => {
      const event = "tool.execute.before"
      if (!EVENTS.includes(event)) return
      const said = await run(event, { directory, input, output })
      if (said?.answer === "deny") throw new Error(said.reason)
    },
  }
}
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
