// A picture somebody gave to an agent, from the record. Pictures from elsewhere are never loaded.

import { useState } from "preact/hooks";
import { sessionPath } from "../state/ask";

/** Which picture of an event: events are long, so only the record has its bytes. */
export function Picture({ session, seq, number, kind }: { session: string; seq: number; number: number; kind: string }) {
  const [hasFailed, setFailed] = useState(false);
  if (!kind.startsWith("image")) return <p class="minor">A {kind || "file"}, which is not shown</p>;
  const source = sessionPath(session, `/pictures/${seq}/${number}`);
  // It has its room before it comes, and keeps it if it does not.
  return (
    <a href={source} target="_blank" rel="noopener" class="picture">
      {hasFailed ? <span class="minor">Image no longer available</span> : <img src={source} alt="A picture in the talk" loading="lazy" onError={() => setFailed(true)} />}
    </a>
  );
}
