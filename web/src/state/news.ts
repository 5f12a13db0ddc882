// When to look again at what follows from what sessions do.

import { effect } from "@preact/signals";
import { allStatuses, isLoaded } from "./statuses";

interface Pace {
  /** It is looked at most so often. */
  everyMs: number;
  /** The first time not before so long. */
  firstMs: number;
}

/** Looks whenever a session may have done something, while somebody sees the page; returns how to
    stop. What fails is looked at with the next news. */
export function afterNews({ everyMs, firstMs }: Pace, look: (signal: AbortSignal) => Promise<void>): () => void {
  const abort = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let nextAt = Date.now() + firstMs;
  let isStale = false;
  const run = async () => {
    nextAt = Date.now() + everyMs;
    isStale = false;
    await look(abort.signal).catch(() => {});
    timer = undefined;
    // What came meanwhile may be missing in the answer.
    if (isStale) begin();
  };
  const begin = () => {
    if (abort.signal.aborted || document.hidden) return;
    timer ??= setTimeout(() => void run(), Math.max(0, nextAt - Date.now()));
  };
  const stop = effect(() => {
    allStatuses();
    isStale = isLoaded.value;
    if (isStale) begin();
  });
  const seen = () => isStale && begin();
  document.addEventListener("visibilitychange", seen);
  return () => {
    stop();
    document.removeEventListener("visibilitychange", seen);
    abort.abort();
    clearTimeout(timer);
  };
}
