// Code, output and differences: text in a fixed width, cut where it is long, with a way to copy it.

import { useMemo, useState } from "preact/hooks";
import type { DiffLine } from "../text/difference";
import { count } from "../text/format";
import { highlight } from "../text/highlight";
import { beginning, plain } from "../text/plain";
import { CopyButton } from "./CopyButton";

/** Characters that are shown at first, and lines of a difference. */
const CHARS_FIRST = 6_000;
const LINES_FIRST = 120;

export function Code({ text, language = "text" }: { text: string; language?: string }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : beginning(text, CHARS_FIRST);
  const tokens = useMemo(() => highlight(plain(shown), language), [shown, language]);
  return (
    <figure class="code">
      <CopyButton text={() => text} label="Copy code" />
      <pre tabIndex={0}>
        <code dir="ltr">
          {tokens.map((token, at) =>
            token.kind ? (
              <span key={at} class={`t-${token.kind}`}>
                {token.text}
              </span>
            ) : (
              token.text
            ),
          )}
        </code>
      </pre>
      {shown.length < text.length && (
        <button class="quiet" onClick={() => setWhole(true)}>
          Show all {count(text.length)} characters
        </button>
      )}
    </figure>
  );
}

const SIGNS = { same: " ", added: "+", removed: "−", hunk: "⋯", file: "" } as const;

export function Diff({ lines }: { lines: DiffLine[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? lines : lines.slice(0, LINES_FIRST);
  return (
    <figure class="code diff">
      <pre tabIndex={0} aria-label="Difference">
        {shown.map((line, at) => (
          <span key={at} class={`line ${line.kind}`}>
            <span class="sign" aria-hidden="true">
              {SIGNS[line.kind]}
            </span>
            {plain(line.text)}
            {"\n"}
          </span>
        ))}
      </pre>
      {shown.length < lines.length && (
        <button class="quiet" onClick={() => setWhole(true)}>
          Show all {count(lines.length)} lines
        </button>
      )}
    </figure>
  );
}
