// An answer that is waited for: while it is, when it failed, and when it came.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { AskError } from "../state/ask";
import { absences } from "../state/connection";

export interface Answered<T> {
  value: T | null;
  error: AskError | null;
  isAsking: boolean;
}

/** Asks again whenever `key` changes, and after an absence of the daemon; what was shown stays until
    the new answer is there. Without a key it is not asked yet. */
export function useAsked<T>(key: string | null, question: (signal: AbortSignal) => Promise<T>): Answered<T> {
  const [answered, setAnswered] = useState<Answered<T>>({ value: null, error: null, isAsking: true });
  const latest = useRef(question);
  latest.current = question;
  const answeredKey = useRef<string | null>(null);
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    setAnswered((before) => ({ ...before, isAsking: true }));
    latest.current(abort.signal).then(
      (value) => {
        if (abort.signal.aborted) return;
        answeredKey.current = key;
        setAnswered({ value, error: null, isAsking: false });
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        // What belongs to another question is not left standing under this one.
        const isSame = answeredKey.current === key;
        setAnswered((before) => ({ value: isSame ? before.value : null, error: AskError.of(error), isAsking: false }));
      },
    );
    return () => abort.abort();
  }, [key, absences.value]);
  return answered;
}

export function Failure({ error }: { error: AskError }) {
  return (
    <div class="failure" role="alert">
      <strong>{error.message}</strong>
      {error.hint && <p class="minor">{error.hint}</p>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children && <p class="minor">{children}</p>}
    </div>
  );
}
