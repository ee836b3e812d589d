// SPDX-License-Identifier: Apache-2.0

const prefixes: [string, number][] = [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1], ["m", 1e-3], ["µ", 1e-6], ["n", 1e-9]];

const sig = (x: number): number => Number(x.toPrecision(3));

/** v and its prefix with 3 significant digits, as Go's unit.SI: ["1.26", "M"]. */
export function split(v: number): [string, string] {
  if (!Number.isFinite(v) || v === 0) return [String(v), ""];
  const mag = Math.abs(v);
  const [name, factor] = prefixes.find(([, f]) => sig(mag / f) >= 1) ?? prefixes[prefixes.length - 1]!;
  const x = sig(mag / factor);
  const digits = Math.max(2 - Math.floor(Math.log10(x)), 0);
  return [(v < 0 ? "−" : "") + x.toFixed(digits), name];
}

// A prefix and a unit behind a number: " Mbit/s", "/s".
const behind = (prefix: string, unit: string): string => (prefix || (unit && !unit.startsWith("/")) ? " " : "") + prefix + unit;

/** "1.26 Mframe/s"; absent figures are a dash. Parts do not break apart. */
export function si(v: number | undefined | null, unit = "", bound = ""): string {
  if (v === undefined || v === null) return "–";
  const [x, p] = split(v);
  return `${bound === ">=" ? "≥ " : bound === "<=" ? "≤ " : ""}${x}${behind(p, unit)}`;
}

/** A tick of an axis: as few digits as it takes. */
export function tick(v: number, unit = ""): string {
  const [x, p] = split(v);
  return `${Number(x)}${behind(p, unit)}`;
}

/** An axis: its unit with one prefix for all ticks, and for each tick as many digits as tell it from the others. */
export function axis(ticks: number[], unit: string): { unit: string; labels: string[] } {
  const most = Math.max(...ticks.map(Math.abs)), step = Math.abs((ticks[1] ?? most) - (ticks[0] ?? 0)) || most;
  const [name, factor] = (unit && prefixes.find(([, f]) => most / f >= 1)) || ["", 1];
  const digits = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].find((d) => ticks.every((t) => Math.abs(Number((t / factor).toFixed(d)) - t / factor) < (step / factor) * 1e-3)) ?? 9;
  return { unit: name + unit, labels: ticks.map((t) => (t / factor).toFixed(digits).replace("-", "−")) };
}

/** "1.17–1.19 M" */
export function interval(lo?: number, hi?: number, unit = ""): string {
  if (hi === undefined && !lo) return "";
  if (hi === undefined) return `from ${si(lo, unit)}`;
  if (lo === undefined) return `to ${si(hi, unit)}`;
  const [a, p] = split(lo), [b, q] = split(hi);
  return a === b && p === q ? si(lo, unit) : p === q ? `${a}–${si(hi, unit)}` : `${si(lo)} – ${si(hi, unit)}`;
}

export function percent(v: number | undefined): string {
  if (v === undefined) return "–";
  if (v < 0) return "−" + percent(-v).replace("< ", "");
  if (v > 0 && v < 0.001) return "< 0.1 %";
  return (v * 100).toFixed(v >= 0.9995 ? 0 : 1) + " %";
}

/** A number of frames: few exactly, many with a prefix. */
export const frames = (n: number): string => (Math.abs(n) < 1000 ? exact(n) : si(n));

/** n exactly, in groups of three. */
export const exact = (n: number): string => String(n).replace("-", "−").replace(/\B(?=(\d{3})+$)/g, " ");

/** A sentence in which no number is torn from its unit, and no flag from its dashes. */
export const whole = (s: string): string => s.replace(/(\d|≥|>=) (?=(\d|[TGMkmµn]?(frame|bit|byte)s?\b|[TGMkmµn]?s\b|%|B\b))/g, "$1\u00a0").replace(/--(?=\w)/g, "-\u2060-\u2060");

/** "2026-01-31 12:00", in UTC */
export const stamp = (t: string): string => new Date(t).toISOString().slice(0, 16).replace("T", " ");
