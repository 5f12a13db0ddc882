// A call of a tool with its result, folded: what it did in one line, and all of it when opened.

import { useEffect, useState } from "preact/hooks";
import { field, list, number, text } from "../contract/fields";
import type { RecordedEvent } from "../contract/types";
import { Code, Diff } from "../parts/Code";
import { Picture } from "../parts/Picture";
import { opensTools } from "../state/preferences";
import type { Log } from "../state/log";
import { difference, type DiffLine, patchLines } from "../text/difference";
import { lasting } from "../text/format";
import { languageOf } from "../text/highlight";
import { oneLine, plain } from "../text/plain";
import { useWhole } from "./whole";

const OUTCOMES: Record<string, { sign: string; word: string }> = {
  ok: { sign: "✓", word: "done" },
  error: { sign: "✕", word: "failed" },
  rejected: { sign: "⊘", word: "rejected" },
  canceled: { sign: "⊘", word: "canceled" },
  lost: { sign: "?", word: "lost" },
};

interface Props {
  log: Log;
  call: RecordedEvent | null;
  result: RecordedEvent | null;
  isResultBelow: boolean;
  isTarget: boolean;
}

export function ToolView({ log, call, result, isResultBelow, isTarget }: Props) {
  const [isOpen, setOpen] = useState(opensTools.value || isTarget);
  // Whoever was led here sees what is in it.
  useEffect(() => {
    if (isTarget) setOpen(true);
  }, [isTarget]);
  const outcome = result ? text(field(result.data, "outcome")) : "";
  const none = { sign: "…", word: isResultBelow ? "its result is further down" : "no result yet" };
  const { sign, word } = result ? (OUTCOMES[outcome] ?? { sign: "✓", word: outcome }) : none;
  const took = number(field(result?.data, "duration_ms"));
  const tool = text(field(call?.data ?? result?.data, "tool"));
  const told = call?.text ?? result?.text ?? tool;
  const line = told.startsWith(`${tool}: `) ? told.slice(tool.length + 2) : told === tool ? "" : told;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class={`outcome ${outcome || "open"}`} role="img" aria-label={word} title={word}>
          {sign}
        </span>
        <span class="argument" dir="ltr">
          {oneLine(line, 200)}
        </span>
        {took !== null && <span class="minor">{lasting(took)}</span>}
      </summary>
      {isOpen && (
        <>
          {call && <Input call={call} log={log} told={line} />}
          {result && <Output result={result} log={log} path={text(field(field(call?.data, "input"), "file_path"))} />}
        </>
      )}
    </details>
  );
}

function Input({ call, log, told }: { call: RecordedEvent; log: Log; told: string }) {
  const { event, more, get } = useWhole(call, log);
  const input = field(event.data, "input");
  const lines = changes(input);
  if (lines) {
    return (
      <>
        <Diff lines={lines} />
        {more}
      </>
    );
  }
  const command = commandOf(event);
  if (command) {
    const about = text(field(input, "description"));
    return (
      <>
        {about && <p class="minor">{plain(about)}</p>}
        <Code text={command} language="sh" copied={async () => commandOf(await get())} />
        {more}
      </>
    );
  }
  const content = text(field(input, "content"));
  const path = text(field(input, "file_path")) || text(field(input, "path"));
  if (content && path) {
    return (
      <>
        <Code text={content} language={languageOf(path)} copied={async () => text(field(field((await get()).data, "input"), "content"))} />
        {more}
      </>
    );
  }
  const todos = list(field(input, "todos"));
  if (todos.length > 0) {
    return (
      <ul class="todos">
        {todos.map((todo, at) => {
          const status = text(field(todo, "status"));
          return (
            <li key={at} class={status}>
              <span role="img" aria-label={status.replaceAll("_", " ")}>
                {status === "completed" ? "☑" : status === "in_progress" ? "◐" : "☐"}
              </span>{" "}
              {plain(text(field(todo, "content")))}
            </li>
          );
        })}
      </ul>
    );
  }
  // What the line above says already is not said again.
  if (input !== null && typeof input === "object" && Object.values(input).every((value) => typeof value === "string" && told.includes(value))) return null;
  const written = typeof input === "string" ? input : JSON.stringify(input, null, 2);
  if (!written || written === "{}" || written === "null") return null;
  return (
    <>
      <Code text={written} language={typeof input === "string" ? "js" : "json"} />
      {more}
    </>
  );
}

function Output({ result, log, path }: { result: RecordedEvent; log: Log; path: string }) {
  const { event, more, get } = useWhole(result, log);
  const data = event.data;
  const output = field(data, "output");
  const error = text(field(data, "error"));
  const parts = [...list(field(data, "parts")), ...(Array.isArray(output) ? output : [])];
  const pictures = parts.filter((part) => /^image/.test(text(field(part, "mime_type")) || text(field(part, "type"))));
  const written = writtenOf(event);
  const code = number(field(data, "exit_code"));
  return (
    <div class="output">
      {error && <p class="error-text">{plain(error)}</p>}
      {code !== null && code !== 0 && <p class="minor">exit code {code}</p>}
      {written ? <Code text={written} language={path ? languageOf(path) : "text"} copied={async () => writtenOf(await get())} /> : !error && <p class="minor">no output</p>}
      {pictures.map((part, at) => (
        <Picture key={at} session={event.session_id} seq={event.seq} number={at} kind={text(field(part, "mime_type")) || text(field(part, "type"))} />
      ))}
      {more}
    </div>
  );
}

function commandOf(call: RecordedEvent): string {
  const input = field(call.data, "input");
  return text(field(input, "command")) || text(field(input, "cmd")) || text(field(input, "script"));
}

function writtenOf(result: RecordedEvent): string {
  const output = field(result.data, "output");
  if (typeof output === "string") return output;
  if (Array.isArray(output)) return output.map((part) => text(field(part, "text"))).filter(Boolean).join("\n");
  return output == null ? "" : JSON.stringify(output, null, 2);
}

/** What a call changes in files, if that can be told from its input. */
function changes(input: unknown): DiffLine[] | null {
  if (typeof input === "string") return input.includes("*** Begin Patch") ? patchLines(input) : null;
  const patch = text(field(input, "patch")) || text(field(input, "diff"));
  if (patch) return patchLines(patch);
  const path = text(field(input, "file_path")) || text(field(input, "path"));
  const file: DiffLine[] = path ? [{ kind: "file", text: path }] : [];
  const edits = list(field(input, "edits"));
  const one = (edit: unknown): DiffLine[] | null => {
    const before = field(edit, "old_string") ?? field(edit, "old_str");
    const after = field(edit, "new_string") ?? field(edit, "new_str");
    return typeof before === "string" && typeof after === "string" ? difference(before, after) : null;
  };
  if (edits.length > 0) return [...file, ...edits.flatMap((edit) => one(edit) ?? [])];
  const lines = one(input);
  return lines && [...file, ...lines];
}
