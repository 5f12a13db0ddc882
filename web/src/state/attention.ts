// Tells a person that a session needs them, in the ways they asked for: a notification of the
// browser, a sound, a number in the title. All of it is off until then.

import { effect } from "@preact/signals";
import { oneLine } from "../text/plain";
import { go, sessionPlace } from "./place";
import { badges, notifies, sounds } from "./preferences";
import { isLoaded, needing, needOf } from "./statuses";
import { isUsedLast } from "./tab";

export const TITLE = "Hansard";

let pageTitle = TITLE;

/** What the page is called, below the number of those who need somebody. */
export function setTitle(title: string | null): void {
  pageTitle = title ? `${title} · ${TITLE}` : TITLE;
  writeTitle();
}

function writeTitle(): void {
  const waiting = badges.value ? needing.value.length : 0;
  document.title = waiting > 0 ? `(${waiting}) ${pageTitle}` : pageTitle;
}

export function watchAttention(): void {
  let known: Set<string> | null = null;
  effect(() => {
    const current = new Map(needing.value.map((status) => [needOf(status), status]));
    writeTitle();
    if (!isLoaded.value) return;
    // What waited before the page was opened is on it, and no news.
    const fresh = known === null ? [] : [...current].filter(([need]) => !known!.has(need));
    known = new Set(current.keys());
    // Of several pages, one tells.
    if (fresh.length === 0 || !isUsedLast()) return;
    if (sounds.peek()) chime();
    if (!notifies.peek() || Notification.permission !== "granted") return;
    for (const [need, status] of fresh) {
      const body = status.attention?.what ?? status.summary.current;
      const shown = new Notification(oneLine(status.title ?? status.session_id, 80), { body: oneLine(body, 160), tag: need });
      shown.onclick = () => {
        window.focus();
        go(sessionPlace(status.session_id));
        shown.close();
      };
    }
  });
}

/** Two soft notes, made here: nothing is loaded. */
export function chime(): void {
  try {
    const audio = new AudioContext();
    const volume = audio.createGain();
    volume.connect(audio.destination);
    volume.gain.setValueAtTime(0.0001, audio.currentTime);
    volume.gain.exponentialRampToValueAtTime(0.12, audio.currentTime + 0.02);
    volume.gain.exponentialRampToValueAtTime(0.0001, audio.currentTime + 0.6);
    for (const [at, pitch] of [[0, 660], [0.14, 880]] as const) {
      const note = audio.createOscillator();
      note.frequency.value = pitch;
      note.connect(volume);
      note.start(audio.currentTime + at);
      note.stop(audio.currentTime + at + 0.4);
    }
    setTimeout(() => void audio.close(), 1_000);
  } catch {
    // A machine without sound.
  }
}
