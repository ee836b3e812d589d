// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// People send the page on: the licence of what is bundled with it goes along.
const notices = {
  name: "notices",
  transformIndexHtml: (html) => html.replace("</html>", () => `</html>\n<!--\nThis page contains Svelte, under this licence:\n\n${readFileSync("node_modules/svelte/LICENSE.md", "utf8").trim()}\n-->`),
};

// One file, dist/page.html, that Go embeds and fills with data.
export default defineConfig({
  plugins: [svelte(), viteSingleFile({ removeViteModuleLoader: true }), notices],
  build: {
    target: "es2022",
    outDir: process.env.PAGE_OUT ?? "dist",
    emptyOutDir: true,
    reportCompressedSize: false,
    rolldownOptions: { input: "page.html" },
  },
});
