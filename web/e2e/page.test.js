// The page in a real browser, over a real daemon.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, afterEach, before, test } from "node:test";
import { Claude, id, until, World } from "./world.js";
import { HOSTILE, TABLE_ROWS } from "./hostile.js";

const VIEWS = ["/", "/sessions", "/search", "/feed", "/usage", "/activity", "/health", "/settings"];

/** What a screen shows within; the aim is 200 ms, and a busy machine gets ten times that. */
const LIVE_MS = 2_000;

let world;
let talk;
let hostile;
let page;

before(async () => {
  world = await World.open(async (made) => {
    talk = new Claude(made, id(1), { project: "parser", at: Date.now() - 60_000 });
    talk.prompt("Make the **stream parser** faster.\n\n- keep the tests\n- say why").think("First I read the code.");
    talk.call("Bash", { command: "cargo test", description: "Runs the tests" }).result("test result: FAILED. 1 failed", { failed: true });
    talk.call("Edit", { file_path: "/home/dev/parser/src/lib.rs", old_string: "let a = 1;\nlet b = 2;", new_string: "let a = 1;\nlet b = 3;" }).result("ok");
    talk.answer("Done: `parse` no longer copies.\n\n```rust\nfn parse(text: &str) -> usize { text.len() }\n```\n\n| what | before | after |\n|---|---|---|\n| time | 9 ms | 2 ms |");
    talk.compact("We made the parser faster.");
    for (let number = 0; number < 150; number++) talk.prompt(`Question ${number}`).answer(`Answer ${number}`);
    talk.prompt("One more thing").answer("The word for later is needleword.");
    await talk.write();
    hostile = new Claude(made, id(2), { project: "hostile", at: Date.now() - 50_000 });
    for (const text of HOSTILE) hostile.prompt(text).call("Bash", { command: text }).result(text).answer(text);
    await hostile.write();
  });
  await world.settled("/api/status", (answer) => answer.items?.length >= 2);
});

after(() => world?.close());

afterEach(async () => {
  if (!page) return;
  const { complaints, foreign } = page;
  await page.context().close();
  page = null;
  assert.deepEqual(complaints, [], "the console stays clean");
  assert.deepEqual(foreign, [], "nothing is asked elsewhere");
});

test("what is written is on the screen at once", async (t) => {
  page = await world.page(talk.place);
  await page.getByText("needleword").waitFor();
  const took = [];
  for (let number = 0; number < 5; number++) {
    const words = `live words ${number}`;
    const seen = page.evaluate(
      (wanted) =>
        new Promise((resolve) => {
          const look = () => document.body.innerText.includes(wanted) && (resolve(Date.now()), true);
          const observer = new MutationObserver(() => look() && observer.disconnect());
          observer.observe(document.body, { subtree: true, childList: true, characterData: true });
        }),
      words,
    );
    const written = Date.now();
    await talk.prompt(words).write();
    took.push((await seen) - written);
  }
  took.sort((a, b) => a - b);
  t.diagnostic(`from write to screen: ${took.join(", ")} ms`);
  assert.ok(took[2] < LIVE_MS, `${took}`);
  const isAtEnd = await page.locator(".talk").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 80);
  assert.ok(isAtEnd, "who is at the end follows it");
});

