// How long ago something was; the exact time on hover.

import { now } from "../state/clock";
import { age, full } from "../text/format";

export function Age({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="minor">–</span>;
  return (
    <time dateTime={at} title={full(at)}>
      {age(now.value - Date.parse(at))}
    </time>
  );
}
