// Hear and tell what happens on this machine: a client for the bus.
//
// Node 18 or newer, nothing else. Copy this file and tracts.ts beside your script.
//
//     import { connect, send } from "./hansard-bus.js";
//
//     await send("build", "finished", { ok: true, seconds: 12.5 });
//
//     const bus = connect({ defaults: { service: "builder" } });
//     const undo = bus.on("build", "*", (message) => console.log(message.event));
//     bus.emit("build", "started", { target: "all" });
//     for await (const message of bus) console.log(message);
//
// A connection comes back by itself after a restart of the bus. The socket is the option `path`,
// else HANSARD_BUS, else health/callosum.sock in the journal (HANSARD_JOURNAL, else the platform's
// data folder + hansard).

import { readlinkSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import type { Tracts } from "./tracts.js";

/** A message as it came. The fields of known ones are in `Tracts`. */
export type Message = { tract: string; event: string; ts: number } & Record<string, unknown>;

/** The fields of a known message, or any. */
export type Fields<T extends string, E extends string> = T extends keyof Tracts
  ? E extends keyof Tracts[T]
    ? Tracts[T][E] & Record<string, unknown>
    : Record<string, unknown>
  : Record<string, unknown>;

export type Handler = (message: Message) => void;

export interface Options {
  /** The socket of the bus. */
  path?: string;
  /** Fields of every message that goes out; its own win, and `null` is left out. */
  defaults?: Record<string, unknown>;
}

/** Bytes that wait to be sent; with more, `emit` says false. */
const QUEUE_BYTES_MAX = 4 * 1024 * 1024;
/** Messages that wait for an iteration; with more, the oldest goes and `missed` counts it. */
const WAITING_MAX = 10_000;
/** Bytes of a path that every system can connect to. */
const PATH_MAX = 103;
/** Milliseconds between two attempts to connect: the first, and the longest. */
const RETRY_FIRST = 100;
const RETRY_LAST = 2_000;
/** Milliseconds a server may take to say that it has read a one-shot message. */
const RECEIPT = 2_000;
/** Milliseconds that a request waits for its answer, unless it says otherwise. */
const REQUEST = 600_000;

/** Where the bus is, if nothing else is said. */
export function defaultPath(): string {
  const { HANSARD_BUS, HANSARD_JOURNAL, XDG_DATA_HOME } = process.env;
  if (HANSARD_BUS) return HANSARD_BUS;
  const data =
    process.platform === "darwin"
      ? join(homedir(), "Library", "Application Support")
      : XDG_DATA_HOME || join(homedir(), ".local", "share");
  return join(HANSARD_JOURNAL || join(data, "hansard"), "health", "callosum.sock");
}

/** Where a socket can be reached: a path that is too long for the system is a link to a short one. */
function connectPath(path: string): string {
  if (Buffer.byteLength(path) <= PATH_MAX) return path;
  try {
    return readlinkSync(path);
  } catch {
    return path;
  }
}

/** A connection that lives long. */
export function connect(options: Options = {}): Bus {
  return new Bus(options);
}

/** Sends one message over a connection of its own: true once the server has read it, or at least it
 *  is written; false if nobody listens, or the server hung up without reading it. */
export function send<T extends string, E extends string>(
  tract: T,
  event: E,
  fields: Partial<Fields<T, E>> = {},
  options: Options = {},
): Promise<boolean> {
  const line = encode(tract, event, options.defaults, fields);
  return new Promise((resolve) => {
    let isWritten = false;
    const socket = createConnection(connectPath(options.path ?? defaultPath()));
    const done = (sent: boolean) => {
      socket.destroy();
      resolve(sent);
    };
    socket.setTimeout(RECEIPT, () => done(isWritten));
    socket.on("error", () => done(false));
    // What the bus tells everybody meanwhile is not for us; its end is the receipt.
    socket.on("data", () => undefined);
    socket.on("end", () => done(true));
    socket.end(line, () => {
      isWritten = true;
    });
  });
}

export class Bus implements AsyncIterable<Message> {
  /** Messages that came faster than an iteration took them. */
  missed = 0;

  private readonly path: string;
  private readonly defaults: Record<string, unknown>;
  private readonly handlers = new Set<{ tract: string; event: string; handler: Handler }>();
  private readonly iterations = new Set<Iteration>();
  private socket: Socket | undefined;
  private isConnected = false;
  private isClosed = false;
  private isClosing = false;
  /** Lines that wait for the first connection; `undefined` once there was one. */
  private early: string[] | undefined = [];
  private earlyBytes = 0;
  private retry = RETRY_FIRST;
  private timer: NodeJS.Timeout | undefined;

  constructor(options: Options) {
    this.path = options.path ?? defaultPath();
    this.defaults = options.defaults ?? {};
    this.open();
  }

  /** Calls `handler` for messages of these names, `*` for any; what comes back undoes it. */
  on(tract: string, event: string, handler: Handler): () => void {
    const entry = { tract, event, handler };
    this.handlers.add(entry);
    return () => void this.handlers.delete(entry);
  }

  /** Listens, calls `ask`, and gives the first message of a tract with one of these events and these
   *  fields; `undefined` after `timeout` milliseconds, or if `ask` says false. */
  async waitFor(
    tract: string,
    events: readonly string[],
    fields: Record<string, unknown>,
    timeout: number,
    ask: () => boolean = () => true,
  ): Promise<Message | undefined> {
    let undo: (() => void) | undefined;
    let timer: NodeJS.Timeout | undefined;
    const found = new Promise<Message | undefined>((resolve) => {
      const isWanted = (message: Message) =>
        events.includes(message.event) &&
        Object.entries(fields).every(([name, value]) => message[name] === value);
      undo = this.on(tract, "*", (message) => {
        if (isWanted(message)) resolve(message);
      });
      timer = setTimeout(() => resolve(undefined), timeout);
      if (!ask()) resolve(undefined);
    });
    try {
      return await found;
    } finally {
      undo?.();
      clearTimeout(timer);
    }
  }

  /** Has the supervisor run a command: its `supervisor.stopped` or `skipped`, or `undefined` after
   *  the time. A `ref` among the fields names the request. */
  requestTask(
    cmd: readonly string[],
    fields: Partial<Fields<"supervisor", "request">> = {},
    timeout = REQUEST,
  ): Promise<Message | undefined> {
    const ref = fields.ref ?? uniqueId();
    const ask = () => this.emit("supervisor", "request", { ...fields, cmd: [...cmd], ref });
    return this.waitFor("supervisor", ["stopped", "skipped"], { ref }, timeout, ask);
  }

  /** Asks for an agent: its `cortex.finish` or `error`, or `undefined` after the time. An `agent_id`
   *  among the fields names the request. */
  requestAgent(
    prompt: string,
    fields: Partial<Fields<"cortex", "request">> = {},
    timeout = REQUEST,
  ): Promise<Message | undefined> {
    const agent_id = fields.agent_id ?? uniqueId();
    const ask = () => this.emit("cortex", "request", { ...fields, prompt, agent_id });
    return this.waitFor("cortex", ["finish", "error"], { agent_id }, timeout, ask);
  }

  /** Puts a message on its way: false if too much waits for it, or the connection is gone. Until
   *  the first connection messages wait. */
  emit<T extends string, E extends string>(
    tract: T,
    event: E,
    fields: Partial<Fields<T, E>> = {},
  ): boolean {
    const socket = this.socket;
    if (this.isClosing) return false;
    const line = encode(tract, event, this.defaults, fields);
    if (this.early) {
      if (this.earlyBytes > QUEUE_BYTES_MAX) return false;
      this.early.push(line);
      this.earlyBytes += line.length;
      return true;
    }
    if (!socket || !this.isConnected || socket.writableLength > QUEUE_BYTES_MAX) return false;
    socket.write(line);
    return true;
  }

  /** Settles when there is a connection. */
  connected(): Promise<void> {
    if (this.isConnected) return Promise.resolve();
    return new Promise((resolve) => this.waiters.push(resolve));
  }

  /** Ends the connection once everything is written. */
  async close(): Promise<void> {
    this.isClosing = true;
    if (this.early?.length) {
      let timer: NodeJS.Timeout | undefined;
      const tooLate = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, RECEIPT);
      });
      await Promise.race([this.connected(), tooLate]);
      clearTimeout(timer);
    }
    this.isClosed = true;
    clearTimeout(this.timer);
    for (const iteration of this.iterations) iteration.end();
    const socket = this.socket;
    if (!socket || !this.isConnected) {
      socket?.destroy();
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      socket.once("close", () => resolve());
      socket.end();
    });
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    const iteration = new Iteration(
      () => this.missed++,
      () => this.iterations.delete(iteration),
    );
    if (this.isClosed) iteration.end();
    else this.iterations.add(iteration);
    return iteration;
  }

  private readonly waiters: (() => void)[] = [];

  private open(): void {
    const decoder = new StringDecoder("utf8");
    const pieces: string[] = [];
    const socket = createConnection(connectPath(this.path));
    this.socket = socket;
    socket.on("connect", () => {
      this.isConnected = true;
      this.retry = RETRY_FIRST;
      for (const line of this.early ?? []) socket.write(line);
      this.early = undefined;
      for (const resolve of this.waiters.splice(0)) resolve();
    });
    socket.on("data", (bytes: Buffer) => {
      const lines = decoder.write(bytes).split("\n");
      pieces.push(lines[0] ?? "");
      for (const next of lines.slice(1)) {
        this.take(pieces.splice(0).join(""));
        pieces.push(next);
      }
    });
    // Half a line of a connection that ended is nothing.
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.isConnected = false;
      if (this.isClosed) return;
      this.timer = setTimeout(() => this.open(), this.retry);
      this.retry = Math.min(this.retry * 2, RETRY_LAST);
    });
  }

  private take(line: string): void {
    const message = decode(line);
    if (!message) return;
    for (const iteration of this.iterations) iteration.push(message);
    for (const { tract, event, handler } of [...this.handlers]) {
      const fits =
        (tract === "*" || tract === message.tract) && (event === "*" || event === message.event);
      if (!fits) continue;
      try {
        handler(message);
      } catch (error) {
        // One that fails keeps nobody else from hearing.
        queueMicrotask(() => process.emitWarning(`a handler of ${tract}.${event} failed: ${error}`));
      }
    }
  }
}

