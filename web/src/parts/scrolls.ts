// Whether there is more of a box than is seen of it: only then is it a stop for the keyboard.

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const watched = new WeakMap<Element, () => void>();
const observer = new ResizeObserver((changes) => changes.forEach(({ target }) => watched.get(target)?.()));

export function useScrolls<T extends HTMLElement>(): [RefObject<T | null>, boolean] {
  const box = useRef<T>(null);
  const [scrolls, setScrolls] = useState(false);
  useEffect(() => {
    const shown = box.current!;
    watched.set(shown, () => setScrolls(shown.scrollWidth > shown.clientWidth || shown.scrollHeight > shown.clientHeight));
    observer.observe(shown);
    return () => observer.unobserve(shown);
  }, []);
  return [box, scrolls];
}
