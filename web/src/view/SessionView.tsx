// One session: who it is, what it does, and its talk as it goes on.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Session, Status } from "../contract/types";
import { Age } from "../parts/Age";
import { Failure, useAsked } from "../parts/Asked";
import { Asking } from "../parts/Asking";
import { CopyButton } from "../parts/CopyButton";
import { Dialog } from "../parts/Dialog";
import { useKeys } from "../parts/keys";
import { Money } from "../parts/Money";
import { EvidenceLine, EvidenceList, StatusMark, statusWord } from "../parts/StatusMark";
import { approvalsOf } from "../state/approvals";
import { setTitle } from "../state/attention";
import { address, ask, askText, sessionPath } from "../state/ask";
import { absences } from "../state/connection";
import { Log } from "../state/log";
import { rename, sessionPlace } from "../state/place";
import { isLoaded, statusOf } from "../state/statuses";
import { agentName, count, full, modelName, projectName, several, short } from "../text/format";
import { oneLine, plain } from "../text/plain";
import { type Jump, Talk } from "./Talk";
import { Timeline } from "./Timeline";

type Open = "why" | "resume" | "handoff" | null;

/** Characters of a prompt or an answer that a turn is shown with. */
const TURN_TEXT_MAX = 256;

/** `visit` is another object each time somebody asks for this place, also while it is shown. */
export function SessionView({ id, at, visit }: { id: string; at: number | null; visit: object }) {
  const log = useMemo(() => new Log(id, at), [id]);
  useEffect(() => () => log.close(), [log]);
  const [jump, setJump] = useState<Jump>({ seq: at });
  const [open, setOpen] = useState<Open>(null);
  const go = (seq: number | null) => {
    setJump({ seq });
    log.go(seq);
  };
  const visited = useRef(visit);
  useEffect(() => {
    if (visited.current !== visit) go(at);
    visited.current = visit;
  }, [visit]);
  useEffect(() => log.retry(), [absences.value]);
  // What takes long for a long session comes when the talk is there.
  const isOpen = log.isOpen.value;
  const told = statusOf(id);
  // The board may be on its way; whoever is not on it has a status all the same.
  const explained = useAsked(isOpen && isLoaded.value && !told ? `${id} ${log.arrived.value}` : null, (signal) => ask<Status>("/api/explain", { session: id }, signal));
  const status = told ?? explained.value;
  // Counts and turns are others when a turn begins or ends, so that has to be known first.
  const key = isOpen && (status || explained.error) ? `${id} ${status?.status} ${status?.turn_id}` : null;
  const session = useAsked(key, (signal) => ask<Session>(sessionPath(id), { text_max: TURN_TEXT_MAX }, signal)).value;
  const tree = useAsked(key, (signal) => ask<{ items: Session[] }>(sessionPath(id, "/family"), {}, signal));
  const title = oneLine(status?.title ?? session?.title ?? id, 160);
  useEffect(() => setTitle(title), [title]);
  // Whoever came by the beginning of an id is at the whole one from now on.
  const whole = log.events.value[0]?.session_id;
  useEffect(() => {
    if (whole && whole !== id) rename(sessionPlace(whole, at ?? undefined));
  }, [whole]);
  useKeys({ e: () => setOpen("why") });
  return (
    <section class="session">
      <header class="session-head">
        <div class="line">
          {status && <StatusMark status={status} />}
          <h1 dir="auto" title={title}>
            {title}
          </h1>
        </div>
        <Facts id={id} session={session} status={status} />
        {status && approvalsOf(id).length === 0 && (
          <p class="now" dir="auto">
            {plain(status.summary.current)}
          </p>
        )}
        <Asking session={id} />
        <div class="actions" role="group" aria-label="Actions">
          <button class="button" onClick={() => setOpen("why")}>
            Why this status
          </button>
          <button class="button" onClick={() => setOpen("resume")}>
            Resume
          </button>
          <button class="button" onClick={() => setOpen("handoff")}>
            Handoff note
          </button>
          <a class="button" href={address("/search", { session: id })}>
            Search in it
          </a>
          <Exports id={id} />
          <Family id={id} members={tree.value?.items ?? []} />
        </div>
        <Timeline log={log} session={session} onJump={go} />
      </header>
      <Talk id={id} log={log} jump={jump} onJump={go} />
      {open === "why" && <Why id={id} onClose={() => setOpen(null)} />}
      {open === "resume" && <Resume id={id} onClose={() => setOpen(null)} />}
      {open === "handoff" && <Handoff id={id} onClose={() => setOpen(null)} />}
    </section>
  );
}

function Facts({ id, session, status }: { id: string; session: Session | null; status: Status | null | undefined }) {
  const project = session?.project ?? status?.project;
  const provider = session?.provider ?? status?.provider;
  return (
    <p class="facts minor">
      <span title={project ?? undefined}>{projectName(project)}</span>
      {session?.branch && <span class="branch">{oneLine(session.branch, 60)}</span>}
      {provider && (
        <span>
          {agentName(provider)} {session?.agent_version}
        </span>
      )}
      {session?.model && <span>{modelName(session.model)}</span>}
      {session?.started_at && (
        <span title={full(session.started_at)}>
          began <Age at={session.started_at} isAgo />
        </span>
      )}
      {session && <span>{several(session.counts.prompts, "prompt")}</span>}
      {session && <span>{several(session.counts.tool_calls, "tool call")}</span>}
      {session && session.counts.compactions > 0 && <span>{several(session.counts.compactions, "compaction")}</span>}
      {session?.tokens && (
        <span title={`${count(session.tokens.input)} in, ${count(session.tokens.output)} out, ${count(session.tokens.cache_read)} from the cache`}>
          {short(session.tokens.input + session.tokens.output + session.tokens.cache_creation)} tokens
        </span>
      )}
      {session && <Money usd={session.usd} basis={session.basis} />}
      {session?.source_missing && <span class="pill">the agent has deleted its file</span>}
      <CopyButton text={() => id} label="Copy id of the session" caption="Copy id" isInline />
    </p>
  );
}

