// What a call would do, word for word.

import { field, text } from "../contract/fields";

/** The command if it is one, else all of the input; where none is recorded, what was told of it. */
export function askedOf(input: unknown, told: string | null | undefined): string {
  const command = ["command", "cmd", "script"].map((name) => field(input, name)).find((value) => value !== undefined);
  if (Array.isArray(command)) return command.map((word) => (typeof word === "string" ? quoted(word) : JSON.stringify(word))).join(" ");
  if (text(command)) return text(command);
  if (typeof input === "string") return input;
  if (input === null || input === undefined) return told ?? "";
  return JSON.stringify(input, null, 2);
}

/** As a shell would have to be told it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