/** Messages for one `for await`. */
class Iteration implements AsyncIterator<Message> {
  private readonly waiting: Message[] = [];
  private next_: ((result: IteratorResult<Message>) => void) | undefined;
  private isEnded = false;

  constructor(
    private readonly miss: () => void,
    private readonly leave: () => void,
  ) {}

  push(message: Message): void {
    if (this.next_) {
      this.next_({ value: message, done: false });
      this.next_ = undefined;
      return;
    }
    this.waiting.push(message);
    if (this.waiting.length > WAITING_MAX) {
      this.waiting.shift();
      this.miss();
    }
  }

  end(): void {
    this.isEnded = true;
    this.next_?.({ value: undefined, done: true });
    this.next_ = undefined;
  }

  next(): Promise<IteratorResult<Message>> {
    const message = this.waiting.shift();
    if (message) return Promise.resolve({ value: message, done: false });
    if (this.isEnded) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => {
      this.next_ = resolve;
    });
  }

  return(): Promise<IteratorResult<Message>> {
    this.leave();
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }
}

let requests = 0;

function uniqueId(): string {
  requests += 1;
  return `${Date.now()}-${process.pid}-${requests}`;
}

function encode(
  tract: string,
  event: string,
  defaults: Record<string, unknown> | undefined,
  fields: Record<string, unknown>,
): string {
  const usual = Object.entries(defaults ?? {}).filter(([, value]) => value !== null);
  return JSON.stringify({ ...Object.fromEntries(usual), ...fields, tract, event }) + "\n";
}

/** What the bus relays may be Python's: what JSON does not know becomes `null`. */
function decode(line: string): Message | undefined {
  for (const text of [line, line.replace(NOT_JSON, (_, text?: string) => text ?? "null")]) {
    try {
      const message: unknown = JSON.parse(text);
      if (typeof message === "object" && message !== null && "tract" in message) {
        return message as Message;
      }
      return undefined;
    } catch {
      continue;
    }
  }
  return undefined;
}

/** A text, which stays, or a number that is none. */
const NOT_JSON = /("(?:[^"\\]|\\.)*")|-?(?:NaN|Infinity)\b/g;
