// What is said to those who do not see the page: one line, the newest counts.

import { signal } from "@preact/signals";

export const announced = signal("");

export function announce(text: string): void {
  // The same words twice are said twice only if something lies between them.
  announced.value = announced.value === text ? `${text}\u00a0` : text;
}
