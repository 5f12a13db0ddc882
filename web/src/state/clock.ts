// The time as ages are told by: it moves in steps, so that a page with many ages stays quiet.

import { signal } from "@preact/signals";

const STEP_MS = 10_000;

export const now = signal(Date.now());

export function startClock(): void {
  const tick = () => (now.value = Date.now());
  setInterval(() => document.hidden || tick(), STEP_MS);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
}
