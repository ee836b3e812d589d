// SPDX-License-Identifier: Apache-2.0
import { parse } from "../lib/data";

export interface RunInfo {
  id: string; start: string; what: string; role?: string; box?: string; machine?: string; kind: string; topology: string; preset: string; version: string; procedures?: string[];
  state: "running" | "finished" | "broken off" | ""; verdict?: string; sentence?: string; error?: string; tags?: string[]; points: number; trials: number; seconds: number;
}
export interface Offer { kind: string; name: string; help: string; takes?: { name: string; help: string; default?: string }[] }
export interface About { version: string; read_only: boolean; knows: boolean; fleet: boolean; offers?: Offer[] }
export interface Activity { active: RunInfo[] | null; started?: { id: string; what: string; pid?: number; error?: string }[]; newest?: string }
export interface GrowthState {
  run: RunInfo; warnings?: string[]; pid?: number; kind: string; text: string; point: string; share: number; left_s: number; age_s: number; every_s: number; slowed?: string; error?: string;
}
export interface LogLine { at: string; kind: string; text?: string; point?: string }

// The token comes with the address that serve prints, behind #, which no browser sends.
// It is kept for this tab alone.
const kept = "boxdyno-token";
const given = /[#&]token=([\w.~-]+)/.exec(location.hash)?.[1];
if (given) {
  sessionStorage.setItem(kept, given);
  history.replaceState(null, "", location.pathname + "#/");
}

class Session {
  token = $state(sessionStorage.getItem(kept) ?? "");
  about = $state.raw<About | null>(null);
  /** Why nothing is shown: reading needs the token. */
  locked = $state(false);
  get may(): boolean { return !!this.about && !this.about.read_only && this.about.knows; }
  async learn(token?: string): Promise<void> {
    if (token !== undefined) {
      this.token = token.trim();
      sessionStorage.setItem(kept, this.token);
    }
    try {
      this.about = await get<About>("/api/about");
      this.locked = false;
    } catch (e) {
      if (e instanceof Refused && e.status === 401) this.locked = true;
    }
  }
}
export const session = new Session();

export class Refused extends Error {
  constructor(readonly status: number, text: string) { super(text); }
}

export const headers = (): Record<string, string> => (session.token ? { Authorization: `Bearer ${session.token}` } : {});

async function answered(r: Response): Promise<string> {
  const text = await r.text();
  if (r.ok) return text;
  let said = `the server answers ${r.status}`;
  try {
    said = (parse(text) as { error: string }).error || said;
  } catch { /* it is no answer of ours */ }
  if (r.status === 401) session.locked = session.locked || r.url.includes("/api/about");
  throw new Refused(r.status, said);
}

export async function get<T>(url: string): Promise<T> {
  return parse(await answered(await fetch(url, { headers: headers(), credentials: "omit", cache: "no-store" }))) as T;
}

export async function post<T>(url: string, body: unknown): Promise<T> {
  return parse(await answered(await fetch(url, { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, credentials: "omit", body: JSON.stringify(body) }))) as T;
}

/** A file of the server, saved by the browser: a link could not send the token. */
export async function save(url: string, name: string): Promise<void> {
  const r = await fetch(url, { headers: headers(), credentials: "omit" });
  if (!r.ok) await answered(r);
  const blob = URL.createObjectURL(await r.blob());
  Object.assign(document.createElement("a"), { href: blob, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(blob), 1000);
}

export const said = (e: unknown): string => (e instanceof Error ? e.message : String(e));
export const runURL = (id: string): string => `/api/runs/${encodeURIComponent(id)}`;
