// SPDX-License-Identifier: Apache-2.0
import { readFileSync, readdirSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// People send the page on: the licences of what is bundled with it go along.
// script/notices reads them there.
const notices = {
  name: "notices",
  transformIndexHtml: {
    order: "post",
    handler: (html, { bundle }) => html.replace("</html>", () => `</html>\n<!--\n${packages(bundle).map(notice).join("\n\n")}\n-->`),
  },
};

/** The packages whose code is in the bundle. */
function packages(bundle) {
  const modules = Object.values(bundle).flatMap((chunk) => Object.entries(chunk.modules ?? {}));
  const ids = modules.filter(([, m]) => m.renderedLength > 0).map(([id]) => id);
  return [...new Set(ids.flatMap((id) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []))].sort();
}

function notice(name) {
  const dir = `node_modules/${name}`;
  const file = readdirSync(dir).find((f) => /^licen[cs]e/i.test(f));
  if (!file) throw new Error(`there is no licence in ${dir}`);
  return `This page contains ${name}, under this licence:\n\n${readFileSync(`${dir}/${file}`, "utf8").trim()}`;
}

// One file each that Go embeds: dist/page.html, which report fills with data, and with
// PAGE=serve the page of boxdyno serve.
const live = process.env.PAGE === "serve";
export default defineConfig({
  plugins: [svelte(), viteSingleFile({ removeViteModuleLoader: true }), notices],
  build: {
    target: "es2022",
    outDir: process.env.PAGE_OUT ?? (live ? "../../../serve/dist" : "dist"),
    emptyOutDir: true,
    reportCompressedSize: false,
    rolldownOptions: { input: live ? "serve.html" : "page.html" },
  },
});
