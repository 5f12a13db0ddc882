// Transcripts are hostile text. What is shown of them goes through here first.

/** Terminal sequences: colours, cursor movements, titles, hyperlinks. */
const TERMINAL = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])/g;

/** Everything else that moves a cursor or hides: all controls but line break and tab. */
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/** What turns the order of letters around, so that text reads as something else. */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The text without anything that acts: terminal sequences are gone, turning marks are named. */
export function plain(text: string): string {
  return text
    .replace(TERMINAL, "")
    .replace(/\r\n?/g, "\n")
    .replace(CONTROL, "")
    .replace(TURNING, (mark) => `⟨U+${mark.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);
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
