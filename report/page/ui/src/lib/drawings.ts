// SPDX-License-Identifier: Apache-2.0
import type { Component } from "svelte";
import type { Document, Figure, Record, Row, Table as Listed } from "../types";
import Bursts from "./charts/Bursts.svelte";
import Ciphers from "./charts/Ciphers.svelte";
import Curves from "./charts/Curves.svelte";
import Disks from "./charts/Disks.svelte";
import FloodTime from "./charts/FloodTime.svelte";
import IDSLoads from "./charts/IDSLoads.svelte";
import IDSRules from "./charts/IDSRules.svelte";
import LatencyBySize from "./charts/LatencyBySize.svelte";
import LossCurve from "./charts/LossCurve.svelte";
import Phases from "./charts/Phases.svelte";
import RateBySize from "./charts/RateBySize.svelte";
import Services from "./charts/Services.svelte";
import Stressors from "./charts/Stressors.svelte";
import Tunnels from "./charts/Tunnels.svelte";
import TunnelSizes from "./charts/TunnelSizes.svelte";
import Work from "./charts/Work.svelte";
import { get, serviceName } from "./data";
import Books from "./parts/Books.svelte";
import LatencyPair from "./parts/LatencyPair.svelte";
import Study from "./parts/Study.svelte";
import Table from "./parts/Table.svelte";

/** What a part of the page gets; each takes what it needs. */
export interface Given {
  doc: Document;
  records: Record[];
  rows: Row[]; // those that it asked for
  row: Row; // the first of them
  service: string; // its
  procedure: string; // its
  asks: Asks;
  of: Of;
}

/** Metrics that a component asks for, by the names that it has for them. */
export type Asks = { [what: string]: string };

/** A row's figure of what a component asks for. */
export type Of = (r: Row, what: string) => Figure | undefined;

/** What draws or lists rows, and of which. */
interface Part {
  draws: Component<any>;
  /** Metrics that it draws, of which a row must have one. */
  asks?: Asks;
  /** Metrics that it draws where there are some. */
  also?: Asks;
  /** What a row must have besides. */
  of?: (r: Row) => unknown;
  /** One part for each of these; absent: one for all. */
  each?: (r: Row) => string;
  takes?: (rows: Row[]) => Row[];
  /** Whether rows are enough to draw. */
  enough?: (rows: Row[], doc: Document) => boolean;
}

const rates = { limit: "throughput_fps", overload: "forwarding_rate_fps", dropped: "drop_rate_fps" };
const delays = { p50: "latency_p50_s", p99: "latency_p99_s", max: "latency_max_s" };
const ciphers = { encrypted: "encrypt_bytes_per_s", decrypted: "decrypt_bytes_per_s" };
const streams = { without: "baseline_goodput_bps", share: "goodput_share", spent: "cpu_per_mbit_s", spentWithout: "baseline_cpu_per_mbit_s" };

/** Metrics of the figures that head the page. */
export const heads: Asks = { ...rates, limitBits: "throughput_bps", overloadBits: "forwarding_rate_bps", ...ciphers, goodput: "goodput_bps", computed: "dmips" };

/** Whether a row's limit was searched, or another rate was measured in its place. */
export const searched = (r: Row): boolean => Object.values(rates).some((m) => r.figures?.[m]);
const differ = (rows: Row[], of: (r: Row) => string) => new Set(rows.map(of)).size > 1;
const size = (r: Row) => r.frame_size;
const id = (r: Row) => r.id;
const procedure = (r: Row) => r.procedure;
const has = (key: string) => (r: Row) => get(r.settings ?? null, key);
const service = has("service"), tunnel = has("offloads");

/** Rows of the frame size and direction at which most services can be compared. */
function comparable(rows: Row[]): Row[] {
  const services = (rs: Row[]) => new Set(rs.map(serviceName)).size;
  return [...Map.groupBy(rows, (r) => `${r.frame_size} ${r.direction}`).values()].reduce<Row[]>((a, b) => (services(b) > services(a) ? b : a), []);
}

