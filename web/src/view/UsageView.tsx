// Tokens and money: by day as a chart, by model, project and agent as tables, each with its basis.

import { useMemo } from "preact/hooks";
import type { Budget, Usage, UsageRow } from "../contract/types";
import { Empty, Failure, useAsked } from "../parts/Asked";
import { BarChart } from "../parts/BarChart";
import { basisWords, Money, partsWords } from "../parts/Money";
import { useRounds } from "../parts/rounds";
import { Figure, SpanFilters, useSpan } from "../parts/Span";
import { ask } from "../state/ask";
import { place, setParameter } from "../state/place";
import { everyDay } from "../text/days";
import { agentName, count, modelName, money, projectName, short } from "../text/format";

const MEASURES: Array<[string, string]> = [
  ["usd", "Money"],
  ["output", "Output tokens"],
  ["all", "All tokens"],
  ["requests", "Requests"],
];

/** After news it is added up again at most so often. */
const AGAIN_MS = 30_000;

export function UsageView() {
  const span = useSpan();
  const key = `${span.key} ${useRounds(AGAIN_MS)}`;
  const measure = place.value.search.get("measure") ?? "usd";
  const asked = (by: string) => (signal: AbortSignal) => ask<Usage>("/api/usage", { by, since: span.since, project: span.project }, signal);
  const daily = useAsked(`daily ${key}`, asked("daily"));
  const models = useAsked(`model ${key}`, asked("model"));
  const agents = useAsked(`agent ${key}`, asked("agent"));
  const projects = useAsked(`project ${key}`, asked("project"));
  const total = daily.value?.total;
  const bars = useMemo(() => everyDay(new Map(daily.value?.rows.map((row) => [row.key ?? "", measured(row, measure)]))), [daily.value, measure]);
  const error = daily.error ?? models.error ?? agents.error ?? projects.error;
  return (
    <section class="page usage">
      <header class="page-head">
        <h1>Usage</h1>
        <p class="minor">{span.project ? projectName(span.project) : "all projects"}</p>
      </header>
      <SpanFilters span={span} hasAllTime>
        <select aria-label="Measure" value={measure} onChange={(event) => setParameter("measure", event.currentTarget.value)}>
          {MEASURES.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      </SpanFilters>
      {error && <Failure error={error} />}
      {total && (
        <dl class="figures">
          <Figure name="Money" about={partsWords(total.usd_parts) || basisWords(total.basis)}>
            <Money usd={total.usd} basis={total.basis} />
          </Figure>
          <Figure name="Output" about={`tokens, ${short(total.reasoning)} of them reasoning`}>
            {short(total.output)}
          </Figure>
          <Figure name="Input" about={`tokens, ${short(total.cache_creation)} written to the cache`}>
            {short(total.input + total.cache_creation)}
          </Figure>
          <Figure name="Read from the cache" about="tokens">
            {short(total.cache_read)}
          </Figure>
          <Figure name="Requests" about="each counted once">
            {short(total.requests)}
          </Figure>
        </dl>
      )}
      {daily.value && daily.value.budgets.length > 0 && <Budgets budgets={daily.value.budgets} />}
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
      {daily.value && daily.value.rows.length === 0 && <Empty title="No usage in this period">Try another period. Agents that do not record tokens are not counted.</Empty>}
      <div class="columns">
        {models.value && <Table title="By model" rows={models.value.rows} name={(row) => modelName(row.key) || "not told"} about={(row) => (row.provider ? agentName(row.provider) : "")} />}
        {agents.value && <Table title="By agent" rows={agents.value.rows} name={(row) => agentName(row.key ?? "not told")} about={() => ""} />}
        {projects.value && (
          <Table
            title="By project"
            rows={projects.value.rows}
            name={(row) => projectName(row.key)}
            about={(row) => row.key ?? ""}
            onChoose={(row) => setParameter("project", row.key ?? "")}
          />
        )}
      </div>
      <p class="minor basis-note">
        Money without a mark was reported by the agent, <strong>≈</strong> is tokens times list prices, <strong>≥</strong> has parts whose price is not known. Each request counts once, however often it is written down.
      </p>
    </section>
  );
}

/** Limits of the settings and what is used of them today. */
function Budgets({ budgets }: { budgets: Budget[] }) {
  const names: Record<string, (name: string) => string> = {
    day: () => "Today",
    project: (name) => `Today in ${projectName(name)}`,
    session: (name) => `Session ${name}`,
  };
  return (
    <section class="panel">
      <h2>Budgets</h2>
      <ul class="budgets">
        {budgets.map((budget) => (
          <li key={`${budget.scope} ${budget.name}`} class={budget.exceeded ? "exceeded" : ""}>
            <span class="budget-name" title={budget.name}>
              {names[budget.scope]?.(budget.name) ?? budget.name}
            </span>
            <meter min={0} max={100} value={Math.min(budget.percent, 100)} aria-label={`${budget.percent} % used`} />
            <span class="budget-sum">
              <Money usd={budget.usd} basis={budget.basis} /> of {money(budget.limit)}
              {budget.exceeded && <strong> · over budget</strong>}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
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
                  <span title={partsWords(row.usd_parts)}>
                    <Money usd={row.usd} basis={row.basis} />
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