test("who reads further up is not moved", async () => {
  page = await world.page(`${talk.place}/30`);
  await page.locator(".entry.target, .entry").first().waitFor();
  await page.locator('[data-seq="30"], [data-seq="29"], [data-seq="28"]').first().waitFor();
  const box = page.locator(".talk");
  /** Scrolls, until the page knows of it: that is told with the next frame. */
  const scroll = (by) => box.evaluate((it, by) => new Promise((done) => ((it.scrollTop += by), requestAnimationFrame(() => requestAnimationFrame(done)))), by);
  await scroll(40);
  const where = () => box.evaluate((it) => [...it.querySelectorAll("[data-seq]")].map((one) => [one.dataset.seq, Math.round(one.getBoundingClientRect().top)]).find(([, top]) => top > 150));
  const first = await where();
  await talk.prompt("something new below").write();
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.deepEqual(await where(), first);
  const isAtEnd = () => box.evaluate((it) => it.scrollHeight - it.scrollTop - it.clientHeight < 80);
  await page.getByRole("button", { name: "1 new" }).click();
  await page.getByText("something new below").waitFor();
  await until(isAtEnd, () => "the button does not lead to the end");
  // The same again: a second wish to be at the same place is as good as the first.
  for (const round of [1, 2]) {
    // The page may still be on its way to the end, and would take a reader who scrolls up along.
    await until(async () => (await scroll(-600), !(await isAtEnd())), () => "the end cannot be left");
    await talk.prompt(`below once more ${round}`).write();
    await page.getByRole("button", { name: "1 new" }).click();
    await page.getByText(`below once more ${round}`).waitFor();
    await until(isAtEnd, () => "the second time it does not");
  }
  for (const key of ["Home", "End", "Home"]) await page.keyboard.press(key);
  await page.locator(".edge", { hasText: "The beginning" }).waitFor();
  await until(() => box.evaluate((it) => it.scrollTop < 80), () => "the last wish counts");
});

test("what is long is there to its end", async () => {
  const session = new Claude(world, id(4), { project: "long-words" });
  await session.prompt(`${"word ".repeat(8_000)}and the lastword`).call("Bash", { command: "seq 9000" }).result(`${"line\n".repeat(9_000)}the lastline`).write();
  const hits = await world.settled("/api/search?q=lastline", (found) => found.total > 0);
  page = await world.page(session.place);
  const prompt = page.locator(".entry.prompt");
  await prompt.getByRole("button", { name: "Get all of it" }).click();
  await prompt.getByRole("button", { name: /more characters/ }).click();
  await prompt.getByText("lastword").waitFor();
  // A hit in the output of a call opens that call.
  await page.visit(`${session.place}/${hits.hits[0].seq}`);
  const call = page.locator(".entry.tool.target");
  await call.getByRole("button", { name: "Get all of it" }).waitFor();
  await call.hover();
  await call.locator(".output").getByRole("button", { name: "Copy code" }).click();
  await until(() => page.evaluate(async () => (await navigator.clipboard.readText()).endsWith("the lastline")), () => "not all of it was copied");
});

test("a line that breaks is made again, and everything said meanwhile comes once", async () => {
  page = await world.page("/settings");
  const lines = [];
  let isCut = false;
  await page.routeWebSocket(/\/api\/ws/, (line) => {
    if (isCut) return void line.close();
    line.connectToServer();
    lines.push(line);
  });
  await page.goto(new URL(talk.place, page.url()).href);
  await page.getByText("needleword").waitFor();
  isCut = true;
  for (const line of lines) await line.close();
  await page.getByText("The daemon is not running").waitFor();
  await talk.prompt("said while the line was cut").write();
  await world.settled("/api/search?q=%22while+the+line+was+cut%22", (found) => found.total > 0);
  isCut = false;
  await page.getByText("Connected again").waitFor();
  await page.locator(".entry.prompt", { hasText: "said while the line was cut" }).waitFor();
  assert.equal(await page.locator(".entry.prompt", { hasText: "said while the line was cut" }).count(), 1);
  await talk.prompt("and it goes on").write();
  await page.locator(".entry.prompt", { hasText: "and it goes on" }).waitFor();
});

