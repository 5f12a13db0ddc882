// Whether everything that happens is recorded, and understood.

import type { Adapter, Health as HealthAnswer, Page } from "../contract/types";
import { Age } from "../parts/Age";
import { Failure, useAsked } from "../parts/Asked";
import { ask } from "../state/ask";
import { now } from "../state/clock";
import { agentName, count, lasting, several } from "../text/format";
import { plain } from "../text/plain";

/** It is asked again every so many steps of the page's clock. */
const EVERY_MS = 10_000;

export function Health() {
  const step = Math.floor(now.value / EVERY_MS);
  const health = useAsked(String(step), (signal) => ask<HealthAnswer>("/api/health", {}, signal));
  const capture = useAsked(String(Math.floor(step / 3)), (signal) => ask<Page<Adapter>>("/api/capture", {}, signal));
  const adapters = capture.value?.items ?? [];
  const used = adapters.filter((adapter) => adapter.sessions > 0 || adapter.roots.some((root) => root.is_there));
  const unused = adapters.filter((adapter) => !used.includes(adapter));
  const isBad = (word: string) => word === "failed" || word === "waiting";
  const value = health.value;
  return (
    <section class="page">
      <header class="page-head">
        <h1>Capture health</h1>
        {value && (
          <p class="minor">
            Hansard {value.version}, up for {lasting(value.uptime_seconds * 1000)} · {several(value.sessions, "session")} · {count(value.position)} events
          </p>
        )}
      </header>
      {health.error && <Failure error={health.error} />}
      {value && (
        <section class="panel">
          <h2>The daemon</h2>
          <ul>
            <Check isGood={value.ok} what={value.ok ? "Everything is being recorded" : `Nothing is being recorded: ${value.disk ?? "see below"}`} />
            {value.backlog && <Check isGood what={backlogOf(value.backlog)} />}
            {Object.entries(value.parts as Record<string, string>).map(([part, word]) => (
              <Check key={part} isGood={!isBad(word)} what={`${part}: ${word}`} />
            ))}
            {Object.entries(value.telemetry).map(([name, told]) => (
              <Check key={name} isGood what={`telemetry ${plain(name)}: ${count(told)} without news`} />
            ))}
          </ul>
        </section>
      )}
      {capture.error && <Failure error={capture.error} />}
      {used.length > 0 && (
        <section class="panel">
          <h2>Agents on this machine</h2>
          <div class="adapters">
            {used.map((adapter) => (
              <AdapterView key={adapter.provider} adapter={adapter} />
            ))}
          </div>
        </section>
      )}
      {unused.length > 0 && (
        <p class="minor">
          Not found here, and recorded as soon as they are: {unused.map((adapter) => agentName(adapter.provider)).join(", ")}.
        </p>
      )}
    </section>
  );
}

/** What was written while nobody looked, and how far it is read. */
function backlogOf({ bytes, bytes_total, seconds_left }: NonNullable<HealthAnswer["backlog"]>): string {
  const megabytes = (of: number) => count(Math.ceil(of / 1e6));
  return `${megabytes(bytes)} of ${megabytes(bytes_total)} MB of history read${seconds_left ? `, ${lasting(seconds_left * 1000)} left` : ""}`;
}

function Check({ isGood, what }: { isGood: boolean; what: string }) {
  return (
    <li class={isGood ? "check" : "check bad"}>
      <span class="sign" role="img" aria-label={isGood ? "good" : "bad"}>
        {isGood ? "✓" : "✕"}
      </span>
      <span>{what}</span>
    </li>
  );
}

function AdapterView({ adapter }: { adapter: Adapter }) {
  const unknown = adapter.unknown.reduce((sum, one) => sum + one.count, 0);
  return (
    <article class="adapter">
      <h3>{agentName(adapter.provider)}</h3>
      <dl>
        <dt>Sessions</dt>
        <dd>{count(adapter.sessions)}</dd>
        <dt>Last event</dt>
        <dd>
          <Age at={adapter.last_event_at} isAgo />
        </dd>
        <dt>Lag</dt>
        <dd>{adapter.behind === 0 ? "none" : `${several(adapter.behind, "session")} not fully read`}</dd>
        <dt>Versions</dt>
        <dd>{adapter.versions.join(", ") || "not told"}</dd>
        <dt>Drift</dt>
        <dd>
          {unknown === 0 ? (
            "all records understood"
          ) : (
            <details>
              <summary>{several(unknown, "record")} not understood, kept all the same</summary>
              <ul>
                {adapter.unknown.map((one) => (
                  <li key={`${one.version} ${one.record}`}>
                    {plain(one.record)} {one.version} ×{count(one.count)}
                  </li>
                ))}
              </ul>
            </details>
          )}
        </dd>
        <dt>Hooks</dt>
        <dd>{hooksOf(adapter)}</dd>
        <dt>Looked at</dt>
        <dd>
          {adapter.roots.map((root) => (
            <span key={root.path} class={root.is_there ? "root" : "root minor"}>
              {plain(root.path)}
              {!root.is_there && " (not found)"}
            </span>
          ))}
        </dd>
      </dl>
    </article>
  );
}

function hooksOf(adapter: Adapter) {
  const hooks = adapter.hooks;
  if (!hooks) return "not supported";
  if (hooks.problem) return plain(hooks.problem);
  if (hooks.events.length === 0) {
    return (
      <>
        not installed: <code>hansard hooks install {adapter.provider}</code>
      </>
    );
  }
  return (
    <>
      {several(hooks.events.length, "event")}
      {hooks.is_trusted === false && ", not trusted by the agent yet"}
      {hooks.last_call_at ? (
        <>
          , last call <Age at={hooks.last_call_at} isAgo />
        </>
      ) : (
        ", never called"
      )}
    </>
  );
}
