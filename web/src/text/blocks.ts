// Markdown as data: text in, blocks out. Nothing in a text can become anything but what is listed
// here; what is not understood stays text. Work grows with the length of the text.
//
// Not here: how it looks (`Markdown.tsx`).

export type Block =
  | { type: "paragraph"; text: string }
  | { type: "heading"; level: number; text: string }
  | { type: "code"; language: string; text: string }
  | { type: "quote"; blocks: Block[] }
  | { type: "list"; isOrdered: boolean; start: number; items: ListItem[] }
  | { type: "table"; head: string[]; rows: string[][] }
  | { type: "rule" };

export interface ListItem {
  /** `null` where it is no task. */
  isDone: boolean | null;
  blocks: Block[];
}

export type Inline =
  | { type: "text"; text: string }
  | { type: "code"; text: string }
  | { type: "strong" | "emphasis" | "struck"; parts: Inline[] }
  | { type: "link"; to: string; parts: Inline[]; /** Where it leads, if its text reads like another address. */ host: string | null };

/** How deep quotes and lists may stand in each other; what is deeper is text. */
const DEPTH_MAX = 8;

/** Schemes a link may have. A link to anything else is text. */
const SCHEMES = /^(?:https?:\/\/|mailto:)/i;

// Each of these looks at a character once or twice: what could begin in two ways is taken apart by
// hand below.
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+([^\n]*)|)$/;

export function blocks(text: string, depth = 0): Block[] {
  const lines = text.split("\n");
  const found: Block[] = [];
  let paragraph: string[] = [];
  const flush = () => {
    if (paragraph.length > 0) found.push({ type: "paragraph", text: paragraph.join("\n") });
    paragraph = [];
  };
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    const fence = fenceOf(line);
    if (fence) {
      flush();
      const end = closing(lines, at + 1, fence.mark);
      found.push({ type: "code", language: fence.language, text: lines.slice(at + 1, end).join("\n") });
      at = end + 1;
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      flush();
      const text = line.slice(heading[0].length).trim();
      found.push({ type: "heading", level: heading[1]!.length, text: withoutEnd(text, "#").trimEnd() });
      at++;
      continue;
    }
    if (RULE.test(line)) {
      flush();
      found.push({ type: "rule" });
      at++;
      continue;
    }
    if (depth < DEPTH_MAX && /^ {0,3}>/.test(line)) {
      flush();
      const quoted: string[] = [];
      while (at < lines.length && /^ {0,3}>/.test(lines[at]!)) quoted.push(lines[at++]!.replace(/^ {0,3}> ?/, ""));
      found.push({ type: "quote", blocks: blocks(quoted.join("\n"), depth + 1) });
      continue;
    }
    if (line.includes("|") && at + 1 < lines.length && isDivider(lines[at + 1]!)) {
      flush();
      const rows: string[][] = [];
      const head = cells(line);
      at += 2;
      while (at < lines.length && lines[at]!.includes("|")) rows.push(cells(lines[at++]!));
      found.push({ type: "table", head, rows });
      continue;
    }
    if (depth < DEPTH_MAX && ITEM.test(line) && (paragraph.length === 0 || !/^ *\d+/.test(line) || /^ *1[.)]/.test(line))) {
      flush();
      const [list, next] = takeList(lines, at, depth);
      found.push(list);
      at = next;
      continue;
    }
    if (line.trim() === "") flush();
    else paragraph.push(line);
    at++;
  }
  flush();
  return found;
}

/** The opening line of a piece of code. */
function fenceOf(line: string): { mark: string; language: string } | null {
  const mark = FENCE.exec(line)?.[1];
  if (!mark) return null;
  const rest = line.slice(line.indexOf(mark) + mark.length).trim();
  // Code within a line may begin with as many ticks.
  if (mark[0] === "`" && rest.includes("`")) return null;
  return { mark, language: rest.split(/\s/, 1)[0]!.toLowerCase() };
}

/** The line below the head of a table. */
function isDivider(line: string): boolean {
  const inner = line.trim();
  if (!inner.includes("-") || line.length - line.trimStart().length > 3) return false;
  return sides(inner).split("|").every((cell) => /^:?-+:?$/.test(cell.trim()));
}

/** A row without the lines at its sides. */
function sides(row: string): string {
  return row.slice(row.startsWith("|") ? 1 : 0, row.length > 1 && row.endsWith("|") ? -1 : undefined);
}

function withoutEnd(text: string, letter: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === letter) end--;
  return text.slice(0, end);
}

function closing(lines: string[], from: number, fence: string): number {
  const mark = fence[0]!;
  for (let at = from; at < lines.length; at++) {
    const trimmed = lines[at]!.trim();
    if (trimmed.length >= fence.length && trimmed === mark.repeat(trimmed.length)) return at;
  }
  return lines.length;
}

