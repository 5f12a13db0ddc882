// Tokens and money: by day as a chart, by model, project and agent as tables, each with its basis.

import { useMemo } from "preact/hooks";
import type { Usage, UsageRow } from "../contract/types";
import { Empty, Failure, useAsked } from "../parts/Asked";
import { type Bar, BarChart } from "../parts/BarChart";
import { basisWords, Money } from "../parts/Money";
import { ask } from "../state/ask";
import { place, rename } from "../state/place";
import { agentName, count, modelName, money, projectName, short } from "../text/format";

const SPANS: Array<[string, string]> = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["", "All time"],
];

const MEASURES: Array<[string, string]> = [
  ["usd", "Money"],
  ["output", "Output tokens"],
  ["all", "All tokens"],
  ["requests", "Requests"],
];

export function UsageView() {
  const search = place.value.search;
  const span = search.get("days") ?? "30";
  const measure = search.get("measure") ?? "usd";
  const project = search.get("project") ?? "";
  const since = span ? new Date(Date.now() - Number(span) * 86_400_000).toISOString().slice(0, 10) + "T00:00:00Z" : null;
  const asked = (by: string) => (signal: AbortSignal) => ask<Usage>("/api/usage", { by, since, project }, signal);
  const key = `${span} ${project}`;
  const daily = useAsked(`daily ${key}`, asked("daily"));
  const models = useAsked(`model ${key}`, asked("model"));
  const projects = useAsked(`project ${key}`, asked("project"));
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(place.value.search);
    next.set(name, value);
    rename(`/usage?${next}`);
  };
  const total = daily.value?.total;
  const bars = useMemo(() => everyDay(daily.value?.rows ?? [], measure), [daily.value, measure]);
  const error = daily.error ?? models.error ?? projects.error;
  return (
    <section class="page usage">
      <header class="page-head">
        <h1>Usage</h1>
        <p class="minor">{project ? projectName(project) : "all projects"}</p>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        {SPANS.map(([value, name]) => (
          <button key={value} class="chip" aria-pressed={span === value} onClick={() => set("days", value)}>
            {name}
          </button>
        ))}
        <select aria-label="Measure" value={measure} onChange={(event) => set("measure", event.currentTarget.value)}>
          {MEASURES.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        {project && (
          <button class="chip" aria-pressed="true" onClick={() => set("project", "")}>
            {projectName(project)} ×
          </button>
        )}
      </div>
      {error && <Failure error={error} />}
      {total && (
        <dl class="figures">
          <div>
            <dt>Money</dt>
            <dd>
              <Money usd={total.usd} basis={total.basis} />
            </dd>
            <dd class="minor">{basisWords(total.basis)}</dd>
          </div>
          <div>
            <dt>Output</dt>
            <dd>{short(total.output)}</dd>
            <dd class="minor">tokens, {short(total.reasoning)} of them reasoning</dd>
          </div>
          <div>
            <dt>Input</dt>
            <dd>{short(total.input + total.cache_creation)}</dd>
            <dd class="minor">tokens, {short(total.cache_creation)} put into a cache</dd>
          </div>
          <div>
            <dt>Read from a cache</dt>
            <dd>{short(total.cache_read)}</dd>
            <dd class="minor">tokens</dd>
          </div>
          <div>
            <dt>Requests</dt>
            <dd>{short(total.requests)}</dd>
            <dd class="minor">each counted once</dd>
          </div>
        </dl>
      )}
      {daily.value && daily.value.rows.length > 0 && (
        <section class="panel">
          <h2>By day</h2>
          <BarChart
            label={`${MEASURES.find(([value]) => value === measure)?.[1]} by day`}
            bars={bars}
            format={measure === "usd" ? (value) => money(value) : short}
          />
        </section>
      )}
      {daily.value && daily.value.rows.length === 0 && <Empty title="Nothing was used in this time">Another span may have something; agents that do not record tokens are not in here.</Empty>}
      <div class="columns">
        {models.value && <Table title="By model" rows={models.value.rows} name={(row) => modelName(row.key) || "not told"} about={(row) => (row.provider ? agentName(row.provider) : "")} />}
        {models.value && <Table title="By agent" rows={byAgent(models.value.rows)} name={(row) => agentName(row.key ?? "?")} about={() => ""} />}
        {projects.value && (
          <Table
            title="By project"
            rows={projects.value.rows}
            name={(row) => projectName(row.key)}
            about={(row) => row.key ?? ""}
            onChoose={(row) => set("project", row.key ?? "")}
          />
        )}
      </div>
      <p class="minor basis-note">
        <strong>exact</strong> was told by the agent, <strong>≈ estimated</strong> is tokens times list prices, <strong>≥ incomplete</strong> has parts whose price is not known. Each request counts once, however often it is written down.
      </p>
    </section>
  );
}

