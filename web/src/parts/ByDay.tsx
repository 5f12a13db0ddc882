// A long list under the days its items belong to, with a way to go on.

import type { ComponentChildren } from "preact";
import { day } from "../text/format";
import { Empty, Failure } from "./Asked";
import type { Paged } from "./paged";

interface Listed<T> {
  items: T[];
  of: Pick<Paged<unknown>, "error" | "isAsking" | "hasMore" | "more">;
  at: (item: T) => string | null | undefined;
  /** The items of one day. */
  list: (items: T[]) => ComponentChildren;
  /** What is said if there are none. */
  none: ComponentChildren;
  more: string;
}

export function ByDay<T>({ items, of, at, list, none, more }: Listed<T>) {
  return (
    <>
      {of.error && <Failure error={of.error} />}
      {[...Map.groupBy(items, (item) => day(at(item) ?? 0))].map(([name, ofDay]) => (
        <section key={name} class="group">
          <h2>{name}</h2>
          {list(ofDay)}
        </section>
      ))}
      {items.length === 0 && (of.isAsking ? <Empty title="Looking…" /> : !of.error && none)}
      {of.hasMore && (
        <button class="button" disabled={of.isAsking} onClick={of.more}>
          {of.isAsking ? "Looking…" : more}
        </button>
      )}
    </>
  );
}