test("groups follow what sessions do", async () => {
  const session = new Claude(world, id(3), { project: "groups" });
  page = await world.page("/");
  const group = (name) => page.locator("section.group", { has: page.getByRole("heading", { name }) }).getByText("Count the files");
  await session.prompt("Count the files").call("Bash", { command: "ls | wc -l" }).write();
  await group(/^Running/).waitFor();
  const common = { session_id: session.id, transcript_path: session.file, cwd: session.cwd };
  await session.asksFor("ls | wc -l");
  await group(/^Needs you/).waitFor();
  await page.locator(".row", { hasText: "Count the files" }).locator(".asking pre", { hasText: /^ls \| wc -l$/ }).waitFor();
  await page.locator(".row", { hasText: "Count the files" }).locator(".status").hover();
  await page.getByRole("tooltip").getByText(/confidence/).waitFor();
  const isSeen = await page.getByRole("tooltip").evaluate((it) => {
    const box = it.getBoundingClientRect();
    return it.contains(document.elementFromPoint(box.left + 20, box.bottom - 12));
  });
  assert.ok(isSeen, "nothing hides the evidence");
  await session.result("7").answer("There are 7.").write();
  await group(/^Waiting/).waitFor();
  await world.hook("claude", "SessionEnd", { ...common, hook_event_name: "SessionEnd", reason: "other" });
  await group(/^Exited/).waitFor();
  await page.getByRole("button", { name: /Waiting on me/ }).click();
  await group(/^Exited/).waitFor({ state: "detached" });
  const testing = new Claude(world, id(10), { project: "groups" });
  await testing.prompt("See whether it holds").call("Bash", { command: "cd app && cargo nextest run" }).write();
  await page.getByRole("button", { name: /^Running tests/ }).click();
  await page.locator(".row .title", { hasText: "See whether it holds" }).waitFor();
  assert.equal(await page.locator(".row").count(), 1);
  await testing.result("ok").answer("It does.").write();
  await page.locator(".row").waitFor({ state: "detached" });
});

test("the page counts the groups as the commands do", async () => {
  const session = new Claude(world, id(40), { project: "counts" });
  await session.prompt("Count me").call("Bash", { command: "ls" }).write();
  await session.live("busy");
  const asks = new Claude(world, id(41), { project: "counts" });
  await asks.prompt("Count me too").call("Bash", { command: "rm -r target" }).write();
  await asks.live("waiting", "permission prompt");
  page = await world.page("/");
  const names = { "Needs you": "needs_you", Running: "running", Waiting: "waiting", Idle: "idle", Unknown: "unknown" };
  const shown = () =>
    page.locator("section.group h2").evaluateAll((heads) => heads.map((head) => [head.firstChild.textContent.trim(), Number(head.querySelector(".pill").textContent)]));
  let counts;
  let told;
  // The page is told of a change a moment after a command could have asked for it.
  await until(
    async () => {
      const lines = (await world.hansard("--json", "status")).trim().split("\n").map((line) => JSON.parse(line));
      told = Object.entries(names).map(([name, group]) => [name, lines.filter((line) => line.group === group).length]);
      counts = Object.fromEntries(await shown());
      return told.every(([name, count]) => (counts[name] ?? 0) === count) && counts.Running >= 1 && counts["Needs you"] >= 1;
    },
    () => `${JSON.stringify(counts)} is not ${JSON.stringify(told)}`,
  );
  await session.answer("Counted.").write();
  await asks.answer("Counted.").write();
  for (const one of [session, asks]) one.process.kill();
});

