// How an open page comes back after a restart of the daemon: under its new name, with a ticket that
// it was given while it was in. The secret stays in memory and is never sent; what is, and why, is
// told in docs/reference/api.md ("Who comes in").

import type { Ticket } from "../contract/types";
import { ask } from "./ask";
import { rename } from "./place";

/** What says in an address since when the daemon was gone, for whoever comes back. */
const GONE = "gone";

/** A ticket is good for a week; one that is older than this is replaced. */
const FRESH_MS = 24 * 60 * 60 * 1000;

let ticket: Ticket | null = null;
let takenAt = 0;

/** Takes a ticket, unless there is a fresh one. Without it somebody has to log in again, no more. */
export async function takeTicket(): Promise<void> {
  if (Date.now() - takenAt < FRESH_MS) return;
  takenAt = Date.now();
  ticket = await ask<Ticket>("/api/ticket").catch(() => ticket);
}

/** Leads the browser to where the page is now; `false` if nobody there knows its ticket. */
export async function comeBack(goneSince: number): Promise<boolean> {
  if (!ticket) return false;
  const used = ticket;
  const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
  try {
    const answer = await fetch(`/return?${new URLSearchParams({ ticket: used.id, nonce })}`);
    if (!answer.ok) return false;
    const { salt, sealed, proof } = (await answer.json()) as { salt: string; sealed: string; proof: string };
    const seal = await mac(used, `seal ${location.host} ${nonce} ${salt}`);
    const name = new TextDecoder().decode(bytes(sealed).map((byte, at) => byte ^ (seal[at] ?? 0)));
    const isOurs = proof === hex(await mac(used, `page ${location.host} ${nonce} ${name}`));
    if (!isOurs || !/^[0-9a-f]{32}$/.test(name)) return false;
    const code = hex(await mac(used, `login ${name} ${nonce}`));
    const to = new URL(location.href);
    to.searchParams.set(GONE, String(goneSince));
    const way = new URLSearchParams({ ticket: used.id, nonce, code, to: to.pathname + to.search });
    location.replace(`${location.protocol}//${location.host.replace(/^[^.]*/, name)}/login?${way}`);
    return true;
  } catch {
    return false;
  }
}

/** Since when the daemon was gone, for a page that has come back; the address says it once. */
export function takeGone(): number | null {
  const here = new URL(location.href);
  const told = here.searchParams.get(GONE);
  if (told === null) return null;
  here.searchParams.delete(GONE);
  rename(here.pathname + here.search);
  const since = Number(told);
  return since > 0 && since < Date.now() ? since : null;
}

async function mac({ secret }: Ticket, text: string): Promise<Uint8Array> {
  const encoder = new TextEncoder();
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(text)));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function bytes(digits: string): Uint8Array {
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
