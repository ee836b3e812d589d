// SPDX-License-Identifier: Apache-2.0
import type { Row } from "../../types";

const order = (s: string): number => (/^\d+$/.test(s) ? Number(s) : Infinity);

/** The frame sizes of rows, ascending, mixes last. */
export const sizesOf = (rows: Row[]): string[] => [...new Set(rows.map((r) => r.frame_size))].sort((a, b) => order(a) - order(b) || (a < b ? -1 : 1));

/** The directions of rows, in their order. */
export const directionsOf = (rows: Row[]): string[] => ["lan-to-wan", "wan-to-lan", "both"].filter((d) => rows.some((r) => r.direction === d));

/** The mark of a direction, which colour does not tell. */
export const markOf = (direction: string): "disc" | "ring" | "diamond" => (direction === "lan-to-wan" ? "disc" : direction === "wan-to-lan" ? "ring" : "diamond");