test("whoever needs a person is first, the riskiest before all, and only news makes a sound", async () => {
  const asking = await new Claude(world, id(5), { project: "needs" }).prompt("Publish it").call("Bash", { command: "git status" }).write();
  await asking.live("waiting", "permission prompt");
  await asking.asksFor("git status");
  await world.settled("/api/status", ({ items }) => items.some((it) => it.session_id === asking.session && it.attention?.want === "approval"));
  page = await world.page("/settings");
  await page.addInitScript(() => {
    globalThis.notes = 0;
    globalThis.shown = [];
    globalThis.Notification = class {
      static permission = "granted";
      static requestPermission = async () => "granted";
      constructor(title, { body }) {
        globalThis.shown.push(`${title}: ${body}`);
      }
    };
    globalThis.AudioContext = class {
      constructor() {
        globalThis.notes++;
        throw new Error("silent");
      }
    };
  });
  await page.reload();
  for (const label of ["Show a notification of the browser", "Play a sound", "Show the number in the page title"]) {
    assert.equal(await page.getByLabel(label).isChecked(), false, "nothing is told until asked for");
    await page.getByLabel(label).check();
  }
  await page.goto(new URL("/", page.url()).href);
  const needs = page.locator("section.group", { has: page.getByRole("heading", { name: /^Needs you/ }) }).locator(".row");
  await needs.getByText("Publish it").waitFor();
  await page.settle();
  assert.deepEqual(await page.evaluate(() => [globalThis.notes, globalThis.shown]), [0, []], "what waited before is no news");
  const failing = await new Claude(world, id(6), { project: "needs" }).prompt("Ask the model").fail("API Error: 529 overloaded").write();
  await failing.live("idle");
  await needs.getByText("Ask the model").waitFor();
  const risky = await new Claude(world, id(7), { project: "needs" }).prompt("Clean up").call("Bash", { command: "rm -rf build" }).write();
  await risky.live("waiting", "permission prompt");
  await risky.asksFor("rm -rf build && git push --force");
  await needs.getByText("Clean up").waitFor();
  await needs.locator("pre", { hasText: /^rm -rf build && git push --force$/ }).waitFor();
  const order = (await needs.locator(".title").allInnerTexts()).filter((title) => /Publish|Ask the|Clean/.test(title));
  assert.deepEqual(order, ["Clean up", "Publish it", "Ask the model"]);
  await until(() => page.evaluate(() => globalThis.notes > 0), () => "nothing was to be heard");
  await until(() => page.evaluate(() => globalThis.shown.some((told) => told.startsWith("Clean up: ") && told.includes("git push --force"))), () => "no notification was shown");
  assert.match(await page.title(), /^\(\d+\) Now/);
  await page.getByRole("button", { name: /^Failing/ }).click();
  await needs.getByText("Publish it").waitFor({ state: "detached" });
  assert.deepEqual(await page.locator(".row .title").allInnerTexts(), ["Ask the model"]);
  await page.visit(risky.place);
  await page.locator(".session-head .asking pre", { hasText: "git push --force" }).waitFor();
  for (const session of [asking, failing, risky]) await world.hook("claude", "SessionEnd", { session_id: session.id, transcript_path: session.file, cwd: session.cwd, hook_event_name: "SessionEnd", reason: "other" });
});

test("subagents are folded under the session they work for", async () => {
  const parent = new Claude(world, id(14), { project: "family" });
  parent.prompt("Share the work").call("Task", { description: "Count", prompt: "Count", subagent_type: "general-purpose" });
  await parent.write();
  await (await parent.subagent("a0000014", "Count the apples")).call("Bash", { command: "wc -l apples" }).write();
  await world.settled("/api/sessions", ({ items }) => items.some((it) => it.parent_id === parent.session && it.counts.tool_calls === 1));
  page = await world.page("/?project=family");
  const row = page.locator(".row", { hasText: "Share the work" });
  await row.getByRole("button", { name: "1 subagent" }).click();
  await row.locator(".subagents").getByRole("link").click();
  await page.locator(".entry.tool", { hasText: "wc -l apples" }).waitFor();
  await page.locator("summary", { hasText: "Family" }).click();
  await page.locator(".tree").getByRole("link", { name: "Share the work" }).click();
  await page.locator(".session-head h1", { hasText: "Share the work" }).waitFor();
  await page.visit("/?project=family");
  await row.waitFor();
  assert.equal(await page.locator(".row").count(), 1, "it has no row of its own");
});

test("lists are what was chosen last, and go on while something works", async () => {
  page = await world.page("/sessions");
  const project = page.getByLabel("Project");
  const projects = () => page.locator(".row .project").allInnerTexts();
  await until(async () => new Set(await projects()).size > 1, () => "there is more than one project");
  // The first answer comes last.
  await page.route(/api\/sessions\?.*parser/, async (route) => {
    await page.waitForResponse(/api\/sessions\?.*hostile/);
    await route.continue().catch(() => {});
  });
  await project.selectOption({ label: "parser" });
  await project.selectOption({ label: "hostile" });
  await until(async () => (await projects()).join() === "hostile", async () => `${await projects()}`);
  await project.selectOption("");
  await until(async () => new Set(await projects()).size > 1, () => "all are back");
  await page.visit("/feed");
  const busy = new Claude(world, id(8), { project: "busy" });
  let number = 0;
  await until(
    async () => {
      await busy.prompt(`At work ${number++}`).write();
      return (await page.locator(".feed .what", { hasText: "At work" }).count()) > 1;
    },
    () => "the feed stands still",
  );
  await page.visit("/feed?agent=codex");
  await page.getByText("No matching activity").waitFor();
  await page.visit(hostile.place);
  await page.getByRole("link", { name: "Search in it" }).click();
  await page.locator("[data-search]:focus").waitFor();
  await page.keyboard.type("needleword");
  await page.getByText("No matches for").waitFor();
  await page.getByRole("button", { name: "in one session" }).click();
  await page.locator(".hit mark", { hasText: "needleword" }).first().waitFor();
  await page.visit("/search?q=Question&days=7");
  await page.locator(".hit").nth(39).waitFor();
  await page.getByRole("button", { name: "More" }).click();
  await page.locator(".hit").nth(40).waitFor();
});

