// SPDX-License-Identifier: Apache-2.0
// Builds the page to a temporary folder and compares it with the committed one.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const dir = mkdtempSync(join(tmpdir(), "boxdyno-page-"));
try {
  execFileSync("npx", ["vite", "build", "--logLevel", "warn"], { stdio: "inherit", env: { ...process.env, PAGE_OUT: dir } });
  if (!readFileSync(join(dir, "page.html")).equals(readFileSync(new URL("dist/page.html", import.meta.url)))) {
    console.error("report/page/ui/dist/page.html is not what its sources make: run npm run build in report/page/ui and commit it");
    process.exitCode = 1;
  }
} finally {
  rmSync(dir, { recursive: true });
}
