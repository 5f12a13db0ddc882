// What a person chose in the page. The daemon keeps it, for every browser of this person; each
// browser has a copy, so that the page looks right before the daemon has answered.

import { effect, type Signal, signal } from "@preact/signals";
import type { Preferences } from "../contract/types";
import { ask, change } from "./ask";

/** A choice by its name: how it is taken from what the daemon keeps. */
const choices = new Map<string, (kept: unknown) => void>();

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

/** Takes over what the daemon keeps. */
export async function loadPreferences(): Promise<void> {
  const all = await ask<Preferences>("/api/preferences").catch(() => null);
  if (all === null) return;
  for (const [name, take] of choices) take(all[name]);
}

function kept<T>(name: string, otherwise: T, isOne: (value: unknown) => boolean): Signal<T> {
  const key = `hansard.${name}`;
  const chosen = signal(otherwise);
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(key) ?? "null");
    if (isOne(stored)) chosen.value = stored as T;
  } catch {
    // A browser that stores nothing: the daemon has it all the same.
  }
  /** What the daemon has, as far as it is known here. */
  let known: T = chosen.value;
  let isSending = false;
  const send = async () => {
    if (isSending) return;
    isSending = true;
    // One at a time: an earlier answer must not count for a later choice.
    while (chosen.peek() !== known) {
      const value = chosen.peek();
      const isKept = await change("/api/preferences", { [name]: value }).then(() => true, () => false);
      if (!isKept) break;
      known = value;
    }
    isSending = false;
  };
  choices.set(name, (value) => {
    // A choice that the daemon does not have yet is newer than what it has.
    if (chosen.peek() !== known) return void send();
    if (!isOne(value)) return;
    known = value as T;
    chosen.value = known;
  });
  effect(() => {
    const { value } = chosen;
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch {
      // As above.
    }
    void send();
  });
  return chosen;
}

function isBoolean(value: unknown): boolean {
  return typeof value === "boolean";
}