test("everything that is recorded can be chosen, and what begins is listed by itself", async () => {
  const ancient = await new Claude(world, id(11), { project: "ancient", at: Date.now() - 9 * 86_400_000 }).prompt("Long ago").answer("It was.").write();
  await ancient.age();
  await world.settled("/api/facets", ({ projects }) => projects.some(({ name }) => name.endsWith("/ancient")));
  page = await world.page("/search?q=ago");
  await page.getByLabel("Project").selectOption({ label: "ancient" });
  await page.locator(".hit", { hasText: "Long ago" }).waitFor();
  await page.visit("/sessions");
  await page.locator(".row .title", { hasText: "Long ago" }).waitFor();
  const fresh = await new Claude(world, id(12), { project: "fresh" }).prompt("Just begun").write();
  await page.locator(".row", { hasText: "Just begun" }).waitFor();
  await fresh.answer("And over.").prompt("Again").answer("Over.").write();
  await page.locator(".row", { hasText: "Just begun" }).getByText("2 prompts").waitFor();
  assert.equal(await page.locator(".row .title", { hasText: "Just begun" }).count(), 1);
});

test("figures are those of the record", async () => {
  page = await world.page("/usage?days=7");
  const since = new Date(Date.now() - 6 * 86_400_000).toISOString().slice(0, 10);
  const { total } = await world.ask(`/api/usage?by=daily&since=${since}T00:00:00Z`);
  const figure = (name) => page.locator(".figures > div", { has: page.getByText(name, { exact: true }) }).locator("dd").first();
  assert.equal(await figure("Requests").innerText(), total.requests < 1_000 ? `${total.requests}` : `${(total.requests / 1_000).toFixed(1)}k`);
  assert.match(await figure("Money").innerText(), new RegExp(`\\$${total.usd.toFixed(2)}$`));
  const { rows } = await world.ask(`/api/usage?by=project&since=${since}T00:00:00Z`);
  const parser = rows.find(({ key }) => key?.endsWith("parser"));
  const row = page.locator("section.panel", { hasText: "By project" }).locator("tr", { hasText: "parser" });
  assert.equal(await row.locator("td").first().innerText(), `${parser.requests}`);
  await page.visit("/activity?days=7");
  const { all } = await world.ask(`/api/activity?since=${since}T00:00:00Z`);
  assert.equal(await figure("Turns").innerText(), `${all.turns}`);
  assert.equal(await figure("Tool calls").innerText(), `${all.tool_calls}`);
});

test("the beginning of an id is enough", async () => {
  const session = await new Claude(world, "12345678-aaaa-4000-8000-000000000009", { project: "short" }).prompt("Called by a short name").write();
  await world.settled("/api/sessions", ({ items }) => items.some((it) => it.id === session.session));
  page = await world.page("/session/claude:12345678");
  await page.getByText("Called by a short name").last().waitFor();
  await session.answer("And it goes on.").write();
  await page.locator(".entry.answer", { hasText: "And it goes on." }).waitFor();
  assert.ok(page.url().endsWith(session.place), page.url());
});

