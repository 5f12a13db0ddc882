// What waits to be allowed, word for word.

import { effect, signal } from "@preact/signals";
import type { Approval, Page } from "../contract/types";
import { ask } from "./ask";
import { allStatuses } from "./statuses";
import { isSameList, steady } from "./steady";

/** How long what could not be had is left alone. */
const RETRY_MS = 2_000;

const approvals = signal<ReadonlyMap<string, Approval[]>>(new Map());

const NOTHING: Approval[] = [];

/** What a session asks to be allowed now. */
export function approvalsOf(session: string): Approval[] {
  return approvals.value.get(session) ?? NOTHING;
}

/** What is asked for by name; the words are asked for when another name is among them. */
const pending = steady(() => allStatuses().flatMap((status) => status.pending_approvals.map((id) => `${status.session_id} ${id}`)), isSameList);

export function watchApprovals(): void {
  effect(() => {
    if (pending.value.length === 0) {
      approvals.value = new Map();
      return;
    }
    const abort = new AbortController();
    let retry: ReturnType<typeof setTimeout> | undefined;
    const attempt = async () => {
      try {
        const { items } = await ask<Page<Approval>>("/api/approvals", { pending: true }, abort.signal);
        approvals.value = Map.groupBy(items, (approval) => approval.session_id);
      } catch {
        if (!abort.signal.aborted) retry = setTimeout(attempt, RETRY_MS);
      }
    };
    void attempt();
    return () => {
      abort.abort();
      clearTimeout(retry);
    };
  });
}
