// Asking again what news may have changed.

import { useEffect, useState } from "preact/hooks";
import { afterNews } from "../state/news";

/** Counts up after news, at most so often, while it is wanted: a part of the key of what is asked. */
export function useRounds(everyMs: number, isWanted = true): number {
  const [round, setRound] = useState(0);
  useEffect(() => (isWanted ? afterNews({ everyMs, firstMs: everyMs }, async () => setRound((last) => last + 1)) : undefined), [isWanted]);
  return round;
}