test("a talk has its parts", async () => {
  page = await world.page(`${talk.place}/1`);
  await page.locator(".entry.prompt strong", { hasText: "stream parser" }).waitFor();
  await page.locator(".entry.compaction").waitFor();
  await page.locator("summary", { hasText: "cargo test" }).click();
  await page.getByText("test result: FAILED").waitFor();
  assert.equal(await page.locator(".outcome.error").first().getAttribute("aria-label"), "failed");
  await page.locator("summary", { hasText: "src/lib.rs" }).click();
  await page.locator(".diff .removed", { hasText: "let b = 2;" }).waitFor();
  await page.locator(".diff .added", { hasText: "let b = 3;" }).waitFor();
  await page.locator(".t-keyword", { hasText: "fn" }).waitFor();
  await page.locator(".prose td", { hasText: "2 ms" }).waitFor();
  await page.getByText("First I read the code.").first().waitFor();
});

test("pictures are shown, and only those of the record", async () => {
  const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const source = (data) => ({ type: "image", source: { type: "base64", media_type: "image/png", data } });
  const session = new Claude(world, id(13), { project: "pictures" });
  await session.prompt([{ type: "text", text: "Look at this" }, source(dot), source("bm8gcGljdHVyZQ==")]).answer("![a pixel](https://evil.example/pixel.png)").write();
  page = await world.page(session.place);
  const picture = page.locator(".entry.prompt img");
  await until(() => picture.first().evaluate((it) => it.naturalWidth === 1), () => "it does not come");
  await page.getByText("Image no longer available").waitFor();
  assert.equal(await page.locator(".entry.answer img").count(), 0);
});

