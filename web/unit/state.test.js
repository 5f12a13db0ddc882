// What is known and how it comes: late answers, broken lines, jumps in the middle of reading.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Daemon, settled } from "./daemon.js";
import { load } from "./load.js";

const daemon = new Daemon();
const { connect, connection, watchStatuses, statusOf, allStatuses, needing, isLoaded, Log, entriesOf, entryWith } = await load("state/connection", "state/statuses", "state/log", "state/entries");

watchStatuses();
connect();
daemon.open();

const groupOf = (doing, attention) => (attention && attention.want !== "finished" ? "needs_you" : doing === "waiting_approval" ? "needs_you" : doing);
const status = (session_id, doing, attention = null) => ({ session_id, status: doing, group: groupOf(doing, attention), reason: "", since: "2026-01-01T00:00:00Z", attention, pending_approvals: [], summary: { current: doing } });
const wants = (want, since = "2026-01-01T00:00:00Z") => ({ want, since, what: want, confidence: "high", can: [] });
const board = (...statuses) => daemon.tell({ type: "session.board", statuses });
const tell = (told) => daemon.tell({ type: "session.status", status: told });

test("the board is all there is, and what is told behind it is newer", async () => {
  assert.ok(!isLoaded.value);
  board(status("a", "running"), status("b", "idle"), status("c", "running"));
  assert.ok(isLoaded.value);
  tell(status("a", "waiting_approval", wants("approval")));
  daemon.tell({ type: "session.gone", session_id: "c" });
  await settled(() => statusOf("a").status === "waiting_approval");
  assert.equal(statusOf("b").status, "idle");
  assert.equal(statusOf("c"), undefined);
});

test("needs are sorted as the daemon's, and what is finished is none", async () => {
  tell(status("stuck", "running", wants("stuck")));
  tell(status("failed", "idle", wants("failed")));
  tell(status("risky", "waiting_approval", wants("risky_approval", "2026-01-01T00:05:00Z")));
  tell(status("older", "waiting", wants("question", "2025-12-31T00:00:00Z")));
  tell(status("asks", "waiting", wants("question")));
  tell(status("done", "waiting", wants("finished")));
  await settled(() => statusOf("done"));
  assert.deepEqual(needing.value.map(({ session_id }) => session_id), ["risky", "a", "older", "asks", "failed", "stuck"]);
  const before = needing.value;
  tell({ ...status("b", "running"), summary: { current: "something else" } });
  await settled(() => statusOf("b").status === "running");
  assert.equal(needing.value, before, "news of others is no other need");
});

test("after a break the board says who has left meanwhile", async () => {
  daemon.line.close();
  (await daemon.question("/api/health")).answer({});
  const broken = daemon.line;
  await settled(() => daemon.line !== broken);
  daemon.open();
  tell(status("b", "running"));
  board(status("a", "running"), status("new", "running"));
  assert.deepEqual(allStatuses().map(({ session_id }) => session_id).sort(), ["a", "new"]);
});

