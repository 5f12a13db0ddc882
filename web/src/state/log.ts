// A part of a session's log that moves: it grows at one end while it is forgotten at the other, so
// that a session of any length costs the same.

import { batch, type ReadonlySignal, signal } from "@preact/signals";
import type { Page, RecordedEvent } from "../contract/types";
import { ask, AskError, sessionPath } from "./ask";
import { followSession } from "./connection";

/** Events of the first answer, of each further one, and held at most. */
const FIRST = 60;
const MORE = 100;
const HELD_MAX = 400;

/** Characters of one text in an event that are held; all of it is asked for when wanted. */
const TEXT_CHARS_MAX = 24_000;

/** Beyond any `seq`. */
const THE_END = Number.MAX_SAFE_INTEGER;

export class Log {
  readonly #events = signal<RecordedEvent[]>([]);
  /** The newest `seq` that is known of. */
  readonly #newest = signal(0);
  /** How many events came since it was opened. */
  readonly #arrived = signal(0);
  readonly #error = signal<AskError | null>(null);
  readonly #isOpen = signal(false);
  readonly #id: string;
  #isBusy = false;
  #stop: (() => void) | null = null;
  #isClosed = false;

  constructor(id: string) {
    this.#id = id;
  }

  get events(): ReadonlySignal<RecordedEvent[]> {
    return this.#events;
  }

  get newest(): ReadonlySignal<number> {
    return this.#newest;
  }

  get arrived(): ReadonlySignal<number> {
    return this.#arrived;
  }

  get error(): ReadonlySignal<AskError | null> {
    return this.#error;
  }

  /** The first part is there. */
  get isOpen(): ReadonlySignal<boolean> {
    return this.#isOpen;
  }

  get isAtBeginning(): boolean {
    return (this.#events.value[0]?.seq ?? 1) <= 1;
  }

  get isAtEnd(): boolean {
    return (this.#events.value.at(-1)?.seq ?? 0) >= this.#newest.value;
  }

  /** Shows what is around a `seq`, or the end. */
  async open(at: number | null): Promise<void> {
    await this.#alone(async () => {
      const asked = at === null ? { before: THE_END, limit: FIRST } : { after: Math.max(0, at - FIRST / 2), limit: FIRST };
      let { events, hasMore } = await this.#read(asked);
      if (events.length === 0 && at !== null) ({ events, hasMore } = await this.#read({ before: THE_END, limit: FIRST }));
      batch(() => {
        this.#events.value = events;
        const last = events.at(-1)?.seq ?? 0;
        this.#newest.value = Math.max(this.#newest.value, hasMore ? last + 1 : last);
        this.#isOpen.value = true;
      });
      this.#follow();
    });
  }

  async older(): Promise<void> {
    if (this.isAtBeginning) return;
    await this.#alone(async () => {
      const first = this.#events.value[0]!.seq;
      const { events } = await this.#read({ before: first, limit: MORE });
      this.#events.value = [...events, ...this.#events.value].slice(0, HELD_MAX);
    });
  }

  async newer(): Promise<void> {
    if (this.isAtEnd) return;
    await this.#alone(async () => {
      const last = this.#events.value.at(-1)?.seq ?? 0;
      const { events } = await this.#read({ after: last, limit: MORE });
      this.#events.value = [...this.#events.value, ...events].slice(-HELD_MAX);
    });
  }

  /** One event with all that is in it. */
  async whole(seq: number): Promise<RecordedEvent | undefined> {
    const page = await ask<Page<RecordedEvent>>(sessionPath(this.#id, "/capture/events"), { after: seq - 1, limit: 1 });
    return page.items[0];
  }

  close(): void {
    this.#isClosed = true;
    this.#stop?.();
  }

  async #alone(work: () => Promise<void>): Promise<void> {
    if (this.#isBusy || this.#isClosed) return;
    this.#isBusy = true;
    try {
      await work();
      this.#error.value = null;
    } catch (error) {
      this.#error.value = error instanceof AskError ? error : new AskError("failed", String(error));
    }
    this.#isBusy = false;
  }

  async #read(asked: { before?: number; after?: number; limit: number }): Promise<{ events: RecordedEvent[]; hasMore: boolean }> {
    const page = await ask<Page<RecordedEvent>>(sessionPath(this.#id, "/capture/events"), asked);
    return { events: page.items.map(slim), hasMore: asked.before === undefined && page.next !== null };
  }

  #follow(): void {
    if (this.#isClosed) return;
    this.#stop ??= followSession(
      this.#id,
      this.isAtEnd ? this.#newest.value : null,
      (event) => this.#take(event),
      (seq) => (this.#newest.value = Math.max(this.#newest.value, seq)),
    );
  }

  #take(event: RecordedEvent): void {
    const isNext = event.seq === (this.#events.value.at(-1)?.seq ?? 0) + 1;
    batch(() => {
      this.#newest.value = Math.max(this.#newest.value, event.seq);
      this.#arrived.value++;
      // What does not join what is shown is read when somebody gets there.
      if (isNext) this.#events.value = [...this.#events.value, slim(event)].slice(-HELD_MAX);
    });
  }
}

/** The event without what nobody sees at first. */
function slim(event: RecordedEvent): RecordedEvent {
  let isCut = false;
  const cut = (value: unknown, depth: number): unknown => {
    if (typeof value === "string" && value.length > TEXT_CHARS_MAX) {
      isCut = true;
      return value.slice(0, TEXT_CHARS_MAX);
    }
    if (value === null || typeof value !== "object" || depth > 6) return value;
    if (Array.isArray(value)) return value.map((one) => cut(one, depth + 1));
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cut(one, depth + 1)]));
  };
  const data = cut(event.data, 0);
  const text = cut(event.text, 0) as string | undefined;
  return { ...event, data, text, truncated: isCut || event.truncated === true };
}
