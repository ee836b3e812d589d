// SPDX-License-Identifier: Apache-2.0

/** A scale maps figures to pixels and knows its ticks. */
export interface Scale {
  (v: number): number;
  ticks: number[];
}

/** From zero to max or a little more. */
export function fromZero(max: number, [a, b]: [number, number], count = 5): Scale {
  const rough = (max > 0 ? max : 1) / count;
  const mag = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((m) => m * mag >= rough * 0.999)! * mag;
  const top = Math.ceil((max > 0 ? max : 1) / step - 1e-9) * step;
  return Object.assign((v: number) => a + ((b - a) * v) / top, { ticks: Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step) });
}

/** Logarithmic over all positive values, which it rounds outwards to 1, 2 or 5. */
export function logarithmic(values: number[], [a, b]: [number, number], most = 7): Scale {
  const vs = values.filter((v) => v > 0 && Number.isFinite(v));
  const lo = vs.length ? Math.min(...vs) : 1, hi = vs.length ? Math.max(...vs) : 10;
  const steps: number[] = [];
  for (let e = Math.floor(Math.log10(lo)) - 1; e <= Math.ceil(Math.log10(hi)) + 1; e++) for (const m of [1, 2, 5]) steps.push(Number(`${m}e${e}`));
  const first = steps.findLastIndex((s) => s <= lo), last = Math.max(steps.findIndex((s) => s >= hi), first + 1);
  const d0 = Math.log(steps[first]!), d1 = Math.log(steps[last]!);
  let ticks = steps.slice(first, last + 1);
  if (ticks.length > most) ticks = ticks.filter((t) => /^1(e|0*$)|^0\.0*1$/.test(String(t)));
  return Object.assign((v: number) => a + ((b - a) * (Math.log(Math.max(v, steps[first]!)) - d0)) / (d1 - d0), { ticks });
}

/** About how wide a text is at 12 px, for labels that must fit. */
export const textWidth = (s: string, size = 12): number => s.length * size * 0.56;

/** s, or as much of it as fits into px. */
export function fit(s: string, px: number, size = 12): string {
  const n = Math.floor(px / (size * 0.56));
  return s.length <= n ? s : s.slice(0, Math.max(n - 1, 1)) + "…";
}

/** Legend entries in lines of at most width, each with its place. */
export function flow(items: string[], width: number, mark = 26, gap = 22): { x: number; y: number }[] {
  let x = 0, y = 0;
  return items.map((s) => {
    const w = mark + textWidth(s) + gap;
    if (x > 0 && x + w - gap > width) (x = 0), (y += 20);
    const at = { x, y };
    x += w;
    return at;
  });
}

/** From a little below the least to a little above the greatest: for marks, never for bars. */
export function between(lo: number, hi: number, [a, b]: [number, number], count = 5): Scale {
  if (!(hi > lo)) { const d = Math.abs(lo) * 0.05 || 1; (lo -= d), (hi += d); }
  const rough = (hi - lo) / count;
  const mag = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((m) => m * mag >= rough * 0.999)! * mag;
  const from = Math.floor(lo / step + 1e-9), to = Math.ceil(hi / step - 1e-9);
  return Object.assign((v: number) => a + ((b - a) * (v - from * step)) / ((to - from) * step), { ticks: Array.from({ length: to - from + 1 }, (_, i) => Number(((from + i) * step).toPrecision(12))) });
}
