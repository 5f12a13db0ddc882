// An event as it is held, and the way to all of it: long texts in it are cut.

import { useState } from "preact/hooks";
import type { RecordedEvent } from "../contract/types";
import { announce } from "../parts/announce";
import type { Log } from "../state/log";

/** The event, a button that gets the rest if there is one, and a way to the whole for whoever copies. */
export function useWhole(event: RecordedEvent, log: Log) {
  const [whole, setWhole] = useState<RecordedEvent | null>(null);
  const get = async () => (event.truncated && !whole ? ((await log.whole(event.seq)) ?? event) : (whole ?? event));
  const more =
    event.truncated && !whole ? (
      <button class="quiet" onClick={() => void get().then(setWhole, () => announce("It could not be read"))}>
        Get all of it
      </button>
    ) : null;
  return { event: whole ?? event, more, get };
}
