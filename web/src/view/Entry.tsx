// One thing that happened in a session: a prompt, an answer, a call with its result, a mark.

import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { field, type Fields, list, number, text } from "../contract/fields";
import type { RecordedEvent } from "../contract/types";
import { Code } from "../parts/Code";
import { CopyButton } from "../parts/CopyButton";
import { Markdown } from "../parts/Markdown";
import { Picture } from "../parts/Picture";
import { sessionPlace } from "../state/place";
import { showsThinking } from "../state/preferences";
import type { EntryOf } from "../state/entries";
import type { Log } from "../state/log";
import { clock, full, lasting, short } from "../text/format";
import { oneLine, plain } from "../text/plain";
import { ToolView } from "./ToolView";
import { useWhole } from "./whole";

interface Props {
  id: string;
  log: Log;
  entry: EntryOf;
  isTarget: boolean;
}

export const Entry = memo(
  function Entry({ id, log, entry, isTarget }: Props) {
    const { event, more, get } = useWhole(entry.event, log);
    const { className, label, body } = shown(id, log, { ...entry, event }, isTarget);
    return (
      <article
        class={`entry ${className}${isTarget ? " target" : ""}`}
        data-seq={event.seq}
        tabIndex={-1}
        aria-label={label}
      >
        <header>
          <span class="who">{label}</span>
          {event.confidence === "low" && (
            <span class="pill" title={`from ${event.source}`}>
              not sure
            </span>
          )}
          <a class="minor at" href={sessionPlace(id, event.seq)} title={`${full(event.created_at)} · event ${event.seq}`}>
            {clock(event.created_at)}
          </a>
          {event.text && <CopyButton text={async () => (await get()).text ?? ""} label="Copy" isInline />}
        </header>
        {body}
        {className !== "tool" && more}
      </article>
    );
  },
  (before, after) =>
    before.entry.event === after.entry.event &&
    before.entry.result === after.entry.result &&
    before.entry.isResultBelow === after.entry.isResultBelow &&
    before.isTarget === after.isTarget,
);

function shown(id: string, log: Log, { event, result, isResultBelow }: EntryOf, isTarget: boolean) {
  const data = event.data as Fields;
  switch (event.kind) {
    case "user.prompt":
      return { className: "prompt", label: field(data, "queued") ? "You, meanwhile" : "You", body: <Content event={event} /> };
    case "assistant.message":
      return { className: "answer", label: "Agent", body: <Content event={event} /> };
    case "assistant.thinking":
      return { className: "thinking", label: "Thinking", body: <Thinking text={text(field(data, "thinking")) || event.text || ""} isTarget={isTarget} /> };
    case "context.added":
      return { className: "context", label: "Context", body: <Folded summary={oneLine(event.text ?? "added by the agent", 120)} text={event.text ?? ""} /> };
    case "tool.call":
    case "tool.result":
      return {
        className: "tool",
        label: event.kind === "tool.call" ? text(field(data, "tool")) || "Tool" : "Result",
        body: (
          <ToolView
            log={log}
            call={event.kind === "tool.call" ? event : null}
            result={result ?? (event.kind === "tool.result" ? event : null)}
            isResultBelow={isResultBelow}
            isTarget={isTarget}
          />
        ),
      };
    case "compaction":
      return { className: "mark compaction", label: "Compaction", body: <Compaction event={event} /> };
    default:
      return { className: `mark of-${event.kind.split(".")[0]}`, label: markLabel(event), body: <Mark id={id} event={event} /> };
  }
}

/** Parts of what was said: text and pictures. */
function Content({ event }: { event: RecordedEvent }) {
  const content = field(event.data, "content");
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : list(content);
  if (parts.length === 0) return <Markdown text={event.text ?? ""} />;
  const isText = (part: unknown) => text(field(part, "type")) === "text" || text(field(part, "text")) !== "";
  const kindOf = (part: unknown) => text(field(part, "mime_type")) || text(field(part, "type"));
  // The record counts pictures only.
  const pictures = parts.filter((part) => !isText(part) && kindOf(part).startsWith("image"));
  return (
    <>
      {parts.map((part, at) =>
        isText(part) ? (
          <Markdown key={at} text={text(field(part, "text"))} />
        ) : (
          <Picture key={at} session={event.session_id} seq={event.seq} number={pictures.indexOf(part)} kind={kindOf(part)} />
        ),
      )}
    </>
  );
}

