// What a row tells of a session beside its title: where it works, how long ago, what it used.

import type { Session } from "../contract/types";
import { agentName, count, modelName, projectName, short } from "../text/format";
import { oneLine } from "../text/plain";
import { Age } from "./Age";
import { Money } from "./Money";

interface Told {
  provider: string;
  project?: string | null;
  /** What is counted of it, once it is known. */
  session?: Session;
  since: string | null | undefined;
}

export function SessionCells({ provider, project, session, since }: Told) {
  const model = modelName(session?.model);
  const tokens = session?.tokens;
  const used = tokens ? tokens.input + tokens.output + tokens.cache_creation : null;
  return (
    <>
      <span class="where minor">
        <span class="project" title={project ?? undefined}>
          {projectName(project)}
        </span>
        {session?.branch && <span class="branch">{oneLine(session.branch, 40)}</span>}
        <span>
          {agentName(provider)}
          {model && ` · ${model}`}
        </span>
      </span>
      <span class="figure since">
        <Age at={since} />
      </span>
      <span class="figure tokens" title={used === null ? "tokens are not recorded" : `${count(used)} tokens, without those read from the cache`}>
        {used === null ? "–" : short(used)}
        <span class="unit"> tok</span>
      </span>
      <span class="figure cost">
        <Money usd={session?.usd} basis={session?.basis} />
      </span>
    </>
  );
}
