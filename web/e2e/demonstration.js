// A machine with some work going on, for the documentation.

import { mkdir } from "node:fs/promises";
import path from "node:path";
import { Claude, id, told } from "./world.js";

const MINUTE = 60_000;

const TASKS = [
  ["orchard", "Show the harvest by week in the report", "The report has a column per week now; 42 tests pass."],
  ["tidepool", "Why does the importer skip empty files?", "An empty file has no header, and `read_header` gives up. It says so now."],
  ["lantern", "Write the release notes for 2.4", "They are in `CHANGELOG.md`, from the merged pull requests."],
  ["orchard", "Rename `Crate` to `Basket` everywhere", "Renamed in 31 files; the public names stay as aliases."],
  ["kiln", "The firing curve overshoots by 8 degrees", "The integral term was never reset. It is at each ramp now."],
  ["lantern", "Make the settings page work without JavaScript", "It is a plain form now, and the script only saves a reload."],
  ["tidepool", "Add a retry to the sensor client", "Three tries, then the reading is marked as missing."],
];

/** Fills the world; the session that is shown in detail. */
export async function demonstrate(world) {
  const past = [];
  for (let day = 1; day < 24; day++) {
    for (let number = 0; number < 1 + (day * 7) % 4; number++) {
      const [project, asked, answered] = TASKS[(day * 3 + number) % TASKS.length];
      const session = new Claude(world, id(1_000 + day * 10 + number), { project, at: Date.now() - day * 24 * 60 * MINUTE - number * 95 * MINUTE, model: day % 3 ? "claude-opus-4-5-20251101" : "claude-sonnet-4-5-20250929" });
      session.prompt(asked);
      for (let step = 0; step < 4 + ((day + number) % 5) * 3; step++) {
        const fails = (step + day) % 4 === 1;
        session.call("Bash", { command: step % 2 ? "cargo test" : `rg -n ${project}` });
        session.result(fails ? "error[E0308]: mismatched types\n --> src/lib.rs:12:5" : "ok. 42 passed", { failed: fails });
      }
      past.push(session.answer(answered));
    }
  }
  for (const session of past) await (await session.write()).age();
  // Others were at work as well.
  for (const folder of [".codex/sessions", ".codex/archived_sessions", ".gemini/tmp"]) await mkdir(path.join(world.home, folder), { recursive: true });
  for (let day = 0; day < 20; day++) {
    const [project, asked, answered] = TASKS[(day * 5 + 2) % TASKS.length];
    const [provider, model] = day % 3 ? ["codex", "gpt-5.5"] : ["gemini", "gemini-2.5-pro"];
    const calls = ["git status", "rg -n deprecated", "make test", "git diff --stat"].slice(0, 2 + (day % 3));
    await told(world, provider, 3_000 + day, { project, asked, answered, calls, model, at: Date.now() - day * 24 * 60 * MINUTE - 130 * MINUTE });
  }

  const shown = new Claude(world, id(1), { project: "tidepool", at: Date.now() - 14 * MINUTE, branch: "faster-parser" });
  shown.prompt("Make the stream parser faster without changing what it accepts.\n\n1. measure first\n2. keep every test\n3. say what it cost");
  shown.think("I should look at where the time goes before I touch anything. The parser copies each line; that is the first suspect.");
  shown.call("Bash", { command: "cargo bench --bench parser", description: "Measures the parser" }).result("parse/small  9.21 ms\nparse/large  412 ms");
  shown.call("Read", { file_path: "/home/dev/tidepool/src/stream.rs" }).result("pub fn parse(input: &str) -> Vec<String> {\n    input.lines().map(|line| line.to_owned()).collect()\n}");
  shown.answer("Half of the time goes into copying lines. I will borrow them instead.", { ends: false });
  shown.call("Edit", {
    file_path: "/home/dev/tidepool/src/stream.rs",
    old_string: "pub fn parse(input: &str) -> Vec<String> {\n    input.lines().map(|line| line.to_owned()).collect()\n}",
    new_string: "pub fn parse(input: &str) -> Vec<&str> {\n    input.lines().collect()\n}",
  }).result("The file was updated.");
  shown.call("Bash", { command: "cargo test" }).result("test result: FAILED. 41 passed; 1 failed", { failed: true });
  shown.call("Edit", { file_path: "/home/dev/tidepool/tests/parser.rs", old_string: "assert_eq!(parse(text), vec![text.to_owned()]);", new_string: "assert_eq!(parse(text), vec![text]);" }).result("The file was updated.");
  shown.call("Bash", { command: "cargo test" }).result("test result: ok. 42 passed; 0 failed");
  shown.answer("The parser borrows its lines now.\n\n| input | before | after |\n|---|---|---|\n| small | 9.2 ms | 2.1 ms |\n| large | 412 ms | 96 ms |\n\nCallers that kept the result longer than the input have to copy; there are two:\n\n```rust\nlet kept: Vec<String> = parse(&text).into_iter().map(str::to_owned).collect();\n```");
  shown.prompt("Good. Commit it.").call("Bash", { command: "git commit -am 'parser: lines are borrowed'" });
  await shown.write();
  await shown.live("waiting", "permission prompt");

  const at = (minutes) => Date.now() - minutes * MINUTE;
  const running = new Claude(world, id(2), { project: "orchard", at: at(6), branch: "weekly" });
  running.prompt("Show the harvest by week in the report").call("Task", { description: "Find every report", prompt: "Find every report", subagent_type: "general-purpose" });
  await (await running.subagent("a0000001", "Find every report that counts baskets")).call("Grep", { pattern: "baskets" }).result("src/report.rs").answer("Three files do.").write();
  running.result("Three files do.").call("Task", { description: "Look at the tests", prompt: "Look at the tests", subagent_type: "general-purpose" });
  await (await running.subagent("a0000002", "Look at what the tests of the report expect")).call("Read", { file_path: "/home/dev/orchard/tests/report.rs" }).write();
  running.result("They expect months.").call("Bash", { command: "cargo test --workspace" });
  await running.write();
  await running.live("busy");
  const asking = new Claude(world, id(3), { project: "kiln", at: at(9), branch: "main" });
  await asking.prompt("Deploy the new firing curve to the test kiln").call("Bash", { command: "ssh kiln-test 'systemctl restart curve'" }).write();
  await asking.live("waiting", "permission prompt");
  const ready = new Claude(world, id(4), { project: "lantern", at: at(2), model: "claude-sonnet-4-5-20250929" });
  await ready.prompt("Write the release notes for 2.4").call("Read", { file_path: "/home/dev/lantern/CHANGELOG.md" }).result("# 2.3").answer("The notes for 2.4 are in `CHANGELOG.md`.").write();
  await ready.live("idle");
  const quiet = new Claude(world, id(5), { project: "orchard", at: at(48) });
  await quiet.prompt("Why is the build slow on Mondays?").answer("The cache is thrown away on Sunday night.").write();
  await quiet.age();
  await quiet.live("idle");
  const gone = new Claude(world, id(6), { project: "kiln", at: at(95) });
  await gone.prompt("List the sensors that are out of range").answer("Two are: the door and the flue.").write();
  await gone.age();

  await world.settled("/api/status", ({ items }) => items?.length >= 6);
  for (const session of [shown, asking]) {
    const command = session === shown ? "git commit -am 'parser: lines are borrowed'" : "ssh kiln-test 'systemctl restart curve'";
    await session.asksFor(command);
  }
  await world.settled("/api/status", ({ items }) => items?.filter(({ status }) => status === "waiting_approval").length >= 2);
  return shown;
}
