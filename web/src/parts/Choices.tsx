// Choosing an agent and a project; what is chosen stands in the address.

import { useEffect } from "preact/hooks";
import { agents, projects, readChoices } from "../state/choices";
import { place, setParameter } from "../state/place";
import { agentName, projectName } from "../text/format";

export function AgentChoice() {
  return <Choice name="agent" label="Agent" none="All agents" options={agents.value} nameOf={agentName} />;
}

export function ProjectChoice() {
  return <Choice name="project" label="Project" none="All projects" options={projects.value} nameOf={projectName} />;
}

interface Choosing {
  name: string;
  label: string;
  /** What it is called when nothing is chosen. */
  none: string;
  options: string[];
  nameOf: (option: string) => string;
}

function Choice({ name, label, none, options, nameOf }: Choosing) {
  const chosen = place.value.search.get(name) ?? "";
  useEffect(readChoices, []);
  return (
    <select aria-label={label} value={chosen} onChange={(event) => setParameter(name, event.currentTarget.value)}>
      <option value="">{none}</option>
      {[...new Set([...options, ...(chosen ? [chosen] : [])])].map((option) => (
        <option key={option} value={option}>
          {nameOf(option)}
        </option>
      ))}
    </select>
  );
}
