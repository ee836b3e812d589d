// SPDX-License-Identifier: Apache-2.0

// What boxdyno size --json prints, as far as it is shown.
export interface Count { value: number; lo: number; hi: number }
export interface Estimate { value: number; lo: number; hi: number; bound?: string }
export interface Part { name: string; usd: number; watts: number; idle_watts?: number; meter?: string; inside?: boolean; measured_watts?: { n: number; value: number }[] }
export interface SizeRow {
  name: string; board?: string; origin: string; fleet?: boolean; scaling?: string; shared?: Part[]; rate: Estimate; heat?: number; number: Count; total_usd?: Estimate; total_watts?: Estimate; joules_per?: Estimate;
  head_room: number; head_room_failed: number; number_several?: Count; beyond?: boolean; notes?: string[]; what_if?: string[]; figures: { what: string; text: string; source: string; said?: string }[];
}
export interface Crossing { cluster: string; against: string; measure: string; scaling: string; n?: Count; reason?: string }
export interface Curve { name: string; measure: string; scaling: string; points: { n: number; value: number; lo: number; hi: number }[] }
export interface Sizing { job: { for: string; load: number }; unit: string; work_unit: string; method: string; draws: number; seed: string; rows: SizeRow[] | null; shared?: Part[]; crossovers?: Crossing[]; curves?: Curve[]; missing?: string[] }

/** "6 (5 to 6)"; one number where the interval is one. */
export const count = (c: Count | undefined): string => (!c ? "" : c.lo === c.hi && c.lo === c.value ? String(c.value) : `${c.value} (${c.lo} to ${c.hi})`);

/** The power of a part beside so many boxes, in W: of the least measured number that has as many, else as stated. */
const loaded = (p: Part, n: number): number => (p.measured_watts?.find((m) => m.n >= n) ?? p.measured_watts?.at(-1))?.value ?? p.watts;

/** "switch 60 USD, 8 W": what boxes share, counted once beside n of them. */
export const part = (p: Part, n: number): string => `${p.name} ${Number(p.usd.toPrecision(6))} USD, ${Number(loaded(p, n).toPrecision(3))} W${p.measured_watts?.length ? " by its meter" : ""}`;

/** What a row's boxes share: parts of the question, and those of the row that it does not name again. */
export const parts = (r: Sizing, x: SizeRow): Part[] => [...(r.shared ?? []), ...(x.shared ?? []).filter((p) => !r.shared?.some((q) => q.name === p.name))];

/** What boxes can be sized for: a load to begin with, and whether rules or a cipher are asked for. */
export const jobs = {
  ids: { load: "1Gbps", rules: true, cipher: false },
  firewall: { load: "1.488Mframe/s", rules: true, cipher: false },
  crypto: { load: "250MiB/s", rules: false, cipher: true },
  hpl: { load: "50GFLOPS", rules: false, cipher: false },
};
export const first = Object.keys(jobs).find((j) => jobs[j as keyof typeof jobs].cipher) as keyof typeof jobs;
