// What happened, over all sessions, the newest first.

import { useEffect } from "preact/hooks";
import type { Happening, Page } from "../contract/types";
import { Empty } from "../parts/Asked";
import { ByDay } from "../parts/ByDay";
import { AgentChoice, ProjectChoice } from "../parts/Choices";
import { usePaged, withNews } from "../parts/paged";
import { ask } from "../state/ask";
import { afterNews } from "../state/news";
import { place, sessionPlace } from "../state/place";
import { agentName, clock, projectName } from "../text/format";
import { kindWord } from "../text/kinds";
import { oneLine } from "../text/plain";

const PAGE = 100;

/** News are asked for at most so often. */
const NEWS_EVERY_MS = 4_000;

/** Kinds somebody may have to act on. */
const URGENT = new Set(["approval.requested", "external.input", "error", "child.failed"]);

export function Feed() {
  const project = place.value.search.get("project") ?? "";
  const provider = place.value.search.get("agent") ?? "";
  const paged = usePaged(`${provider} ${project}`, (after, signal) => ask<Page<Happening>>("/api/feed", { provider, project, after, limit: PAGE }, signal));
  useEffect(
    () =>
      afterNews({ everyMs: NEWS_EVERY_MS, firstMs: NEWS_EVERY_MS }, async (signal) => {
        const newest = await ask<Page<Happening>>("/api/feed", { provider, project, limit: PAGE }, signal);
        paged.replace((pages) => withNews(newest, pages, keyOf));
      }),
    [provider, project],
  );
  const items = once(paged.pages.flatMap((page) => page.items));
  return (
    <section class="page">
      <header class="page-head">
        <h1>Feed</h1>
        <p class="minor">what happened in all sessions</p>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        <AgentChoice />
        <ProjectChoice />
      </div>
      <ByDay
        items={items}
        of={paged}
        at={(item) => item.at}
        list={(ofDay) => (
          <ol class="feed">
            {ofDay.map((item) => (
              <Line key={keyOf(item)} item={item} />
            ))}
          </ol>
        )}
        none={
          provider || project ? (
            <Empty title="No matching activity">Remove a filter to see more.</Empty>
          ) : (
            <Empty title="No activity yet">Prompts, finished turns, approvals, questions, errors and commits of all sessions appear here.</Empty>
          )
        }
        more="Earlier"
      />
    </section>
  );
}

function Line({ item }: { item: Happening }) {
  // Of calls only those are told that put something where others see it.
  const word = item.kind === "tool.call" ? "runs" : kindWord(item.kind);
  return (
    <li>
      <time class="minor" dateTime={item.at}>
        {clock(item.at)}
      </time>
      <span class={URGENT.has(item.kind) ? "kind urgent" : "kind"}>{word}</span>
      <a class="what" href={sessionPlace(item.session_id, item.seq)} dir="auto" data-choice>
        {oneLine(item.text, 240) || oneLine(item.title ?? item.session_id, 120)}
      </a>
      <span class="of minor" title={item.title ?? undefined}>
        {projectName(item.project)} · {agentName(item.provider)}
      </span>
    </li>
  );
}

function keyOf(item: Happening): string {
  return `${item.session_id} ${item.seq}`;
}

/** Each once, in the order of time. */
function once(items: Happening[]): Happening[] {
  const by = new Map(items.map((item) => [keyOf(item), item]));
  return [...by.values()].sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || b.seq - a.seq);
}