test("nothing is drawn while nobody looks, but what needs a person", async () => {
  document.hidden = true;
  tell(status("a", "idle"));
  tell(status("new", "waiting", wants("question")));
  await settled(() => needing.value.length === 1);
  tell(status("a", "exited"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(statusOf("a").status, "idle");
  document.hidden = false;
  document.dispatchEvent(new Event("visibilitychange"));
  await settled(() => statusOf("a").status === "exited");
});

test("a line that says nothing is asked for, and made anew if nobody answers", async () => {
  const { now } = Date;
  const silent = daemon.line;
  Date.now = () => now() + 60_000;
  daemon.beats.forEach((beat) => beat());
  (await daemon.question("/api/health")).answer({});
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(daemon.line, silent, "whoever answers is there");
  Date.now = () => now() + 120_000;
  daemon.beats.forEach((beat) => beat());
  (await daemon.question("/api/health")).fail();
  (await daemon.question("/api/health")).fail();
  await settled(() => daemon.line !== silent);
  assert.equal(connection.value.state, "gone");
  daemon.open();
  assert.equal(connection.value.state, "live");
  Date.now = now;
});

const event = (seq, kind = "user.prompt", data = {}) => ({ id: `${seq}`, session_id: "s", seq, kind, created_at: "2026-01-01T00:00:00Z", text: `${seq}`, data });
const events = (from, to) => Array.from({ length: to - from + 1 }, (_, at) => event(from + at));
const seqs = (log) => [log.events.value[0]?.seq, log.events.value.at(-1)?.seq];
const stream = (told) => daemon.tell({ type: "stream-event", position: told.seq, event: told });

async function opened(id, from, to) {
  const log = new Log(id, null);
  (await daemon.question(`/${id}/`)).answer({ items: events(from, to).map((one) => ({ ...one, session_id: id })), next: null });
  await settled(() => log.isOpen.value);
  return log;
}

test("a jump counts whatever is being read, and the last one counts", async () => {
  const log = await opened("jump", 941, 1_000);
  log.older();
  const older = await daemon.question("before=941");
  log.go(500);
  const first = await daemon.question("after=488");
  log.go(1);
  const last = await daemon.question("after=0");
  first.answer({ items: events(489, 512), next: "512" });
  older.answer({ items: events(841, 940), next: null });
  last.answer({ items: events(1, 60), next: "60" });
  await settled(() => seqs(log)[0] === 1);
  assert.deepEqual(seqs(log), [1, 60]);
  assert.equal(log.error.value, null);
  log.close();
});

test("news push nobody out who reads above", async () => {
  const log = await opened("s", 1, 390);
  log.isFollowed = false;
  for (let seq = 391; seq <= 430; seq++) stream(event(seq));
  assert.deepEqual(seqs(log), [1, 400]);
  assert.equal(log.newest.value, 430);
  assert.ok(!log.isAtEnd);
  log.newer();
  (await daemon.question("after=400")).answer({ items: events(401, 430), next: null });
  await settled(() => log.isAtEnd);
  log.isFollowed = true;
  stream(event(431));
  assert.deepEqual(seqs(log), [32, 431]);
  log.close();
});

test("only what says something is counted as new", async () => {
  const log = await opened("s", 1, 3);
  stream(event(4, "step.started"));
  stream(event(5, "tool.result", { call_id: "x" }));
  stream(event(6, "turn.completed", { stop_reason: "completed" }));
  assert.equal(log.arrived.value, 0);
  stream(event(7, "assistant.message"));
  assert.equal(log.arrived.value, 1);
  log.close();
});

test("what failed is tried again where it failed", async () => {
  const log = await opened("again", 101, 160);
  log.older();
  (await daemon.question("before=101")).answer({ error: { kind: "busy", message: "busy" } }, 503);
  await settled(() => log.error.value);
  log.retry();
  (await daemon.question("before=101")).answer({ items: events(1, 100), next: null });
  await settled(() => !log.error.value);
  assert.deepEqual(seqs(log), [1, 160]);
  log.close();
});

test("calls have their results with them, and who looks for a result finds its call", () => {
  const log = [event(1), event(2, "tool.call", { call_id: "a" }), event(3, "step.started"), event(4, "tool.result", { call_id: "a" }), event(5, "tool.call", { call_id: "b" })];
  const entries = entriesOf(log, false);
  assert.deepEqual(entries.map(({ event, result, isResultBelow }) => [event.seq, result?.seq ?? null, isResultBelow]), [[1, null, false], [2, 4, false], [5, null, true]]);
  assert.equal(entriesOf(log, true)[2].isResultBelow, false);
  assert.deepEqual([1, 2, 3, 4, 5, 9].map((seq) => entryWith(entries, seq).event.seq), [1, 2, 2, 2, 5, 5]);
});
