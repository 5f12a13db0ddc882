// All sessions, newest activity first, as far back as somebody wants to go.

import { useEffect, useState } from "preact/hooks";
import type { Page, Session } from "../contract/types";
import { Empty, Failure } from "../parts/Asked";
import { SessionCells } from "../parts/SessionCells";
import { ask, AskError } from "../state/ask";
import { place, rename, sessionPlace } from "../state/place";
import { agentName, day, projectName, several } from "../text/format";
import { oneLine } from "../text/plain";

const PAGE = 100;

const ENDINGS: Record<string, string> = {
  awaiting_user: "its turn ended",
  tool_call_pending: "ended in a tool call",
  awaiting_assistant: "ended before an answer",
  interrupted: "interrupted",
  exited: "exited",
  torn: "its last line is cut off",
};

export function Sessions() {
  const agent = place.value.search.get("agent") ?? "";
  const project = place.value.search.get("project") ?? "";
  const [items, setItems] = useState<Session[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [isAsking, setAsking] = useState(true);
  const [error, setError] = useState<AskError | null>(null);
  const more = async (before: Session[], after: string | null) => {
    setAsking(true);
    try {
      const page = await ask<Page<Session>>("/api/sessions", { provider: agent, project, after, limit: PAGE });
      setItems([...before, ...page.items]);
      setNext(page.next ?? null);
      setError(null);
    } catch (failed) {
      setError(failed instanceof AskError ? failed : new AskError("failed", String(failed)));
    }
    setAsking(false);
  };
  useEffect(() => void more([], null), [agent, project]);
  const byDay = Map.groupBy(
    items.filter((session) => session.relation !== "subagent" || !items.some((other) => other.id === session.parent_id)),
    (session) => day(session.last_event_at ?? session.started_at ?? 0),
  );
  return (
    <section class="page sessions">
      <header class="page-head">
        <h1>Sessions</h1>
        <p class="minor">everything ever recorded, newest activity first</p>
      </header>
      <Filters agent={agent} project={project} items={items} />
      {error && <Failure error={error} />}
      {[...byDay].map(([name, sessions]) => (
        <section key={name} class="group">
          <h2>{name}</h2>
          <ul class="rows">
            {sessions.map((session) => (
              <Row key={session.id} session={session} subagents={items.filter((other) => other.parent_id === session.id).length} />
            ))}
          </ul>
        </section>
      ))}
      {items.length === 0 && !isAsking && !error && (
        <Empty title="No session is recorded">Agents that are used on this machine are found by themselves; Health tells where it is looked.</Empty>
      )}
      {next && (
        <button class="button" disabled={isAsking} onClick={() => void more(items, next)}>
          {isAsking ? "Looking…" : "Older ones"}
        </button>
      )}
      {items.length === 0 && isAsking && <Empty title="Looking…" />}
    </section>
  );
}

function Filters({ agent, project, items }: { agent: string; project: string; items: Session[] }) {
  const set = (name: string, value: string) => {
    const search = new URLSearchParams(place.value.search);
    if (value) search.set(name, value);
    else search.delete(name);
    rename(search.size > 0 ? `/sessions?${search}` : "/sessions");
  };
  const agents = [...new Set([...items.map((session) => session.provider), ...(agent ? [agent] : [])])].sort();
  const projects = [...new Set([...items.map((session) => session.project ?? ""), project])].filter(Boolean).sort();
  return (
    <div class="filters" role="group" aria-label="Filters">
      <select aria-label="Agent" value={agent} onChange={(event) => set("agent", event.currentTarget.value)}>
        <option value="">All agents</option>
        {agents.map((one) => (
          <option key={one} value={one}>
            {agentName(one)}
          </option>
        ))}
      </select>
      <select aria-label="Project" value={project} onChange={(event) => set("project", event.currentTarget.value)}>
        <option value="">All projects</option>
        {projects.map((one) => (
          <option key={one} value={one}>
            {projectName(one)}
          </option>
        ))}
      </select>
    </div>
  );
}

function Row({ session, subagents }: { session: Session; subagents: number }) {
  return (
    <li class="row plain-row">
      <a class="what" href={sessionPlace(session.id)} data-choice>
        <span class="title" dir="auto">
          {oneLine(session.title ?? session.id, 140)}
        </span>
        <span class="current">
          {several(session.counts.prompts, "prompt")}, {several(session.counts.tool_calls, "tool call")}
          {subagents > 0 && `, ${several(subagents, "subagent")}`}
          {session.relation !== "main" && ` · ${session.relation}`}
          {session.ending && ENDINGS[session.ending] && ` · ${ENDINGS[session.ending]}`}
        </span>
      </a>
      <SessionCells provider={session.provider} project={session.project} session={session} since={session.last_event_at} />
    </li>
  );
}
