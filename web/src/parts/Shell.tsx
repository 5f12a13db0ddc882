// What stands around every view: the ways to them, how the connection is, cards, palette and help.

import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { setTitle } from "../state/attention";
import { place } from "../state/place";
import { needing } from "../state/statuses";
import { Activity } from "../view/Activity";
import { Centre } from "../view/Centre";
import { Feed } from "../view/Feed";
import { Health } from "../view/Health";
import { Search } from "../view/Search";
import { SessionView } from "../view/SessionView";
import { Sessions } from "../view/Sessions";
import { Settings } from "../view/Settings";
import { UsageView } from "../view/UsageView";
import { announced } from "./announce";
import { Cards } from "./Cards";
import { ConnectionLine } from "./ConnectionLine";
import { Help } from "./Help";
import { Palette } from "./Palette";
import { keys } from "./keys";

interface View {
  path: string;
  name: string;
  /** The key behind `g` that leads there. */
  key: string;
  component: ComponentType;
}

export const VIEWS: View[] = [
  { path: "/", name: "Now", key: "n", component: Centre },
  { path: "/sessions", name: "Sessions", key: "s", component: Sessions },
  { path: "/search", name: "Search", key: "f", component: Search },
  { path: "/feed", name: "Feed", key: "e", component: Feed },
  { path: "/usage", name: "Usage", key: "u", component: UsageView },
  { path: "/activity", name: "Activity", key: "a", component: Activity },
  { path: "/health", name: "Health", key: "h", component: Health },
  { path: "/settings", name: "Settings", key: "o", component: Settings },
];

export function Shell() {
  useEffect(() => keys(VIEWS), []);
  const path = place.value.path;
  const session = /^\/session\/([^/]+)(?:\/(\d+))?$/.exec(path);
  const view = VIEWS.find((one) => one.path === path);
  const main = useRef<HTMLElement>(null);
  const shown = session ? session[1]! : path;
  useEffect(() => {
    if (!session) setTitle(view?.name ?? "Nothing here");
    // Readers of the page begin with what is new on it.
    if (!main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true });
  }, [shown]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to content
      </a>
      <Navigation path={path} />
      <main id="main" ref={main} tabIndex={-1}>
        <ConnectionLine />
        {session ? (
          <SessionView key={session[1]} id={safeDecode(session[1]!)} at={session[2] ? Math.max(1, Number(session[2])) : null} visit={place.value} />
        ) : view ? (
          <view.component />
        ) : (
          <NothingHere path={path} />
        )}
      </main>
      <Cards />
      <Palette views={VIEWS} />
      <Help views={VIEWS} />
      <div class="unseen" role="status" aria-live="polite">
        {announced}
      </div>
    </>
  );
}

function Navigation({ path }: { path: string }) {
  const waiting = needing.value.length;
  const bar = useRef<HTMLElement>(null);
  // On a narrow screen the views stand in a line that is longer than it.
  useEffect(() => {
    const current = bar.current?.querySelector<HTMLElement>("[aria-current]");
    if (bar.current && current) bar.current.scrollLeft = current.offsetLeft - bar.current.clientWidth / 2;
  }, [path]);
  return (
    <nav class="ways" aria-label="Views" ref={bar}>
      <a class="brand" href="/" aria-label="Hansard, now">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <path d="M9 8v16M23 8v16M9 16h14" />
        </svg>
        <span>Hansard</span>
      </a>
      <ul>
        {VIEWS.map((view) => (
          <li key={view.path}>
            <a href={view.path} aria-current={view.path === path ? "page" : undefined} title={`g ${view.key}`}>
              {view.name}
              {view.path === "/" && waiting > 0 && (
                <span class="pill needs" aria-label={`${waiting} need you`}>
                  {waiting}
                </span>
              )}
            </a>
          </li>
        ))}
      </ul>
      <p class="hint">
        <kbd>Ctrl</kbd> <kbd>K</kbd> go anywhere
        <br />
        <kbd>?</kbd> keys
      </p>
    </nav>
  );
}

function NothingHere({ path }: { path: string }) {
  return (
    <section class="page">
      <h1>Nothing here</h1>
      <p>
        There is no view at <code>{path}</code>. <a href="/">What sessions are doing now</a>
      </p>
    </section>
  );
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
