// What the bus says to pages: cards to show, and places to go to.

import { signal } from "@preact/signals";
import type { BusMessage } from "../contract/types";
import { oneLine, plain } from "../text/plain";
import { go, isPlace, place } from "./place";
import { isUsedLast } from "./tab";

export interface Card {
  key: number;
  title: string;
  message: string;
  icon: string;
  /** A path of this page; `null` if it leads nowhere. */
  action: string | null;
  app: string;
  count: number;
  isDismissible: boolean;
}

/** Equal cards within this time become one with a count. */
const EQUAL_WITHIN_MS = 10_000;

/** Cards of one app in a minute; further ones are counted on its last card. */
const PER_MINUTE_MAX = 20;

/** Cards on the page; with more, the oldest makes room. */
const CARDS_MAX = 8;

const TITLE_CHARS_MAX = 120;
const MESSAGE_CHARS_MAX = 600;
const RETRY_MS = 2_000;

export const cards = signal<Card[]>([]);

let keys = 0;
const shownAt = new Map<number, number>();
const perApp = new Map<string, number[]>();

export function dismiss(key: number): void {
  shownAt.delete(key);
  cards.value = cards.value.filter((card) => card.key !== key);
}

export function watchBus(): void {
  listen("notification", show);
  listen("navigate", navigate);
}

function listen(tract: string, hear: (message: BusMessage) => void): void {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}/api/bus?tract=${tract}`);
  socket.onmessage = (message: MessageEvent<string>) => {
    const told = JSON.parse(message.data) as BusMessage;
    if (told.tract === tract) hear(told);
  };
  socket.onclose = () => setTimeout(() => listen(tract, hear), RETRY_MS);
}

function show(message: BusMessage): void {
  const now = Date.now();
  const app = text(message.app, 40) || "system";
  const card: Card = {
    key: ++keys,
    title: text(message.title, TITLE_CHARS_MAX) || "Notification",
    message: plain(typeof message.message === "string" ? message.message.slice(0, MESSAGE_CHARS_MAX) : ""),
    icon: [...(text(message.icon, 8) || "📬")].slice(0, 4).join(""),
    action: isPlace(message.action) ? message.action : null,
    app,
    count: 1,
    isDismissible: message.dismissible !== false,
  };
  const equal = cards.value.find(
    (other) => other.app === app && other.title === card.title && other.message === card.message && now - (shownAt.get(other.key) ?? 0) < EQUAL_WITHIN_MS,
  );
  const recent = (perApp.get(app) ?? []).filter((at) => now - at < 60_000);
  perApp.set(app, recent);
  const counted = equal ?? (recent.length >= PER_MINUTE_MAX ? cards.value.findLast((other) => other.app === app) : undefined);
  if (counted) {
    cards.value = cards.value.map((other) => (other === counted ? { ...other, count: other.count + 1 } : other));
    return;
  }
  if (recent.length >= PER_MINUTE_MAX) return;
  recent.push(now);
  shownAt.set(card.key, now);
  cards.value = [...cards.value, card].slice(-CARDS_MAX);
  const ms = message.autoDismiss;
  if (typeof ms === "number" && ms > 0) setTimeout(() => dismiss(card.key), Math.min(ms, 3_600_000));
}

function navigate(message: BusMessage): void {
  if (message.event !== "request" || !isUsedLast()) return;
  const facet = text(message.facet, 200);
  const path = isPlace(message.path) ? message.path : null;
  if (!path && !facet) return;
  const to = new URL(path ?? place.value.path + location.search, location.origin);
  if (facet) to.searchParams.set("project", facet);
  go(to.pathname + to.search);
}

function text(value: unknown, charsMax: number): string {
  return typeof value === "string" ? oneLine(value, charsMax) : "";
}
