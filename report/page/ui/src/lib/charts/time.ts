// SPDX-License-Identifier: Apache-2.0
import type { Gap, Record, Timeline } from "../../types";
import { get } from "../data";
import type { Scale } from "./scale";

/** Seconds of the axis at an instant: since the first sample, without what was cut out of pauses. */
export function running(t: Timeline, at: number): number {
  let cut = 0;
  for (const g of t.gaps ?? []) {
    if (!g.cut_ns) continue;
    if (at >= g.to_ns) cut += g.cut_ns;
    else if (at > g.from_ns) return (g.from_ns - t.from_ns - cut + (g.to_ns - g.from_ns - g.cut_ns) / 2) / 1e9;
  }
  return (at - t.from_ns - cut) / 1e9;
}

/** A stretch of the axis behind the drawings: a trial, and within it its phases. */
export interface Band {
  id: string;
  name: string;
  point: string;
  verdict: string;
  from: number;
  to: number;
  phases: { name: string; from: number; to: number }[];
}

/** The trials that telemetry saw, in order. */
export function bandsOf(t: Timeline, records: Record[]): Band[] {
  const end = (t.steps * t.step_ns) / 1e9;
  return records
    .filter((r) => r.parent && r.verdict !== "running")
    .map((r) => ({
      id: r.id, point: r.parent!, verdict: r.verdict, from: running(t, r.begin_ns), to: running(t, r.end_ns),
      name: get(r.config, "trial") ? `${get(r.config, "trial")} ${Number(get(r.config, "n")) + 1}` : get(r.config, "stressor") || r.procedure,
      phases: (r.phases ?? []).map((p) => ({ name: p.name, from: running(t, p.begin_ns), to: running(t, p.end_ns) })),
    }))
    .filter((b) => b.to >= 0 && b.from <= end)
    .sort((a, b) => a.from - b.from);
}

/** A gap's name: a pause between two parts of a run is one, too. */
export const gapName = (g: Gap): string => {
  const s = (g.to_ns - g.from_ns) / 1e9;
  const long = s >= 7200 ? `${(s / 3600).toFixed(1)} h` : s >= 120 ? `${(s / 60).toFixed(1)} min` : s >= 10 ? `${s.toFixed(0)} s` : `${s.toPrecision(2)} s`;
  return g.cut_ns ? `the run paused for ${long}, most of it cut out` : `no samples for ${long}`;
};

type Points = (number | null)[];

/** The stretches of ys without an absent value, as [first, end). */
function stretches(ys: Points, from: number, to: number): [number, number][] {
  const out: [number, number][] = [];
  for (let i = from; i < to; i++) {
    if (ys[i] === null || ys[i] === undefined) continue;
    const last = out.at(-1);
    if (last && last[1] === i) last[1] = i + 1;
    else out.push([i, i + 1]);
  }
  return out;
}

const round = (v: number): string => String(Math.round(v * 10) / 10);

/** Steps: each value holds for its step; where one is absent the line breaks. */
export function stepLine(ys: Points, from: number, to: number, x: (i: number) => number, y: (v: number) => number): string {
  return stretches(ys, from, to).map(([a, b]) => {
    let d = `M${round(x(a))} ${round(y(ys[a]!))}`;
    for (let i = a; i < b; i++) d += `V${round(y(ys[i]!))}H${round(x(i + 1))}`;
    return d;
  }).join("");
}

/** The ground between two such lines; lo may be one value. */
export function stepBand(lo: Points | number, hi: Points, from: number, to: number, x: (i: number) => number, y: (v: number) => number): string {
  return stretches(hi, from, to).map(([a, b]) => {
    let d = `M${round(x(a))} ${round(y(hi[a]!))}`;
    for (let i = a; i < b; i++) d += `V${round(y(hi[i]!))}H${round(x(i + 1))}`;
    if (typeof lo === "number") return `${d}V${round(y(lo))}H${round(x(a))}Z`;
    for (let i = b - 1; i >= a; i--) d += `V${round(y(lo[i] ?? hi[i]!))}H${round(x(i))}`;
    return d + "Z";
  }).join("");
}

/** From lo to hi exactly, with ticks at round values in between; of a flat line, about it. */
export function between(lo: number, hi: number, [a, b]: [number, number], count = 6, outward = false): Scale {
  if (!(hi > lo)) (lo -= 1), (hi += 1);
  const rough = (hi - lo) / count;
  const mag = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((m) => m * mag >= rough * 0.999)! * mag;
  if (outward) (lo = Math.floor(lo / step + 1e-9) * step), (hi = Math.ceil(hi / step - 1e-9) * step);
  const ticks: number[] = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return Object.assign((v: number) => a + ((b - a) * (v - lo)) / (hi - lo), { ticks });
}

/** The unit in which a stretch of the axis is told, and its length in seconds. */
export const timeUnit = (seconds: number): { unit: string; of: number } => (seconds > 10_800 ? { unit: "h", of: 3600 } : seconds > 600 ? { unit: "min", of: 60 } : { unit: "s", of: 1 });
