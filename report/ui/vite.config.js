// SPDX-License-Identifier: Apache-2.0
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// One file, dist/page.html, that Go embeds and fills with data.
export default defineConfig({
  plugins: [svelte(), viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    target: "es2022",
    outDir: process.env.PAGE_OUT ?? "dist",
    emptyOutDir: true,
    reportCompressedSize: false,
    rolldownOptions: { input: "page.html" },
  },
});
