// A daemon with a home of its own, agents that write sessions there, and a browser that came in.
//
// Everything is real: the program, its socket and files, and Chromium. What has to come is waited
// for; nothing sleeps.

import { execFile, spawn } from "node:child_process";
import { appendFile, mkdir, mkdtemp, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const run = promisify(execFile);

/** How long a test waits for something that has to come. */
export const WITHIN_MS = 30_000;

const PROGRAM = process.env.HANSARD ?? path.resolve(import.meta.dirname, "../../target/debug/hansard");
const CHROMIUM = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((one) => one && existsSync(one));

export class World {
  /** Makes a home, lets `fill` put sessions there, and starts the daemon. */
  static async open(fill = async () => {}) {
    const folder = await mkdtemp(path.join(tmpdir(), "hansard-web."));
    const world = new World(folder);
    await mkdir(world.home, { recursive: true });
    await mkdir(world.journal, { recursive: true, mode: 0o700 });
    // A daemon that comes back is found where it was.
    await writeFile(path.join(world.journal, "config.toml"), `[http]\nport = ${await freePort()}\nshared_machine = false\n`);
    await fill(world);
    await world.start();
    return world;
  }

  constructor(folder) {
    this.folder = folder;
    this.home = path.join(folder, "home");
    this.journal = path.join(folder, "journal");
    this.processes = [];
    this.environment = { HOME: this.home, TZ: "UTC", TMPDIR: tmpdir() };
  }

  async start() {
    this.daemon = spawn(PROGRAM, ["up", "--journal", this.journal], { env: this.environment, stdio: ["ignore", "ignore", "pipe"] });
    this.daemon.stderr.on("data", (said) => (this.said = `${this.said ?? ""}${said}`.slice(-4_000)));
    this.ended = new Promise((resolve) => this.daemon.once("exit", resolve));
    await until(() => existsSync(path.join(this.journal, "health/http.address")), () => `the daemon does not answer: ${this.said}`);
  }

  async stop(signal = "SIGTERM") {
    this.daemon.kill(signal);
    await this.ended;
    // What a killed daemon left behind names a door that is closed.
    await rm(path.join(this.journal, "health/http.address"), { force: true });
  }

  async close() {
    await this.browser?.close();
    for (const one of this.processes) one.kill();
    await this.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** What a command prints. */
  async hansard(...words) {
    const { stdout } = await run(PROGRAM, ["--journal", this.journal, ...words], { env: this.environment, maxBuffer: 1 << 26 });
    return stdout;
  }

  /** Gives a command something to read; its exit code. */
  async hansardWith(input, ...words) {
    const child = spawn(PROGRAM, ["--journal", this.journal, ...words], { env: this.environment, stdio: ["pipe", "ignore", "ignore"] });
    child.stdin.end(input);
    return new Promise((resolve) => child.once("exit", resolve));
  }

  /** What an agent's hook says. */
  async hook(agent, event, payload) {
    await this.hansardWith(JSON.stringify(payload), "hook", agent, event);
  }

  /** Asks as a program does. */
  async ask(question) {
    const [address, token] = await Promise.all(["http.address", "http.token"].map((name) => readFile(path.join(this.journal, "health", name), "utf8")));
    const answer = await fetch(address.trim() + question, { headers: { authorization: `Bearer ${token.trim()}` } });
    return answer.json();
  }

  /** Waits until what is asked is answered so. */
  async settled(question, isSo) {
    let last;
    await until(async () => isSo((last = await this.ask(question))), () => `${question}: ${JSON.stringify(last)?.slice(0, 600)}`);
    return last;
  }

  /** A browser that came in, at a path of the page. */
  async page(to = "/", options = {}) {
    this.browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--enable-precise-memory-info"] });
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "UTC", locale: "en-GB", permissions: ["clipboard-read", "clipboard-write"], ...options });
    const { login } = JSON.parse(await this.hansard("web", "--json"));
    const page = await context.newPage();
    page.setDefaultTimeout(WITHIN_MS);
    page.complaints = [];
    page.foreign = [];
    const origin = new URL(login).origin;
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && page.complaints.push(message.text()));
    page.on("pageerror", (error) => page.complaints.push(String(error)));
    page.on("request", (request) => !request.url().startsWith(origin) && page.foreign.push(request.url()));
    let open = 0;
    page.on("request", () => open++);
    for (const end of ["requestfinished", "requestfailed"]) page.on(end, () => open--);
    /** Waits until everything that was asked for is there and drawn. */
    page.settle = async () => {
      await page.locator("h1").waitFor();
      await until(async () => open === 0 && (await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(() => resolve(true), 20))))) && open === 0);
    };
    /** Goes to a path as links of the page do. */
    page.visit = async (path) => {
      await page.evaluate((to) => (history.pushState(null, "", to), dispatchEvent(new PopStateEvent("popstate"))), path);
      await page.settle();
    };
    await page.goto(login);
    if (to !== "/") await page.goto(origin + to);
    return page;
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Waits until something is so. */
export async function until(isSo, otherwise = () => "it did not come") {
  const end = Date.now() + 3 * WITHIN_MS;
  for (;;) {
    if (await isSo()) return;
    if (Date.now() > end) throw new Error(otherwise());
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** A session of Claude Code, written as it writes them. */
export class Claude {
  #number = 0;

  constructor(world, id, { project = "demo", at = Date.now(), model = "claude-opus-4-5-20251101", branch = "main" } = {}) {
    Object.assign(this, { world, id, at, model, branch });
    this.cwd = `/home/dev/${project}`;
    this.file = path.join(world.home, ".claude/projects", this.cwd.replaceAll("/", "-"), `${id}.jsonl`);
    this.session = `claude:${id}`;
    this.lines = [];
  }

  get place() {
    return `/session/${encodeURIComponent(this.session)}`;
  }

  prompt(content) {
    return this.#line({ type: "user", message: { role: "user", content }, promptSource: "typed" });
  }

  answer(text, { ends = true } = {}) {
    this.#said([{ type: "text", text }], ends ? "end_turn" : "tool_use");
    return ends ? this.#line({ type: "system", subtype: "turn_duration", durationMs: 4_200 }) : this;
  }

  /** The model could not be asked: the turn is over. */
  fail(text) {
    const message = { model: "<synthetic>", id: `msg_${this.id}_${this.#number}`, type: "message", role: "assistant", content: [{ type: "text", text }], stop_reason: "stop_sequence", usage: {} };
    return this.#line({ type: "assistant", isApiErrorMessage: true, message });
  }

  /** It asks to be allowed something, as its hook says. */
  async asksFor(command) {
    const payload = { session_id: this.id, transcript_path: this.file, cwd: this.cwd, hook_event_name: "PermissionRequest", tool_name: "Bash", tool_input: { command } };
    await this.world.hook("claude", "PermissionRequest", payload);
    return this;
  }

  think(thinking) {
    return this.#said([{ type: "thinking", thinking, signature: "c2ln" }], "tool_use");
  }

  call(name, input) {
    this.call_id = `toolu_${this.id}_${this.#number}`;
    return this.#said([{ type: "tool_use", id: this.call_id, name, input }], "tool_use");
  }

  result(content, { failed = false } = {}) {
    const block = { type: "tool_result", tool_use_id: this.call_id, content, is_error: failed };
    return this.#line({ type: "user", message: { role: "user", content: [block] }, toolUseResult: content });
  }

  compact(summary) {
    this.#line({ type: "system", subtype: "compact_boundary", content: "Conversation compacted", compactMetadata: { trigger: "auto", preTokens: 155_000 } });
    return this.#line({ type: "user", isCompactSummary: true, message: { role: "user", content: summary } });
  }

  /** One that works for it, on a task of its own; its call has to be told before. */
  async subagent(name, task) {
    const child = new Claude(this.world, this.id, { at: this.at, model: this.model, branch: this.branch });
    const folder = path.join(this.file.replace(/\.jsonl$/, ""), "subagents");
    Object.assign(child, { agent: name, cwd: this.cwd, file: path.join(folder, `agent-${name}.jsonl`), session: `${this.session}/${name}` });
    await mkdir(folder, { recursive: true });
    await writeFile(path.join(folder, `agent-${name}.meta.json`), JSON.stringify({ agentType: "general-purpose", description: task, toolUseId: this.call_id, spawnDepth: 1 }));
    return child.prompt(task);
  }

  /** Puts what was said where the daemon finds it. */
  async write() {
    await mkdir(path.dirname(this.file), { recursive: true });
    await appendFile(this.file, this.lines.join(""));
    this.lines = [];
    return this;
  }

  /** Its process runs, and says so the way Claude Code does. */
  async live(status, waitingFor) {
    if (!this.process) {
      this.process = spawn("/bin/sleep", ["600"], { stdio: "ignore" });
      this.world.processes.push(this.process);
    }
    const stat = await readFile(`/proc/${this.process.pid}/stat`, "utf8");
    const procStart = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
    const folder = path.join(this.world.home, ".claude/sessions");
    await mkdir(folder, { recursive: true });
    const at = Date.now();
    const entry = { pid: this.process.pid, procStart, sessionId: this.id, cwd: this.cwd, startedAt: at, version: "2.1.197", kind: "interactive", entrypoint: "cli", status, statusUpdatedAt: at, updatedAt: at, waitingFor };
    await writeFile(path.join(folder, `${this.process.pid}.json`), JSON.stringify(entry));
    return this;
  }

  /** The file looks as old as what is in it. */
  async age() {
    await utimes(this.file, this.at / 1000, this.at / 1000);
    return this;
  }

  #said(content, stop_reason) {
    const usage = { input_tokens: 12, output_tokens: 240, cache_read_input_tokens: 18_000, cache_creation_input_tokens: 900 };
    const id = `msg_${this.agent ?? this.id}_${this.#number}`;
    return this.#line({ type: "assistant", requestId: `req_${this.agent ?? this.id}_${this.#number}`, message: { model: this.model, id, type: "message", role: "assistant", content, stop_reason, usage } });
  }

  #line(record) {
    const number = this.#number++;
    this.at += 1_000;
    const uuid = (at) => `${(this.agent ?? this.id).slice(-8).padStart(8, "0")}-0000-4000-8000-${String(at).padStart(12, "0")}`;
    const common = {
      parentUuid: number === 0 ? null : uuid(number - 1),
      isSidechain: this.agent !== undefined,
      agentId: this.agent,
      userType: "external",
      cwd: this.cwd,
      sessionId: this.id,
      version: "2.1.197",
      gitBranch: this.branch,
      uuid: uuid(number),
      timestamp: new Date(Math.min(this.at, Date.now())).toISOString(),
    };
    this.lines.push(`${JSON.stringify({ ...common, ...record })}\n`);
    return this;
  }
}

