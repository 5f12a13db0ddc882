// How the work went: turns and how they ended, waiting, tests that had to be fixed, kinds of faults.

import { useMemo } from "preact/hooks";
import type { Work, WorkGroup } from "../contract/types";
import { Age } from "../parts/Age";
import { Empty, Failure, useAsked } from "../parts/Asked";
import { BarChart } from "../parts/BarChart";
import { Figure, SpanFilters, useSpan } from "../parts/Span";
import { ask } from "../state/ask";
import { sessionPlace, setParameter } from "../state/place";
import { everyDay } from "../text/days";
import { count, lasting, projectName, several } from "../text/format";
import { oneLine } from "../text/plain";

export function Activity() {
  const span = useSpan();
  const { value: work, error, isAsking } = useAsked(span.key, (signal) => ask<Work>("/api/activity", { since: span.since, project: span.project }, signal));
  const bars = useMemo(() => everyDay(new Map(work?.days.map((day) => [day.key ?? "", day.turns]))), [work]);
  const all = work?.all;
  return (
    <section class="page">
      <header class="page-head">
        <h1>Activity and quality</h1>
        <p class="minor">
          {span.project ? projectName(span.project) : "all projects"}
          {work && ` · ${several(work.sessions, "session")} with turns${work.is_cut ? ", the newest" : ""}`}
        </p>
      </header>
      <SpanFilters span={span} />
      {error && <Failure error={error} />}
      {!work && isAsking && <Empty title="Reading the sessions…">The first time takes a while; after that only new events are read.</Empty>}
      {work && all && all.turns === 0 && <Empty title="No turns in this period" />}
      {work && all && all.turns > 0 && (
        <>
          <dl class="figures">
            <Figure name="Turns" about={`${share(all.outcomes.done, all.turns)} done, ${share(all.outcomes.interrupted, all.turns)} interrupted`}>
              {count(all.turns)}
            </Figure>
            <Figure name="Turns to completion" about="median of all sessions">
              {work.turns_per_session ? String(Math.round(work.turns_per_session)) : "–"}
            </Figure>
            <Figure name="A turn takes" about="median, from prompt to end">
              {all.turn_seconds ? lasting(all.turn_seconds * 1000) : "–"}
            </Figure>
            <Figure name="Test-fix loops" about="tests that passed after they failed">
              {count(all.test_fix_loops)}
            </Figure>
            <Figure name="Waited for you" about={`${several(all.approvals, "approval")}`}>
              {lasting(all.waited_seconds * 1000)}
            </Figure>
            <Figure name="Tool calls" about={`${share(all.tool_failures, all.tool_calls)} failed`}>
              {count(all.tool_calls)}
            </Figure>
          </dl>
          <section class="panel">
            <h2>Turns by day</h2>
            <BarChart label="Turns by day" bars={bars} format={count} isWhole />
          </section>
          <div class="columns">
            <Projects groups={work.projects} onChoose={(key) => setParameter("project", key)} />
            <Faults work={work} />
          </div>
        </>
      )}
    </section>
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
      {work.faults.length === 0 && <p class="minor">Nothing failed.</p>}
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
