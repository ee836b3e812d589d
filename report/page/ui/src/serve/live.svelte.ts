// SPDX-License-Identifier: Apache-2.0
import type { Document, Line, Record, Timeline } from "../types";
import type { GrowthState, LogLine } from "./api.svelte";

/** One run as its events tell it. */
export class LiveRun {
  state = $state.raw<GrowthState | null>(null);
  since = $state.raw(0); // when state came, ms of performance.now
  records: Record[] = $state.raw([]);
  log: LogLine[] = $state.raw([]);
  timeline = $state.raw<Timeline | null>(null);
  found = $state.raw<Document | null>(null);

  take(event: string, data: unknown): void {
    if (event === "anew") {
      this.records = [];
      this.log = [];
      this.timeline = null;
    } else if (event === "state") {
      this.state = data as GrowthState;
      this.since = performance.now();
    } else if (event === "records") {
      const at = new Map(this.records.map((r, i) => [r.id, i]));
      const all = this.records.slice();
      for (const r of data as Record[]) {
        const i = at.get(r.id);
        if (i === undefined) at.set(r.id, all.push(r) - 1);
        else all[i] = r;
      }
      this.records = all;
    } else if (event === "log") this.log = [...this.log, ...(data as LogLine[])].slice(-2000);
    else if (event === "telemetry") this.timeline = joined(this.timeline, data as Timeline);
    else if (event === "found") this.found = data as Document;
  }
}

/** What was there, with what is new from its first step on. */
function joined(was: Timeline | null, now: Timeline): Timeline {
  const first = now.first ?? 0;
  if (!first || !was) return now;
  const values = (a: Line["mean"], b: Line["mean"]) => (b ? [...(a ?? []).slice(0, first), ...b] : undefined);
  return {
    ...now, first: 0, steps: first + now.steps,
    panels: now.panels?.map((p, i) => ({
      ...p,
      lines: p.lines?.map((l, j) => {
        const old = was.panels?.[i]?.lines?.[j];
        return { ...l, mean: values(old?.mean, l.mean), lo: values(old?.lo, l.lo), hi: values(old?.hi, l.hi) } as Line;
      }) ?? null,
    })),
  };
}

/** "1 h 20 min", "3 min 10 s", "12 s". */
export function lasting(seconds: number): string {
  const s = Math.max(Math.round(seconds), 0);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 && s < 600 ? ` ${s % 60} s` : ""}`;
  return `${Math.floor(s / 3600)} h${s % 3600 >= 60 ? ` ${Math.floor((s % 3600) / 60)} min` : ""}`;
}