function Thinking({ text: thought, isTarget }: { text: string; isTarget: boolean }) {
  if (!thought) return <p class="minor">encrypted by the model's provider</p>;
  return (
    <details open={showsThinking.value || isTarget}>
      <summary>{oneLine(thought, 140)}</summary>
      <Markdown text={thought} />
    </details>
  );
}

function Folded({ summary, text: inside }: { summary: string; text: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && <Code text={inside} />}
    </details>
  );
}

function Compaction({ event }: { event: RecordedEvent }) {
  const tokens = number(field(event.data, "current_tokens"));
  const summary = list(field(event.data, "entries"))
    .flatMap((entry) => list(field(entry, "content")).map((part) => text(field(part, "text"))))
    .join("\n");
  return (
    <>
      <p>
        What came before was summed up for the model{tokens ? `: ${short(tokens)} tokens` : ""}. It is all still here.
      </p>
      {summary && <Folded summary="The summary" text={summary} />}
    </>
  );
}

function markLabel(event: RecordedEvent): string {
  const words: Record<string, string> = {
    "session.started": "Session started",
    "session.exited": "Session ended",
    "turn.completed": "Turn ended",
    "approval.requested": "Asks for approval",
    "approval.resolved": "Approval",
    "approval.canceled": "Approval withdrawn",
    "external.input": "Question",
    "settings.changed": "Settings",
    "epoch.closed": "Epoch closed",
    "child.started": "Subagent started",
    "child.completed": "Subagent done",
    "child.failed": "Subagent failed",
    "child.blocked": "Subagent blocked",
    "child.canceled": "Subagent canceled",
    error: "Error",
    retry: "Tried again",
    note: "Note",
    unknown: "Not understood",
    handoff: "Handoff",
  };
  return words[event.kind] ?? event.kind;
}

function Mark({ id, event }: { id: string; event: RecordedEvent }) {
  const data = event.data as Fields;
  const child = text(field(data, "child_session_id"));
  const parent = text(field(field(data, "parent"), "session_id"));
  const said =
    text(field(data, "message")) ||
    text(field(data, "error")) ||
    text(field(data, "reason")) ||
    text(field(data, "prompt")) ||
    text(field(data, "action")) ||
    text(field(data, "text")) ||
    text(field(data, "cause")) ||
    event.text ||
    "";
  const settings = ["model", "permission_mode", "cwd", "branch", "title"].map((name) => [name, text(field(data, name))] as const).filter(([, value]) => value);
  const lasted = number(field(data, "duration_ms"));
  return (
    <div class="mark-body">
      {said && <p dir="auto">{plain(said.slice(0, 2_000))}</p>}
      {(event.kind === "settings.changed" || event.kind === "session.started") && settings.length > 0 && (
        <p class="minor">{settings.map(([name, value]) => `${name.replaceAll("_", " ")} ${oneLine(value, 120)}`).join(" · ")}</p>
      )}
      {text(field(data, "decision")) && <p>{text(field(data, "decision"))}</p>}
      {lasted !== null && <p class="minor">{lasting(lasted)}</p>}
      {child && child !== id && (
        <p>
          <a href={sessionPlace(child)}>Open the subagent</a>
        </p>
      )}
      {parent && parent !== id && (
        <p>
          {text(field(data, "mode")) === "fork" ? "Forked from " : "Continues "}
          <a href={sessionPlace(parent)}>{parent}</a>
        </p>
      )}
      {event.kind === "unknown" && <Folded summary="As it was written" text={JSON.stringify(data, null, 2)} />}
    </div>
  );
}
