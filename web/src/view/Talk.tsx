// The talk of a session, by turns. It shows a part of the log and moves that part along while one
// scrolls; what one reads stays where it is when something is added above or below.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { announce } from "../parts/announce";
import { Empty, Failure } from "../parts/Asked";
import type { Log } from "../state/log";
import { count } from "../text/format";
import { Entry, entriesOf } from "./Entry";

/** How near an end of what is shown one has to be before more is read. */
const NEAR_PX = 900;

/** What is looked for has so much above it. */
const ABOVE_PX = 56;

/** So near to the end one follows what comes. */
const FOLLOW_PX = 60;

export function Talk({ id, log, target, onJump }: { id: string; log: Log; target: number | null; onJump: (seq: number | null) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(target === null);
  const anchor = useRef<{ seq: string; top: number } | null>(null);
  const reached = useRef<string | null>(null);
  const [unread, setUnread] = useState(0);
  const events = log.events.value;
  const entries = useMemo(() => entriesOf(events), [events]);
  const arrived = log.arrived.value;
  const seen = useRef(arrived);

  const remember = () => {
    const view = box.current;
    if (!view) return;
    const top = view.getBoundingClientRect().top;
    for (const entry of view.querySelectorAll<HTMLElement>("[data-seq]")) {
      const place = entry.getBoundingClientRect();
      if (place.bottom > top + 1) {
        anchor.current = { seq: entry.dataset.seq!, top: place.top - top };
        return;
      }
    }
  };
  const look = () => {
    const view = box.current;
    if (!view) return;
    const below = view.scrollHeight - view.scrollTop - view.clientHeight;
    follows.current = below < FOLLOW_PX && log.isAtEnd;
    if (follows.current) setUnread(0);
    remember();
    if (view.scrollTop < NEAR_PX) void log.older();
    else if (below < NEAR_PX) void log.newer();
  };

  useEffect(() => {
    follows.current = target === null;
    reached.current = null;
    anchor.current = null;
  }, [target, id]);

  // Before it is painted: what was read stays where it was.
  useLayoutEffect(() => {
    const view = box.current;
    if (!view || entries.length === 0) return;
    const wanted = String(target);
    if (target !== null && reached.current !== wanted) {
      const found = [...view.querySelectorAll<HTMLElement>("[data-seq]")].findLast((entry) => Number(entry.dataset.seq) <= target);
      if (found) {
        reached.current = wanted;
        view.scrollTop += found.getBoundingClientRect().top - view.getBoundingClientRect().top - ABOVE_PX;
      }
    } else if (follows.current && log.isAtEnd) {
      view.scrollTop = view.scrollHeight;
    } else if (anchor.current) {
      const kept = view.querySelector<HTMLElement>(`[data-seq="${anchor.current.seq}"]`);
      if (kept) view.scrollTop += kept.getBoundingClientRect().top - view.getBoundingClientRect().top - anchor.current.top;
    }
    remember();
  }, [entries, target]);

  // What is shown may be too short to scroll: then there is nobody to ask for more.
  useEffect(look, [entries]);

  useEffect(() => {
    const fresh = arrived - seen.current;
    seen.current = arrived;
    if (fresh > 0 && !follows.current) setUnread((known) => known + fresh);
  }, [arrived]);

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const isElsewhere = event.target instanceof HTMLElement && event.target.closest("input, select, textarea, dialog");
      if (isElsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Home") onJump(1);
      else if (event.key === "End") onJump(null);
      else if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [log]);

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
    } else if (direction > 0) void log.newer();
    else void log.older();
  };

  const error = log.error.value;
  return (
    <div class="talk-frame">
      <div class="talk" ref={box} onScroll={look} tabIndex={0} role="log" aria-label="The talk" aria-live="off">
        {error && <Failure error={error} />}
        {log.isOpen.value && log.isAtBeginning && <p class="edge minor">The beginning</p>}
        {entries.map((entry) => (
          <Entry key={entry.event.seq} id={id} log={log} entry={entry} isTarget={entry.event.seq === target} />
        ))}
        {log.isOpen.value && entries.length === 0 && !error && <Empty title="Nothing was said yet" />}
        {!log.isOpen.value && !error && <Empty title="Opening…" />}
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
