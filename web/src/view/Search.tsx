// Anything ever said, done or printed, found while typing.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Found, Hit } from "../contract/types";
import { Age } from "../parts/Age";
import { announce } from "../parts/announce";
import { Empty, Failure } from "../parts/Asked";
import { ask, AskError } from "../state/ask";
import { place, rename, renameQuietly, sessionPlace } from "../state/place";
import { agentName, count, projectName } from "../text/format";
import { plain } from "../text/plain";

/** How long a person has stopped typing before it is looked for. */
const PAUSE_MS = 90;
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
  const [words, setWords] = useState(search.get("q") ?? "");
  const kind = search.get("kind") ?? "";
  const agent = search.get("agent") ?? "";
  const days = search.get("days") ?? "";
  const order = search.get("order") ?? "best";
  const [found, setFound] = useState<{ words: string; answer: Found; hits: Hit[] } | null>(null);
  const [error, setError] = useState<AskError | null>(null);
  const [isAsking, setAsking] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  // Before it is painted: the first letter typed is the first one looked for.
  useLayoutEffect(() => field.current?.focus(), []);
  // Words that come from elsewhere, the palette or a link, replace those that stand here.
  const asked = search.get("q") ?? "";
  useEffect(() => setWords(asked), [asked]);

  const question = { q: words, kinds: kind, provider: agent, order, since: days ? new Date(Date.now() - Number(days) * 86_400_000).toISOString() : null };
  useEffect(() => {
    const address = new URLSearchParams(location.search);
    if (words) address.set("q", words);
    else address.delete("q");
    renameQuietly(address.size > 0 ? `/search?${address}` : "/search");
    if (!words.trim()) {
      setFound(null);
      setError(null);
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      setAsking(true);
      try {
        const answer = await ask<Found>("/api/search", { ...question, limit: PAGE }, abort.signal);
        setFound({ words, answer, hits: answer.hits });
        setError(null);
        announce(`${answer.total} found`);
      } catch (failed) {
        if (abort.signal.aborted) return;
        setError(failed instanceof AskError ? failed : new AskError("failed", String(failed)));
      }
      setAsking(false);
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [words, kind, agent, days, order]);

  const more = async () => {
    if (!found?.answer.next) return;
    const answer = await ask<Found>("/api/search", { ...question, limit: PAGE, after: found.answer.next });
    setFound({ ...found, answer, hits: [...found.hits, ...answer.hits] });
  };
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(location.search);
    if (value) next.set(name, value);
    else next.delete(name);
    rename(`/search?${next}`);
  };
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
        onInput={(event) => setWords(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") {
            event.preventDefault();
            document.querySelector<HTMLElement>("[data-choice]")?.focus();
          }
        }}
      />
      <div class="filters" role="group" aria-label="Filters">
        <select aria-label="Kind" value={kind} onChange={(event) => set("kind", event.currentTarget.value)}>
          {KINDS.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        <select aria-label="Agent" value={agent} onChange={(event) => set("agent", event.currentTarget.value)}>
          <option value="">All agents</option>
          {["claude", "codex", "cursor", "gemini", "opencode", "copilot", "goose", "qwen", "pi"].map((one) => (
            <option key={one} value={one}>
              {agentName(one)}
            </option>
          ))}
        </select>
        <select aria-label="Time" value={days} onChange={(event) => set("days", event.currentTarget.value)}>
          {TIMES.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        <select aria-label="Order" value={order} onChange={(event) => set("order", event.currentTarget.value)}>
          <option value="best">Best first</option>
          <option value="newest">Newest first</option>
          <option value="oldest">Oldest first</option>
        </select>
        {found && (
          <span class="minor found" aria-live="off">
            {found.answer.total_is_exact ? "" : "at least "}
            {count(found.answer.total)} found{!found.answer.complete && ", still looking at new records"}
          </span>
        )}
      </div>
      {error && <Failure error={error} />}
      {found && (
        <ol class="hits" aria-busy={isAsking}>
          {found.hits.map((hit) => (
            <HitView key={`${hit.session_id} ${hit.seq}`} hit={hit} />
          ))}
        </ol>
      )}
      {found && found.hits.length === 0 && !isAsking && <Empty title={`Nothing is like “${found.words}”`}>Fewer words find more; filters may hide what you look for.</Empty>}
      {found?.answer.next && (
        <button class="button" onClick={() => void more()}>
          More
        </button>
      )}
      {!words.trim() && <Empty title="Everything that was ever said, done or printed">Prompts, answers, thinking, commands and their output; quotes make a phrase.</Empty>}
    </section>
  );
}

const KIND_WORDS: Record<string, string> = {
  "user.prompt": "prompt",
  "assistant.message": "answer",
  "assistant.thinking": "thinking",
  "tool.call": "tool call",
  "tool.result": "output",
};

function HitView({ hit }: { hit: Hit }) {
  return (
    <li>
      <a class="hit" href={sessionPlace(hit.session_id, hit.seq)} data-choice>
        <span class="snippet" dir="auto">
          {marked(hit)}
        </span>
        <span class="minor">
          {KIND_WORDS[hit.kind] ?? hit.kind} · {projectName(hit.project)} · {agentName(hit.provider)} · <Age at={hit.created_at} />
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
