// The command centre: what each session is doing, and which of them needs a person.

import { computed, signal, useComputed } from "@preact/signals";
import { memo } from "preact/compat";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Health, Session, Status } from "../contract/types";
import { Age } from "../parts/Age";
import { Empty, useAsked } from "../parts/Asked";
import { Asking } from "../parts/Asking";
import { AgentChoice, ProjectChoice } from "../parts/Choices";
import { Money } from "../parts/Money";
import { SessionCells } from "../parts/SessionCells";
import { StatusMark } from "../parts/StatusMark";
import { approvalsOf } from "../state/approvals";
import { ask } from "../state/ask";
import { now } from "../state/clock";
import { connection } from "../state/connection";
import { childrenOf, factsOf, lookAtFacts } from "../state/facts";
import { place, sessionPlace, setParameter } from "../state/place";
import { allStatuses, byUrgency, isLoaded, needsPerson, sinceOf, statusOf } from "../state/statuses";
import { isSameList, steady } from "../state/steady";
import { count, projectName, several } from "../text/format";
import { oneLine } from "../text/plain";
import { runsTests } from "../text/tests";
import { Welcome } from "./Welcome";

interface Group {
  /** As the daemon names it. */
  group: string;
  name: string;
  about: string;
  /** Rows that are shown at first; groups further down are shorter. */
  rowsFirst: number;
}

const GROUPS: Group[] = [
  { group: "needs_you", name: "Needs you", about: "asks you something, failed, repeats itself or is stuck", rowsFirst: 200 },
  { group: "running", name: "Running", about: "working", rowsFirst: 100 },
  { group: "waiting", name: "Waiting", about: "done, ready for the next prompt", rowsFirst: 40 },
  { group: "idle", name: "Idle", about: "quiet for two minutes or more", rowsFirst: 15 },
  { group: "unknown", name: "Unknown", about: "its status cannot be determined", rowsFirst: 15 },
  { group: "exited", name: "Exited", about: "its process has ended", rowsFirst: 10 },
];

/** A group that only a later version of the daemon knows counts as unknown. */
function groupOf(status: Status): string {
  return GROUPS.some(({ group }) => group === status.group) ? status.group : "unknown";
}

/** Whether it runs and gets nowhere. */
function isStuck(status: Status): boolean {
  return status.attention?.want === "stuck" || status.attention?.want === "looping";
}

interface Filter {
  name: string;
  label: string;
  holds: (status: Status) => boolean;
}

const FILTERS: Filter[] = [
  { name: "needs", label: "Waiting on me", holds: needsPerson },
  { name: "tests", label: "Running tests", holds: (it) => it.status === "running" && runsTests(it.summary.current) },
  { name: "failing", label: "Failing", holds: (it) => it.attention?.want === "failed" },
  { name: "stuck", label: "Stuck", holds: isStuck },
];

interface Chosen {
  filter: string | null;
  agent: string | null;
  project: string | null;
  words: string;
}

const chosen = computed<Chosen>(() => {
  const search = place.value.search;
  return { filter: search.get("filter"), agent: search.get("agent"), project: search.get("project"), words: search.get("words") ?? "" };
});

/** Which sessions are in which group, in order. It changes when one of them comes, goes or moves. */
const grouped = steady(
  () => {
    const groups = GROUPS.map((group) => ({ group, ids: [] as string[] }));
    for (const status of byUrgency(allStatuses().filter((status) => isShown(status, chosen.value)))) {
      groups.find(({ group }) => group.group === groupOf(status))!.ids.push(status.session_id);
    }
    return groups;
  },
  (before, after) => before.every(({ ids }, at) => isSameList(ids, after[at]!.ids)),
);

const found = steady(() => FILTERS.map((filter) => allStatuses().filter(filter.holds).length), isSameList);
const total = computed(() => allStatuses().length);

/** How many sessions are in each group, in the words of `hansard top`. */
const counts = steady(() => {
  const statuses = allStatuses();
  const inGroup = GROUPS.slice(0, 4).map(({ group, name }) => {
    const number = statuses.filter((status) => groupOf(status) === group).length;
    return { number, word: group === "needs_you" ? (number === 1 ? "needs you" : "need you") : name.toLowerCase() };
  });
  const [needs, ...others] = inGroup.map(({ number, word }) => (number > 0 ? `${count(number)} ${word}` : ""));
  return [needs || (statuses.length > 0 ? "none needs you" : ""), others.filter(Boolean).join(" · ")];
}, isSameList);

export function Centre() {
  useEffect(lookAtFacts, []);
  const groups = grouped.value;
  const isEmpty = groups.every(({ ids }) => ids.length === 0);
  const hasAny = total.value > 0;
  // Asked only if no session was active lately: there may be none at all.
  const isQuiet = isLoaded.value && !hasAny;
  // Again with each step of the clock: history may just be read, and all of it be older than a day.
  const health = useAsked(isQuiet ? String(now.value) : null, (signal) => ask<Health>("/api/health", {}, signal));
  if (isQuiet && health.value?.sessions === 0) return <FirstVisit />;
  return (
    <section class="page centre">
      <header class="page-head">
        <h1>Now</h1>
        <p class="minor">
          <span aria-live="polite">{counts.value[0]}</span>
          {[counts.value[1], hasAny && `${several(total.value, "session")} in the last day`].filter(Boolean).map((text) => ` · ${text}`)}
        </p>
      </header>
      <Filters />
      {groups.map(({ group, ids }) => ids.length > 0 && <GroupView key={group.name} group={group} ids={ids} />)}
      {isEmpty && isLoaded.value && !(isQuiet && !health.value && health.isAsking) && (
        <Empty title={hasAny ? "No session matches the filter" : "No session was active today"}>
          {hasAny ? "Remove a filter to see more." : "When an agent works on this machine, its session appears here. Older ones are under Sessions."}
        </Empty>
      )}
      {isEmpty && !isLoaded.value && connection.value.state !== "gone" && <Empty title="Looking…" />}
    </section>
  );
}

