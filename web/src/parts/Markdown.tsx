// Markdown as elements. There is no way from a text to markup: every element is made here.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type Block, blocks, type Inline, inlines } from "../text/blocks";
import { count } from "../text/format";
import { beginning, plain } from "../text/plain";
import { Code } from "./Code";

/** Characters of a text that are shown at first, and rows of a table. */
const CHARS_FIRST = 16_000;
const ROWS_FIRST = 100;
const ROWS_MORE = 1_000;

export function Markdown({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : beginning(text, CHARS_FIRST);
  const found = useMemo(() => blocks(plain(shown)), [shown]);
  return (
    <div class="prose" dir="auto">
      {found.map((block, at) => (
        <BlockView key={at} block={block} />
      ))}
      {shown.length < text.length && (
        <button class="quiet" onClick={() => setWhole(true)}>
          Show {count(text.length - shown.length)} more characters
        </button>
      )}
    </div>
  );
}

function BlockView({ block }: { block: Block }) {
  switch (block.type) {
    case "paragraph":
      return (
        <p>
          <Line text={block.text} />
        </p>
      );
    case "heading":
      return (
        <p class={`heading level-${block.level}`} role="heading" aria-level={Math.min(6, block.level + 2)}>
          <Line text={block.text} />
        </p>
      );
    case "code":
      return <Code text={block.text} language={block.language} />;
    case "quote":
      return (
        <blockquote>
          {block.blocks.map((inner, at) => (
            <BlockView key={at} block={inner} />
          ))}
        </blockquote>
      );
    case "list":
      return <List block={block} />;
    case "table":
      return <Table head={block.head} rows={block.rows} />;
    case "rule":
      return <hr />;
  }
}

function List({ block }: { block: Extract<Block, { type: "list" }> }) {
  const items = block.items.map((item, at) => (
    <li key={at} class={item.isDone === null ? undefined : "task"}>
      {item.isDone !== null && (
        <span class="tick" role="img" aria-label={item.isDone ? "done" : "to do"}>
          {item.isDone ? "☑" : "☐"}
        </span>
      )}
      {item.blocks.map((inner, number) =>
        inner.type === "paragraph" ? <Line key={number} text={inner.text} /> : <BlockView key={number} block={inner} />,
      )}
    </li>
  ));
  return block.isOrdered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ head, rows }: { head: string[]; rows: string[][] }) {
  const [shown, setShown] = useState(ROWS_FIRST);
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {head.map((cell, at) => (
              <th key={at} scope="col">
                <Line text={cell} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row, at) => (
            <tr key={at}>
              {head.map((_, column) => (
                <td key={column}>
                  <Line text={row[column] ?? ""} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {shown < rows.length && (
        <button class="quiet" onClick={() => setShown(shown + ROWS_MORE)}>
          {count(rows.length - shown)} more rows
        </button>
      )}
    </div>
  );
}

function Line({ text }: { text: string }) {
  return <>{inlines(text).map(inline)}</>;
}

function inline(part: Inline, key: number): ComponentChildren {
  switch (part.type) {
    case "text":
      return part.text;
    case "code":
      return <code key={key}>{part.text}</code>;
    case "strong":
      return <strong key={key}>{part.parts.map(inline)}</strong>;
    case "emphasis":
      return <em key={key}>{part.parts.map(inline)}</em>;
    case "struck":
      return <s key={key}>{part.parts.map(inline)}</s>;
    case "link":
      return (
        <a key={key} href={part.to} target="_blank" rel="noopener noreferrer" title={part.to}>
          {part.parts.map(inline)}
          {part.host && <span class="minor"> ({part.host})</span>}
        </a>
      );
  }
}
