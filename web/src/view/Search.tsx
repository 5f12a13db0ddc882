// Anything ever said, done or printed, found while typing.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Found, Hit } from "../contract/types";
import { Age } from "../parts/Age";
import { announce } from "../parts/announce";
import { Empty, Failure } from "../parts/Asked";
import { AgentChoice, ProjectChoice } from "../parts/Choices";
import { usePaged } from "../parts/paged";
import { useRounds } from "../parts/rounds";
import { ask } from "../state/ask";
import { place, sessionPlace, setParameter } from "../state/place";
import { sinceDay } from "../text/days";
import { agentName, count, projectName } from "../text/format";
import { kindWord } from "../text/kinds";
import { plain } from "../text/plain";

/** How long a person has stopped typing before it is looked for. */
const PAUSE_MS = 90;

/** What was not found is looked for again after news, at most so often. */
const AGAIN_MS = 2_000;

const PAGE = 40;

const KINDS: Array<[string, string]> = [
  ["", "Everything"],
  ["user.prompt", "Prompts"],
  ["assistant.message", "Answers"],
  ["assistant.thinking", "Thinking"],
  ["tool.call", "Tool calls"],
  ["tool.result", "Tool output"],
  ["error", "Errors"],
];

const TIMES: Array<[string, string]> = [
  ["", "Any time"],
  ["1", "Last day"],
  ["7", "Last week"],
  ["30", "Last month"],
];

export function Search() {
  const search = place.value.search;
  const words = search.get("q") ?? "";
  const kinds = search.get("kind") ?? "";
  const provider = search.get("agent") ?? "";
  const project = search.get("project") ?? "";
  const session = search.get("session") ?? "";
  const days = search.get("days") ?? "";
  const order = search.get("order") ?? "best";
  const field = useRef<HTMLInputElement>(null);
  // Before it is painted: the first letter typed is the first one looked for.
  useLayoutEffect(() => field.current?.focus(), []);
  // The same until the day ends, so that all pages belong to one question.
  const question = { q: words, kinds, provider, project, session, order, since: sinceDay(days) };
  // What is not there yet may be recorded right now.
  const [isNothing, setNothing] = useState(false);
  const round = useRounds(AGAIN_MS, isNothing);
  const key = words.trim() ? JSON.stringify([question, round]) : null;
  const paged = usePaged(key, (after, signal) => ask<Found>("/api/search", { ...question, limit: PAGE, after }, signal).then((found) => ({ ...found, words })), { pauseMs: PAUSE_MS, keepsFormer: true });
  const found = paged.pages[0];
  const hits = paged.pages.flatMap((page) => page.hits);
  useEffect(() => {
    if (found) announce(`${found.total} found`);
  }, [found?.words, found?.total]);
  useEffect(() => setNothing(found?.hits.length === 0), [found]);
  return (
    <section class="page search">
      <header class="page-head">
        <h1>Search</h1>
      </header>
      <input
        ref={field}
        class="wide-field"
        type="search"
        data-search
        aria-label="Search everything"
        placeholder="Words, a command, a file, an error…"
        autocomplete="off"
        spellcheck={false}
        value={words}
        onInput={(event) => setParameter("q", event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") {
            event.preventDefault();
            document.querySelector<HTMLElement>("[data-choice]")?.focus();
          }
        }}
      />
      <div class="filters" role="group" aria-label="Filters">
        <select aria-label="Kind" value={kinds} onChange={(event) => setParameter("kind", event.currentTarget.value)}>
          {KINDS.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        <AgentChoice />
        <ProjectChoice />
        <select aria-label="Time" value={days} onChange={(event) => setParameter("days", event.currentTarget.value)}>
          {TIMES.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        <select aria-label="Order" value={order} onChange={(event) => setParameter("order", event.currentTarget.value)}>
          <option value="best">Best first</option>
          <option value="newest">Newest first</option>
          <option value="oldest">Oldest first</option>
        </select>
        {session && (
          <button class="chip" aria-pressed="true" onClick={() => setParameter("session", null)}>
            in one session ×
          </button>
        )}
        {found && (
          <span class="minor found" aria-live="off">
            {found.total_is_exact ? "" : "at least "}
            {count(found.total)} found{!found.complete && "; not everything could be searched"}
          </span>
        )}
      </div>
      {paged.error && <Failure error={paged.error} />}
      {found && (
        <ol class="hits" aria-busy={paged.isAsking}>
          {hits.map((hit) => (
            <HitView key={`${hit.session_id} ${hit.seq}`} hit={hit} />
          ))}
        </ol>
      )}
      {found?.hits.length === 0 && <Empty title={`No matches for “${found.words}”`}>Try fewer words, or remove a filter.</Empty>}
      {paged.hasMore && (
        <button class="button" disabled={paged.isAsking} onClick={paged.more}>
          More
        </button>
      )}
      {!words.trim() && <Empty title="Search everything that was recorded">Prompts, answers, thinking, commands and their output; quotes make a phrase.</Empty>}
    </section>
  );
}

function HitView({ hit }: { hit: Hit }) {
  return (
    <li>
      <a class="hit" href={sessionPlace(hit.session_id, hit.seq)} data-choice>
        <span class="snippet" dir="auto">
          {marked(hit)}
        </span>
        <span class="minor">
          {kindWord(hit.kind)} · {projectName(hit.project)} · {agentName(hit.provider)} · <Age at={hit.created_at} />
        </span>
      </a>
    </li>
  );
}

/** The places are bytes of UTF-8; JavaScript counts otherwise. */
function marked(hit: Hit) {
  const bytes = new TextEncoder().encode(hit.snippet);
  const decoder = new TextDecoder();
  const text = (from: number, to: number) => plain(decoder.decode(bytes.subarray(from, to)));
  const parts = [];
  let end = 0;
  for (const [from, to] of hit.highlights as Array<[number, number]>) {
    parts.push(text(end, from), <mark key={from}>{text(from, to)}</mark>);
    end = to;
  }
  parts.push(text(end, bytes.length));
  return parts;
}
