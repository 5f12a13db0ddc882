// Which keys there are.

import { Dialog } from "./Dialog";
import { isHelpOpen } from "./keys";

const KEYS: Array<[string, string]> = [
  ["Ctrl K", "go anywhere: views, sessions, words"],
  ["/", "search"],
  ["j  k", "next and previous"],
  ["Enter", "open"],
  ["u", "back from a session"],
  ["n  p", "in a session: next and previous prompt"],
  ["Home  End", "in a session: its beginning, its end"],
  ["e", "in a session: why this status"],
  ["?", "this"],
  ["Esc", "close"],
];

export function Help({ views }: { views: ReadonlyArray<{ name: string; key: string }> }) {
  if (!isHelpOpen.value) return null;
  const close = () => (isHelpOpen.value = false);
  return (
    <Dialog label="Keys" className="help" onClose={close}>
      <header>
        <h2>Keys</h2>
        <button class="plainly" aria-label="Close" onClick={close}>
          ×
        </button>
      </header>
      <dl>
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split("  ").map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
        {views.map((view) => (
          <div key={view.key}>
            <dt>
              <kbd>g</kbd>
              <kbd>{view.key}</kbd>
            </dt>
            <dd>{view.name}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
