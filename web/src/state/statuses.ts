// What sessions are doing, as the daemon tells it, and what is known of them beside that.

import { batch, computed, signal } from "@preact/signals";
import type { Page, Session, Status } from "../contract/types";
import { ask } from "./ask";
import { connection, onFrame } from "./connection";

/** Frames are gathered for so long before anything is drawn: a burst is one change of the page. */
const GATHER_MS = 40;

/** Facts of sessions that changed are asked for at most so often. */
const FACTS_EVERY_MS = 3_000;

/** How far back facts are asked for when the page opens: statuses are told of one day. */
const FACTS_BACK_MS = 25 * 3_600_000;

/** Sessions asked for at a time, and pages of them at most. */
const FACTS_LIMIT = 500;
const FACTS_PAGES_MAX = 4;

export const statuses = signal<ReadonlyMap<string, Status>>(new Map());
export const facts = signal<ReadonlyMap<string, Session>>(new Map());

/** Everything there is to know was asked for once. */
export const isLoaded = signal(false);

/** Sessions that wait for a person, and have told so on this page. */
export const needing = computed(() => [...statuses.value.values()].filter(needsPerson));

export function needsPerson(status: Status): boolean {
  return status.status === "waiting_approval" || (status.status === "waiting" && status.reason === "question");
}

/** Subagents by the session they work for. */
export const children = computed(() => {
  const by = new Map<string, Session[]>();
  for (const session of facts.value.values()) {
    if (session.parent_id && (session.relation === "subagent" || session.relation === "child")) {
      by.set(session.parent_id, [...(by.get(session.parent_id) ?? []), session]);
    }
  }
  return by;
});

export function watchStatuses(): void {
  let told: Array<[string, Status | null]> = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const show = () => {
    timer = undefined;
    const next = new Map(statuses.value);
    for (const [id, status] of told) {
      if (status) next.set(id, status);
      else next.delete(id);
    }
    told = [];
    batch(() => {
      statuses.value = next;
      isLoaded.value = true;
    });
    refreshFacts();
  };
  const note = (id: string, status: Status | null) => {
    told.push([id, status]);
    timer ??= setTimeout(show, GATHER_MS);
  };
  onFrame((frame) => {
    if (frame.type === "session.status") note(frame.status.session_id, frame.status);
    else if (frame.type === "session.gone") note(frame.session_id, null);
  });
  connection.subscribe((now) => {
    if (now.state === "live") void reload();
  });
}

/** What is told once the connection is there again: what was on the page before may be long over. */
async function reload(): Promise<void> {
  try {
    const page = await ask<Page<Status>>("/api/status");
    statuses.value = new Map(page.items.map((status) => [status.session_id, status]));
    factsSince = Date.now() - FACTS_BACK_MS;
    await askFacts();
  } catch {
    // The connection tells that nobody answers.
  }
  isLoaded.value = true;
}

let factsSince = Date.now() - FACTS_BACK_MS;
let factsTimer: ReturnType<typeof setTimeout> | undefined;

function refreshFacts(): void {
  factsTimer ??= setTimeout(() => {
    factsTimer = undefined;
    if (document.hidden) return;
    askFacts().catch(() => {});
  }, FACTS_EVERY_MS);
}

async function askFacts(): Promise<void> {
  const began = Date.now();
  const found: Session[] = [];
  let after: string | null | undefined;
  for (let page = 0; page < FACTS_PAGES_MAX; page++) {
    const since = new Date(factsSince).toISOString();
    const answer = await ask<Page<Session>>("/api/sessions", { since, limit: FACTS_LIMIT, after });
    found.push(...answer.items);
    after = answer.next;
    if (!after) break;
  }
  // Times are the agents' own: some are behind ours.
  factsSince = began - 60_000;
  if (found.length === 0) return;
  const next = new Map(facts.value);
  for (const session of found) next.set(session.id, session);
  facts.value = next;
}
