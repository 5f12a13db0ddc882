// Bars over days. Those who do not see it have the same numbers as a table.

import { useEffect, useRef } from "preact/hooks";
import type Plot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../state/preferences";

export interface Bar {
  name: string;
  value: number;
}

const HEIGHT_PX = 200;

/** Steps between lines where half a thing is none. */
const WHOLE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];

interface Props {
  label: string;
  bars: Bar[];
  format: (value: number) => string;
  isWhole?: boolean;
}

export function BarChart({ label, bars, format, isWhole = false }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const told = useRef<HTMLParagraphElement>(null);
  const chosen = theme.value;
  useEffect(() => {
    let stop: (() => void) | null = null;
    let isOver = false;
    // What draws it is loaded when somebody looks at a chart.
    void import("uplot").then(({ default: uPlot }) => {
      if (box.current && !isOver) stop = drawn(uPlot, box.current, told.current, bars, format, isWhole);
    });
    return () => {
      isOver = true;
      stop?.();
    };
  }, [bars, chosen, matchMedia("(prefers-color-scheme: dark)").matches]);
  return (
    <figure class="chart">
      <div ref={box} role="img" aria-label={label} />
      <p class="minor told" ref={told} aria-hidden="true" />
      <details>
        <summary class="minor">As a table</summary>
        <div class="wide" tabIndex={0} role="region" aria-label={`${label}, as a table`}>
          <table class="numbers">
            <tbody>
              {bars.map((bar) => (
                <tr key={bar.name}>
                  <th scope="row">{bar.name}</th>
                  <td>{format(bar.value)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

/** Draws it and keeps it as wide as its box; returns how to take it away. */
function drawn(uPlot: typeof Plot, at: HTMLElement, told: HTMLElement | null, bars: Bar[], format: (value: number) => string, isWhole: boolean): () => void {
  // A canvas wants plain colours: what a variable stands for is told by an element that uses it.
  const colour = (name: string) => {
    at.style.color = `var(${name})`;
    return getComputedStyle(at).color;
  };
  const axis = { stroke: colour("--ink-2"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `12px ${getComputedStyle(at).fontFamily}` };
  const chart = new uPlot(
    {
      width: Math.max(240, at.clientWidth),
      height: HEIGHT_PX,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: false, range: () => [-0.6, bars.length - 0.4] }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
      series: [{}, { fill: colour("--accent"), stroke: colour("--accent"), width: 0, points: { show: false }, paths: uPlot.paths.bars!({ size: [0.72, 46], radius: 0.12 }) }],
      axes: [
        { ...axis, grid: { show: false }, size: 32, space: 70, values: (_, splits) => splits.map((split) => (Number.isInteger(split) ? (bars[split]?.name.slice(5) ?? "") : "")) },
        { ...axis, size: 56, values: (_, splits) => splits.map(format), ...(isWhole ? { incrs: WHOLE_STEPS } : {}) },
      ],
      hooks: {
        setCursor: [
          (plot) => {
            const bar = bars[plot.cursor.idx ?? -1];
            if (told) told.textContent = bar ? `${bar.name}: ${format(bar.value)}` : "";
          },
        ],
      },
    },
    [bars.map((_, number) => number), bars.map((bar) => bar.value)],
    at,
  );
  const observer = new ResizeObserver(() => chart.setSize({ width: Math.max(240, at.clientWidth), height: HEIGHT_PX }));
  observer.observe(at);
  return () => {
    observer.disconnect();
    chart.destroy();
  };
}
