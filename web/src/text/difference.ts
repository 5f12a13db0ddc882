// What changed between two texts, line by line.

export interface DiffLine {
  kind: "same" | "added" | "removed" | "hunk" | "file";
  text: string;
}

/** Lines times lines that are compared; beyond it, all old lines are removed and all new ones added. */
const CELLS_MAX = 250_000;

/** Lines that stay the same are shown so far around a change. */
const CONTEXT = 3;

export function difference(before: string, after: string): DiffLine[] {
  const old = before === "" ? [] : before.split("\n");
  const fresh = after === "" ? [] : after.split("\n");
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < fresh.length - head && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]) tail++;
  const same = (text: string): DiffLine => ({ kind: "same", text });
  return around([
    ...old.slice(0, head).map(same),
    ...middle(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail)),
    ...old.slice(old.length - tail).map(same),
  ]);
}

/** A patch as agents write it, unified or in Codex's own form. */
export function patchLines(patch: string): DiffLine[] {
  return patch
    .split("\n")
    .filter((line) => !/^\*\*\* (?:Begin|End) Patch/.test(line))
    .map((line): DiffLine => {
      if (/^(?:\*\*\* |--- |\+\+\+ |diff --git|index [0-9a-f]+)/.test(line)) return { kind: "file", text: line.replace(/^\*\*\* /, "") };
      if (line.startsWith("@@")) return { kind: "hunk", text: line };
      if (line.startsWith("+")) return { kind: "added", text: line.slice(1) };
      if (line.startsWith("-")) return { kind: "removed", text: line.slice(1) };
      return { kind: "same", text: line.replace(/^ /, "") };
    });
}

/** The longest common lines, by the table everybody learns. */
function middle(old: string[], fresh: string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ kind: "removed", text });
  const added = (text: string): DiffLine => ({ kind: "added", text });
  if (old.length * fresh.length > CELLS_MAX || old.length === 0 || fresh.length === 0) {
    return [...old.map(removed), ...fresh.map(added)];
  }
  const width = fresh.length + 1;
  const table = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = fresh.length - 1; j >= 0; j--) {
      table[i * width + j] =
        old[i] === fresh[j] ? table[(i + 1) * width + j + 1]! + 1 : Math.max(table[(i + 1) * width + j]!, table[i * width + j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length && j < fresh.length) {
    if (old[i] === fresh[j]) {
      lines.push({ kind: "same", text: old[i]! });
      i++;
      j++;
    } else if (table[(i + 1) * width + j]! >= table[i * width + j + 1]!) {
      lines.push(removed(old[i++]!));
    } else {
      lines.push(added(fresh[j++]!));
    }
  }
  return [...lines, ...old.slice(i).map(removed), ...fresh.slice(j).map(added)];
}

function around(lines: DiffLine[]): DiffLine[] {
  const isNear = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind === "same") return;
    isNear.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const shown: DiffLine[] = [];
  let left = 0;
  lines.forEach((line, at) => {
    if (isNear[at]) {
      if (left > 0) shown.push({ kind: "hunk", text: `${left} lines the same` });
      left = 0;
      shown.push(line);
    } else {
      left++;
    }
  });
  if (left > 0 && shown.length > 0) shown.push({ kind: "hunk", text: `${left} lines the same` });
  return shown;
}
