// The first visit: a machine on which no agent has worked yet.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { Claude, id, World } from "./world.js";

let world;

before(async () => {
  // Claude Code is installed and has never been used.
  world = await World.open((made) => mkdir(path.join(made.home, ".claude/projects"), { recursive: true }));
});

after(() => world?.close());

test("an empty machine says what each agent needs, and loads the sample", async () => {
  const page = await world.page("/");
  await page.locator("h1", { hasText: "Welcome to Hansard" }).waitFor();
  await page.getByText("hansard hooks install claude", { exact: true }).waitFor();
  await page.locator("h2", { hasText: "Not found on this machine" }).waitFor();
  assert.equal(await page.getByText("hansard hooks install codex").count(), 0);
  await page.getByRole("button", { name: "Load the sample sessions" }).click();
  await page.locator("h1", { hasText: "Sessions" }).waitFor();
  await page.getByText("The total is a cent short").first().waitFor();
  assert.equal((await world.settled("/api/sessions", (answer) => answer.items?.length >= 3)).items.length, 3);
  // With a record there is nothing to welcome to, and the sample is too old to be active.
  await page.goto(new URL("/", page.url()).href);
  await page.getByText("No session was active today").waitFor();
  await page.context().close();
});

test("the first session of an agent takes the place of the welcome", async () => {
  const empty = await World.open();
  try {
    const page = await empty.page("/");
    await page.locator("h1", { hasText: "Welcome to Hansard" }).waitFor();
    const talk = new Claude(empty, id(1), { project: "parser", at: Date.now() });
    await talk.prompt("A first question").write();
    await page.locator("h1", { hasText: "Now" }).waitFor();
    await page.getByText("A first question").first().waitFor();
  } finally {
    await empty.close();
  }
});
