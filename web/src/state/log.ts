// A part of a session's log that moves: it grows at one end while it is forgotten at the other, so
// that a session of any length costs the same.
//
// One thing is read at a time. A jump to another place gives up whatever is being read; reading on
// waits for its turn, which comes again as long as somebody is near an end.

import { batch, type ReadonlySignal, signal } from "@preact/signals";
import type { Page, RecordedEvent } from "../contract/types";
import { ask, AskError, sessionPath } from "./ask";
import { followSession } from "./connection";
import { isSpoken } from "./entries";

/** Events of the first answer, of each further one, and held at most. The first fills a screen and no
    more: what is around it is read when it is there. */
const FIRST = 24;
const MORE = 100;
const HELD_MAX = 400;

/** Characters of one text in an event that are held; all of it is asked for when wanted. */
const TEXT_CHARS_MAX = 24_000;

/** Beyond any `seq`. */
const THE_END = Number.MAX_SAFE_INTEGER;

export class Log {
  readonly #id: string;
  readonly #events = signal<RecordedEvent[]>([]);
  /** The newest `seq` that is known of. */
  readonly #newest = signal(0);
  /** How many events that say something came since it was opened. */
  readonly #arrived = signal(0);
  readonly #error = signal<AskError | null>(null);
  readonly #isOpen = signal(false);
  /** Where somebody reads: a `seq`. */
  readonly place = signal<number | null>(null);
  /** Somebody is at the end and stays there: what comes may push out what is oldest. */
  isFollowed: boolean;
  #at: number | null;
  #reading: AbortController | null = null;
  /** Does again what failed last. */
  #failed: (() => void) | null = null;
  #stop: (() => void) | null = null;
  #isClosed = false;

  /** Opens the log around a `seq`, or at its end; what is asked for is on its way when this returns. */
  constructor(id: string, at: number | null) {
    this.#id = id;
    this.#at = at;
    this.isFollowed = at === null;
    void this.#open();
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

  /** Whether a place is in what is held: a `seq`, or the end. */
  holds(at: number | null): boolean {
    const events = this.#events.value;
    if (events.length === 0) return false;
    return at === null ? this.isAtEnd : events[0]!.seq <= at && (at <= this.#last || this.isAtEnd);
  }

  /** Goes to a `seq`, or to the end. */
  go(at: number | null): void {
    this.#at = at;
    if (!this.holds(at)) return void this.#open();
    this.#reading?.abort();
    this.#reading = null;
  }

  /** Tries again what failed. */
  retry(): void {
    this.#failed?.();
  }

  older(): void {
    if (this.#reading || this.isAtBeginning) return;
    void this.#read(() => this.older(), async (signal) => {
      const first = this.#events.value[0]!.seq;
      const { events } = await this.#page({ before: first, limit: MORE }, signal);
      this.#events.value = [...events, ...this.#events.value].slice(0, HELD_MAX);
    });
  }

  newer(): void {
    if (this.#reading || this.isAtEnd) return;
    void this.#read(() => this.newer(), async (signal) => {
      const last = this.#events.value.at(-1)?.seq ?? 0;
      const { events } = await this.#page({ after: last, limit: MORE }, signal);
      this.#events.value = [...this.#events.value, ...events.filter((event) => event.seq > this.#last)].slice(-HELD_MAX);
    });
  }

  /** One event with all that is in it. */
  async whole(seq: number): Promise<RecordedEvent | undefined> {
    const page = await ask<Page<RecordedEvent>>(sessionPath(this.#id, "/capture/events"), { after: seq - 1, limit: 1 });
    return page.items[0];
  }

  close(): void {
    this.#isClosed = true;
    this.#reading?.abort();
    this.#stop?.();
  }

  get #last(): number {
    return this.#events.value.at(-1)?.seq ?? 0;
  }

  async #open(): Promise<void> {
    const at = this.#at;
    await this.#read(() => void this.#open(), async (signal) => {
      const asked = at === null ? { before: THE_END, limit: FIRST } : { after: Math.max(0, at - FIRST / 2), limit: FIRST };
      let { events, hasMore } = await this.#page(asked, signal);
      if (events.length === 0 && at !== null) ({ events, hasMore } = await this.#page({ before: THE_END, limit: FIRST }, signal));
      batch(() => {
        const last = events.at(-1)?.seq ?? 0;
        this.#newest.value = Math.max(this.#newest.value, hasMore ? last + 1 : last);
        // What came while it was read is not in it: who wants the end gets that, too.
        this.#events.value = at === null ? events.concat(this.#events.value.filter((event) => event.seq > last)) : events;
        this.#isOpen.value = true;
      });
      this.#follow();
    });
    if (at === null && this.#at === null) this.newer();
  }

  async #read(again: () => void, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#isClosed) return;
    this.#reading?.abort();
    const reading = new AbortController();
    this.#reading = reading;
    let error: AskError | null = null;
    try {
      await work(reading.signal);
    } catch (failed) {
      error = AskError.of(failed);
    }
    if (this.#reading !== reading) return;
    this.#reading = null;
    this.#error.value = error;
    this.#failed = error && again;
  }

  async #page(asked: { before?: number; after?: number; limit: number }, signal: AbortSignal): Promise<{ events: RecordedEvent[]; hasMore: boolean }> {
    const page = await ask<Page<RecordedEvent>>(sessionPath(this.#id, "/capture/events"), { ...asked, text_max: TEXT_CHARS_MAX }, signal);
    signal.throwIfAborted();
    return { events: page.items, hasMore: asked.before === undefined && page.next !== null };
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
    const events = this.#events.value;
    // Nobody's place is pushed out; what does not join what is held is read when somebody gets there.
    const joins = event.seq === this.#last + 1 && (this.isFollowed || events.length < HELD_MAX);
    batch(() => {
      this.#newest.value = Math.max(this.#newest.value, event.seq);
      if (isSpoken(event)) this.#arrived.value++;
      if (joins) this.#events.value = [...events, slim(event)].slice(-HELD_MAX);
    });
    // One that is too long for the line came without what is in it.
    if (joins && event.data === undefined) void this.#fill(event.seq);
  }

  async #fill(seq: number): Promise<void> {
    const whole = await this.whole(seq).catch(() => undefined);
    if (whole) this.#events.value = this.#events.value.map((event) => (event.seq === seq ? slim(whole) : event));
  }
}

/** An event that came by itself, without what nobody sees at first: as those are cut that are asked
    for. */
function slim(event: RecordedEvent): RecordedEvent {
  let isCut = false;
  const cut = (value: unknown, depth: number): unknown => {
    if (typeof value === "string" && value.length > TEXT_CHARS_MAX) {
      isCut = true;
      return copied(value.slice(0, TEXT_CHARS_MAX));
    }
    if (value === null || typeof value !== "object" || depth > 6) return value;
    if (Array.isArray(value)) return value.map((one) => cut(one, depth + 1));
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cut(one, depth + 1)]));
  };
  const data = cut(event.data, 0);
  const text = cut(event.text, 0) as string | undefined;
  return { ...event, data, text, truncated: isCut || event.truncated === true };
}

/** A part of a text keeps all of it in memory until it is a text of its own. */
function copied(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}
