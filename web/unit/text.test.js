// Text as it is shown: data in, data out.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.js";

const { plain, exact, oneLine, blocks, inlines, difference, patchLines, highlight, age, lasting, short, money, askedOf, runsTests, sinceDay, everyDay } = await load(
  "text/plain",
  "text/blocks",
  "text/difference",
  "text/highlight",
  "text/format",
  "text/asked",
  "text/tests",
  "text/days",
);

/** Long enough that work which grows with the square of it would never end. */
const LONG = 400_000;

const check = (of, cases) => assert.deepEqual(cases.map(([given]) => of(given)), cases.map(([, expected]) => expected));

test("nothing in a text acts", () => {
  check(plain, [
    ["\x1b[31mred\x1b[0m", "red"],
    ["\x1b]0;title\x07seen", "seen"],
    ["\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\", "link"],
    ["a\r\nb\rc\u2028d", "a\nb\nc\nd"],
    ["\u0000\u0007\u0008\u009b31mx", "31mx"],
    ["\u202eexe.png", "⟨U+202E⟩exe.png"],
    ["a\u200bb\ufeff\u{e0041}", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+E0041⟩"],
    ["👩\u200d💻 می\u200cخواهم", "👩\u200d💻 می\u200cخواهم"],
  ]);
});

test("a sequence without an end hides nothing", () => {
  check(plain, [
    ["ls \x1b]0; rm -rf /\nnext line", "ls 0; rm -rf /\nnext line"],
    ["\x1bPnever ended\nnext", "never ended\nnext"],
    ["\x1b_a\x1b_b", "ab"],
    ["\x1b[", ""],
  ]);
});

test("what somebody decides about is told with all that is in it", () => {
  check(exact, [
    ["ls \x1b]0;rm -rf ~\x07", "ls ⟨U+001B⟩]0;rm -rf ~⟨U+0007⟩"],
    ["a\tb\nc", "a\tb\nc"],
    ["\u202etxt", "⟨U+202E⟩txt"],
  ]);
});

test("one line is one line", () => {
  assert.equal(oneLine(" a\n\tb  c ", 10), "a b c");
  assert.equal(oneLine("x".repeat(50), 10), `${"x".repeat(9)}…`);
});

test("Markdown becomes blocks", () => {
  const text = (words) => ({ type: "paragraph", text: words });
  check(blocks, [
    ["# One ##\ntext", [{ type: "heading", level: 1, text: "One" }, text("text")]],
    ["####### seven", [text("####### seven")]],
    ["```rust linenos\nlet a;\n```\nafter", [{ type: "code", language: "rust", text: "let a;" }, text("after")]],
    ["``` a ` b", [text("``` a ` b")]],
    ["~~~ a ` b\ncode", [{ type: "code", language: "a", text: "code" }]],
    ["a\n\n***\n\nb", [text("a"), { type: "rule" }, text("b")]],
    ["> a\n> b", [{ type: "quote", blocks: [text("a\nb")] }]],
    ["| a | b |\n|:--|--:|\n| 1 | 2 \\| 3 |", [{ type: "table", head: ["a", "b"], rows: [["1", "2 | 3"]] }]],
    ["a | b\n- | x", [text("a | b"), { type: "list", isOrdered: false, start: 1, items: [{ isDone: null, blocks: [text("| x")] }] }]],
    ["3. a\n4. [x] b", [{ type: "list", isOrdered: true, start: 3, items: [{ isDone: null, blocks: [text("a")] }, { isDone: true, blocks: [text("b")] }] }]],
  ]);
});

test("only addresses of the web become links, and a link that says another address says where it leads", () => {
  const link = (to, words, host = null) => [{ type: "link", to, parts: [{ type: "text", text: words }], host }];
  check(inlines, [
    ["[here](https://a.example/x)", link("https://a.example/x", "here")],
    ["[https://bank.example](https://evil.example/)", link("https://evil.example/", "https://bank.example", "evil.example")],
    ["[a.example/x](https://a.example/x)", link("https://a.example/x", "a.example/x")],
    ["[x](javascript:alert)", [{ type: "text", text: "x (javascript:alert)" }]],
    ["![p](data:image/png;base64,AA)", [{ type: "text", text: "p (data:image/png;base64,AA)" }]],
    ["a **b** `c`", [{ type: "text", text: "a " }, { type: "strong", parts: [{ type: "text", text: "b" }] }, { type: "text", text: " " }, { type: "code", text: "c" }]],
  ]);
});

test("work grows with the length of a text, whatever is in it", { timeout: 30_000 }, () => {
  const spaces = " ".repeat(LONG);
  for (const line of [`# a${spaces}x`, `# ${"#".repeat(LONG)}x`, `\`\`\`${spaces}\`x`, `~~~${spaces}x`, `| a |\n|${"-".repeat(LONG)}x`, `| a |\n${"|-".repeat(LONG / 2)}x`, `- ${spaces}\u2028x`, `${"- ".repeat(LONG / 2)}x`, `${"*".repeat(LONG)} x`, "> ".repeat(LONG / 2)]) {
    assert.ok(blocks(line).length > 0);
  }
  for (const text of [`\x1b]${"a".repeat(LONG)}`, "\x1b]".repeat(LONG / 2), "\x1bP".repeat(LONG / 2), `\x1b[${"0".repeat(LONG)}`]) plain(text);
  for (const text of ["**a ".repeat(LONG / 4), "`".repeat(LONG), "_a".repeat(LONG / 2), "[a](".repeat(LONG / 40), "http".repeat(LONG / 4)]) assert.ok(inlines(text).length > 0);
});

test("a difference has what changed, and a little around it", () => {
  const lines = Array.from({ length: 20 }, (_, number) => `line ${number}`);
  const told = difference(lines.join("\n"), lines.with(10, "other").join("\n")).map(({ kind, text }) => `${kind} ${text}`);
  assert.deepEqual(told, ["hunk 7 lines the same", "same line 7", "same line 8", "same line 9", "removed line 10", "added other", "same line 11", "same line 12", "same line 13", "hunk 6 lines the same"]);
  assert.deepEqual(difference("", "a"), [{ kind: "added", text: "a" }]);
  assert.deepEqual(difference("same", "same"), []);
});

test("patches are read in both forms", () => {
  const kinds = (patch) => patchLines(patch).map(({ kind }) => kind);
  assert.deepEqual(kinds("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same"), ["file", "file", "hunk", "removed", "added", "same"]);
  assert.deepEqual(kinds("*** Begin Patch\n*** Update File: x\n@@\n-old\n+new\n*** End Patch"), ["file", "hunk", "removed", "added"]);
});

test("colours never change the text", () => {
  for (const language of ["rust", "py", "sql", "html", "diff", "text", "nonsense"]) {
    const code = 'fn main() { // "quoted\n  let a = "x\\"y"; /* open\n<a href=1>&amp; -- it\'s 0x1F\n+added\n';
    assert.equal(highlight(code, language).map(({ text }) => text).join(""), code);
  }
  assert.deepEqual(highlight("let a = 1;", "rust").map(({ kind, text }) => `${kind}:${text}`), ["keyword:let", "null: a = ", "number:1", "null:;"]);
});

test("numbers and times read well at their edges", () => {
  check(age, [[0, "now"], [59_999, "59 s"], [60_000, "1 min"], [3_600_000, "1 h"], [5_400_000, "1 h 30 min"], [172_800_000, "2 d"]]);
  check(lasting, [[0, "none"], [999, "999 ms"], [999.7, "1.0 s"], [9_960, "10 s"], [59_700, "1 min 0 s"], [119_600, "2 min 0 s"], [3_599_700, "1 h 0 min"]]);
  check(short, [[999, "999"], [1_000, "1.0k"], [9_960, "10k"], [999_499, "999k"], [999_950, "1.0M"], [12_400_000, "12M"], [2_500_000_000, "2.5G"], [3e12, "3000G"]]);
  check(money, [[null, "–"], [0, "$0"], [0.004, "<$0.01"], [12.345, "$12.35"], [1234.5, "$1,235"]]);
});

test("what waits to be allowed is told word for word", () => {
  check((input) => askedOf(input, "told"), [
    [{ command: "git push  --force" }, "git push  --force"],
    [{ cmd: ["bash", "-lc", "echo 'a b'"] }, "bash -lc 'echo '\\''a b'\\'''"],
    [{ file_path: "/a", content: "x" }, '{\n  "file_path": "/a",\n  "content": "x"\n}'],
    ["*** Begin Patch", "*** Begin Patch"],
    [null, "told"],
  ]);
});

test("running tests is running tests", () => {
  for (const line of ["runs cargo test", "runs cargo nextest run -p x", "runs npm run test", "runs cd web && npx vitest --run", "runs RUST_LOG=1 cargo test", "runs python -m pytest -q", "runs make check", "runs ./test --quick"]) assert.ok(runsTests(line), line);
  for (const line of ["edits tests.rs", "runs rg test", "runs cat tests/a.rs", "searches pytest", "runs git commit -m 'improve tests'", "runs cargo build", "works on the last prompt"]) assert.ok(!runsTests(line), line);
});

test("seven days are seven, and every day between two has a bar", () => {
  const now = Date.parse("2026-03-30T23:30:00Z");
  const zone = process.env.TZ;
  for (const [where, one, seven] of [
    ["UTC", "2026-03-30T00:00:00.000Z", "2026-03-24T00:00:00.000Z"],
    ["Asia/Kolkata", "2026-03-30T18:30:00.000Z", "2026-03-24T18:30:00.000Z"],
    // The clocks change on the 29th.
    ["Europe/Berlin", "2026-03-30T22:00:00.000Z", "2026-03-24T23:00:00.000Z"],
  ]) {
    process.env.TZ = where;
    check((days) => sinceDay(days, now), [["1", one], ["7", seven], ["all", null], ["", null], ["-3", null]]);
  }
  process.env.TZ = zone ?? "";
  const told = (values, max) => everyDay(new Map(values), max).map(({ name, value }) => `${name} ${value}`);
  assert.deepEqual(told([["2026-03-02", 3], ["2026-02-27", 1], ["not told", 9]]), ["2026-02-27 1", "2026-02-28 0", "2026-03-01 0", "2026-03-02 3"]);
  assert.deepEqual(told([["2020-01-01", 1], ["2026-03-02", 3]], 2), ["2026-03-01 0", "2026-03-02 3"]);
  assert.deepEqual(told([]), []);
});
