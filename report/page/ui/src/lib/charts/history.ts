// SPDX-License-Identifier: Apache-2.0

// What boxdyno history --json prints, as far as it is drawn.
export interface Difference { key: string; before: string; after: string }
export interface HistoryPoint { run: string; bundle?: string; start: string; version: string; value: number; lo?: number; hi?: number; n: number; bound?: string; environment?: Difference[] }
export interface Change { at: number; run: string; start: string; before: number; after: number; share?: number; p: number; worse?: boolean; better?: boolean; environment?: Difference[] }
export interface Level { version: string; median: number; lo?: number; hi?: number; n: number }
export interface Series { unit: string; better: number; settings: { key: string; value: string }[]; points: HistoryPoint[]; levels: Level[]; changes?: Change[]; notes?: string[] }
export interface History { metric: string; series: Series[]; varies?: { key: string; values: string[] }[] }

/** "kernel 6.1 -> 6.12; governor absent -> performance" */
export const changed = (all: Difference[] | undefined): string => (all ?? []).map((d) => `${d.key} ${d.before || "absent"} → ${d.after || "absent"}`).join("; ");
