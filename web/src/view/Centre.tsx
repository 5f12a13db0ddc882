// The command centre: what each session is doing, and which of them needs a person.

import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import type { Session, Status } from "../contract/types";
import { Empty } from "../parts/Asked";
import { Age } from "../parts/Age";
import { Money } from "../parts/Money";
import { StatusMark } from "../parts/StatusMark";
import { connection } from "../state/connection";
import { place, rename, sessionPlace } from "../state/place";
import { children, facts, isLoaded, needsPerson, statuses } from "../state/statuses";
import { agentName, count, modelName, projectName, several, short } from "../text/format";
import { oneLine } from "../text/plain";

interface Group {
  name: string;
  about: string;
  holds: (status: Status) => boolean;
}

const GROUPS: Group[] = [
  { name: "Needs you", about: "asks for approval or has a question", holds: needsPerson },
  { name: "Running", about: "works by itself", holds: (it) => it.status === "running" },
  { name: "Waiting", about: "is done and ready for the next prompt", holds: (it) => it.status === "waiting" },
  { name: "Idle", about: "quiet for two minutes or more", holds: (it) => it.status === "idle" || it.status === "unknown" },
  { name: "Exited", about: "its process has ended", holds: (it) => it.status === "exited" },
];

interface Filter {
  name: string;
  label: string;
  holds: (status: Status) => boolean;
}

const FILTERS: Filter[] = [
  { name: "needs", label: "Waiting on me", holds: needsPerson },
  { name: "tests", label: "Running tests", holds: (it) => it.status === "running" && /\btests?\b|\bpytest|\bjest|\bvitest/i.test(it.summary.current) },
  { name: "failing", label: "Failing", holds: (it) => /\bfail(?:s|ed|ing|ures?)?\b|\berrors?\b/i.test(`${it.summary.current} ${it.summary.recent ?? ""}`) },
];

/** Rows of a group that are shown at first; groups further down are shorter. */
const ROWS_FIRST = { "Needs you": 200, Running: 100, Waiting: 40, Idle: 15, Exited: 10 } as Record<string, number>;

export function Centre() {
  const search = place.value.search;
  const chosen = { filter: search.get("filter"), agent: search.get("agent"), project: search.get("project"), words: search.get("words") ?? "" };
  const all = [...statuses.value.values()];
  const shown = all.filter((status) => isShown(status, chosen)).sort(byUrgency);
  const taken = new Set<string>();
  const groups = GROUPS.map((group) => {
    const rows = shown.filter((status) => !taken.has(status.session_id) && group.holds(status));
    rows.forEach((status) => taken.add(status.session_id));
    return { group, rows };
  });
  return (
    <section class="page centre">
      <header class="page-head">
        <h1>Now</h1>
        <p class="minor" aria-live="polite">
          {headline(all)}
        </p>
      </header>
      <Filters all={all} chosen={chosen} />
      {groups.map(({ group, rows }) => rows.length > 0 && <GroupView key={group.name} group={group} rows={rows} />)}
      {shown.length === 0 && isLoaded.value && (
        <Empty title={all.length > 0 ? "No session is like that now" : "No session was active today"}>
          {all.length > 0 ? "Take a filter away to see the others." : "As soon as an agent works on this machine, it is here. What was before is under Sessions."}
        </Empty>
      )}
      {shown.length === 0 && !isLoaded.value && connection.value.state !== "gone" && <Empty title="Looking…" />}
    </section>
  );
}

type Chosen = { filter: string | null; agent: string | null; project: string | null; words: string };

function isShown(status: Status, chosen: Chosen): boolean {
  const filter = FILTERS.find((one) => one.name === chosen.filter);
  if (filter && !filter.holds(status)) return false;
  if (chosen.agent && status.provider !== chosen.agent) return false;
  if (chosen.project && status.project !== chosen.project && projectName(status.project) !== chosen.project) return false;
  if (!chosen.words) return true;
  const told = `${status.title ?? ""} ${status.project ?? ""} ${status.summary.current} ${status.session_id}`.toLowerCase();
  return chosen.words.toLowerCase().split(/\s+/).every((word) => told.includes(word));
}

/** Whoever has waited longest for a person is first; of the others, the newest. */
function byUrgency(a: Status, b: Status): number {
  const [first, second] = [Date.parse(a.since), Date.parse(b.since)];
  return needsPerson(a) && needsPerson(b) ? first - second : second - first;
}

function headline(all: Status[]): string {
  const needs = all.filter(needsPerson).length;
  const running = all.filter((status) => status.status === "running").length;
  if (all.length === 0) return "";
  return `${needs === 0 ? "nobody needs you" : needs === 1 ? "1 needs you" : `${needs} need you`} · ${running} running · ${several(all.length, "session")} in the last day`;
}