test("a session is resumed, handed over and taken away", async () => {
  page = await world.page(talk.place);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByText(`claude --resume ${talk.id}`).waitFor();
  await page.getByRole("button", { name: "Copy the command" }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^cd \/home\/dev\/parser && claude/);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Handoff note" }).click();
  await page.locator(".note", { hasText: "parser" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator("summary", { hasText: "Export" }).click();
  const saving = page.waitForEvent("download");
  await page.getByRole("link", { name: "Markdown" }).click();
  const saved = await readFile(await (await saving).path(), "utf8");
  assert.match(saved, /needleword/);
});

test("it is found while typing", async () => {
  page = await world.page("/search");
  await page.locator("[data-search]:focus").waitFor();
  await page.keyboard.type("needleword");
  await page.locator(".hits[aria-busy=false] mark", { hasText: "needleword" }).first().waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator(".entry.target", { hasText: "needleword" }).waitFor();
  await page.goBack();
  await page.locator(".hit mark").first().waitFor();
  assert.equal(await page.getByLabel("Search everything").inputValue(), "needleword");
});

test("an address leads to one event", async () => {
  page = await world.page(`${talk.place}/101`);
  const shown = page.locator(".entry.target");
  await shown.waitFor();
  const { top, seq } = await shown.evaluate((entry) => ({ top: entry.getBoundingClientRect().top, seq: entry.dataset.seq }));
  assert.equal(seq, "101");
  assert.ok(top > 0 && top < 500, `${top}`);
  // The line above the talk goes on from there, event by event.
  const slider = page.getByLabel("Place in the session");
  await slider.focus();
  for (const [key, step] of [["ArrowLeft", -1], ["ArrowLeft", -1], ["ArrowRight", 1], ["ArrowRight", 1], ["ArrowRight", 1]]) {
    const at = Number(await slider.inputValue());
    await page.keyboard.press(key);
    // Where it rests is read, and what is read says where one is.
    await page.locator(".timeline .told", { hasNotText: " · " }).waitFor();
    await until(async () => Number(await slider.inputValue()) === at + step, async () => `${key} from ${at}: ${await slider.inputValue()}`);
  }
});

test("hostile text stays text", async () => {
  page = await world.page(hostile.place);
  let said = 0;
  page.on("dialog", (dialog) => (said++, dialog.dismiss()));
  await page.locator(".entry").last().waitFor();
  await page.keyboard.press("Home");
  await page.locator(".edge", { hasText: "The beginning" }).waitFor();
  for (const summary of await page.locator(".entry.tool summary").all()) await summary.click();
  const found = await page.evaluate(() => ({
    ran: globalThis.hostile ?? null,
    scripts: document.querySelectorAll("#app script, #app iframe, #app object, #app embed, #app form, #app style, #app base, #app meta, #app link").length,
    handlers: [...document.querySelectorAll("#app *")].filter((one) => [...one.attributes].some((it) => /^on/i.test(it.name))).length,
    links: [...document.querySelectorAll("#app a")].map((link) => link.protocol).filter((one) => !["http:", "https:", "mailto:"].includes(one)),
    images: [...document.querySelectorAll("#app img")].map((image) => new URL(image.src).origin).filter((one) => one !== location.origin),
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    controls: /[\u0000-\u0008\u001b\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText),
  }));
  assert.deepEqual({ ...found, said }, { ran: null, scripts: 0, handlers: 0, links: [], images: [], wide: 0, controls: false, said: 0 });
  await page.goto(new URL("/", page.url()).href);
  await page.locator(".row").first().waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
  const hits = await world.ask("/api/search?q=rowword&limit=1");
  await page.goto(new URL(`${hostile.place}/${hits.hits[0].seq}`, page.url()).href);
  await page.getByRole("button", { name: /more rows/ }).first().waitFor();
  const rows = await page.locator(".entry.target tbody tr").count();
  assert.ok(rows > 10 && rows < TABLE_ROWS / 10, `${rows} rows are drawn`);
});

test("cards come from the bus, and so do places to go to", async () => {
  page = await world.page("/");
  await page.locator("h1", { hasText: "Now" }).waitFor();
  const card = page.locator(".card");
  // The page's own line to the bus may open a moment after the page.
  await until(async () => {
    await world.hansard("bus", "send", "notification", "show", "title=<b>Built</b>", "message=all <img src=x onerror=alert(1)> green", "action=/usage", "app=ci");
    return (await card.count()) > 0;
  });
  await world.hansard("bus", "send", "notification", "show", "title=<b>Built</b>", "message=all <img src=x onerror=alert(1)> green", "action=/usage", "app=ci");
  await card.locator("h2", { hasText: "<b>Built</b>" }).waitFor();
  await card.locator(".pill", { hasText: "×" }).waitFor();
  assert.equal(await card.locator("img, b").count(), 0);
  await card.getByRole("link", { name: "Open" }).click();
  await page.locator("h1", { hasText: "Usage" }).waitFor();
  // A session has a colon in its id.
  await world.hansard("bus", "send", "notification", "show", "title=Waits", `action=/session/${talk.session}`, "badge=3", "facet=parser");
  await card.filter({ hasText: "Waits" }).getByText("system · parser").waitFor();
  assert.equal(await card.filter({ hasText: "Waits" }).locator(".pill").innerText(), "3");
  await card.filter({ hasText: "Waits" }).getByRole("link", { name: "Open" }).click();
  await page.locator(".session-head h1", { hasText: "stream parser" }).waitFor();
  await world.hansard("bus", "send", "notification", "show", "title=Bad", "action=https://evil.example/");
  await card.locator("h2", { hasText: "Bad" }).waitFor();
  assert.equal(await card.getByRole("link").count(), 0);
  await card.getByRole("button", { name: "Dismiss Bad" }).click();
  await card.waitFor({ state: "detached" });
  await world.hansard("bus", "send", "navigate", "request", "path=/health");
  await page.locator("h1", { hasText: "Capture health" }).waitFor();
  await world.hansard("bus", "send", "navigate", "request", "path=//evil.example");
  await world.hansard("bus", "send", "navigate", "request", "path=/", "facet=parser");
  await page.locator("h1", { hasText: "Now" }).waitFor();
  assert.equal(await page.getByLabel("Project").inputValue(), "parser");
});

test("an app has twenty cards a minute, and further ones are counted", async () => {
  page = await world.page("/");
  const card = (title) => page.locator(".card", { hasText: title });
  await until(async () => {
    await world.hansard("bus", "send", "notification", "show", "title=First", "app=other");
    return (await card("First").count()) > 0;
  });
  for (let number = 1; number <= 25; number++) await world.hansard("bus", "send", "notification", "show", `title=Number ${number}`, "app=flood");
  await card("Number 20").locator(".pill", { hasText: "×6" }).waitFor();
  assert.equal(await card("Number 21").count(), 0);
});

test("only the page that was used last goes elsewhere, and a project alone loads nothing", async () => {
  page = await world.page("/");
  await page.locator("h1", { hasText: "Now" }).waitFor();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.locator("h1", { hasText: "Now" }).waitFor();
  await other.locator("h1").click();
  await until(async () => {
    await world.hansard("bus", "send", "navigate", "request", "path=/usage");
    return (await other.locator("h1", { hasText: "Usage" }).count()) > 0;
  });
  assert.equal(await page.locator("h1", { hasText: "Now" }).count(), 1);
  await page.locator("h1").click();
  await page.evaluate(() => (globalThis.isSame = true));
  await until(async () => {
    await world.hansard("bus", "send", "navigate", "request", "facet=parser");
    return (await page.getByLabel("Project").inputValue()) === "parser";
  });
  assert.equal(await page.evaluate(() => globalThis.isSame), true);
  await page.locator("h1", { hasText: "Now" }).waitFor();
  await other.locator("h1", { hasText: "Usage" }).waitFor();
});

test("everything is reached by the keyboard", async () => {
  page = await world.page("/");
  await page.locator(".row").first().waitFor();
  for (const [key, heading] of [["s", "Sessions"], ["u", "Usage"], ["h", "Capture health"], ["e", "Feed"], ["a", "Activity"], ["o", "Settings"], ["n", "Now"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await page.locator("h1", { hasText: heading }).waitFor();
  }
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.locator(".row").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.locator(".talk .entry").first().waitFor();
  await page.keyboard.press("e");
  await page.getByRole("dialog", { name: "Why this status" }).getByText(/confidence/).first().waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("u");
  await page.locator("h1", { hasText: "Now" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("stream parser");
  await page.getByRole("dialog").getByRole("option", { name: /stream parser/ }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".session-head h1", { hasText: "stream parser" }).waitFor();
});

test("nothing serious stands between a page and those who do not see it", async () => {
  const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  for (const scheme of ["light", "dark"]) {
    const shown = await world.page("/", { colorScheme: scheme });
    await shown.evaluate(axe);
    const check = async (what) => {
      const { violations } = await shown.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      assert.deepEqual(serious.map((it) => `${what} ${scheme} ${it.id}: ${it.nodes.map((node) => node.html).slice(0, 3)}`), []);
    };
    for (const path of [...VIEWS, `/search?q=needleword`, `${talk.place}/1`, `${hostile.place}/1`, "/nothing"]) {
      await shown.visit(path);
      await check(path);
    }
    await shown.visit(talk.place);
    for (const [name, open] of [
      ["Keys", () => shown.keyboard.press("?")],
      ["Go anywhere", () => shown.keyboard.press("Control+k")],
      ["Why this status", () => shown.keyboard.press("e")],
      ["Resume", () => shown.getByRole("button", { name: "Resume" }).click()],
      ["Handoff note", () => shown.getByRole("button", { name: "Handoff note" }).click()],
    ]) {
      await open();
      await shown.getByRole("dialog").waitFor();
      await shown.settle();
      await check(name);
      await shown.keyboard.press("Escape");
      await shown.getByRole("dialog").waitFor({ state: "detached" });
    }
    await shown.context().close();
  }
});

test("it fits from 400 to 2560 pixels, light and dark", async () => {
  for (const [width, colorScheme] of [[400, "light"], [2560, "dark"]]) {
    const shown = await world.page("/", { viewport: { width, height: 860 }, colorScheme });
    const paper = await shown.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    assert.equal(paper, colorScheme === "dark" ? "rgb(21, 23, 28)" : "rgb(255, 255, 255)");
    for (const path of [...VIEWS, "/search?q=needleword", talk.place, hostile.place]) {
      await shown.visit(path);
      const over = await shown.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(over, 0, `${path} at ${width}`);
    }
    assert.deepEqual([shown.complaints, shown.foreign], [[], []]);
    await shown.context().close();
  }
});

test("a theme that was chosen stays", async () => {
  page = await world.page("/settings", { colorScheme: "light" });
  await page.getByLabel("Dark").check();
  await page.reload();
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor), "rgb(21, 23, 28)");
});
