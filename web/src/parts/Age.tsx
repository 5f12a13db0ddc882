// How long ago something was; the exact time on hover.

import { useComputed } from "@preact/signals";
import { now } from "../state/clock";
import { age, full } from "../text/format";

export function Age({ at, isAgo = false }: { at: string | null | undefined; isAgo?: boolean }) {
  if (!at) return <span class="minor">–</span>;
  return <Told key={at} at={at} isAgo={isAgo} />;
}

/** Only a text that has become another one is drawn anew. */
function Told({ at, isAgo }: { at: string; isAgo: boolean }) {
  const told = useComputed(() => {
    const words = age(now.value - Date.parse(at));
    return isAgo && words !== "now" ? `${words} ago` : words;
  });
  return (
    <time dateTime={at} title={full(at)}>
      {told}
    </time>
  );
}
