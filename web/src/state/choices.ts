// Agents and projects somebody may choose: all that were seen, so that a choice hides no other one.

import { computed, signal } from "@preact/signals";
import { allStatuses } from "./statuses";
import { isSameList, steady } from "./steady";

/** Of each kind as many are remembered; further ones are offered while they are on the board. */
const REMEMBERED_MAX = 500;

interface Seen {
  provider: string;
  project?: string | null;
}

const remembered = signal<{ agents: string[]; projects: string[] }>({ agents: [], projects: [] });

const agentsNow = steady(() => sorted(allStatuses().map((status) => status.provider)), isSameList);
const projectsNow = steady(() => sorted(allStatuses().map((status) => status.project)), isSameList);

export const agentsSeen = computed(() => sorted([...agentsNow.value, ...remembered.value.agents]));
export const projectsSeen = computed(() => sorted([...projectsNow.value, ...remembered.value.projects]));

/** Remembers what was found in lists. */
export function remember(items: Seen[]): void {
  const { agents, projects } = remembered.peek();
  const next = {
    agents: sorted([...agents, ...items.map((item) => item.provider)]).slice(0, REMEMBERED_MAX),
    projects: sorted([...projects, ...items.map((item) => item.project)]).slice(0, REMEMBERED_MAX),
  };
  if (!isSameList(agents, next.agents) || !isSameList(projects, next.projects)) remembered.value = next;
}

function sorted(names: Array<string | null | undefined>): string[] {
  return [...new Set(names)].filter((name) => !!name).sort() as string[];
}
