// The one WebSocket of the page: what sessions are doing, and the streams somebody looks at.
//
// A connection that breaks is made again, for as long as the page lives. What stands in `wanted` is
// asked for anew with the place it had come to, so nothing recorded meanwhile is missed.

import { signal } from "@preact/signals";
import type { Frame, RecordedEvent } from "../contract/types";

/** Milliseconds before the first and at most before any further attempt to connect. */
const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 4_000;

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "gone"; since: number }
  | { state: "shut_out" };

export const connection = signal<Connection>({ state: "connecting" });

/** How long the last absence was, once it is over; `null` until there was one. */
export const lastAbsence = signal<{ from: number; to: number } | null>(null);

interface Stream {
  after: number | null;
  onEvent: (event: RecordedEvent) => void;
  onInit?: (seq: number) => void;
}

type Listener = (frame: Frame) => void;

const listeners = new Set<Listener>();
const streams = new Map<string, Stream>();
let socket: WebSocket | null = null;
let retryMs = RETRY_FIRST_MS;
let goneSince: number | null = null;

/** Hears every frame; returns how to stop. */
export function onFrame(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follows a session behind `after`; every event comes once, also across broken connections. */
export function followSession(id: string, after: number | null, onEvent: Stream["onEvent"], onInit?: Stream["onInit"]): () => void {
  const stream: Stream = { after, onEvent, onInit };
  streams.set(id, stream);
  subscribe(id, stream);
  return () => {
    if (streams.get(id) !== stream) return;
    streams.delete(id);
    say({ type: "unsubscribe-stream", session_id: id });
  };
}

export function connect(): void {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const made = new WebSocket(`${scheme}://${location.host}/api/ws`);
  socket = made;
  made.onopen = () => {
    retryMs = RETRY_FIRST_MS;
    if (goneSince !== null) lastAbsence.value = { from: goneSince, to: Date.now() };
    goneSince = null;
    connection.value = { state: "live" };
    say({ type: "subscribe-status" });
    for (const [id, stream] of streams) subscribe(id, stream);
  };
  made.onmessage = (message: MessageEvent<string>) => hear(JSON.parse(message.data) as Frame);
  made.onclose = () => void again();
}

async function again(): Promise<void> {
  socket = null;
  goneSince ??= Date.now();
  const isShutOut = await fetch("/api/health").then(
    (answer) => answer.status === 401,
    () => false,
  );
  connection.value = isShutOut ? { state: "shut_out" } : { state: "gone", since: goneSince };
  setTimeout(connect, retryMs);
  retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
}

function hear(frame: Frame): void {
  if (frame.type === "stream-event") {
    const stream = streams.get(frame.event.session_id);
    // What comes twice because a connection broke in between is told once.
    if (stream && (stream.after === null || frame.event.seq > stream.after)) {
      stream.after = frame.event.seq;
      stream.onEvent(frame.event);
    }
  } else if (frame.type === "stream-init" && frame.session_id !== null && frame.seq !== null) {
    const stream = streams.get(frame.session_id);
    if (stream) {
      stream.after ??= frame.seq;
      stream.onInit?.(frame.seq);
    }
  }
  for (const listener of listeners) listener(frame);
}

function subscribe(id: string, stream: Stream): void {
  const after = stream.after === null ? {} : { after: stream.after };
  say({ type: "subscribe-stream", session_id: id, ...after });
}

function say(asked: object): void {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(asked));
}
