// The command palette: views, sessions and words, by typing.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Page, Session } from "../contract/types";
import { ask } from "../state/ask";
import { go, sessionPlace } from "../state/place";
import { theme } from "../state/preferences";
import { allStatuses } from "../state/statuses";
import { agentName, projectName } from "../text/format";
import { oneLine } from "../text/plain";
import { Dialog } from "./Dialog";
import { isHelpOpen, isPaletteOpen } from "./keys";

/** Ways shown at a time. */
const SHOWN_MAX = 12;

interface Way {
  name: string;
  about: string;
  take: () => void;
}

export function Palette({ views }: { views: ReadonlyArray<{ path: string; name: string; key: string }> }) {
  if (!isPaletteOpen.value) return null;
  return <OpenPalette views={views} />;
}

function OpenPalette({ views }: { views: ReadonlyArray<{ path: string; name: string; key: string }> }) {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const [older, setOlder] = useState<Session[]>([]);
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    ask<Page<Session>>("/api/sessions", { limit: 200 }).then(
      (page) => setOlder(page.items),
      () => {},
    );
  }, []);
  const close = () => (isPaletteOpen.value = false);
  const ways = useMemo(() => {
    const all: Way[] = [
      ...views.map((view) => ({ name: view.name, about: `g ${view.key}`, take: () => go(view.path) })),
      { name: "Light", about: "theme", take: () => (theme.value = "light") },
      { name: "Dark", about: "theme", take: () => (theme.value = "dark") },
      { name: "Same as the system", about: "theme", take: () => (theme.value = "auto") },
      { name: "Keys", about: "?", take: () => (isHelpOpen.value = true) },
      ...sessions(older),
    ];
    const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((way) => words.every((word) => `${way.name} ${way.about}`.toLowerCase().includes(word))).slice(0, SHOWN_MAX);
    if (words.length > 0) {
      found.push({ name: `Search for “${oneLine(typed, 60)}”`, about: "everywhere", take: () => go(`/search?q=${encodeURIComponent(typed)}`) });
    }
    return found;
  }, [typed, older]);
  const take = (way: Way | undefined) => {
    if (!way) return;
    close();
    way.take();
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setChosen((chosen + step + ways.length) % Math.max(1, ways.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      take(ways[chosen]);
    }
  };
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [chosen]);
  return (
    <Dialog label="Go anywhere" className="palette" onClose={close}>
      <input
        autofocus
        role="combobox"
        aria-expanded="true"
        aria-controls="ways"
        aria-activedescendant={ways.length > 0 ? `way-${chosen}` : undefined}
        aria-label="Go to a view, a session, or search"
        placeholder="A view, a session, or words to find"
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={press}
      />
      <ul id="ways" role="listbox" aria-label="Ways" ref={list}>
        {ways.map((way, at) => (
          <li key={`${way.name} ${way.about} ${at}`} id={`way-${at}`} role="option" aria-selected={at === chosen} onClick={() => take(way)}>
            <span>{way.name}</span>
            <span class="minor">{way.about}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

function sessions(older: Session[]): Way[] {
  const known = new Map<string, Pick<Session, "title" | "project" | "provider">>();
  for (const status of allStatuses()) known.set(status.session_id, status);
  for (const session of older) {
    if (!known.has(session.id) && session.relation !== "subagent") known.set(session.id, session);
  }
  return [...known].map(([id, it]) => ({
    name: oneLine(it.title ?? id, 90),
    about: `${projectName(it.project)} · ${agentName(it.provider)}`,
    take: () => go(sessionPlace(id)),
  }));
}
