// What sessions are doing, as the daemon tells it.
//
// Each session has a signal of its own: news of one are drawn where it is shown, and nowhere else.
// The first frame of a connection is the board: all there is, and whatever was known before is over.

import { batch, signal, type Signal } from "@preact/signals";
import type { Status } from "../contract/types";
import { onFrame } from "./connection";
import { isSameList, steady } from "./steady";

/** News are drawn at most so often. */
const DRAW_EVERY_MS = 250;

/** A session that begins to need a person, or ceases to, is drawn so soon: a burst is one change. */
const GATHER_MS = 25;

const known = new Map<string, Signal<Status>>();

/** Moves when a session comes or goes. */
const listed = signal(0);

/** Moves with everything that is drawn. */
const drawn = signal(0);

/** Which sessions there are is known. */
export const isLoaded = signal(false);

/** What a session is doing; whoever reads it is told when that changes. */
export function statusOf(id: string): Status | undefined {
  listed.value;
  return known.get(id)?.value;
}

/** Whether it is told what a session is doing. */
export function isListed(id: string): boolean {
  return known.has(id);
}

/** What all are doing; whoever reads it is told of every change. */
export function allStatuses(): Status[] {
  drawn.value;
  return [...known.values()].map((status) => status.peek());
}

/** What a session may want, the most urgent first; what comes last can wait. */
const WANTS = ["risky_approval", "approval", "question", "failed", "looping", "stuck", "finished"];

/** Whether the user has to act on it; the daemon decides, for the page and for the terminal alike. */
export function needsPerson(status: Status): boolean {
  return status.group === "needs_you";
}

/** Since when it is what it is, or wants what it wants. */
export function sinceOf(status: Status): string {
  return needsPerson(status) ? (status.attention?.since ?? status.since) : status.since;
}

/** The most urgent first; of the others the newest. */
export function byUrgency(statuses: Status[]): Status[] {
  const placed = statuses.map((status) => {
    const isNeedy = needsPerson(status);
    const since = Date.parse(sinceOf(status));
    return { status, want: isNeedy ? WANTS.indexOf(status.attention?.want ?? "approval") : WANTS.length, at: isNeedy ? since : -since };
  });
  return placed.sort((a, b) => a.want - b.want || a.at - b.at).map(({ status }) => status);
}

/** Sessions that need a person; another list only if another need is among them. */
export const needing = steady(
  () => byUrgency(allStatuses().filter(needsPerson)),
  (before, after) => isSameList(before.map(needOf), after.map(needOf)),
);

/** Names one need: the same session may have another one later. */
export function needOf(status: Status): string {
  return needsPerson(status) ? `${status.session_id} ${status.attention?.want} ${sinceOf(status)}` : "";
}

/** What was told and is not drawn yet: `null` of a session that is gone. */
const told = new Map<string, Status | null>();

let timer: ReturnType<typeof setTimeout> | undefined;
let dueAt = Infinity;
let drawnAt = 0;

export function watchStatuses(): void {
  onFrame((frame) => {
    if (frame.type === "session.board") hearAll(frame.statuses);
    else if (frame.type === "session.status") hear(frame.status.session_id, frame.status);
    else if (frame.type === "session.gone") hear(frame.session_id, null);
  });
  document.addEventListener("visibilitychange", () => document.hidden || drawWithin(GATHER_MS));
}

function hearAll(statuses: Status[]): void {
  told.clear();
  for (const id of known.keys()) told.set(id, null);
  for (const status of statuses) told.set(status.session_id, status);
  clearTimeout(timer);
  batch(() => {
    draw();
    isLoaded.value = true;
  });
}

function hear(id: string, status: Status | null): void {
  const before = told.get(id) ?? known.get(id)?.peek();
  told.set(id, status);
  const isUrgent = (before ? needOf(before) : "") !== (status ? needOf(status) : "");
  if (isUrgent) drawWithin(GATHER_MS);
  // What nobody sees is drawn when somebody looks.
  else if (!document.hidden) drawWithin(Math.max(GATHER_MS, drawnAt + DRAW_EVERY_MS - Date.now()));
}

function drawWithin(ms: number): void {
  if (told.size === 0 || Date.now() + ms >= dueAt) return;
  clearTimeout(timer);
  dueAt = Date.now() + ms;
  timer = setTimeout(draw, ms);
}

function draw(): void {
  dueAt = Infinity;
  drawnAt = Date.now();
  batch(() => {
    let hasMoved = false;
    for (const [id, status] of told) {
      const shown = known.get(id);
      if (status && shown) shown.value = status;
      else if (status) known.set(id, signal(status));
      else known.delete(id);
      hasMoved ||= (status !== null) !== (shown !== undefined);
    }
    told.clear();
    if (hasMoved) listed.value++;
    drawn.value++;
  });
}
