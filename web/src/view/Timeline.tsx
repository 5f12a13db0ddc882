// The whole session in one line: where one is in it, and what is where. Dragging it goes there.

import { useMemo, useRef, useState } from "preact/hooks";
import type { Session } from "../contract/types";
import type { Log } from "../state/log";
import { count, full } from "../text/format";
import { oneLine } from "../text/plain";

/** Marks that are drawn at most; with more turns several share one. */
const MARKS_MAX = 240;

/** How long the slider rests before what it points at is read. */
const REST_MS = 80;

export function Timeline({ log, session, onJump }: { log: Log; session: Session | null; onJump: (seq: number | null) => void }) {
  const newest = Math.max(1, log.newest.value);
  const events = log.events.value;
  const [dragged, setDragged] = useState<number | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const turns = session?.turns ?? [];
  const marks = useMemo(() => {
    const by = new Map<number, { at: number; hasFailed: boolean }>();
    for (const turn of turns) {
      const bucket = Math.floor((turn.seq_from / newest) * MARKS_MAX);
      const known = by.get(bucket);
      const hasFailed = turn.status === "failed" || (known?.hasFailed ?? false);
      by.set(bucket, { at: known?.at ?? turn.seq_from, hasFailed });
    }
    return [...by.values()];
  }, [turns, newest]);
  const first = events[0]?.seq ?? 1;
  const last = events.at(-1)?.seq ?? 1;
  const at = dragged ?? log.place.value ?? last;
  const turn = turns.findLast((one) => one.seq_from <= at);
  const share = (seq: number) => `${((seq - 1) / Math.max(1, newest - 1)) * 100}%`;
  return (
    <div class="timeline">
      <div class="track" aria-hidden="true">
        <span class="window" style={{ left: share(first), width: `max(4px, ${((last - first) / Math.max(1, newest - 1)) * 100}%)` }} />
        {marks.map((mark) => (
          <span key={mark.at} class={mark.hasFailed ? "turn failed" : "turn"} style={{ left: share(mark.at) }} />
        ))}
      </div>
      <input
        type="range"
        min={1}
        max={newest}
        value={at}
        aria-label="Place in the session"
        aria-valuetext={`event ${count(at)} of ${count(newest)}`}
        onInput={(event) => {
          const seq = Number(event.currentTarget.value);
          setDragged(seq);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => {
            setDragged(null);
            onJump(seq);
          }, REST_MS);
        }}
      />
      <p class="minor">
        <button class="quiet" onClick={() => onJump(1)} aria-label="To the beginning">
          ⇤
        </button>
        <span class="told">
          event {count(first)}–{count(last)} of {count(newest)}
          {turn && dragged !== null && ` · ${full(turn.started_at)} · ${oneLine(turn.prompt ?? "", 80)}`}
        </span>
        <button class="quiet" onClick={() => onJump(null)} aria-label="To the end">
          ⇥
        </button>
      </p>
    </div>
  );
}
