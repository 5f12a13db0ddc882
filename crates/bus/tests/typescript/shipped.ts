// The shipped client against a server. Argument: the socket.

import assert from "node:assert/strict";
import { type Message, connect, send } from "./hansard-bus.js";

const path = process.argv[2] ?? "";

async function main(): Promise<void> {
  const bus = connect({ path, defaults: { service: "me", gone: null } });
  assert.equal(bus.emit("a", "b"), false, "not connected yet");
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
  assert.ok(ts > 0);
  assert.deepEqual(message, { service: "you", n: 1, text: "hé 用户", tract: "a", event: "b" });

  assert.equal(await send("a", "one", { name: "x" }, { path }), true);
  assert.equal((await next()).name, "x");
  assert.equal(await send("a", "one", {}, { path: `${path}.none` }), false);

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
  const { createConnection } = await import("node:net");
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

  // Known fields have types.
  assert.ok(bus.emit("supervisor", "request", { cmd: ["hansard", "doctor"], ref: "r" }));
  await bus.close();
  assert.equal(bus.emit("a", "b"), false, "closed");
  console.log("ok");
}

await main();
