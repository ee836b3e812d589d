// SPDX-License-Identifier: Apache-2.0
// Writes src/types.ts from what "boxdyno schema page" prints; with --check it compares.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const cwd = fileURLToPath(new URL("../../..", import.meta.url));
const file = new URL("src/types.ts", import.meta.url);
const schema = JSON.parse(execFileSync("go", ["run", "./cmd/boxdyno", "schema", "page"], { cwd, encoding: "utf8", maxBuffer: 1 << 26 }));
delete schema.title; // it would be the name of the type
const bannerComment = "// SPDX-License-Identifier: Apache-2.0\n\n// Made from the document's JSON schema by npm run types in report/page/ui; do not edit.";
const text = await compile(schema, "PageData", { bannerComment, style: { printWidth: 160 } });
if (!process.argv.includes("--check")) {
  writeFileSync(file, text);
} else if (readFileSync(file, "utf8") !== text) {
  console.error("report/page/ui/src/types.ts is not what the document's schema makes: run npm run types in report/page/ui and commit it");
  process.exitCode = 1;
}
