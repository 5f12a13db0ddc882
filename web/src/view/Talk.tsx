// The talk of a session, by turns. It shows a part of the log and moves that part along while one
// scrolls; what one reads stays where it is when something is added above or below.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { announce } from "../parts/announce";
import { Empty, Failure } from "../parts/Asked";
import { useKeys } from "../parts/keys";
import { entriesOf, entryWith } from "../state/entries";
import type { Log } from "../state/log";
import { count } from "../text/format";
import { Entry } from "./Entry";

/** How near an end of what is shown one has to be before more is read. */
const NEAR_PX = 900;

/** What is looked for has so much above it. */
const ABOVE_PX = 56;

/** So near to the end one follows what comes. */
const FOLLOW_PX = 60;

/** A wish to be at a `seq`, or at the end. Each is another one, also to the same place. */
export interface Jump {
  seq: number | null;
}

export function Talk({ id, log, jump, onJump }: { id: string; log: Log; jump: Jump; onJump: (seq: number | null) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const anchor = useRef<{ seq: string; top: number } | null>(null);
  const reached = useRef<Jump | null>(null);
  const [unread, setUnread] = useState(0);
  const events = log.events.value;
  const isEnd = log.isAtEnd;
  const entries = useMemo(() => entriesOf(events, isEnd), [events, isEnd]);
  const target = jump.seq !== null && log.holds(jump.seq) ? entryWith(entries, jump.seq)?.event.seq : undefined;
  const arrived = log.arrived.value;
  const seen = useRef(arrived);

  /** Notes which entry is where, for when something is added above it. */
  const remember = () => {
    const view = box.current;
    if (!view) return;
    const top = view.getBoundingClientRect().top;
    anchor.current = null;
    for (const entry of view.querySelectorAll<HTMLElement>("[data-seq]")) {
      const place = entry.getBoundingClientRect();
      if (place.bottom <= top + 1) continue;
      const seq = Number(entry.dataset.seq);
      anchor.current ??= { seq: entry.dataset.seq!, top: place.top - top };
      if (place.bottom <= top + ABOVE_PX + 1) continue;
      // Of an entry one was led to, the very event.
      log.place.value = log.isFollowed ? log.newest.value : seq === target ? jump.seq : seq;
      return;
    }
  };
  const isReached = () => reached.current === jump;
  const look = () => {
    const view = box.current;
    if (!view) return;
    const below = view.scrollHeight - view.scrollTop - view.clientHeight;
    if (isReached()) log.isFollowed = below < FOLLOW_PX && log.isAtEnd;
    if (log.isFollowed) setUnread(0);
    remember();
    if (view.scrollTop < NEAR_PX) log.older();
    if (below < NEAR_PX) log.newer();
  };
  /** Puts back what one reads to where it was. */
  const restore = () => {
    const view = box.current;
    if (!view) return;
    if (log.isFollowed && log.isAtEnd) {
      view.scrollTop = view.scrollHeight;
    } else if (anchor.current) {
      const kept = view.querySelector<HTMLElement>(`[data-seq="${anchor.current.seq}"]`);
      if (kept) view.scrollTop += kept.getBoundingClientRect().top - view.getBoundingClientRect().top - anchor.current.top;
    }
  };

  // Before it is painted: one is where one wants to be, and what was read stays where it was.
  useLayoutEffect(() => {
    const view = box.current;
    if (!view || entries.length === 0) return;
    if (isReached() || !log.holds(jump.seq)) {
      restore();
    } else {
      reached.current = jump;
      log.isFollowed = jump.seq === null;
      const found = target !== undefined && view.querySelector<HTMLElement>(`[data-seq="${target}"]`);
      if (jump.seq === null) view.scrollTop = view.scrollHeight;
      else if (found) view.scrollTop += found.getBoundingClientRect().top - view.getBoundingClientRect().top - ABOVE_PX;
    }
    remember();
  }, [entries, jump]);

  // What is shown may be too short to scroll: then there is nobody to ask for more.
  useEffect(look, [entries, jump]);

  // A picture that comes, a window that becomes narrower: neither moves what is read.
  useEffect(() => {
    const observer = new ResizeObserver(restore);
    observer.observe(list.current!);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, [log]);

  useEffect(() => {
    const fresh = arrived - seen.current;
    seen.current = arrived;
    if (fresh > 0 && !log.isFollowed) setUnread((known) => known + fresh);
  }, [arrived]);

  const step = (direction: number) => {
    const view = box.current;
    if (!view) return;
    const top = view.getBoundingClientRect().top;
    const prompts = [...view.querySelectorAll<HTMLElement>(".entry.prompt")];
    const places = prompts.map((one) => one.getBoundingClientRect().top - top);
    const at = direction > 0 ? places.findIndex((place) => place > 40) : places.findLastIndex((place) => place < 0);
    const prompt = prompts[at];
    if (prompt) {
      view.scrollTop += places[at]! - 16;
      prompt.focus({ preventScroll: true });
      announce("Prompt");
    } else if (direction > 0) log.newer();
    else log.older();
  };
  useKeys({ Home: () => onJump(1), End: () => onJump(null), n: () => step(1), p: () => step(-1) });

  const error = log.error.value;
  return (
    <div class="talk-frame">
      <div
        class="talk"
        ref={box}
        onScroll={look}
        // Who opens something wants to read it, and not what comes below.
        onClickCapture={(event) => {
          if (event.target instanceof Element && event.target.closest("summary")) log.isFollowed = false;
        }}
        tabIndex={0}
        role="log"
        aria-label="Conversation"
        aria-live="off"
      >
        <div class="talk-list" ref={list}>
          {error && <Failure error={error} />}
          {log.isOpen.value && log.isAtBeginning && <p class="edge minor">The beginning</p>}
          {entries.map((entry) => (
            <Entry key={entry.event.seq} id={id} log={log} entry={entry} isTarget={entry.event.seq === target} />
          ))}
          {log.isOpen.value && entries.length === 0 && !error && <Empty title="No messages yet" />}
          {!log.isOpen.value && !error && <Empty title="Opening…" />}
        </div>
      </div>
      {unread > 0 && (
        <button
          class="button unread"
          onClick={() => {
            setUnread(0);
            onJump(null);
          }}
        >
          {count(unread)} new ↓
        </button>
      )}
    </div>
  );
}
