// SPDX-License-Identifier: Apache-2.0

export type Cell = string | number | null | undefined;
export interface Table {
  head: string[];
  rows: Cell[][];
}

export function csv(t: Table): string {
  const cell = (c: Cell): string => {
    let s = c === null || c === undefined ? "" : String(c);
    if (typeof c === "string" && /^[=+\-@\t\r]/.test(s) && Number.isNaN(Number(s))) s = `'${s}`; // no spreadsheet takes it for a formula
    return /[",\n\r]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s;
  };
  return [t.head, ...t.rows].map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
}
