// The keyboard: `g` and a letter leads to a view, `j` and `k` move through what can be chosen.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { go, place } from "../state/place";

export const isHelpOpen = signal(false);
export const isPaletteOpen = signal(false);

/** How long `g` waits for its letter. */
const LETTER_WITHIN_MS = 1_200;

/** What `j` and `k` go through. */
const CHOICES = "[data-choice]";

/** What the view that is shown adds; the newest counts. */
const added: Array<Record<string, () => void>> = [];

/** Keys of a view, for as long as it is shown. */
export function useKeys(table: Record<string, () => void>): void {
  const latest = useRef(table);
  latest.current = table;
  useEffect(() => {
    const kept = Object.fromEntries(Object.keys(table).map((key) => [key, () => latest.current[key]?.()]));
    added.push(kept);
    return () => void added.splice(added.indexOf(kept), 1);
  }, []);
}

export function keys(views: ReadonlyArray<{ path: string; key: string }>): () => void {
  let leadAt = 0;
  const press = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      isPaletteOpen.value = !isPaletteOpen.value;
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTaken(event) || document.querySelector("dialog[open]")) return;
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
    const act = added.findLast((table) => event.key in table)?.[event.key] ?? ACTIONS[event.key] ?? (isChoice(event.target) ? ARROWS[event.key] : undefined);
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

/** From one choice to the next. */
const ARROWS: Record<string, () => void> = { ArrowDown: () => choose(1), ArrowUp: () => choose(-1) };

function isChoice(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches(CHOICES);
}

function choose(step: number): void {
  const choices = [...document.querySelectorAll<HTMLElement>(CHOICES)].filter((one) => one.offsetParent !== null);
  if (choices.length === 0) return;
  const at = choices.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : choices.length - 1) : Math.min(choices.length - 1, Math.max(0, at + step));
  choices[next]!.focus();
  choices[next]!.scrollIntoView({ block: "nearest" });
}

/** Fields in which no letter is typed. */
const WORDLESS = /^(?:checkbox|radio|range|button|submit|reset)$/;

/** Keys of a slider. */
const SLIDING = /^(?:Home|End|Page|Arrow)/;

/** Whether a key means something where it is pressed. */
function isTaken({ target, key }: KeyboardEvent): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement && WORDLESS.test(target.type)) return target.type === "range" && SLIDING.test(key);
  return target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}
