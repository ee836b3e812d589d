// SPDX-License-Identifier: Apache-2.0
import type { Document, Finding, PageData, Pair, Record, Row } from "../types";
import type { History } from "./charts/history";

// What steers a terminal or turns the direction of text has no business in a name.
const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** JSON whose strings steer nothing. */
export const parse = (text: string): unknown => JSON.parse(text, (_, v) => (typeof v === "string" ? v.replace(steering, "\ufffd") : v));

/** The data that Go put into the page; null in the bare template. */
export function read(): PageData | { history: History } | null {
  const text = document.getElementById("boxdyno-data")?.textContent ?? "null";
  const value = parse(text);
  return value && typeof value === "object" ? (value as PageData | { history: History }) : null;
}

export const get = (pairs: Pair[] | null, key: string): string => pairs?.find((p) => p.key === key)?.value ?? "";

/** A number of o by the name that the document has for it. */
export const at = (o: object, name: string | undefined): number | undefined => (o as { [name: string]: number | undefined })[name ?? ""];

export const kind = (r: Record): string => get(r.config, "trial");

/** The trials of a point, in the order in which they ran. */
export function trialsOf(records: Record[], row: Row | undefined): Record[] {
  return row ? records.filter((r) => r.parent === row.id && r.verdict !== "running").sort((a, b) => a.begin_ns - b.begin_ns) : [];
}

/** Warnings of a row that not every row carries. */
export const own = (row: Row, shared: string[] | undefined): string[] => (row.warnings ?? []).filter((w) => !shared?.includes(w));

const services: { [key: string]: string } = { "drop-xdp": "drop in XDP", "drop-tc": "drop in tc", "drop-nft": "drop in nft" };

/** A row's service in a reader's words, as Go's serviceName. */
export function serviceName(r: Row): string {
  let s = services[r.service] ?? (r.service || r.procedure);
  if (r.service === "filter") s += `, ${r.rules} ${r.rules === 1 ? "rule" : "rules"}`;
  if (r.service === "nat") s += `, ${r.flows} ${r.flows === 1 ? "flow" : "flows"}`;
  if (r.networks) s += `, ${r.networks} networks`;
  if (r.ip === 6) s += ", IPv6";
  if (r.beside) s += `, ${r.beside}`;
  return s;
}

/** The verdict as a reader shall take it, as Go's verdictWord: without a criterion nothing was passed. */
export function verdictWord(d: Document): string {
  if (d.verdict === "running" || d.verdict === "aborted") return "not finished";
  if (d.findings?.length && (d.verdict === "invalid" || d.verdict === "skipped")) return d.sentence.startsWith("Too close to call") ? "too close to call" : "not decided";
  if (d.powers && d.verdict === "skipped") return "measured in part";
  if (d.powers && d.verdict === "failed") return "failed in part";
  return d.verdict === "passed" && !d.findings?.length ? "measured" : d.verdict;
}

/** What became of a criterion, as Go's findingWord. */
export function findingWord(f: Finding): string {
  if (f.too_close_to_call) return "too close to call";
  return { invalid: "not decided", skipped: "not measured" }[f.verdict] ?? f.verdict;
}

export const isDrop = (r: Row): boolean => r.service.startsWith("drop-");

/** The place where a drop service is meant to throw frames away. */
export const dropPlace = (r: Row): string => (isDrop(r) ? r.service.slice("drop-".length) : r.security ? "nft" : "");

export const frame = (size: string): string => (/^\d+$/.test(size) ? `${size} B` : size.toUpperCase());

/** "n = 3 overload trials", "n = 3 to 5 overload trials"; "" where none was made. */
export function repeats(counts: (number | undefined)[], noun: string): string {
  const ns = counts.filter((n): n is number => !!n);
  if (!ns.length) return "";
  const lo = Math.min(...ns), hi = Math.max(...ns);
  return lo === hi ? `n = ${lo} ${lo === 1 ? noun.replace(/s$/, "") : noun}` : `n = ${lo} to ${hi} ${noun}`;
}

/** Several of them: "n = 9 search trials and n = 3 overload trials a point". */
export const all = (parts: string[], what: string): string => (parts.some(Boolean) ? `${parts.filter(Boolean).join(" and ")} ${what}` : "n = 0 trials");

/** A value of a sample or a stressor, by the metric that a component asks for. */
export const valueOf = (asks: { [what: string]: string }) => (x: object, what: string) => (x as { [metric: string]: number | undefined })[asks[what] ?? ""];
