// Which days and which project a view of figures is about.

import type { ComponentChildren } from "preact";
import { place, setParameter } from "../state/place";
import { sinceDay } from "../text/days";
import { projectName } from "../text/format";

const DAYS = ["7", "30", "90"];
const DAYS_AT_FIRST = "30";

/** Instead of a number of days. */
const ALL_TIME = "all";

export interface Span {
  /** Names what is asked for. */
  key: string;
  days: string;
  since: string | null;
  project: string;
}

export function useSpan(): Span {
  const search = place.value.search;
  const days = search.get("days") ?? DAYS_AT_FIRST;
  const project = search.get("project") ?? "";
  const since = sinceDay(days);
  return { key: `${since} ${project}`, days, since, project };
}

export function SpanFilters({ span, hasAllTime = false, children }: { span: Span; hasAllTime?: boolean; children?: ComponentChildren }) {
  return (
    <div class="filters" role="group" aria-label="Filters">
      {[...DAYS, ...(hasAllTime ? [ALL_TIME] : [])].map((days) => (
        <button key={days} class="chip" aria-pressed={span.days === days} onClick={() => setParameter("days", days)}>
          {days === ALL_TIME ? "All time" : `${days} days`}
        </button>
      ))}
      {children}
      {span.project && (
        <button class="chip" aria-pressed="true" onClick={() => setParameter("project", null)}>
          {projectName(span.project)} ×
        </button>
      )}
    </div>
  );
}

/** One number that matters, for a list of them. */
export function Figure({ name, about, children }: { name: string; about: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
      <dd class="minor">{about}</dd>
    </div>
  );
}