function Filters({ all, chosen }: { all: Status[]; chosen: Chosen }) {
  const set = (name: string, value: string | null) => {
    const next = new URLSearchParams(place.value.search);
    if (value) next.set(name, value);
    else next.delete(name);
    rename(next.size > 0 ? `/?${next}` : "/");
  };
  const agents = [...new Set(all.map((status) => status.provider))].sort();
  const projects = [...new Set(all.map((status) => status.project).filter((one): one is string => !!one))].sort();
  return (
    <div class="filters" role="group" aria-label="Filters">
      {FILTERS.map((filter) => {
        const found = all.filter(filter.holds).length;
        return (
          <button
            key={filter.name}
            class="chip"
            aria-pressed={chosen.filter === filter.name}
            onClick={() => set("filter", chosen.filter === filter.name ? null : filter.name)}
          >
            {filter.label} <span class="minor">{found}</span>
          </button>
        );
      })}
      <select aria-label="Agent" value={chosen.agent ?? ""} onChange={(event) => set("agent", event.currentTarget.value)}>
        <option value="">All agents</option>
        {agents.map((agent) => (
          <option key={agent} value={agent}>
            {agentName(agent)}
          </option>
        ))}
      </select>
      <select aria-label="Project" value={chosen.project ?? ""} onChange={(event) => set("project", event.currentTarget.value)}>
        <option value="">All projects</option>
        {chosen.project && !projects.includes(chosen.project) && <option value={chosen.project}>{chosen.project}</option>}
        {projects.map((project) => (
          <option key={project} value={project}>
            {projectName(project)}
          </option>
        ))}
      </select>
      <input
        type="search"
        data-search
        aria-label="Filter by words"
        placeholder="Filter"
        value={chosen.words}
        onInput={(event) => set("words", event.currentTarget.value)}
      />
    </div>
  );
}

function GroupView({ group, rows }: { group: Group; rows: Status[] }) {
  const first = ROWS_FIRST[group.name] ?? 20;
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? rows : rows.slice(0, first);
  const id = `group-${group.name.toLowerCase().replaceAll(" ", "-")}`;
  return (
    <section class="group" aria-labelledby={id}>
      <h2 id={id}>
        {group.name} <span class="pill">{count(rows.length)}</span>
        <span class="minor about">{group.about}</span>
      </h2>
      <ul class="rows">
        {shown.map((status) => (
          <Row key={status.session_id} status={status} session={facts.value.get(status.session_id)} subagents={children.value.get(status.session_id)} />
        ))}
      </ul>
      {shown.length < rows.length && (
        <button class="quiet" onClick={() => setWhole(true)}>
          {count(rows.length - shown.length)} more
        </button>
      )}
    </section>
  );
}

const Row = memo(function Row({ status, session, subagents }: { status: Status; session?: Session; subagents?: Session[] }) {
  const [isOpen, setOpen] = useState(false);
  const tokens = session?.tokens;
  const used = tokens ? tokens.input + tokens.output + tokens.cache_creation : null;
  const model = modelName(session?.model);
  return (
    <li class="row">
      <StatusMark status={status} />
      <a class="what" href={sessionPlace(status.session_id)} data-choice>
        <span class="title" dir="auto">
          {oneLine(status.title ?? status.session_id, 140)}
        </span>
        <span class="current" dir="auto">
          {oneLine(status.summary.current, 200)}
        </span>
      </a>
      <span class="where minor">
        <span class="project" title={status.project ?? undefined}>
          {projectName(status.project)}
        </span>
        {session?.branch && <span class="branch">{oneLine(session.branch, 40)}</span>}
        <span>
          {agentName(status.provider)}
          {model && ` · ${model}`}
        </span>
      </span>
      <span class="figure since">
        <Age at={status.since} />
      </span>
      <span class="figure tokens" title={used === null ? "tokens are not recorded" : `${count(used)} tokens without what was read from a cache`}>
        {used === null ? "–" : short(used)}
        <span class="unit"> tok</span>
      </span>
      <span class="figure cost">
        <Money usd={session?.usd} basis={session?.basis} />
      </span>
      {subagents && subagents.length > 0 && (
        <div class="subagents">
          <button class="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? "▾" : "▸"} {several(subagents.length, "subagent")}
          </button>
          {isOpen && (
            <ul>
              {subagents.map((child) => (
                <li key={child.id}>
                  <a href={sessionPlace(child.id)} dir="auto">
                    {oneLine(child.title ?? child.id, 100)}
                  </a>
                  <span class="minor">
                    {several(child.counts.tool_calls, "call")} · <Age at={child.last_event_at} /> · <Money usd={child.usd} basis={child.basis} />
                  </span>
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
    </li>
  );
});