function Exports({ id }: { id: string }) {
  const [isRedacted, setRedacted] = useState(true);
  const link = (format: string) => address(sessionPath(id, "/export"), { format, redact: isRedacted });
  return (
    <details class="menu">
      <summary class="button">Export</summary>
      <ul>
        {[
          ["markdown", "Markdown"],
          ["html", "One HTML page"],
          ["text", "Plain text"],
          ["jsonl", "Events, a line each"],
        ].map(([format, name]) => (
          <li key={format}>
            <a href={link(format!)} download>
              {name}
            </a>
          </li>
        ))}
        <li>
          <label class="choice">
            <input type="checkbox" checked={isRedacted} onChange={(event) => setRedacted(event.currentTarget.checked)} />
            Without keys, tokens and passwords
          </label>
        </li>
      </ul>
    </details>
  );
}

/** Where it comes from, and what came from it, as a tree. */
function Family({ id, members }: { id: string; members: Session[] }) {
  if (members.length < 2) return null;
  const ids = new Set(members.map((member) => member.id));
  const byParent = Map.groupBy(members, (member) => (member.parent_id && ids.has(member.parent_id) ? member.parent_id : ""));
  const branch = (parent: string) => (
    <ul>
      {(byParent.get(parent) ?? []).map((member) => (
        <li key={member.id}>
          {member.id === id ? (
            <strong aria-current="true" dir="auto">
              {oneLine(member.title ?? member.id, 70)}
            </strong>
          ) : (
            <a href={sessionPlace(member.id)} dir="auto">
              {oneLine(member.title ?? member.id, 70)}
            </a>
          )}
          <span class="minor">
            {" "}
            {member.relation === "main" ? "" : member.relation} · {several(member.counts.tool_calls, "call")}
          </span>
          {byParent.has(member.id) && branch(member.id)}
        </li>
      ))}
    </ul>
  );
  return (
    <details class="menu family">
      <summary class="button">
        Family <span class="minor">{members.length}</span>
      </summary>
      <div class="tree">{branch("")}</div>
    </details>
  );
}

function Why({ id, onClose }: { id: string; onClose: () => void }) {
  const { value, error } = useAsked(id, (signal) => ask<Status>("/api/explain", { session: id }, signal));
  return (
    <Dialog label="Why this status" className="sheet" onClose={onClose}>
      <DialogHead title="Why this status" onClose={onClose} />
      {error && <Failure error={error} />}
      {value && (
        <div class="why">
          <EvidenceList status={value} />
          {value.overruled && value.overruled.length > 0 && (
            <>
              <h3>Evidence against it</h3>
              <ul>
                {value.overruled.map((other, at) => (
                  <li key={at}>
                    {statusWord(other.says)}: {other.why}
                    <ul>
                      <EvidenceLine sign={other} />
                    </ul>
                  </li>
                ))}
              </ul>
            </>
          )}
          {value.history && value.history.length > 0 && (
            <>
              <h3>Earlier statuses</h3>
              <ol class="history">
                {value.history
                  .slice(-30)
                  .reverse()
                  .map((change, at) => (
                    <li key={at}>
                      <time class="minor">{full(change.at)}</time> {statusWord(change.status)} <span class="minor">{change.because.replaceAll("_", " ")}</span>
                    </li>
                  ))}
              </ol>
            </>
          )}
        </div>
      )}
    </Dialog>
  );
}

function Resume({ id, onClose }: { id: string; onClose: () => void }) {
  const { value, error } = useAsked(id, (signal) => ask<{ line: string | null }>(sessionPath(id, "/resume"), {}, signal));
  return (
    <Dialog label="Resume" className="sheet" onClose={onClose}>
      <DialogHead title="Resume" onClose={onClose} />
      {error && <Failure error={error} />}
      {value?.line && (
        <>
          <p class="minor">Run this in a terminal to resume the session:</p>
          <pre class="command" tabIndex={0}>
            {plain(value.line)}
          </pre>
          <CopyButton text={() => value.line ?? ""} label="Copy the command" />
        </>
      )}
      {value && !value.line && <p>Sessions of this agent cannot be resumed. You can give a handoff note to another agent.</p>}
    </Dialog>
  );
}

function Handoff({ id, onClose }: { id: string; onClose: () => void }) {
  const { value, error } = useAsked(id, (signal) => askText(sessionPath(id, "/handoff"), {}, signal));
  return (
    <Dialog label="Handoff note" className="sheet wide-sheet" onClose={onClose}>
      <DialogHead title="Handoff note" onClose={onClose} />
      {error && <Failure error={error} />}
      {value && (
        <>
          <p class="minor">For the person or agent that continues the work; without secrets.</p>
          <CopyButton text={() => value} label="Copy the note" />
          <pre class="note" tabIndex={0}>
            {plain(value)}
          </pre>
        </>
      )}
      {!value && !error && <p class="minor">Reading the session…</p>}
    </Dialog>
  );
}

function DialogHead({ title, onClose }: { title: string; onClose: () => void }) {
  return (
    <header>
      <h2>{title}</h2>
      <button class="plainly" aria-label="Close" onClick={onClose}>
        ×
      </button>
    </header>
  );
}
