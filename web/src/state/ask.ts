// Questions to the daemon over HTTP. Every failure is an `AskError` that says in words what is wrong.

export class AskError extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly hint: string | null = null,
  ) {
    super(message);
  }

  /** What went wrong, whatever it was. */
  static of(error: unknown): AskError {
    return error instanceof AskError ? error : new AskError("failed", String(error));
  }
}

export type Parameters = Record<string, string | number | boolean | null | undefined>;

/** Asks and reads the answer as JSON. */
export async function ask<T>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  const answer = await fetched(path, parameters, { signal });
  return (await answer.json()) as T;
}

/** Asks and reads the answer as text. */
export async function askText(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<string> {
  return (await fetched(path, parameters, { signal })).text();
}

/** Changes something and reads what it is then. */
export async function change<T>(path: string, changes: object): Promise<T> {
  const body = JSON.stringify(changes);
  const answer = await fetched(path, {}, { method: "PATCH", headers: { "content-type": "application/json" }, body });
  return (await answer.json()) as T;
}

/** Has the daemon do something, and reads what came of it. */
export async function post<T>(path: string): Promise<T> {
  return (await (await fetched(path, {}, { method: "POST" })).json()) as T;
}

/** The address of an answer, for links. */
export function address(path: string, parameters: Parameters = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (given.length === 0) return path;
  return `${path}?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

export function sessionPath(id: string, rest = ""): string {
  return `/api/sessions/${encodeURIComponent(id)}${rest}`;
}

interface Request extends Omit<RequestInit, "signal"> {
  signal?: AbortSignal | undefined;
}

async function fetched(path: string, parameters: Parameters, { signal, ...request }: Request): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(address(path, parameters), { ...request, signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new AskError("unreachable", "The daemon does not answer.", "It may be stopped: `hansard up` starts it.");
  }
  if (answer.ok) return answer;
  const told = (await answer.json().catch(() => null)) as
    | { error?: { kind?: string; message?: string; hint?: string | null } }
    | null;
  if (answer.status === 401) {
    throw new AskError("unauthorized", "This browser is no longer signed in.", "`hansard web` prints an address that signs it in.");
  }
  throw new AskError(told?.error?.kind ?? "failed", told?.error?.message ?? `HTTP ${answer.status}`, told?.error?.hint ?? null);
}
