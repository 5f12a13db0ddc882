// The shipped client against a server. Arguments: the socket, and how the server is: `ours`, `plain`
// (it adds nothing), or `restarts` (it does, once we have said `first`).

import assert from "node:assert/strict";
import { type Socket, createConnection, createServer } from "node:net";
import { type Message, connect, defaultPath, send } from "./hansard-bus.js";

const path = process.argv[2] ?? "";
const server = process.argv[3] ?? "";
const PATIENCE = 60_000;

async function survive(): Promise<void> {
  const bus = connect({ path });
  await bus.connected();
  let heard = "";
  bus.on("a", "*", (message) => (heard = message.event));
  const until = async (event: string): Promise<void> => {
    while (heard !== event) {
      bus.emit("a", event);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    console.log(event);
  };
  await until("first");
  await until("again");
  await bus.close();
}

function later(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function find(variables: Record<string, string>): string {
  for (const name of ["HANSARD_BUS", "HANSARD_JOURNAL", "XDG_DATA_HOME"]) delete process.env[name];
  Object.assign(process.env, variables);
  return defaultPath();
}

async function main(): Promise<void> {
  const bus = connect({ path, defaults: { service: "me", gone: null } });
  await bus.connected();
  const heard: Message[] = [];
  let wake: (() => void) | undefined;
  const undo = bus.on("a", "*", (message) => {
    heard.push(message);
    wake?.();
  });
  const next = async (): Promise<Message> => {
    while (heard.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    return heard.shift() as Message;
  };

  assert.equal(bus.emit("a", "b", { n: 1, text: "hé 用户", service: "you" }), true);
  const { ts, ...message } = await next();
  assert.ok(server === "plain" || ts > 0);
  assert.deepEqual(message, { service: "you", n: 1, text: "hé 用户", tract: "a", event: "b" });

  assert.equal(await send("a", "one", { name: "x" }, { path }), true);
  assert.equal((await next()).name, "x");
  assert.equal(await send("a", "one", {}, { path: `${path}.none` }), false);

  // One whose server reads nothing of it was not sent.
  assert.equal(await send("a", "one", {}, { path: `${path}.rude` }), false);

  // One that fails keeps nobody else from hearing.
  process.removeAllListeners("warning");
  process.on("warning", () => undefined);
  const undoFailing = bus.on("a", "many", () => {
    throw new Error("on purpose");
  });
  for (let n = 0; n < 500; n++) assert.ok(bus.emit("a", "many", { n }));
  for (let n = 0; n < 500; n++) assert.equal((await next()).n, n);
  undoFailing();

  for (const size of [64 << 10, 1 << 20]) {
    assert.ok(bus.emit("a", "long", { c: "ä".repeat(size) }));
    assert.equal((await next()).c, "ä".repeat(size));
  }

  // What Python writes can be read.
  const dialect = '{"tract":"a","event":"odd","n":NaN,"m":[-Infinity,1],"s":"NaN \\" NaN"}\n';
  createConnection(path).end(dialect);
  const odd = await next();
  assert.deepEqual([odd.n, odd.m, odd.s], [null, [null, 1], 'NaN " NaN']);

  undo();
  const iterated = (async () => {
    const numbers: unknown[] = [];
    for await (const message of bus) {
      if (message.tract === "t") numbers.push(message.n);
      if (numbers.length === 3) break;
    }
    return numbers;
  })();
  for (const n of [1, 2, 3]) bus.emit("t", "e", { n });
  assert.deepEqual(await iterated, [1, 2, 3]);
  assert.equal(heard.length, 0, "undone");

  // Of what nobody takes the newest stays, and it is counted what went.
  let told = 0;
  const lazy = bus[Symbol.asyncIterator]();
  const count = bus.on("*", "*", () => told++);
  for (let n = 0; n < 10_100; n++) {
    while (!bus.emit("t", "e", { n })) await later();
  }
  while (told < 10_100) await later();
  count();
  assert.equal(bus.missed, told - 10_000);
  assert.equal((await lazy.next()).value?.n, bus.missed);
  await lazy.return?.();

  // What is not taken waits, up to 4 MiB; then `emit` says so.
  const strangers: Socket[] = [];
  const deaf = createServer((stranger) => void strangers.push(stranger.pause()));
  await new Promise<void>((resolve) => deaf.listen(`${path}.deaf`, resolve));
  const full = connect({ path: `${path}.deaf` });
  await full.connected();
  let taken = 0;
  const mebibyte = "x".repeat(1 << 20);
  while (full.emit("a", "b", { c: mebibyte })) taken++;
  // The last one goes over it, and the system takes a little.
  assert.ok(taken === 4 || taken === 5, `${taken}`);
  const closed = full.close();
  deaf.close();
  for (const stranger of strangers) stranger.destroy();
  await closed;

  // What is said before the first connection waits for it.
  heard.splice(0);
  bus.on("a", "early", (message) => {
    heard.push(message);
    wake?.();
  });
  for (let n = 0; n < 1_000; n++) {
    const early = connect({ path });
    assert.equal(early.emit("a", "early", { n }), true);
    await early.close();
    assert.equal(early.emit("a", "early"), false, "closed");
    assert.equal((await next()).n, n);
  }

  // A handler answers, and the request hears the answer to itself alone.
  const asking = connect({ path });
  await asking.connected();
  const undoTasks = bus.on("supervisor", "request", ({ ref, cmd }) => {
    bus.emit("supervisor", "stopped", { ref: "of another", exit_code: 7 });
    bus.emit("supervisor", "stopped", { ref: ref as string, exit_code: (cmd as string[]).length });
  });
  assert.equal((await asking.requestTask(["a", "b"], {}, PATIENCE))?.exit_code, 2);
  assert.equal((await asking.requestTask(["a"], { ref: "mine" }, PATIENCE))?.ref, "mine");
  undoTasks();
  const undoAgents = bus.on("cortex", "request", ({ agent_id, prompt }) => {
    bus.emit("cortex", "finish", { agent_id: agent_id as string, result: prompt as string });
  });
  assert.equal((await asking.requestAgent("Hello", {}, PATIENCE))?.result, "Hello");
  undoAgents();
  assert.equal(await asking.requestAgent("Hello", {}, 50), undefined);
  await asking.close();
  assert.equal(await asking.requestAgent("Hello", {}, PATIENCE), undefined, "closed");

  // Known fields have types.
  assert.ok(bus.emit("supervisor", "request", { cmd: ["hansard", "doctor"], ref: "r" }));
  await bus.close();
  assert.equal(bus.emit("a", "b"), false, "closed");

  // Where the bus is, if nothing else is said.
  const journal = { HANSARD_JOURNAL: "/j" };
  assert.equal(find({ ...journal, HANSARD_BUS: "/b.sock" }), "/b.sock");
  assert.equal(find(journal), "/j/health/callosum.sock");
  if (process.platform === "linux") {
    assert.equal(find({ XDG_DATA_HOME: "/data" }), "/data/hansard/health/callosum.sock");
    assert.match(find({}), /\/\.local\/share\/hansard\/health\/callosum\.sock$/);
  }
  console.log("ok");
}

await (server === "restarts" ? survive() : main());
