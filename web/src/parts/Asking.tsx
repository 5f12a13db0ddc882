// What a session asks to be allowed, word for word.

import { approvalsOf } from "../state/approvals";
import { askedOf } from "../text/asked";
import { exact, plain } from "../text/plain";

export function Asking({ session }: { session: string }) {
  const asked = approvalsOf(session);
  if (asked.length === 0) return null;
  return (
    <ul class="asking" aria-label="Waits for approval">
      {asked.map((approval) => (
        <li key={approval.id}>
          <span class="minor">
            {plain(approval.tool)}
            {approval.risk && `, ${plain(approval.risk)}`}
            {approval.cwd && `, in ${plain(approval.cwd)}`}
          </span>
          <pre tabIndex={0} dir="ltr">
            {exact(askedOf(approval.input, approval.action))}
          </pre>
        </li>
      ))}
    </ul>
  );
}
