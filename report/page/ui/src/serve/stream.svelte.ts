// SPDX-License-Identifier: Apache-2.0
import { parse } from "../lib/data";
import { headers } from "./api.svelte";

// fetch, not EventSource: that sends no token, tells nothing of a silent connection, and
// waits for as long as it likes.

/** After this long without a beat, of which there are two a second, nobody is there. */
const silence = 1000;
const again = 400;

/** The events of one run, or of all, for as long as it is not closed. */
export class Stream {
  /** "": connected. */
  trouble = $state("connecting");
  #last = "";
  #over = false;
  #abort: AbortController | null = null;

  constructor(readonly run: string, readonly on: (event: string, data: unknown) => void) {
    void this.#go();
  }

  close(): void {
    this.#over = true;
    this.#abort?.abort();
  }

  async #go(): Promise<void> {
    while (!this.#over) {
      const abort = (this.#abort = new AbortController());
      let quiet: ReturnType<typeof setTimeout> | undefined;
      const alive = () => {
        clearTimeout(quiet);
        quiet = setTimeout(() => {
          this.trouble = "the server is silent";
          quiet = setTimeout(() => abort.abort(), 2 * silence);
        }, silence);
      };
      try {
        alive();
        const r = await fetch(`/api/events?run=${encodeURIComponent(this.run)}`, { headers: { ...headers(), ...(this.#last ? { "Last-Event-ID": this.#last } : {}) }, credentials: "omit", cache: "no-store", signal: abort.signal });
        if (!r.ok || !r.body) {
          if (r.status === 400) this.#last = "";
          throw new Error(r.status === 401 ? "the token is missing" : r.status === 404 ? "the run is gone" : r.status === 503 ? "too many viewers" : `the server answers ${r.status}`);
        }
        await this.#read(r.body, alive);
        this.trouble = "the connection is gone";
      } catch (e) {
        if (!this.#over) this.trouble = e instanceof TypeError || abort.signal.aborted ? "the connection is gone" : e instanceof Error ? e.message : String(e);
      }
      clearTimeout(quiet);
      if (!this.#over) await new Promise((done) => setTimeout(done, again));
    }
  }

  async #read(body: ReadableStream<Uint8Array>, alive: () => void): Promise<void> {
    const reader = body.getReader(), text = new TextDecoder();
    for (let buffer = ""; ; ) {
      const { done, value } = await reader.read();
      if (done || this.#over) return;
      alive();
      this.trouble = "";
      buffer += text.decode(value, { stream: true });
      for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) this.#take(buffer.slice(0, end));
    }
  }

  #take(block: string): void {
    let event = "message", data = "", id = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
      else if (line.startsWith("id: ")) id = line.slice(4);
    }
    if (event !== "beat" && !this.#over) this.on(event, parse(data));
    if (id) this.#last = id;
  }
}
