// What a person sees before the first session: an example to look at, and what each agent needs.

import { useState } from "preact/hooks";
import type { Adapter, Page, SampleImport } from "../contract/types";
import { Failure, useAsked } from "../parts/Asked";
import { CopyButton } from "../parts/CopyButton";
import { ask, AskError, post } from "../state/ask";
import { go } from "../state/place";
import { agentName } from "../text/format";
import { plain } from "../text/plain";

export function Welcome() {
  const capture = useAsked("capture", (signal) => ask<Page<Adapter>>("/api/capture", {}, signal));
  const adapters = capture.value?.items ?? [];
  // Agents that are here come first; the order is else the daemon's.
  const found = adapters.filter(isHere);
  const missing = adapters.filter((adapter) => !isHere(adapter));
  return (
    <div class="welcome">
      <p>
        No session is recorded yet. As soon as one of the agents below works on this machine, its session appears here: what it is doing, whether it needs
        you, and what it costs. Agents' files are only read, and nothing leaves this machine.
      </p>
      <Sample />
      {capture.error && <Failure error={capture.error} />}
      {found.length > 0 && (
        <section class="panel">
          <h2>Agents on this machine</h2>
          <ul class="agents">
            {found.map((adapter) => (
              <Found key={adapter.provider} adapter={adapter} />
            ))}
          </ul>
        </section>
      )}
      {missing.length > 0 && (
        <section class="panel">
          <h2>{found.length > 0 ? "Not found on this machine" : "Agents that are recorded"}</h2>
          <p class="minor">Each is recorded from its first session on. Nothing has to be set up.</p>
          <ul class="agents">
            {missing.map((adapter) => (
              <li key={adapter.provider}>
                <strong>{agentName(adapter.provider)}</strong>
                <span class="minor">{adapter.roots.map((root) => plain(root.path)).join(", ")}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function isHere(adapter: Adapter): boolean {
  return adapter.roots.some((root) => root.is_there);
}

/** Three recorded sessions, for a look at what the page shows. */
function Sample() {
  const [isLoading, setLoading] = useState(false);
  const [error, setError] = useState<AskError | null>(null);
  const [isDeleted, setDeleted] = useState(false);
  const load = async () => {
    setLoading(true);
    setError(null);
    try {
      const { events, already_recorded, deleted } = await post<SampleImport>("/api/sample");
      if (events + already_recorded > 0 || deleted === 0) return go("/sessions");
      setDeleted(true);
      setLoading(false);
    } catch (failed) {
      setError(AskError.of(failed));
      setLoading(false);
    }
  };
  return (
    <section class="panel">
      <h2>Look at an example</h2>
      <p>
        Three recorded sessions come with the program. <code>hansard delete</code> removes them again.
      </p>
      <p>
        <button type="button" class="button" disabled={isLoading} onClick={() => void load()}>
          {isLoading ? "Loading…" : "Load the sample sessions"}
        </button>
      </p>
      {isDeleted && (
        <p role="status">
          They were deleted here, and what is deleted stays deleted. <code>hansard --journal DIR import --sample</code> loads them into a journal of their own.
        </p>
      )}
      {error && <Failure error={error} />}
    </section>
  );
}

function Found({ adapter }: { adapter: Adapter }) {
  return (
    <li>
      <strong>{agentName(adapter.provider)}</strong>
      <span>{needsOf(adapter)}</span>
    </li>
  );
}

function needsOf({ provider, hooks }: Adapter) {
  if (!hooks) return "Ready: its files tell everything.";
  if (hooks.problem) return plain(hooks.problem);
  if (hooks.events.length > 0) return "Ready, with hooks.";
  const command = `hansard hooks install ${provider}`;
  return (
    <>
      Ready. With hooks its approvals are seen at once: <code>{command}</code> <CopyButton text={() => command} label={`Copy: ${command}`} isInline />
    </>
  );
}