/** Days that are drawn at most; of a longer time, the newest. */
const DAYS_MAX = 400;

/** A bar for each day, also for those on which nothing was used. */
function everyDay(rows: UsageRow[], measure: string): Bar[] {
  const by = new Map(rows.map((row) => [row.key ?? "", measured(row, measure)]));
  const days = [...by.keys()].filter((day) => /^\d{4}-\d\d-\d\d$/.test(day)).sort();
  const last = Date.parse(days.at(-1) ?? "");
  const first = Math.max(Date.parse(days[0] ?? ""), last - (DAYS_MAX - 1) * 86_400_000);
  const bars: Bar[] = [];
  for (let at = first; at <= last; at += 86_400_000) {
    const name = new Date(at).toISOString().slice(0, 10);
    bars.push({ name, value: by.get(name) ?? 0 });
  }
  return bars;
}

function measured(row: UsageRow, measure: string): number {
  switch (measure) {
    case "usd":
      return row.usd ?? 0;
    case "output":
      return row.output;
    case "requests":
      return row.requests;
    default:
      return row.input + row.output + row.cache_creation + row.cache_read;
  }
}

/** Rows of models added up by who used them. */
function byAgent(rows: UsageRow[]): UsageRow[] {
  const by = Map.groupBy(rows, (row) => row.provider ?? "?");
  const worst = (bases: string[]) => (bases.includes("incomplete") ? "incomplete" : bases.includes("estimated") ? "estimated" : "exact");
  return [...by].map(([provider, of]) => {
    const sum = (pick: (row: UsageRow) => number) => of.reduce((total, row) => total + pick(row), 0);
    const priced = of.filter((row) => row.usd != null);
    return {
      key: provider,
      provider,
      model: null,
      requests: sum((row) => row.requests),
      input: sum((row) => row.input),
      output: sum((row) => row.output),
      cache_read: sum((row) => row.cache_read),
      cache_creation: sum((row) => row.cache_creation),
      reasoning: sum((row) => row.reasoning),
      usd: priced.length > 0 ? sum((row) => row.usd ?? 0) : null,
      basis: priced.length < of.length ? "incomplete" : worst(of.map((row) => row.basis)),
    };
  });
}

function Table({ title, rows, name, about, onChoose }: { title: string; rows: UsageRow[]; name: (row: UsageRow) => string; about: (row: UsageRow) => string; onChoose?: (row: UsageRow) => void }) {
  const sorted = [...rows].sort((a, b) => (b.usd ?? -1) - (a.usd ?? -1) || b.output - a.output);
  const most = Math.max(...sorted.map((row) => row.usd ?? 0), 1e-9);
  return (
    <section class="panel">
      <h2>{title}</h2>
      <div class="wide" tabIndex={0} role="region" aria-label={title}>
        <table class="numbers">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Requests</th>
              <th scope="col">Output</th>
              <th scope="col">Money</th>
            </tr>
          </thead>
          <tbody>
            {sorted.map((row, at) => (
              <tr key={at}>
                <th scope="row" title={about(row)}>
                  {onChoose && row.key ? (
                    <button class="link" onClick={() => onChoose(row)}>
                      {name(row)}
                    </button>
                  ) : (
                    name(row)
                  )}
                  <span class="share" style={{ width: `${((row.usd ?? 0) / most) * 100}%` }} aria-hidden="true" />
                </th>
                <td>{count(row.requests)}</td>
                <td>{short(row.output)}</td>
                <td>
                  <Money usd={row.usd} basis={row.basis} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
