// A list that is read page by page. The newest question counts: what was asked before it is given up.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Page } from "../contract/types";
import { AskError } from "../state/ask";
import { absences } from "../state/connection";

interface Answer {
  next?: string | null;
}

export interface Paged<A> {
  pages: A[];
  error: AskError | null;
  isAsking: boolean;
  /** There is another page. */
  hasMore: boolean;
  /** Reads it. */
  more: () => void;
  /** Puts something else in the place of what was read. */
  replace: (change: (pages: A[]) => A[]) => void;
}

interface Options {
  /** How long it is waited for another question before this one is asked. */
  pauseMs?: number;
  /** What was found before stays until this is answered, or fails. */
  keepsFormer?: boolean;
}

/** Pages of what a question, which `key` stands for, is answered with. Without a key there are none. */
export function usePaged<A extends Answer>(key: string | null, read: (after: string | null, signal: AbortSignal) => Promise<A>, { pauseMs = 0, keepsFormer = false }: Options = {}): Paged<A> {
  const [state, setState] = useState<{ pages: A[]; error: AskError | null; isAsking: boolean }>({ pages: [], error: null, isAsking: true });
  /** The question whose pages these are, and how to give it up. */
  const asked = useRef<{ abort: AbortController; read: typeof read } | null>(null);
  const ask = async (question: NonNullable<typeof asked.current>, after: string | null) => {
    setState((known) => ({ ...known, isAsking: true }));
    try {
      const page = await question.read(after, question.abort.signal);
      if (question.abort.signal.aborted) return;
      setState((known) => ({ pages: after === null ? [page] : [...known.pages, page], error: null, isAsking: false }));
    } catch (failed) {
      if (question.abort.signal.aborted) return;
      setState((known) => ({ pages: after === null ? [] : known.pages, error: AskError.of(failed), isAsking: false }));
    }
  };
  useEffect(() => {
    if (!keepsFormer || key === null) setState({ pages: [], error: null, isAsking: key !== null });
    if (key === null) return;
    const question = { abort: new AbortController(), read };
    asked.current = question;
    const timer = setTimeout(() => void ask(question, null), pauseMs);
    return () => {
      clearTimeout(timer);
      question.abort.abort();
    };
  }, [key, absences.value]);
  const next = state.pages.at(-1)?.next ?? null;
  return {
    ...state,
    hasMore: next !== null,
    more: () => {
      if (!state.isAsking && asked.current && next !== null) void ask(asked.current, next);
    },
    replace: (change) => setState((known) => ({ ...known, pages: change(known.pages) })),
  };
}

/** With so many items of news a list begins anew with the newest, unless somebody reads below. */
const NEWS_MAX = 300;

/** The pages with the newest items before the others, if they join them; else the newest alone. */
export function withNews<T>(newest: Page<T>, pages: Page<T>[], keyOf: (item: T) => string): Page<T>[] {
  const news = new Set(newest.items.map(keyOf));
  const isOld = (item: T) => !news.has(keyOf(item));
  const [first, ...others] = pages.map((page) => ({ ...page, items: page.items.filter(isOld) }));
  const hasKnown = pages.some((page) => page.items.some((item) => !isOld(item)));
  if (first && hasKnown && newest.items.length + first.items.length <= NEWS_MAX) {
    return [{ ...first, items: [...newest.items, ...first.items] }, ...others];
  }
  return !first || scrollY < innerHeight ? [newest] : pages;
}
