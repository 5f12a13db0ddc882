// A status as sign, word and, on hover or focus, the evidence for it.

import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Evidence, Status } from "../contract/types";
import { now } from "../state/clock";
import { needsPerson, statusOf } from "../state/statuses";
import { age, full } from "../text/format";
import { plain } from "../text/plain";

/** The sign differs in shape, so that it can be read without colours. */
const SIGNS: Record<string, { sign: string; word: string }> = {
  risky_approval: { sign: "‼", word: "Needs you" },
  waiting_approval: { sign: "!", word: "Needs you" },
  question: { sign: "?", word: "Asks you" },
  failed: { sign: "✕", word: "Failed" },
  looping: { sign: "↻", word: "Looping" },
  stuck: { sign: "‖", word: "Stuck" },
  running: { sign: "▶", word: "Running" },
  waiting: { sign: "❯", word: "Waiting" },
  idle: { sign: "○", word: "Idle" },
  exited: { sign: "■", word: "Exited" },
  unknown: { sign: "·", word: "Unknown" },
};

/** Between the evidence and the edge of the window. */
const EDGE_PX = 8;

export function statusWord(status: string): string {
  return SIGNS[status]?.word ?? status;
}

/** What it wants of a person if it wants something, else what it is doing. */
function kindOf(status: Status): string {
  const want = needsPerson(status) ? status.attention?.want : undefined;
  return want && want !== "approval" && SIGNS[want] ? want : status.status;
}

export function StatusMark({ status }: { status: Status }) {
  const [isShown, setShown] = useState(false);
  const id = useId();
  const mark = useRef<HTMLButtonElement>(null);
  const kind = kindOf(status);
  const { sign, word } = SIGNS[kind] ?? { sign: "·", word: kind };
  const show = () => setShown(true);
  const hide = () => setShown(false);
  return (
    <span class="status-mark" onMouseEnter={show} onMouseLeave={hide}>
      <button
        ref={mark}
        type="button"
        class={`status ${kind}`}
        data-needs={needsPerson(status) || undefined}
        aria-describedby={isShown ? id : undefined}
        onFocus={show}
        onBlur={hide}
        onClick={(event) => {
          event.preventDefault();
          show();
        }}
      >
        <span class="sign" aria-hidden="true">
          {sign}
        </span>
        {word}
        {status.confidence === "low" && <span class="unsure"> ?</span>}
      </button>
      {isShown && <EvidenceBox id={id} status={status} mark={mark.current!} onHide={hide} />}
    </span>
  );
}

/** Above everything else, beside the mark, where there is room; gone with `Esc` or when one scrolls. */
function EvidenceBox({ id, status, mark, onHide }: { id: string; status: Status; mark: HTMLElement; onHide: () => void }) {
  const box = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const shown = box.current!;
    shown.showPopover();
    const [at, size] = [mark.getBoundingClientRect(), shown.getBoundingClientRect()];
    const isBelow = at.bottom + size.height + EDGE_PX < innerHeight || at.top < size.height;
    shown.style.left = `${Math.max(EDGE_PX, Math.min(at.left, innerWidth - size.width - EDGE_PX))}px`;
    shown.style.top = `${isBelow ? at.bottom : at.top - size.height}px`;
  }, []);
  useEffect(() => {
    const press = (event: KeyboardEvent) => event.key === "Escape" && onHide();
    addEventListener("keydown", press);
    addEventListener("scroll", onHide, { capture: true, passive: true });
    return () => {
      removeEventListener("keydown", press);
      removeEventListener("scroll", onHide, { capture: true });
    };
  }, []);
  return (
    <span ref={box} id={id} role="tooltip" class="evidence" popover="manual">
      <EvidenceList status={statusOf(status.session_id) ?? status} />
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
      {status.behind && <span class="minor"> · its file has events that are not recorded yet</span>}
      {status.attention && <p>{plain(status.attention.what)}</p>}
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
