// Sessions that real agents wrote, each as the page shows it.

import assert from "node:assert/strict";
import { cp, readdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { World } from "./world.js";

const RECORDED = path.resolve(import.meta.dirname, "../../crates/capture/tests/fixtures");

let world;
let sessions;

before(async () => {
  world = await World.open(async (made) => {
    for (const agent of await readdir(RECORDED, { withFileTypes: true })) {
      if (!agent.isDirectory()) continue;
      for (const scenario of await readdir(path.join(RECORDED, agent.name))) {
        const home = path.join(RECORDED, agent.name, scenario, "home");
        // Of a database that several recordings have, the first one stays.
        if (existsSync(home)) await cp(home, made.home, { recursive: true, force: false });
      }
    }
  });
  await world.settled("/api/health", (health) => health.parts.capture === "running" && !health.backlog && health.sessions > 0);
  sessions = (await world.ask("/api/sessions?limit=500")).items;
});

after(() => world?.close());

test("every recorded session opens, and says what is in it", async (t) => {
  const agents = new Set(sessions.map(({ provider }) => provider));
  assert.ok(agents.size >= 7, [...agents].join());
  const page = await world.page("/settings");
  for (const session of sessions) {
    await page.visit(`/session/${encodeURIComponent(session.id)}/1`);
    await page.locator(".talk .entry, .talk .empty").first().waitFor();
    // Everything folded is opened: whatever is in there is drawn as well.
    await page.evaluate(() => document.querySelectorAll(".talk details").forEach((one) => (one.open = true)));
    await page.settle();
    const [over, said] = await page.evaluate(() => [document.documentElement.scrollWidth - document.documentElement.clientWidth, document.querySelectorAll(".entry.prompt").length]);
    assert.equal(over, 0, `${session.id} is wider than the page`);
    if (session.counts.prompts > 0 && session.relation === "main") assert.ok(said > 0, `${session.id} has no prompt`);
    assert.deepEqual([page.complaints, page.foreign], [[], []], session.id);
  }
  t.diagnostic(`${sessions.length} sessions of ${agents.size} agents`);
  await page.context().close();
});

test("subagents are folded under whoever asked for them, and stand in a tree", async () => {
  const child = sessions.find(({ provider, relation }) => provider === "claude" && relation === "subagent");
  const parent = sessions.find(({ id }) => id === child.parent_id);
  const page = await world.page("/sessions");
  const rows = page.locator(".row");
  await rows.first().waitFor();
  assert.equal(await page.locator(`.row a[href="/session/${encodeURIComponent(child.id)}"]`).count(), 0, "it has no row of its own");
  await page.locator(`.row a[href="/session/${encodeURIComponent(parent.id)}"]`, { hasText: "2 subagents" }).click();
  await page.locator("summary", { hasText: "Family" }).click();
  await page.locator(".tree li li").getByRole("link").first().click();
  await page.locator(".session-head .tree, .session-head summary", { hasText: "Family" }).first().waitFor();
  assert.notEqual(new URL(page.url()).pathname, `/session/${encodeURIComponent(parent.id)}`);
  assert.deepEqual([page.complaints, page.foreign], [[], []]);
  await page.context().close();
});

test("forks and compactions are marked where they are", async () => {
  const page = await world.page("/settings");
  const fork = sessions.find(({ provider, relation }) => provider === "claude" && relation === "fork");
  await page.visit(`/session/${encodeURIComponent(fork.id)}/1`);
  await page.locator(".entry, .edge").getByText(/fork/i).first().waitFor();
  const compacted = sessions.find(({ counts }) => counts.compactions > 0);
  await page.visit(`/session/${encodeURIComponent(compacted.id)}/1`);
  await page.locator(".entry.compaction").first().waitFor();
  assert.deepEqual([page.complaints, page.foreign], [[], []]);
  await page.context().close();
});

test("the figures of use by agent are those of the record", async () => {
  const page = await world.page("/usage?days=all");
  const { rows } = await world.ask("/api/usage?by=agent");
  const panel = page.locator("section.panel", { hasText: "By agent" });
  await panel.locator("tbody tr").nth(rows.length - 1).waitFor();
  const shown = await panel.locator("tbody tr td:nth-of-type(1)").allInnerTexts();
  assert.deepEqual(shown.map((text) => Number(text.replaceAll(",", ""))).sort(), rows.map((row) => row.requests).sort());
  await page.context().close();
});
