// Money with its basis: nobody should take an estimate for a bill.

import { money } from "../text/format";

const BASES: Record<string, { mark: string; words: string }> = {
  exact: { mark: "", words: "reported by the agent" },
  estimated: { mark: "≈", words: "estimated: tokens times list prices" },
  incomplete: { mark: "≥", words: "incomplete: some tokens have no known price" },
};

export function Money({ usd, basis }: { usd: number | null | undefined; basis: string | null | undefined }) {
  if (usd === null || usd === undefined) {
    return (
      <span class="money minor" title="not recorded">
        –
      </span>
    );
  }
  const { mark, words } = BASES[basis ?? ""] ?? { mark: "", words: basis ?? "" };
  return (
    <span class="money" title={words}>
      {mark && (
        <span class="minor">
          <span aria-hidden="true">{mark}</span>
          <span class="unseen">{basis} </span>
        </span>
      )}
      {money(usd)}
    </span>
  );
}

export function basisWords(basis: string): string {
  return BASES[basis]?.words ?? basis;
}

/** Where money comes from, the largest part first: "$1.20 reported · $0.40 at list prices". */
export function partsWords(parts: { reported: number; computed: number; estimated: number }): string {
  const named: Array<[number, string]> = [
    [parts.reported, "reported by the agent"],
    [parts.computed, "at list prices"],
    [parts.estimated, "at the price of a similar model"],
  ];
  const some = named.filter(([usd]) => usd > 0).sort(([one], [other]) => other - one);
  return some.map(([usd, words]) => `${money(usd)} ${words}`).join(" · ");
}
