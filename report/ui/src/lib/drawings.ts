// SPDX-License-Identifier: Apache-2.0
import type { Component } from "svelte";
import type { Document, Record, Row, Table as Listed } from "../types";
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
import { serviceName } from "./data";
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
}

/** What draws or lists rows, and of which. */
interface Part {
  draws: Component<any>;
  /** Metrics of which a row must have one; absent: any row. */
  metrics?: string[];
  of?: (r: Row) => unknown;
  /** One part for each of these; absent: one for all. */
  each?: (r: Row) => string;
  takes?: (rows: Row[]) => Row[];
  /** Whether rows are enough to draw. */
  enough?: (rows: Row[], doc: Document) => boolean;
}

const rates = ["throughput_fps", "forwarding_rate_fps", "drop_rate_fps"];
const differ = (rows: Row[], of: (r: Row) => string) => new Set(rows.map(of)).size > 1;
const size = (r: Row) => r.frame_size;
const id = (r: Row) => r.id;
const procedure = (r: Row) => r.procedure;
const forwards = (r: Row) => !(r.suite || r.security || r.connections || r.soak || r.capture || r.ids || r.infer || r.work || r.crypto || r.tunnel || r.storage || r.flood);

/** Rows of the frame size and direction at which most services can be compared. */
function comparable(rows: Row[]): Row[] {
  const services = (rs: Row[]) => new Set(rs.map(serviceName)).size;
  return [...Map.groupBy(rows, (r) => `${r.frame_size} ${r.direction}`).values()].reduce<Row[]>((a, b) => (services(b) > services(a) ? b : a), []);
}

/** In the page's order. */
const parts: Part[] = [
  { draws: RateBySize, metrics: rates, of: forwards, each: serviceName, enough: (rows) => differ(rows, size) },
  { draws: LatencyBySize, metrics: ["latency_p50_s"], of: (r) => r.suite, each: serviceName },
  { draws: LossCurve, of: (r) => r.procedure === "loss-curve", each: serviceName },
  { draws: Bursts, metrics: ["back_to_back_frames", "recovery_s"], each: serviceName },
  { draws: Services, metrics: rates, of: forwards, takes: comparable, enough: (rows) => rows.length > 1 },
  { draws: LatencyPair, metrics: ["latency_p50_s"], of: forwards },
  { draws: Stressors, of: (r) => r.soak, each: id },
  { draws: Phases, of: (r) => r.security, each: id },
  { draws: FloodTime, of: (r) => r.flood, each: id },
  { draws: Study, of: (r) => r.capture, enough: (_, doc) => !!doc.study },
  { draws: IDSLoads, of: (r) => r.ids?.loads?.length },
  { draws: IDSRules, metrics: ["ids_rate_bps"], of: (r) => r.ids?.rules_loaded, enough: (rows) => rows.length > 1 },
  { draws: Work, of: (r) => r.work?.figures?.length, each: procedure },
  { draws: Curves, of: (r) => r.work?.curve?.points?.length, each: procedure },
  { draws: Ciphers, metrics: ["encrypt_bytes_per_s", "decrypt_bytes_per_s"] },
  { draws: Tunnels, metrics: ["goodput_bps"], of: (r) => r.tunnel },
  { draws: TunnelSizes, metrics: ["throughput_fps", "forwarding_rate_fps"], of: (r) => r.tunnel, enough: (rows) => differ(rows, size) },
  { draws: Disks, of: (r) => r.storage?.patterns?.length },
  { draws: Books, of: (r) => r.stalls !== undefined || r.ledger },
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

/** In order: what belongs to one service, procedure or row stands together. */
function partsOf(doc: Document, records: Record[]): { draws: Component<any>; given: Given }[] {
  // Of a box's powers: what was skipped stands in a list of its own.
  const told = (doc.rows ?? []).filter((r) => !doc.powers || r.verdict !== "skipped");
  const rowsOf = (p: Part) => {
    const rows = told.filter((r) => (!p.metrics || p.metrics.some((m) => r.figures?.[m])) && (!p.of || p.of(r)));
    return p.takes ? p.takes(rows) : rows;
  };
  return neighbours(parts).flatMap((ps) => {
    const each = ps[0]!.each ?? (() => "");
    return [...new Set(told.map(each))].flatMap((key) =>
      ps.flatMap((p) => {
        const rows = rowsOf(p).filter((r) => each(r) === key);
        if (!rows.length || (p.enough && !p.enough(rows, doc))) return [];
        return [{ draws: p.draws, given: { doc, records, rows, row: rows[0]!, service: serviceName(rows[0]!), procedure: rows[0]!.procedure } }];
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
