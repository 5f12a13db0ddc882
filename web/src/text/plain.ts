// Transcripts are hostile text. What is shown of them goes through here first.

/** Terminal sequences: colours, cursor movements, titles, hyperlinks. One that is not ended on its
    line is none: only its beginning goes, and what follows stays to be seen. */
const TERMINAL = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[PX^_][^\x1b\n]*\x1b\\|[ -/]*[0-~])/g;

/** Everything else that moves a cursor or hides: all controls but line break and tab. */
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/** What turns the order of letters around, so that text reads as something else, and what is in a
    text without being seen. Joiners stay: scripts and pictures of people need them. */
const UNSEEN = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/gu;

/** The text without anything that acts: terminal sequences are gone, what is not seen is named. */
export function plain(text: string): string {
  return lines(text.replace(TERMINAL, "")).replace(CONTROL, "").replace(UNSEEN, named);
}

/** The text with everything that is in it: what would act is named, nothing is left out. For what
    somebody decides about. */
export function exact(text: string): string {
  return lines(text).replace(CONTROL, named).replace(UNSEEN, named);
}

/** In one line, and not longer than that. */
export function oneLine(text: string, charsMax: number): string {
  const line = plain(text.slice(0, charsMax * 4)).replace(/\s+/g, " ").trim();
  return line.length > charsMax ? `${line.slice(0, charsMax - 1).trimEnd()}…` : line;
}

/** The beginning of a text, cut at a line if there is one near. */
export function beginning(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const cut = text.lastIndexOf("\n", charsMax);
  return text.slice(0, cut > charsMax / 2 ? cut : charsMax);
}

function lines(text: string): string {
  return text.replace(/\r\n?|[\u2028\u2029]/g, "\n");
}

function named(mark: string): string {
  return `⟨U+${mark.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
