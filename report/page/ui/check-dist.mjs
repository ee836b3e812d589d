// SPDX-License-Identifier: Apache-2.0
// Builds the pages to a temporary folder and compares them with the committed ones.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const dir = mkdtempSync(join(tmpdir(), "boxdyno-page-"));
try {
  for (const [page, kept] of [["page", "dist/page.html"], ["serve", "../../../serve/dist/serve.html"]]) {
    execFileSync("npx", ["vite", "build", "--logLevel", "warn"], { stdio: "inherit", env: { ...process.env, PAGE: page, PAGE_OUT: dir } });
    if (!readFileSync(join(dir, `${page}.html`)).equals(readFileSync(new URL(kept, import.meta.url)))) {
      console.error(`${kept} of report/page/ui is not what its sources make: run npm run build in report/page/ui and commit it`);
      process.exitCode = 1;
    }
  }
} finally {
  rmSync(dir, { recursive: true });
}
