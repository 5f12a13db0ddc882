// Where the page is: its path, and the way from one to the next without loading it anew.

import { signal } from "@preact/signals";

export interface Place {
  path: string;
  search: URLSearchParams;
}

export const place = signal<Place>(current());

export function go(to: string): void {
  const isHere = to === location.pathname + location.search;
  if (!isHere) history.pushState(null, "", to);
  // Also where one is already: whoever asks twice wants to see it again.
  place.value = current();
  window.scrollTo(0, 0);
}

/** Says in the address what is shown, without a step to go back to. */
export function rename(to: string): void {
  history.replaceState(null, "", to);
  place.value = current();
}

/** Says a choice in the address; none where it is empty. */
export function setParameter(name: string, value: string | null): void {
  const search = new URLSearchParams(location.search);
  if (value) search.set(name, value);
  else search.delete(name);
  rename(search.size > 0 ? `${location.pathname}?${search}` : location.pathname);
}

export function sessionPlace(id: string, seq?: number): string {
  const at = seq === undefined ? "" : `/${seq}`;
  return `/session/${encodeURIComponent(id)}${at}`;
}

/** One slash and then no way out: what the bus asks for must be a path of this page. Ids of
    sessions have a colon in them. */
export function isPlace(text: unknown): text is string {
  if (typeof text !== "string" || !/^\/(?!\/)[^\\\p{Cc}]*$/u.test(text) || text.includes("//")) return false;
  return URL.canParse(text, location.origin) && new URL(text, location.origin).origin === location.origin && !text.startsWith("/api/");
}

export function watchPlace(): void {
  addEventListener("popstate", () => (place.value = current()));
  // Links of this page are ways within it, unless somebody wants them elsewhere.
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname.startsWith("/api/")) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

function current(): Place {
  return { path: location.pathname, search: new URLSearchParams(location.search) };
}