/** A finished session of another agent, told as events: asked, done and answered. */
export async function told(world, provider, number, { project, at, model, asked, calls, answered }) {
  const step = (number) => ["step.completed", { model, response_id: `r${number}`, usage: { input_tokens: 2_400, output_tokens: 310, cache_read_tokens: 14_000 } }];
  const events = [
    ["session.started", { agent: provider, entry_point: "cli", cwd: `/home/dev/${project}` }],
    ["user.prompt", { content: asked }],
    ...calls.flatMap((command, number) => [
      step(number),
      ["tool.call", { call_id: `c${number}`, tool: "shell", input: { command } }],
      ["tool.result", { call_id: `c${number}`, outcome: "ok", output: "ok" }],
    ]),
    step(calls.length),
    ["assistant.message", { content: answered }],
    ["turn.completed", { stop_reason: "completed" }],
  ];
  const lines = events.map(([kind, data], place) => {
    const created_at = new Date(at + place * 4_000).toISOString();
    // Whoever imports gives it an id of its own: 26 letters and digits.
    const event_id = `01${String(number).padStart(12, "0")}${String(place).padStart(12, "0")}`;
    return JSON.stringify({ id: event_id, session_id: `${provider}:${id(number)}`, kind, seq: place + 1, created_at, observed_at: created_at, provider, provider_session_id: id(number), source: "transcript", confidence: "high", data, metadata: {} });
  });
  await world.hansardWith(lines.join("\n") + "\n", "import");
}

/** An id that is the same in every run. */
export function id(number) {
  return `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
}
