// Which page of this browser was used last: what concerns one page only is for that one.

const KEY = "hansard.last-used";

/** Names this page among those of the same browser. */
const NAME = Math.random().toString(36).slice(2);

export function watchUse(): void {
  const use = () => {
    try {
      localStorage.setItem(KEY, NAME);
    } catch {
      // A browser that keeps nothing has no way to ask other pages.
    }
  };
  for (const name of ["pointerdown", "keydown", "focus"]) addEventListener(name, use, { capture: true, passive: true });
  // A page that was restored behind others is not used yet.
  if (document.hasFocus()) use();
}

export function isUsedLast(): boolean {
  try {
    return (localStorage.getItem(KEY) ?? NAME) === NAME;
  } catch {
    return true;
  }
}
