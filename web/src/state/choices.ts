// Agents and projects somebody may choose: all of the record, and whoever is on the board.

import { computed, signal } from "@preact/signals";
import type { Facets } from "../contract/types";
import { ask } from "./ask";
import { allStatuses } from "./statuses";
import { isSameList, steady } from "./steady";

const recorded = signal<Facets>({ providers: [], projects: [] });

const agentsNow = steady(() => sorted(allStatuses().map((status) => status.provider)), isSameList);
const projectsNow = steady(() => sorted(allStatuses().map((status) => status.project)), isSameList);

export const agents = computed(() => sorted([...agentsNow.value, ...recorded.value.providers.map(({ name }) => name)]));
export const projects = computed(() => sorted([...projectsNow.value, ...recorded.value.projects.map(({ name }) => name)]));

let asking: Promise<void> | null = null;

/** Asks what the record has. Until that is known, and if it cannot be had, there is the board. */
export function readChoices(): void {
  asking ??= ask<Facets>("/api/facets")
    .then((facets) => void (recorded.value = facets))
    .catch(() => {})
    .finally(() => (asking = null));
}

function sorted(names: Array<string | null | undefined>): string[] {
  return [...new Set(names)].filter((name) => !!name).sort() as string[];
}
