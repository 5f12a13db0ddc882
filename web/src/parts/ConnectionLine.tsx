// Says so when the daemon is gone, and when it has been.

import { useEffect, useState } from "preact/hooks";
import { connection, lastAbsence } from "../state/connection";
import { clock, lasting } from "../text/format";

/** How long it is said that the daemon is back. */
const BACK_FOR_MS = 12_000;

/** A break shorter than this is not worth a word. */
const UNTOLD_MS = 600;

export function ConnectionLine() {
  const now = connection.value;
  const absence = lastAbsence.value;
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    setLate(false);
    if (now.state !== "gone") return;
    const timer = setTimeout(() => setLate(true), UNTOLD_MS);
    return () => clearTimeout(timer);
  }, [now.state]);
  useEffect(() => {
    if (!absence) return;
    const timer = setTimeout(() => (lastAbsence.value = null), BACK_FOR_MS);
    return () => clearTimeout(timer);
  }, [absence]);
  let said = null;
  if (now.state === "gone" && isLate) {
    said = (
      <p class="connection gone">
        <strong>The daemon is not running</strong> since {clock(now.since)}. What you see is from then; it goes on by itself when <code>hansard up</code> runs again.
      </p>
    );
  } else if (now.state === "shut_out") {
    said = (
      <p class="connection gone">
        <strong>This browser is no longer signed in.</strong> <code>hansard web</code> prints an address that signs it in.
      </p>
    );
  } else if (now.state === "live" && absence && absence.to - absence.from > UNTOLD_MS) {
    said = (
      <p class="connection back">
        <strong>Connected again.</strong> The daemon was gone for {lasting(absence.to - absence.from)}; everything recorded since is here.
      </p>
    );
  }
  return <div role="status">{said}</div>;
}