function FirstVisit() {
  return (
    <section class="page centre">
      <header class="page-head">
        <h1>Welcome to Hansard</h1>
        <p class="minor">the record of every AI coding session on this machine</p>
      </header>
      <Welcome />
    </section>
  );
}

function isShown(status: Status, chosen: Chosen): boolean {
  const filter = FILTERS.find((one) => one.name === chosen.filter);
  if (filter && !filter.holds(status)) return false;
  if (chosen.agent && status.provider !== chosen.agent) return false;
  if (chosen.project && status.project !== chosen.project && projectName(status.project) !== chosen.project) return false;
  if (!chosen.words) return true;
  const told = `${status.title ?? ""} ${status.project ?? ""} ${status.summary.current} ${status.session_id}`.toLowerCase();
  return chosen.words.toLowerCase().split(/\s+/).every((word) => told.includes(word));
}

function Filters() {
  const { filter: one, words } = chosen.value;
  return (
    <div class="filters" role="group" aria-label="Filters">
      {FILTERS.map((filter, at) => (
        <button key={filter.name} class="chip" aria-pressed={one === filter.name} onClick={() => setParameter("filter", one === filter.name ? null : filter.name)}>
          {filter.label} <span class="minor">{found.value[at]}</span>
        </button>
      ))}
      <AgentChoice />
      <ProjectChoice />
      <input type="search" data-search aria-label="Filter by words" placeholder="Filter" value={words} onInput={(event) => setParameter("words", event.currentTarget.value)} />
    </div>
  );
}

const GroupView = memo(function GroupView({ group, ids }: { group: Group; ids: string[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? ids : ids.slice(0, group.rowsFirst);
  const id = `group-${group.name.toLowerCase().replaceAll(" ", "-")}`;
  return (
    <section class="group" aria-labelledby={id}>
      <h2 id={id}>
        {group.name} <span class="pill">{count(ids.length)}</span>
        <span class="minor about">{group.about}</span>
      </h2>
      <ul class="rows">
        {shown.map((session) => (
          <Row key={session} id={session} />
        ))}
      </ul>
      {shown.length < ids.length && (
        <button class="quiet" onClick={() => setWhole(true)}>
          {count(ids.length - shown.length)} more
        </button>
      )}
    </section>
  );
});

/** A session that tells something else of what it does now is drawn anew in that line only. */
const Row = memo(function Row({ id }: { id: string }) {
  const status = useMemo(() => steady(() => statusOf(id), isSameRow), [id]).value;
  const doing = useComputed(() => doingOf(statusOf(id)));
  const session = useComputed(() => factsOf(id)).value;
  const subagents = useComputed(() => childrenOf(id)).value;
  if (!status) return null;
  return (
    <li class="row">
      <StatusMark status={status} />
      <a class="what" href={sessionPlace(id)} data-choice>
        <span class="title" dir="auto">
          {oneLine(status.title ?? id, 140)}
        </span>
        <span class="current" dir="auto">
          {doing}
        </span>
      </a>
      <SessionCells provider={status.provider} project={status.project ?? session?.cwd} session={session} since={sinceOf(status)} />
      {status.pending_approvals.length > 0 && <Asking session={id} />}
      {subagents.length > 0 && <Subagents id={id} of={subagents} />}
    </li>
  );
});

function isSameRow(before: Status | undefined, after: Status | undefined): boolean {
  const drawn = (status: Status | undefined) =>
    status && [status.title, status.status, status.reason, status.confidence, status.project, sinceOf(status), status.attention?.want, status.pending_approvals.length];
  return isSameList(drawn(before) ?? [], drawn(after) ?? []);
}

function doingOf(status: Status | undefined): string {
  if (!status) return "";
  // The words of it stand below.
  if (approvalsOf(status.session_id).length > 0) return "waits for your approval";
  if (status.attention && isStuck(status)) return oneLine(status.attention.what, 200);
  // That it rests is told beside it; what it did before is not.
  const isResting = (status.status === "idle" || status.status === "exited") && !needsPerson(status);
  if (isResting && status.summary.recent) return `lately: ${oneLine(status.summary.recent, 200)}`;
  return oneLine(status.summary.current, 200);
}

/** Sessions whose subagents are shown, whatever group they move to. */
const unfolded = signal<ReadonlySet<string>>(new Set());

function Subagents({ id, of }: { id: string; of: Session[] }) {
  const isOpen = unfolded.value.has(id);
  const toggle = () => {
    const next = new Set(unfolded.peek());
    if (!next.delete(id)) next.add(id);
    unfolded.value = next;
  };
  return (
    <div class="subagents">
      <button class="quiet" aria-expanded={isOpen} onClick={toggle}>
        {isOpen ? "▾" : "▸"} {several(of.length, "subagent")}
      </button>
      {isOpen && (
        <ul>
          {of.map((child) => (
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
  );
}
