// Choosing an agent and a project; what is chosen stands in the address.

import { agentsSeen, projectsSeen } from "../state/choices";
import { place, setParameter } from "../state/place";
import { agentName, AGENTS, projectName } from "../text/format";

/** `isOfAll` also offers agents that nobody has seen yet: the record may have them. */
export function AgentChoice({ isOfAll = false }: { isOfAll?: boolean }) {
  return <Choice name="agent" label="Agent" none="All agents" options={[...agentsSeen.value, ...(isOfAll ? AGENTS : [])]} nameOf={agentName} />;
}

export function ProjectChoice() {
  return <Choice name="project" label="Project" none="All projects" options={projectsSeen.value} nameOf={projectName} />;
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
