// A status as sign, word and, on hover or focus, the evidence for it.

import { useId, useRef, useState } from "preact/hooks";
import type { Evidence, Status } from "../contract/types";
import { now } from "../state/clock";
import { needsPerson } from "../state/statuses";
import { age, full } from "../text/format";
import { plain } from "../text/plain";

/** The sign differs in shape, so that it can be read without colours. */
const SIGNS: Record<string, { sign: string; word: string }> = {
  waiting_approval: { sign: "!", word: "Needs you" },
  question: { sign: "?", word: "Asks you" },
  running: { sign: "▶", word: "Running" },
  waiting: { sign: "❯", word: "Waiting" },
  idle: { sign: "○", word: "Idle" },
  exited: { sign: "■", word: "Exited" },
  unknown: { sign: "·", word: "Unknown" },
};

export function statusWord(status: string): string {
  return SIGNS[status]?.word ?? status;
}

export function StatusMark({ status }: { status: Status }) {
  const id = useId();
  const [at, setAt] = useState<{ x: number; y: number } | null>(null);
  const mark = useRef<HTMLButtonElement>(null);
  const kind = status.status === "waiting" && status.reason === "question" ? "question" : status.status;
  const { sign, word } = SIGNS[kind] ?? { sign: "·", word: kind };
  const show = () => {
    const box = mark.current?.getBoundingClientRect();
    if (box) setAt({ x: Math.max(8, Math.min(box.left, innerWidth - 348)), y: box.bottom + 6 });
  };
  const hide = () => setAt(null);
  return (
    <span class="status-mark" onMouseEnter={show} onMouseLeave={hide}>
      <button
        ref={mark}
        type="button"
        class={`status ${kind}`}
        data-needs={needsPerson(status) || undefined}
        aria-describedby={at ? id : undefined}
        onFocus={show}
        onBlur={hide}
        onClick={(event) => {
          event.preventDefault();
          show();
        }}
        onKeyDown={(event) => event.key === "Escape" && hide()}
      >
        <span class="sign" aria-hidden="true">
          {sign}
        </span>
        {word}
        {status.confidence === "low" && <span class="unsure"> ?</span>}
      </button>
      {at && (
        <span id={id} role="tooltip" class="evidence" style={{ left: `${at.x}px`, top: `${at.y}px` }}>
          <EvidenceList status={status} />
        </span>
      )}
    </span>
  );
}

export function EvidenceList({ status }: { status: Status }) {
  return (
    <>
      <strong>
        {statusWord(status.status)}, {status.reason.replaceAll("_", " ")}
      </strong>
      <span class="minor"> since {full(status.since)}, confidence {status.confidence}</span>
      {status.behind && <span class="minor"> · its file has news that is not recorded yet</span>}
      <ul>
        {status.evidence.map((sign, at) => (
          <EvidenceLine key={at} sign={sign} />
        ))}
      </ul>
    </>
  );
}

export function EvidenceLine({ sign }: { sign: Evidence }) {
  return (
    <li>
      {plain(sign.what)}
      <span class="minor">
        {" "}
        {sign.source}, {age(now.value - Date.parse(sign.at))}, {sign.confidence}
        {sign.ends && `; until ${sign.ends}`}
      </span>
    </li>
  );
}
