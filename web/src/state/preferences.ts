// What a person chose for this browser. Kept there, and nowhere else.

import { effect, type Signal, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

export const theme = kept<Theme>("theme", "auto", (value) => value === "auto" || value === "light" || value === "dark");
export const notifies = kept("notifies", false, isBoolean);
export const sounds = kept("sounds", false, isBoolean);
export const badges = kept("badges", false, isBoolean);
export const showsThinking = kept("shows-thinking", false, isBoolean);
export const opensTools = kept("opens-tools", false, isBoolean);

export function watchTheme(): void {
  effect(() => {
    const root = document.documentElement;
    if (theme.value === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme.value;
  });
}

export function isDark(): boolean {
  if (theme.value !== "auto") return theme.value === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function kept<T>(name: string, otherwise: T, isOne: (value: unknown) => boolean): Signal<T> {
  const key = `hansard.${name}`;
  let value = otherwise;
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(key) ?? "null");
    if (isOne(stored)) value = stored as T;
  } catch {
    // A browser that keeps nothing: the choice lasts as long as the page.
  }
  const chosen = signal(value);
  effect(() => {
    const text = JSON.stringify(chosen.value);
    try {
      localStorage.setItem(key, text);
    } catch {
      // As above.
    }
  });
  return chosen;
}

function isBoolean(value: unknown): boolean {
  return typeof value === "boolean";
}
