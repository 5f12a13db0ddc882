// What is known of the sessions on the board beside what they are doing: models, tokens, money,
// branches, and who works for whom. Asked for while somebody looks, and only after news.

import { computed, signal } from "@preact/signals";
import type { Page, Session } from "../contract/types";
import { ask } from "./ask";
import { afterNews } from "./news";
import { isListed } from "./statuses";
import { isSameList } from "./steady";

/** Facts of sessions that changed are asked for at most so often. */
const EVERY_MS = 10_000;

/** How far back facts are asked for at first: statuses are told of one day. */
const BACK_MS = 25 * 3_600_000;

/** Times are the agents' own: some are behind ours. */
const BEHIND_MS = 60_000;

/** Sessions asked for at a time, and pages of them at most. */
const LIMIT = 500;
const PAGES_MAX = 4;

const facts = signal<ReadonlyMap<string, Session>>(new Map());

let since = Date.now() - BACK_MS;

export function factsOf(id: string): Session | undefined {
  return facts.value.get(id);
}

const NO_CHILDREN: Session[] = [];
let before: ReadonlyMap<string, Session[]> = new Map();

/** Subagents by the session they work for; the same list as long as it says the same. */
const children = computed(() => {
  const by = new Map<string, Session[]>();
  for (const session of facts.value.values()) {
    if (!session.parent_id || (session.relation !== "subagent" && session.relation !== "child")) continue;
    const siblings = by.get(session.parent_id);
    if (siblings) siblings.push(session);
    else by.set(session.parent_id, [session]);
  }
  for (const [parent, list] of by) {
    const known = before.get(parent);
    if (known && isSameList(known, list)) by.set(parent, known);
  }
  return (before = by);
});

export function childrenOf(id: string): Session[] {
  return children.value.get(id) ?? NO_CHILDREN;
}

/** Keeps facts fresh until it is told to stop. */
export function lookAtFacts(): () => void {
  return afterNews({ everyMs: EVERY_MS, firstMs: 0 }, readFacts);
}

async function readFacts(signal: AbortSignal): Promise<void> {
  const began = Date.now();
  const found: Session[] = [];
  let after: string | null | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const answer = await ask<Page<Session>>("/api/sessions", { since: new Date(since).toISOString(), limit: LIMIT, after }, signal);
    found.push(...answer.items);
    after = answer.next;
    if (!after) break;
  }
  since = began - BEHIND_MS;
  const next = new Map(facts.peek());
  for (const session of found) {
    const known = next.get(session.id);
    if (!known || JSON.stringify(known) !== JSON.stringify(session)) next.set(session.id, session);
  }
  // Who has left the board, and whose session has, is forgotten.
  for (const [id, session] of next) {
    if (!isListed(id) && !(session.parent_id && isListed(session.parent_id))) next.delete(id);
  }
  facts.value = next;
}