/** In the page's order. */
const parts: Part[] = [
  { draws: RateBySize, asks: rates, also: { limitBits: "throughput_bps", overloadBits: "forwarding_rate_bps", ceiling: "ceiling_fps" }, of: service, each: serviceName, enough: (rows) => differ(rows, size) },
  { draws: LatencyBySize, asks: delays, also: { load: "latency_load_fps" }, of: (r) => r.suite?.latency?.length, each: serviceName },
  { draws: LossCurve, asks: { lost: "loss_ratio" }, also: { limit: rates.limit }, each: serviceName },
  { draws: Bursts, asks: { burst: "back_to_back_frames", recovered: "recovery_s" }, also: { rate: "burst_rate_fps", buffer: "buffer_time_s", corrected: "buffer_time_corrected_s" }, each: serviceName },
  { draws: Services, asks: rates, also: { ceiling: "ceiling_fps" }, of: service, takes: comparable, enough: (rows) => rows.length > 1 },
  { draws: LatencyPair, asks: delays, also: { load: "latency_load_fps", limit: rates.limit }, of: (r) => service(r) && !r.suite },
  { draws: Stressors, also: { ops: "bogo_ops", rate: "bogo_ops_rate", cpuRate: "bogo_ops_cpu_rate", cpu: "cpu_s", memory: "peak_memory_bytes", clock: "clock_share", temperature: "temperature_max", power: "power_mean_w", throttled: "throttle_events" }, of: (r) => r.soak, each: id },
  { draws: Phases, also: { offered: "offered_fps", forwarded: "forwarded_fps" }, of: (r) => r.security, each: id },
  { draws: FloodTime, of: (r) => r.flood, each: id },
  { draws: Study, of: (r) => r.capture, enough: (_, doc) => !!doc.study },
  { draws: IDSLoads, also: { detected: "detected_ratio" }, of: (r) => r.ids?.loads?.length },
  { draws: IDSRules, asks: { limit: "ids_rate_bps" }, also: { rules: "rules_loaded" }, of: (r) => r.ids?.rules_loaded, enough: (rows) => rows.length > 1 },
  { draws: Work, of: (r) => r.work?.figures?.length, each: procedure },
  { draws: Curves, of: (r) => r.work?.curve?.points?.length, each: procedure },
  { draws: Ciphers, asks: ciphers, of: (r) => r.crypto },
  { draws: Tunnels, asks: { goodput: "goodput_bps" }, also: streams, of: tunnel },
  { draws: TunnelSizes, asks: { limit: rates.limit, overload: rates.overload }, also: { without: "baseline_forwarding_fps" }, of: tunnel, enough: (rows) => differ(rows, size) },
  { draws: Disks, of: (r) => r.storage?.patterns?.length },
  { draws: Books, also: { ceiling: "ceiling_fps", steal: "steal_ratio" }, of: (r) => r.stalls !== undefined || r.ledger },
];

/** What stands on the page. */
export type Shown = { draws: Component<any>; given: Given } | { draws: Component<any>; given: { doc: Document; table: Listed; folded: boolean; fresh: string[] } };

/** The parts that a document's rows ask for, each table after the last drawing and the tables before it of its rows' procedures. */
export function drawn(doc: Document, records: Record[]): Shown[] {
  const shown: Shown[] = partsOf(doc, records);
  const listed = new Set<string>();
  const kinds = new Map(doc.rows?.map((r) => [r.id, r.procedure]));
  for (const table of doc.tables ?? []) {
    const ids = table.ids ?? [];
    // Secondary: it heads nothing, and its rows stand in tables before it.
    const folded = ids.every((id) => listed.has(id)) && !table.columns?.some((c) => c.heads);
    const of = new Set(ids.map((id) => kinds.get(id)));
    const at = shown.findLastIndex((s) => s.draws !== Books && ("table" in s.given ? (s.given.table.ids ?? []) : s.given.rows.map(id)).some((id) => of.has(kinds.get(id))));
    shown.splice(at < 0 ? shown.length : at + 1, 0, { draws: Table, given: { doc, table, folded, fresh: ids.filter((id) => !listed.has(id)) } });
    for (const id of ids) listed.add(id);
  }
  return shown;
}

/** Gives a component its figures. */
export const figureOf = (asks: Asks): Of => (r, what) => r.figures?.[asks[what] ?? ""];

/** In order: what belongs to one service, procedure or row stands together. */
function partsOf(doc: Document, records: Record[]): { draws: Component<any>; given: Given }[] {
  // Of a box's powers: what was skipped stands in a list of its own.
  const told = (doc.rows ?? []).filter((r) => !doc.powers || r.verdict !== "skipped");
  const rowsOf = (p: Part) => {
    const rows = told.filter((r) => (!p.asks || Object.values(p.asks).some((m) => r.figures?.[m])) && (!p.of || p.of(r)));
    return p.takes ? p.takes(rows) : rows;
  };
  return neighbours(parts).flatMap((ps) => {
    const each = ps[0]!.each ?? (() => "");
    return [...new Set(told.map(each))].flatMap((key) =>
      ps.flatMap((p) => {
        const rows = rowsOf(p).filter((r) => each(r) === key);
        const asks = { ...p.asks, ...p.also };
        if (!rows.length || (p.enough && !p.enough(rows, doc))) return [];
        return [{ draws: p.draws, given: { doc, records, rows, row: rows[0]!, service: serviceName(rows[0]!), procedure: rows[0]!.procedure, asks, of: figureOf(asks) } }];
      }),
    );
  });
}

/** Parts that follow each other and are made for each of the same. */
function neighbours(parts: Part[]): Part[][] {
  const out: Part[][] = [];
  for (const p of parts) {
    if (p.each && out.at(-1)?.[0]?.each === p.each) out.at(-1)!.push(p);
    else out.push([p]);
  }
  return out;
}
