// What of a log is shown to people, and what belongs together in it.

import { field, text } from "../contract/fields";
import type { RecordedEvent } from "../contract/types";

export interface EntryOf {
  event: RecordedEvent;
  /** The result of a call. */
  result: RecordedEvent | null;
  /** A call whose result may stand further down than what is held. */
  isResultBelow: boolean;
}

/** Kinds that say nothing to people who read the talk. */
const SILENT = new Set([
  "step.started",
  "step.completed",
  "turn.started",
  "tool.started",
  "tool.delta",
  "assistant.delta",
  "heartbeat",
  "status.changed",
  "snapshot",
  "compaction.started",
  "child.progressed",
  "child.requested",
]);

/** Whether an event has something to say of its own; results belong to their calls. */
export function isSpoken(event: RecordedEvent): boolean {
  if (SILENT.has(event.kind) || event.kind === "tool.result") return false;
  return event.kind !== "turn.completed" || isNoteworthyEnd(event);
}

/** What is shown of these events: calls have their results with them. */
export function entriesOf(events: RecordedEvent[], isEnd: boolean): EntryOf[] {
  const results = new Map<string, RecordedEvent>();
  const calls = new Set<string>();
  for (const event of events) {
    const call = callOf(event);
    if (event.kind === "tool.call" && call) calls.add(call);
    // A fuller account of the same result stands for the first.
    if (event.kind === "tool.result" && call) results.set(call, event);
  }
  const isShown = (event: RecordedEvent) => isSpoken(event) || (event.kind === "tool.result" && !calls.has(callOf(event)));
  return events.filter(isShown).map((event) => {
    const result = event.kind === "tool.call" ? (results.get(callOf(event)) ?? null) : null;
    return { event, result, isResultBelow: event.kind === "tool.call" && !result && !isEnd };
  });
}

/** The entry in which an event is told: its own, that of its call, or the one before it. */
export function entryWith(entries: EntryOf[], seq: number): EntryOf | undefined {
  return entries.find(({ event, result }) => event.seq === seq || result?.seq === seq) ?? entries.findLast(({ event }) => event.seq <= seq) ?? entries[0];
}

function callOf(event: RecordedEvent): string {
  return text(field(event.data, "call_id"));
}

function isNoteworthyEnd(event: RecordedEvent): boolean {
  const reason = text(field(event.data, "stop_reason"));
  return !!field(event.data, "error") || (reason !== "" && reason !== "completed");
}
