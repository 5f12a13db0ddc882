// What happened, over all sessions, the newest first.

import { useEffect, useState } from "preact/hooks";
import type { Happening, Page } from "../contract/types";
import { Empty, Failure } from "../parts/Asked";
import { ask, AskError } from "../state/ask";
import { place, rename, sessionPlace } from "../state/place";
import { allStatuses } from "../state/statuses";
import { agentName, clock, day, projectName } from "../text/format";
import { oneLine } from "../text/plain";

const PAGE = 100;

/** News are asked for at most so often. */
const NEWS_EVERY_MS = 4_000;

const KINDS: Record<string, { word: string; isUrgent?: boolean }> = {
  "user.prompt": { word: "Prompt" },
  "turn.completed": { word: "Turn ended" },
  "approval.requested": { word: "Asks approval", isUrgent: true },
  "approval.resolved": { word: "Decided" },
  "external.input": { word: "Question", isUrgent: true },
  error: { word: "Error", isUrgent: true },
  "session.exited": { word: "Exited" },
  compaction: { word: "Compacted" },
  "child.completed": { word: "Subagent done" },
  "child.failed": { word: "Subagent failed", isUrgent: true },
  "tool.call": { word: "Sent out" },
};

export function Feed() {
  const project = place.value.search.get("project") ?? "";
  const [items, setItems] = useState<Happening[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [error, setError] = useState<AskError | null>(null);
  const [isAsking, setAsking] = useState(true);
  const read = async (after: string | null) => {
    setAsking(true);
    try {
      const page = await ask<Page<Happening>>("/api/feed", { project, after, limit: PAGE });
      setItems((before) => joined(after ? before : [], page.items));
      setNext(page.next ?? null);
      setError(null);
    } catch (failed) {
      setError(failed instanceof AskError ? failed : new AskError("failed", String(failed)));
    }
    setAsking(false);
  };
  useEffect(() => void read(null), [project]);
  // Whatever a session does changes what it is doing: that is when there may be news.
  const doing = allStatuses();
  useEffect(() => {
    const timer = setTimeout(() => {
      ask<Page<Happening>>("/api/feed", { project, limit: PAGE }).then(
        (page) => setItems((before) => joined(page.items, before)),
        () => {},
      );
    }, NEWS_EVERY_MS);
    return () => clearTimeout(timer);
  }, [doing, project]);
  const byDay = Map.groupBy(items, (item) => day(item.at));
  const projects = [...new Set([...items.map((item) => item.project ?? ""), project])].filter(Boolean).sort();
  return (
    <section class="page">
      <header class="page-head">
        <h1>Feed</h1>
        <p class="minor">what happened, over all sessions</p>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        <select aria-label="Project" value={project} onChange={(event) => rename(event.currentTarget.value ? `/feed?project=${encodeURIComponent(event.currentTarget.value)}` : "/feed")}>
          <option value="">All projects</option>
          {projects.map((one) => (
            <option key={one} value={one}>
              {projectName(one)}
            </option>
          ))}
        </select>
      </div>
      {error && <Failure error={error} />}
      {[...byDay].map(([name, of]) => (
        <section key={name} class="feed-day group">
          <h2>{name}</h2>
          <ol class="feed">
            {of.map((item) => (
              <Line key={`${item.session_id} ${item.seq}`} item={item} />
            ))}
          </ol>
        </section>
      ))}
      {items.length === 0 && !isAsking && !error && <Empty title="Nothing has happened yet">Prompts, ends of turns, approvals, questions, errors and commits of all sessions come here.</Empty>}
      {items.length === 0 && isAsking && <Empty title="Looking…" />}
      {next && (
        <button class="button" disabled={isAsking} onClick={() => void read(next)}>
          {isAsking ? "Looking…" : "Earlier"}
        </button>
      )}
    </section>
  );
}

function Line({ item }: { item: Happening }) {
  const { word, isUrgent } = KINDS[item.kind] ?? { word: item.kind };
  return (
    <li>
      <time class="minor" dateTime={item.at}>
        {clock(item.at)}
      </time>
      <span class={isUrgent ? "kind urgent" : "kind"}>{word}</span>
      <a class="what" href={sessionPlace(item.session_id, item.seq)} dir="auto" data-choice>
        {oneLine(item.text, 240) || oneLine(item.title ?? item.session_id, 120)}
      </a>
      <span class="of minor" title={item.title ?? undefined}>
        {projectName(item.project)} · {agentName(item.provider)}
      </span>
    </li>
  );
}

/** Both, each once, in the order of time. */
function joined(first: Happening[], second: Happening[]): Happening[] {
  const by = new Map([...first, ...second].map((item) => [`${item.session_id} ${item.seq}`, item]));
  return [...by.values()].sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || b.seq - a.seq);
}
