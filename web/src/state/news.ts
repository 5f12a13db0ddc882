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
  const run = async () => {
    nextAt = Date.now() + everyMs;
    await look(abort.signal).catch(() => {});
    timer = undefined;
  };
  const stop = effect(() => {
    allStatuses();
    if (!isLoaded.value || document.hidden) return;
    timer ??= setTimeout(() => void run(), Math.max(0, nextAt - Date.now()));
  });
  return () => {
    stop();
    abort.abort();
    clearTimeout(timer);
  };
}