function takeList(lines: string[], from: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[from]!)!;
  const indent = first[1]!.length;
  const isOrdered = /\d/.test(first[2]!);
  const items: ListItem[] = [];
  let content: string[] = [];
  let inner = 0;
  const close = () => {
    if (items.length === 0) return;
    const task = /^\[([ xX])\][ \t]+/.exec(content[0] ?? "");
    if (task) content[0] = content[0]!.slice(task[0].length);
    const item = items[items.length - 1]!;
    item.isDone = task ? task[1] !== " " : null;
    item.blocks = blocks(withoutEnd(content.join("\n"), "\n"), depth + 1);
  };
  let at = from;
  for (; at < lines.length; at++) {
    const line = lines[at]!;
    const item = ITEM.exec(line);
    const spaces = line.length - line.trimStart().length;
    if (item && spaces <= indent + 1 && spaces >= indent - 1 && /\d/.test(item[2]!) === isOrdered) {
      close();
      items.push({ isDone: null, blocks: [] });
      content = [item[3] ?? ""];
      inner = spaces + item[2]!.length + 1;
    } else if (line.trim() === "") {
      // A blank line ends the list unless what follows still belongs to it.
      const next = lines[at + 1];
      if (next === undefined || next.trim() === "") break;
      const goesOn = next.length - next.trimStart().length > indent || (ITEM.test(next) && /^ *\d/.test(next) === isOrdered);
      if (!goesOn) break;
      content.push("");
    } else if (spaces > indent) {
      content.push(line.slice(Math.min(spaces, inner)));
    } else if (HEADING.test(line) || fenceOf(line) || RULE.test(line) || item || /^ {0,3}>/.test(line)) {
      break;
    } else {
      content.push(line);
    }
  }
  close();
  const start = isOrdered ? Number.parseInt(first[2]!, 10) : 1;
  return [{ type: "list", isOrdered, start, items }, at];
}

function cells(line: string): string[] {
  return sides(line.trim()).split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** How deep marks may stand in each other; what is deeper is text. */
const MARKS_MAX = 4;

/** Characters that may begin something; everything else is taken in one go. */
const ORDINARY = /[^`*_~[\\h!<]+|[\s\S]/gy;

/** There is no link within a link. */
export function inlines(text: string, depth = 0, isInLink = false): Inline[] {
  const parts: Inline[] = [];
  let pending = "";
  const push = (part: Inline) => {
    if (pending) parts.push({ type: "text", text: pending });
    pending = "";
    parts.push(part);
  };
  // A mark whose other half is missing is looked for once, not again at each of its kind.
  const missing = new Set<string>();
  const find = (mark: string, from: number): number => {
    if (missing.has(mark)) return -1;
    const found = text.indexOf(mark, from);
    if (found < 0) missing.add(mark);
    return found;
  };
  let at = 0;
  while (at < text.length) {
    ORDINARY.lastIndex = at;
    const run = ORDINARY.exec(text)![0];
    const char = run[0]!;
    if (run.length > 1) {
      pending += run;
      at += run.length;
      continue;
    }
    if (char === "\\" && /[\\`*_~[\]()#+\-.!|>]/.test(text[at + 1] ?? "")) {
      pending += text[at + 1];
      at += 2;
      continue;
    }
    if (char === "`") {
      const ticks = /^`+/.exec(text.slice(at, at + 16))![0];
      const end = find(ticks, at + ticks.length);
      if (end > 0) {
        push({ type: "code", text: text.slice(at + ticks.length, end).replace(/^ (.+) $/s, "$1") });
        at = end + ticks.length;
      } else {
        pending += ticks;
        at += ticks.length;
      }
      continue;
    }
    if (depth < MARKS_MAX && (char === "*" || char === "_" || char === "~")) {
      const mark = text.startsWith(char + char, at) ? char + char : char;
      const isWordy = char === "_" && /\w/.test(text[at - 1] ?? "");
      const opens = /\S/.test(text[at + mark.length] ?? "") && !isWordy && mark !== "~";
      const end = opens ? find(mark, at + mark.length + 1) : -1;
      if (end > 0 && /\S/.test(text[end - 1]!) && !(char === "_" && /\w/.test(text[end + mark.length] ?? ""))) {
        const type = char === "~" ? "struck" : mark.length === 2 ? "strong" : "emphasis";
        push({ type, parts: inlines(text.slice(at + mark.length, end), depth + 1, isInLink) });
        at = end + mark.length;
      } else {
        pending += mark;
        at += mark.length;
      }
      continue;
    }
    if (!isInLink && (char === "[" || (char === "!" && text[at + 1] === "["))) {
      // A picture from elsewhere is never loaded: it is a link like any other.
      const from = char === "!" ? at + 1 : at;
      const link = depth < MARKS_MAX && /^\[([^\]\n]{0,500})\]\(\s*<?([^\s)<>]{1,2000})>?(?:\s+"[^"\n]{0,300}")?\s*\)/.exec(text.slice(from, from + 2_900));
      if (link) {
        const inside = inlines(link[1] || link[2]!, MARKS_MAX - 1, true);
        if (SCHEMES.test(link[2]!)) push({ type: "link", to: link[2]!, parts: inside, host: otherHost(link[1] ?? "", link[2]!) });
        else push({ type: "text", text: `${link[1]} (${link[2]})` });
        at = from + link[0].length;
        continue;
      }
    }
    if (char === "h" && !isInLink && depth < MARKS_MAX && !/\w/.test(text[at - 1] ?? "")) {
      const url = /^https?:\/\/[^\s<>"'`\\\])}]{2,1000}/.exec(text.slice(at, at + 1_020))?.[0].replace(/[.,;:!?*_]+$/, "");
      if (url) {
        push({ type: "link", to: url, parts: [{ type: "text", text: url }], host: null });
        at += url.length;
        continue;
      }
    }
    pending += char;
    at++;
  }
  if (pending) parts.push({ type: "text", text: pending });
  return parts;
}

function otherHost(told: string, to: string): string | null {
  if (!/\w\.\w|:\/\//.test(told)) return null;
  const host = URL.canParse(to) ? new URL(to).host : "";
  return host && told.toLowerCase().includes(host) ? null : host || to;
}
