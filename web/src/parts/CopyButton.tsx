// Copies a text and says that it did.

import { useState } from "preact/hooks";
import { announce } from "./announce";

const SAID_FOR_MS = 1_500;

interface Props {
  text: () => string | Promise<string>;
  label: string;
  caption?: string;
  /** It stands in a line of text. */
  isInline?: boolean;
}

export function CopyButton({ text, label, caption = "Copy", isInline = false }: Props) {
  const [said, setSaid] = useState<string | null>(null);
  const copy = async () => {
    let word = "Copied";
    try {
      await navigator.clipboard.writeText(await text());
    } catch {
      word = "Not copied";
    }
    setSaid(word);
    announce(word);
    setTimeout(() => setSaid(null), SAID_FOR_MS);
  };
  return (
    <button type="button" class={isInline ? "copy" : "button"} aria-label={label} title={label} onClick={() => void copy()}>
      {said ?? caption}
    </button>
  );
}
