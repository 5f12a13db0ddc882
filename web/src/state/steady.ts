// Values that are worked out often and change seldom.

import { computed, type ReadonlySignal } from "@preact/signals";

/** Worked out anew whenever something it reads moves, and changed only if it is another value then. */
export function steady<T>(workOut: () => T, isSame: (before: T, after: T) => boolean): ReadonlySignal<T> {
  let kept: { value: T } | null = null;
  return computed(() => {
    const value = workOut();
    if (kept === null || !isSame(kept.value, value)) kept = { value };
    return kept.value;
  });
}

/** Lists of the same things in the same order. */
export function isSameList<T>(before: readonly T[], after: readonly T[]): boolean {
  return before.length === after.length && before.every((one, at) => one === after[at]);
}
