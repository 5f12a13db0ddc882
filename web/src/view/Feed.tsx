// What happened, over all sessions, the newest first.

import { useEffect } from "preact/hooks";
import type { Happening, Page } from "../contract/types";
import { Empty } from "../parts/Asked";
import { ByDay } from "../parts/ByDay";
import { AgentChoice, ProjectChoice } from "../parts/Choices";
import { usePaged } from "../parts/paged";
import { ask } from "../state/ask";
import { remember } from "../state/choices";
import { afterNews } from "../state/news";
import { place, sessionPlace } from "../state/place";
import { agentName, clock, projectName } from "../text/format";
import { oneLine } from "../text/plain";

const PAGE = 100;

/** News are asked for at most so often. */
const NEWS_EVERY_MS = 4_000;

/** With so many items of news the page begins anew with the newest, unless somebody reads below. */
const NEWS_MAX = 300;

const KINDS: Record<string, { word: string; isUrgent?: boolean }> = {
  "user.prompt": { word: "Prompt" },
  "turn.completed": { word: "Turn ended" },
  "approval.requested": { word: "Asks approval", isUrgent: true },
  "approval.resolved": { word: "Decided" },
  "external.input": { word: "Question", isUrgent: true },
  error: { word: "Error", isUrgent: true },
  "session.exited": { word: "Exited" },
  compaction: { word: "Compacted" },
  "child.completed": { word: "Subagent done" },
  "child.failed": { word: "Subagent failed", isUrgent: true },
  "tool.call": { word: "Sent out" },
};

export function Feed() {
  const project = place.value.search.get("project") ?? "";
  const provider = place.value.search.get("agent") ?? "";
  const paged = usePaged(`${provider} ${project}`, (after, signal) => ask<Page<Happening>>("/api/feed", { provider, project, after, limit: PAGE }, signal));
  useEffect(
    () =>
      afterNews({ everyMs: NEWS_EVERY_MS, firstMs: NEWS_EVERY_MS }, async (signal) => {
        const newest = await ask<Page<Happening>>("/api/feed", { provider, project, limit: PAGE }, signal);
        paged.replace((pages) => withNews(newest, pages));
      }),
    [provider, project],
  );
  const items = once(paged.pages.flatMap((page) => page.items));
  useEffect(() => remember(items), [paged.pages]);
  return (
    <section class="page">
      <header class="page-head">
        <h1>Feed</h1>
        <p class="minor">what happened, over all sessions</p>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        <AgentChoice isOfAll />
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
            <Empty title="Nothing like that has happened">Take a filter away to see the others.</Empty>
          ) : (
            <Empty title="Nothing has happened yet">Prompts, ends of turns, approvals, questions, errors and commits of all sessions come here.</Empty>
          )
        }
        more="Earlier"
      />
    </section>
  );
}

function Line({ item }: { item: Happening }) {
  const { word, isUrgent } = KINDS[item.kind] ?? { word: item.kind };
  return (
    <li>
      <time class="minor" dateTime={item.at}>
        {clock(item.at)}
      </time>
      <span class={isUrgent ? "kind urgent" : "kind"}>{word}</span>
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

/** The pages with what is new before the first one, if it joins it; else the newest alone. */
function withNews(newest: Page<Happening>, pages: Page<Happening>[]): Page<Happening>[] {
  const [first, ...others] = pages;
  if (!first) return [newest];
  const known = new Set(pages.flatMap((page) => page.items.map(keyOf)));
  const fresh = newest.items.filter((item) => !known.has(keyOf(item)));
  if (fresh.length === 0) return pages;
  const joins = fresh.length < newest.items.length && first.items.length + fresh.length <= NEWS_MAX;
  if (joins) return [{ ...first, items: [...fresh, ...first.items] }, ...others];
  return scrollY < innerHeight ? [newest] : pages;
}
