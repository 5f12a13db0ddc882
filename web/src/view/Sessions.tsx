// All sessions, newest activity first, as far back as somebody wants to go.

import { useEffect } from "preact/hooks";
import type { Page, Session } from "../contract/types";
import { Empty } from "../parts/Asked";
import { ByDay } from "../parts/ByDay";
import { AgentChoice, ProjectChoice } from "../parts/Choices";
import { usePaged, withNews } from "../parts/paged";
import { SessionCells } from "../parts/SessionCells";
import { ask } from "../state/ask";
import { afterNews } from "../state/news";
import { place, sessionPlace } from "../state/place";
import { several } from "../text/format";
import { oneLine } from "../text/plain";

const PAGE = 100;

/** News are asked for at most so often. */
const NEWS_EVERY_MS = 5_000;

const ENDINGS: Record<string, string> = {
  awaiting_user: "its turn ended",
  tool_call_pending: "ended in a tool call",
  awaiting_assistant: "ended before an answer",
  interrupted: "interrupted",
  exited: "exited",
  torn: "its last line is cut off",
};

export function Sessions() {
  const provider = place.value.search.get("agent") ?? "";
  const project = place.value.search.get("project") ?? "";
  const read = (after: string | null, signal: AbortSignal) => ask<Page<Session>>("/api/sessions", { provider, project, after, limit: PAGE }, signal);
  const paged = usePaged(`${provider} ${project}`, read);
  useEffect(
    () =>
      afterNews({ everyMs: NEWS_EVERY_MS, firstMs: NEWS_EVERY_MS }, async (signal) => {
        const newest = await read(null, signal);
        paged.replace((pages) => withNews(newest, pages, (session) => session.id));
      }),
    [provider, project],
  );
  const items = paged.pages.flatMap((page) => page.items);
  const ids = new Set(items.map((session) => session.id));
  const subagents = Map.groupBy(items.filter(isSubagent), (session) => session.parent_id!);
  return (
    <section class="page sessions">
      <header class="page-head">
        <h1>Sessions</h1>
        <p class="minor">all recorded sessions, newest activity first</p>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        <AgentChoice />
        <ProjectChoice />
      </div>
      <ByDay
        items={items.filter((session) => !isSubagent(session) || !ids.has(session.parent_id!))}
        of={paged}
        at={(session) => session.last_event_at ?? session.started_at}
        list={(ofDay) => (
          <ul class="rows">
            {ofDay.map((session) => (
              <Row key={session.id} session={session} subagents={subagents.get(session.id)?.length ?? 0} />
            ))}
          </ul>
        )}
        none={
          provider || project ? (
            <Empty title="No session matches the filter">Remove a filter to see more.</Empty>
          ) : (
            <Empty title="No sessions recorded yet">Agents on this machine are found automatically; Health shows where Hansard looks.</Empty>
          )
        }
        more="Older sessions"
      />
    </section>
  );
}

/** Whoever works for another session; forks and continuations stand for themselves. */
function isSubagent(session: Session): boolean {
  return !!session.parent_id && (session.relation === "subagent" || session.relation === "child");
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
      <SessionCells provider={session.provider} project={session.project ?? session.cwd} session={session} since={session.last_event_at} />
    </li>
  );
}
