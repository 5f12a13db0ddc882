// What the bus says to pages: cards to show, and places to go to.

import { signal } from "@preact/signals";
import { field } from "../contract/fields";
import type { BusMessage } from "../contract/types";
import { oneLine, plain } from "../text/plain";
import { connection } from "./connection";
import { go, isPlace, place } from "./place";
import { keepOpen, type Socket } from "./socket";
import { isUsedLast } from "./tab";

export interface Card {
  key: number;
  title: string;
  message: string;
  icon: string;
  /** A path of this page; `null` if it leads nowhere. */
  action: string | null;
  app: string;
  /** A word or a number to go with the title, and the project it is about. */
  badge: string;
  facet: string;
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
const FACET_CHARS_MAX = 200;

export const cards = signal<Card[]>([]);

let keys = 0;
/** When cards were shown: as many as there are, and those of the last minute by app. */
const shownAt = new Map<number, number>();
const perApp = new Map<string, number[]>();

export function dismiss(key: number): void {
  shownAt.delete(key);
  cards.value = cards.value.filter((card) => card.key !== key);
}

/** Listens while there is a daemon to listen to. */
export function watchBus(): void {
  let sockets: Socket[] = [];
  connection.subscribe(({ state }) => {
    for (const socket of sockets) socket.close();
    sockets = state === "live" ? [listen("notification", show), listen("navigate", navigate)] : [];
  });
}

function listen(tract: string, hear: (message: BusMessage) => void): Socket {
  const onSaid = (said: unknown) => {
    if (field(said, "tract") === tract) hear(said as BusMessage);
  };
  return keepOpen(`/api/bus?tract=${tract}`, { onSaid });
}

function show(message: BusMessage): void {
  const now = Date.now();
  const app = text(message.app, 40) || "system";
  const facet = text(message.facet, FACET_CHARS_MAX);
  const card: Card = {
    key: ++keys,
    title: text(message.title, TITLE_CHARS_MAX) || "Notification",
    message: plain(typeof message.message === "string" ? message.message.slice(0, MESSAGE_CHARS_MAX) : ""),
    icon: [...(text(message.icon, 8) || "📬")].slice(0, 4).join(""),
    action: isPlace(message.action) ? withFacet(message.action, facet) : null,
    app,
    badge: text(typeof message.badge === "number" ? String(message.badge) : message.badge, 20),
    facet,
    count: 1,
    isDismissible: message.dismissible !== false,
  };
  const equal = cards.value.find(
    (other) => other.app === app && other.title === card.title && other.message === card.message && now - (shownAt.get(other.key) ?? 0) < EQUAL_WITHIN_MS,
  );
  for (const [name, times] of perApp) {
    const recent = times.filter((at) => now - at < 60_000);
    if (recent.length > 0) perApp.set(name, recent);
    else perApp.delete(name);
  }
  const recent = perApp.get(app) ?? [];
  const counted = equal ?? (recent.length >= PER_MINUTE_MAX ? cards.value.findLast((other) => other.app === app) : undefined);
  if (counted) {
    cards.value = cards.value.map((other) => (other === counted ? { ...other, count: other.count + 1 } : other));
    return;
  }
  if (recent.length >= PER_MINUTE_MAX) return;
  perApp.set(app, [...recent, now]);
  shownAt.set(card.key, now);
  cards.value = [...cards.value, card].slice(-CARDS_MAX);
  for (const key of shownAt.keys()) if (!cards.value.some((other) => other.key === key)) shownAt.delete(key);
  const ms = message.autoDismiss;
  if (typeof ms === "number" && ms > 0) setTimeout(() => dismiss(card.key), Math.min(ms, 3_600_000));
}

/** Views that show one project if asked to. */
const OF_PROJECTS = new Set(["/", "/sessions", "/feed", "/usage", "/activity"]);

function navigate(message: BusMessage): void {
  if (message.event !== "request" || !isUsedLast()) return;
  const facet = text(message.facet, FACET_CHARS_MAX);
  const path = isPlace(message.path) ? message.path : null;
  if (!path && !facet) return;
  const here = OF_PROJECTS.has(place.value.path) ? location.pathname + location.search : "/";
  go(withFacet(path ?? here, facet));
}

/** A place of the page, about one project. */
function withFacet(place: string, facet: string): string {
  const to = new URL(place, location.origin);
  if (facet) to.searchParams.set("project", facet);
  return to.pathname + to.search;
}

function text(value: unknown, charsMax: number): string {
  return typeof value === "string" ? oneLine(value, charsMax) : "";
}
