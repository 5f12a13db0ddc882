// How the work went: turns and how they ended, waiting, tests that had to be fixed, kinds of faults.

import { useMemo } from "preact/hooks";
import type { Work, WorkGroup } from "../contract/types";
import { Age } from "../parts/Age";
import { Empty, Failure, useAsked } from "../parts/Asked";
import { BarChart } from "../parts/BarChart";
import { ask } from "../state/ask";
import { place, rename, sessionPlace } from "../state/place";
import { count, lasting, projectName, several } from "../text/format";
import { oneLine } from "../text/plain";

const SPANS: Array<[string, string]> = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
];

export function Activity() {
  const span = place.value.search.get("days") ?? "30";
  const project = place.value.search.get("project") ?? "";
  const since = new Date(Date.now() - Number(span) * 86_400_000).toISOString().slice(0, 10) + "T00:00:00Z";
  const { value: work, error, isAsking } = useAsked(`${span} ${project}`, (signal) => ask<Work>("/api/activity", { since, project }, signal));
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(place.value.search);
    if (value) next.set(name, value);
    else next.delete(name);
    rename(`/activity?${next}`);
  };
  const bars = useMemo(() => (work?.days ?? []).map((day) => ({ name: day.key ?? "", value: day.turns })), [work]);
  const all = work?.all;
  return (
    <section class="page">
      <header class="page-head">
        <h1>Activity and quality</h1>
        <p class="minor">
          {project ? projectName(project) : "all projects"}
          {work && ` · ${several(work.sessions, "session")} with turns${work.is_cut ? ", the newest" : ""}`}
        </p>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        {SPANS.map(([value, name]) => (
          <button key={value} class="chip" aria-pressed={span === value} onClick={() => set("days", value)}>
            {name}
          </button>
        ))}
        {project && (
          <button class="chip" aria-pressed="true" onClick={() => set("project", "")}>
            {projectName(project)} ×
          </button>
        )}
      </div>
      {error && <Failure error={error} />}
      {!work && isAsking && <Empty title="Reading the sessions…">The first time it takes a while; then only what is new is read.</Empty>}
      {work && all && all.turns === 0 && <Empty title="No turn in this time" />}
      {work && all && all.turns > 0 && (
        <>
          <dl class="figures">
            <Figure name="Turns" value={count(all.turns)} about={`${share(all.outcomes.done, all.turns)} done, ${share(all.outcomes.interrupted, all.turns)} interrupted`} />
            <Figure name="Turns to completion" value={work.turns_per_session ? String(Math.round(work.turns_per_session)) : "–"} about="in the middle of all sessions" />
            <Figure name="A turn takes" value={all.turn_seconds ? lasting(all.turn_seconds * 1000) : "–"} about="in the middle, from prompt to end" />
            <Figure name="Test-fix loops" value={count(all.test_fix_loops)} about="tests that passed after they failed" />
            <Figure name="Waited for you" value={lasting(all.waited_seconds * 1000)} about={`${several(all.approvals, "approval")}`} />
            <Figure name="Tool calls" value={count(all.tool_calls)} about={`${share(all.tool_failures, all.tool_calls)} failed`} />
          </dl>
          <section class="panel">
            <h2>Turns by day</h2>
            <BarChart label="Turns by day" bars={bars} format={(value) => String(Math.round(value))} />
          </section>
          <div class="columns">
            <Projects groups={work.projects} onChoose={(key) => set("project", key)} />
            <Faults work={work} />
          </div>
        </>
      )}
    </section>
  );
}

function Figure({ name, value, about }: { name: string; value: string; about: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
      <dd class="minor">{about}</dd>
    </div>
  );
}

function Projects({ groups, onChoose }: { groups: WorkGroup[]; onChoose: (key: string) => void }) {
  return (
    <section class="panel">
      <h2>By project</h2>
      <div class="wide" tabIndex={0} role="region" aria-label="By project">
        <table class="numbers">
          <thead>
            <tr>
              <th scope="col">Project</th>
              <th scope="col">Turns</th>
              <th scope="col">Done</th>
              <th scope="col">A turn</th>
              <th scope="col">Loops</th>
              <th scope="col">Failures</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((group) => (
              <tr key={group.key}>
                <th scope="row">
                  {group.key ? (
                    <button class="link" onClick={() => onChoose(group.key!)}>
                      {projectName(group.key)}
                    </button>
                  ) : (
                    "no project"
                  )}
                </th>
                <td>{count(group.turns)}</td>
                <td>{share(group.outcomes.done, group.turns)}</td>
                <td>{group.turn_seconds ? lasting(group.turn_seconds * 1000) : "–"}</td>
                <td>{count(group.test_fix_loops)}</td>
                <td>{share(group.tool_failures, group.tool_calls)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Faults({ work }: { work: Work }) {
  return (
    <section class="panel">
      <h2>What fails</h2>
      {work.faults.length === 0 && <p class="minor">Nothing did.</p>}
      <ul class="faults">
        {work.faults.map((fault) => (
          <li key={fault.kind}>
            <span class="name">
              {fault.kind} <span class="pill">{count(fault.count)}</span>
            </span>
            <span class="minor">
              last <Age at={fault.last_at} isAgo />
            </span>
            <a href={sessionPlace(fault.session_id, fault.seq)} dir="auto">
              {oneLine(fault.example, 160) || "open"}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function share(part: number | undefined, whole: number): string {
  if (!whole) return "–";
  const percent = ((part ?? 0) / whole) * 100;
  return percent > 0 && percent < 1 ? "<1 %" : `${Math.round(percent)} %`;
}
