// Code, output and differences: text in a fixed width, cut where it is long, with a way to copy it.

import { useMemo, useState } from "preact/hooks";
import type { DiffLine } from "../text/difference";
import { count } from "../text/format";
import { highlight } from "../text/highlight";
import { beginning, plain } from "../text/plain";
import { CopyButton } from "./CopyButton";
import { useScrolls } from "./scrolls";

/** Characters that are shown at first, and lines of a difference. */
const CHARS_FIRST = 6_000;
const LINES_FIRST = 120;

/** `copied` is what is copied where the text here is not all of it. */
export function Code({ text, language = "text", copied }: { text: string; language?: string; copied?: () => Promise<string> }) {
  const [isWhole, setWhole] = useState(false);
  const [box, scrolls] = useScrolls<HTMLPreElement>();
  const shown = isWhole ? text : beginning(text, CHARS_FIRST);
  const tokens = useMemo(() => highlight(plain(shown), language), [shown, language]);
  return (
    <figure class="code">
      <CopyButton text={copied ?? (() => text)} label="Copy code" isInline />
      <pre ref={box} tabIndex={scrolls ? 0 : undefined}>
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
          Show {count(text.length - shown.length)} more characters
        </button>
      )}
    </figure>
  );
}

const SIGNS = { same: " ", added: "+", removed: "−", hunk: "⋯", file: "" } as const;

export function Diff({ lines }: { lines: DiffLine[] }) {
  const [isWhole, setWhole] = useState(false);
  const [box, scrolls] = useScrolls<HTMLPreElement>();
  const shown = isWhole ? lines : lines.slice(0, LINES_FIRST);
  return (
    <figure class="code diff">
      <pre ref={box} tabIndex={scrolls ? 0 : undefined} aria-label="Difference">
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
          Show {count(lines.length - shown.length)} more lines
        </button>
      )}
    </figure>
  );
}
