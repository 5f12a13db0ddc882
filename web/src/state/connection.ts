// The connection to the daemon: what sessions are doing, and the streams somebody looks at.
//
// What stands in `streams` is asked for anew after a break, with the place it had come to, so
// nothing recorded meanwhile is missed.

import { batch, signal } from "@preact/signals";
import type { Frame, RecordedEvent } from "../contract/types";
import { loadPreferences } from "./preferences";
import { keepOpen, type Socket } from "./socket";

/** How long nobody may say anything before it is asked whether somebody is there. */
const SILENT_MS = 30_000;

/** How long an answer to that may take. */
const ANSWER_WITHIN_MS = 4_000;

/** A stream that was refused, or that ended, is asked for again after so long. */
const AGAIN_MS = 3_000;

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "gone"; since: number }
  | { state: "shut_out" };

export const connection = signal<Connection>({ state: "connecting" });

/** How long the last absence was, once it is over; `null` until there was one. */
export const lastAbsence = signal<{ from: number; to: number } | null>(null);

/** Absences that are over: what was asked before one may have failed, or be old. */
export const absences = signal(0);

interface Stream {
  after: number | null;
  onEvent: (event: RecordedEvent) => void;
  onInit?: (seq: number) => void;
}

type Listener = (frame: Frame) => void;

const listeners = new Set<Listener>();
const streams = new Map<string, Stream>();
/** Streams that were asked for and not answered yet; answers come in this order. */
let awaited: string[] = [];
let socket: Socket | null = null;
let goneSince: number | null = null;
let heardAt = 0;

/** Hears every frame; returns how to stop. */
export function onFrame(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follows a session behind `after`; every event comes once, also across broken connections. */
export function followSession(id: string, after: number | null, onEvent: Stream["onEvent"], onInit?: Stream["onInit"]): () => void {
  const stream: Stream = { after, onEvent, onInit };
  streams.set(id, stream);
  subscribe(id);
  return () => {
    if (streams.get(id) !== stream) return;
    streams.delete(id);
    socket?.say({ type: "unsubscribe-stream", session_id: id });
  };
}

export function connect(): void {
  socket = keepOpen("/api/ws", { onOpen: begin, onSaid: (said) => hear(said as Frame | null), onBroken: () => void leave() });
  setInterval(() => void probe(), SILENT_MS / 2);
}

function begin(): void {
  heardAt = Date.now();
  awaited = [];
  batch(() => {
    if (goneSince !== null) {
      lastAbsence.value = { from: goneSince, to: Date.now() };
      absences.value++;
    }
    goneSince = null;
    connection.value = { state: "live" };
  });
  socket?.say({ type: "subscribe-status" });
  void loadPreferences();
  for (const id of streams.keys()) subscribe(id);
}

async function leave(): Promise<void> {
  goneSince ??= Date.now();
  if (connection.value.state !== "shut_out") connection.value = { state: "gone", since: goneSince };
  const status = await statusOfHealth();
  // It may be back by now.
  if (goneSince === null || status === null) return;
  connection.value = status === 401 ? { state: "shut_out" } : { state: "gone", since: goneSince };
}

/** A daemon that hangs, or a tunnel that is cut, breaks no connection: somebody has to ask. */
async function probe(): Promise<void> {
  if (connection.value.state !== "live" || Date.now() - heardAt < SILENT_MS) return;
  if ((await statusOfHealth()) !== null) heardAt = Date.now();
  else if (Date.now() - heardAt >= SILENT_MS) socket?.renew();
}

/** The status of the daemon's answer; `null` if there is none. */
async function statusOfHealth(): Promise<number | null> {
  try {
    return (await fetch("/api/health", { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) })).status;
  } catch {
    return null;
  }
}

function hear(frame: Frame | null): void {
  heardAt = Date.now();
  if (frame === null) return;
  if (frame.type === "stream-event") {
    const stream = streams.get(frame.event.session_id);
    // What comes twice because a connection broke in between is told once.
    if (stream && (stream.after === null || frame.event.seq > stream.after)) {
      stream.after = frame.event.seq;
      stream.onEvent(frame.event);
    }
  } else if (frame.type === "stream-init" && frame.session_id !== null && frame.seq !== null) {
    awaited.shift();
    const stream = streams.get(frame.session_id);
    if (stream) {
      stream.after ??= frame.seq;
      stream.onInit?.(frame.seq);
    }
  } else if (frame.type === "refused") {
    const refused = awaited.shift();
    if (refused !== undefined) subscribeAgain(refused);
  } else if (frame.type === "stream-status" && frame.state === "ended" && frame.session_id !== null) {
    subscribeAgain(frame.session_id);
  }
  for (const listener of listeners) listener(frame);
}

function subscribe(id: string): void {
  const stream = streams.get(id);
  if (!stream || connection.value.state !== "live") return;
  const after = stream.after === null ? {} : { after: stream.after };
  awaited.push(id);
  socket?.say({ type: "subscribe-stream", session_id: id, ...after });
}

function subscribeAgain(id: string): void {
  setTimeout(() => subscribe(id), AGAIN_MS);
}
