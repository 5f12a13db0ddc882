// The keyboard: `g` and a letter leads to a view, `j` and `k` move through what can be chosen.

import { signal } from "@preact/signals";
import { go, place } from "../state/place";

export const isHelpOpen = signal(false);
export const isPaletteOpen = signal(false);

/** How long `g` waits for its letter. */
const LETTER_WITHIN_MS = 1_200;

/** What `j` and `k` go through. */
const CHOICES = "[data-choice]";

export function keys(views: ReadonlyArray<{ path: string; key: string }>): () => void {
  let leadAt = 0;
  const press = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      isPaletteOpen.value = !isPaletteOpen.value;
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || isPaletteOpen.value || isHelpOpen.value) return;
    const isSecond = Date.now() - leadAt < LETTER_WITHIN_MS;
    leadAt = 0;
    if (isSecond) {
      const view = views.find((one) => one.key === event.key);
      if (view) {
        event.preventDefault();
        go(view.path);
      }
      return;
    }
    const act = ACTIONS[event.key];
    if (event.key === "g") leadAt = Date.now();
    else if (act) {
      event.preventDefault();
      act();
    }
  };
  addEventListener("keydown", press);
  return () => removeEventListener("keydown", press);
}

const ACTIONS: Record<string, () => void> = {
  "?": () => (isHelpOpen.value = true),
  "/": () => {
    const field = document.querySelector<HTMLInputElement>("[data-search]");
    if (field) field.focus();
    else go("/search");
  },
  j: () => choose(1),
  k: () => choose(-1),
  u: () => {
    if (place.value.path.startsWith("/session/")) history.back();
  },
};

function choose(step: number): void {
  const choices = [...document.querySelectorAll<HTMLElement>(CHOICES)].filter((one) => one.offsetParent !== null);
  if (choices.length === 0) return;
  const at = choices.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : choices.length - 1) : Math.min(choices.length - 1, Math.max(0, at + step));
  choices[next]!.focus();
  choices[next]!.scrollIntoView({ block: "nearest" });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && (target as HTMLInputElement).type !== "range";
}
