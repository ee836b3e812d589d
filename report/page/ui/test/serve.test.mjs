// SPDX-License-Identifier: Apache-2.0
// Looks at the pages of boxdyno serve, with runs in memory, in Debian's headless Chromium.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../../../..");
const dir = mkdtempSync(join(tmpdir(), "boxdyno-serve-"));
const program = join(dir, "boxdyno");
const env = { ...process.env, XDG_STATE_HOME: join(dir, "state"), XDG_CONFIG_HOME: join(dir, "config"), CGO_ENABLED: "0" };
const runs = join(dir, "state/boxdyno/runs");
const axe = readFileSync(join(here, "../node_modules/axe-core/axe.min.js"), "utf8");
let browser, server, address, board;

const run = (name, ...more) => execFileSync(program, ["run", "forward", "--lab", "mem", "--repeat", "4", "--quiet", "--out", join(runs, name), ...more], { env, stdio: "ignore" });
async function serve(listen) {
  server = spawn(program, ["serve", "--listen", listen, "--token-file", join(dir, "token"), "--hub", "127.0.0.1:0"], { env, stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(server.stdout, "data");
  return String(line).trim();
}
async function stop() {
  server.kill();
  await once(server, "exit");
}

// enrolled is the agent of a board that has joined the hub of the server.
async function enrolled() {
  const agent = join(dir, "boxdyno-agent"), folder = join(dir, "board");
  execFileSync("go", ["build", "-o", agent, "./cmd/boxdyno-agent"], { cwd: root, env });
  const said = String(execFileSync(program, ["fleet", "token", "pi1", "--group", "rack1"], { env })); // boxdyno-agent join URL TOKEN
  const [, ...command] = said.trim().replace(/\/\/[^:]*/, "//127.0.0.1").split(" ");
  execFileSync(agent, [...command, "--folder", folder], { env, stdio: "ignore" });
  return spawn(agent, ["connect", "--folder", folder], { env, stdio: "ignore" });
}

before(async () => {
  mkdirSync(join(dir, "config/boxdyno"), { recursive: true });
  writeFileSync(join(dir, "config/boxdyno/boxes.yaml"), "shared: {switch: {usd: 85, idle: 6, watts: 8}}\n");
  execFileSync("go", ["build", "-o", program, "./cmd/boxdyno"], { cwd: root, env });
  run("before");
  run("after", "--set", "capacity=150k");
  address = await serve("127.0.0.1:0");
  board = await enrolled();
  browser = await chromium.launch({ executablePath: process.env.BOXDYNO_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"] });
});
after(async () => {
  await browser?.close();
  board?.kill();
  server?.kill();
  rmSync(dir, { recursive: true, force: true });
});

// open shows a page and fails on what the browser complains of, such as the policy.
async function open(t, hash, options = {}) {
  const context = await browser.newContext({ viewport: { width: options.width ?? 1280, height: 900 }, bypassCSP: options.bypassCSP });
  const page = await context.newPage();
  const bad = [];
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|status of 422/.test(m.text()) && bad.push(m.text()));
  page.on("pageerror", (e) => bad.push(String(e)));
  page.on("request", (r) => !r.url().startsWith(address) && !r.url().startsWith("blob:") && !r.url().startsWith("data:") && bad.push(`request ${r.url()}`));
  await page.goto(address + hash);
  await page.waitForSelector("[data-connection=there]");
  t.after(async () => {
    await context.close();
    assert.deepEqual(bad, [], `${hash} complains or reaches out`);
  });
  return page;
}

const token = () => readFileSync(join(dir, "token"), "utf8").trim();
const pages = [["#/runs", "[data-run=after]"], ["#/run/before", "#measured"], ["#/live/before", "[role=log]"], ["#/compare/before/after", "[data-table=compared]"], ["#/compare", "select"], ["#/history/throughput_fps", "[data-series] [data-table=runs]"], ["#/size", "form select"], ["#/boards", "[data-board]"], ["#/fleet", "[data-fleet-board=pi1][data-state=ready]"], ["#/start", "input[type=password]"]];

// complaints are what axe, in the page, finds by all rules, and in the dark by those of colours.
async function complaints(page) {
  const found = [];
  for (const [colorScheme, rules] of [["light", {}], ["dark", { runOnly: ["cat.color"] }]]) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await page.evaluate((rules) => globalThis.axe.run(document, { resultTypes: ["violations"], ...rules }), rules);
    found.push(...violations.map((v) => `${colorScheme}: ${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).slice(0, 3).join(" ")}`));
  }
  return found;
}

describe("the pages of serve", () => {
  test("can be read by everybody, light and dark", async (t) => {
    const page = await open(t, "#/runs", { bypassCSP: true }); // axe is put into the page
    await page.evaluate(axe);
    for (const [hash, there] of pages) {
      await page.evaluate((h) => (location.hash = h), hash);
      await page.waitForSelector(there);
      assert.deepEqual(await complaints(page), [], hash);
      for (const width of [380, 1600, 1280]) {
        await page.setViewportSize({ width, height: 900 });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${hash} is ${wide} wide at ${width}`);
      }
    }
  });

  test("find runs as one types, and compare them, by keyboard alone", async (t) => {
    const page = await open(t, "#/runs");
    await page.waitForSelector("[data-run=after]");
    for (let i = 0; i < 20 && (await page.evaluate(() => document.activeElement?.getAttribute("type"))) !== "search"; i++) await page.keyboard.press("Tab");
    await page.keyboard.type("after");
    assert.deepEqual(await page.locator("[data-run]").evaluateAll((els) => els.map((e) => e.dataset.run)), ["after"]);
    for (let i = 0; i < 5; i++) await page.keyboard.press("Backspace");
    for (let ticked = 0; ticked < 2; ) {
      await page.keyboard.press("Tab");
      if ((await page.evaluate(() => document.activeElement?.getAttribute("type"))) === "checkbox") {
        await page.keyboard.press("Space");
        ticked++;
      }
    }
    await page.getByRole("link", { name: "Compare these 2" }).focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-table=compared] [data-verdict]");
  });

  test("show a figure over time, linked from runs and from a run, by keyboard", async (t) => {
    const page = await open(t, "#/run/before");
    await page.getByRole("link", { name: "Its history" }).focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector("optgroup[label=forward]", { state: "attached" });
    assert.equal(await page.locator("optgroup").first().getAttribute("label"), "forward");
    await page.selectOption("main select", "throughput_fps");
    await page.waitForSelector("[data-series]");
    assert.match(await page.textContent("h1"), /no change is found in 2 runs/);
    assert.deepEqual(await page.locator("[data-table=runs] a").evaluateAll((els) => els.map((e) => e.hash).sort()), ["#/run/after", "#/run/before"]);
    assert.equal(await page.locator("[data-series] figure .mark").count(), 2);
    const ticks = await page.locator("[data-series] figure .grid + .tick").allTextContents();
    assert.ok(ticks.length > 3 && new Set(ticks).size === ticks.length && ticks.every((t) => /^[\d.]+$/.test(t)), `ticks are ${ticks}`);
    assert.match(await page.locator("[data-series] figure text.unit").first().textContent(), /^[kM]frame\/s$/);
    await page.evaluate(() => (location.hash = "#/history/no_such_metric"));
    await page.waitForSelector("[role=alert]:has-text('no_such_metric')");
  });

  test("show a figure over time as one file, which opens from disk", async (t) => {
    const file = join(dir, "history.html");
    execFileSync(program, ["history", "throughput_fps", "-o", file], { env, stdio: "ignore" });
    const context = await browser.newContext({ viewport: { width: 380, height: 900 }, bypassCSP: true });
    t.after(() => context.close());
    const page = await context.newPage();
    const bad = [];
    page.on("console", (m) => ["error", "warning"].includes(m.type()) && bad.push(m.text()));
    page.on("pageerror", (e) => bad.push(String(e)));
    page.on("request", (r) => !/^(blob|data):/.test(r.url()) && r.url() !== pathToFileURL(file).href && bad.push(`request ${r.url()}`));
    await page.goto(pathToFileURL(file).href);
    assert.match(await page.textContent("h1"), /no change is found in 2 runs/);
    assert.equal(await page.locator("[data-series] figure .mark").count(), 2);
    assert.equal(await page.locator("[data-table=runs] tbody tr").count(), 2);
    assert.equal(await page.locator("[data-table=runs] a").count(), 0);
    for (const width of [1600, 380]) {
      await page.setViewportSize({ width, height: 900 });
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
    }
    await page.evaluate(axe);
    assert.deepEqual(await complaints(page), []);
    const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "JSON" }).click()]);
    assert.equal(JSON.parse(readFileSync(await saved.path(), "utf8")).metric, "throughput_fps");
    assert.deepEqual(bad, [], "the file complains or reaches out");
  });

  test("size a job with its curves and crossovers, by keyboard", async (t) => {
    const page = await open(t, "#/size", { bypassCSP: true });
    await page.getByLabel("What they share").fill("rack=14USD,2W");
    await page.getByLabel("Load; empty").focus();
    await page.keyboard.press("Enter"); // sends the form
    await page.waitForSelector("[data-table=size] [data-box=rpi-4-b]");
    assert.match(await page.textContent("h1"), /^5 Pi 4B .*274 USD/); // with the rack, and a switch of boxes.yaml
    assert.deepEqual(await page.locator("[data-box=rpi-4-b]").first().locator(".parts span").allTextContents(), ["rack 14 USD, 2 W", "switch 85 USD, 8 W"]);
    assert.equal(await page.locator("[data-box=rpi-4-b] .parts span[title='6 W idle']").count() > 0, true);
    assert.ok((await page.locator("[data-figure=size-box] [data-crossover]").count()) > 3);
    await page.evaluate(axe);
    assert.deepEqual(await complaints(page), []);
    for (const width of [380, 1600]) {
      await page.setViewportSize({ width, height: 900 });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `it is ${wide} wide at ${width}`);
    }
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator("#z-n ~ .body > .row button", { hasText: "CSV" }).click()]);
    assert.match(readFileSync(await file.path(), "utf8"), /rpi-4-b/);
    await page.getByLabel("Load; empty").fill("much");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[role=alert]:has-text('--load')");
  });

  test("filter boards by need, with the source of each value", async (t) => {
    const page = await open(t, "#/boards");
    await page.waitForSelector("[data-board]");
    const all = await page.locator("[data-board]").count();
    await page.fill("input[type=search]", "aes");
    await page.waitForSelector("h1:has-text('match')");
    const some = await page.locator("[data-board]").count();
    assert.ok(some > 0 && some < all, `${some} of ${all}`);
    await page.locator("[data-board] button").first().click();
    await page.waitForSelector("[data-value] [data-source]");
    await page.fill("input[type=search]", "wings");
    await page.waitForSelector("[role=alert]");
  });

  test("show the boards of the hub, and who left", async (t) => {
    const page = await open(t, "#/fleet");
    await page.waitForSelector("[data-fleet-board=pi1][data-state=ready]");
    assert.match(await page.textContent("h1"), /^1 board: 1 ready\.$/);
    assert.match(await page.textContent("[data-fleet-board=pi1]"), /at most .*s off.*s ago.*rack1/);
    await page.fill("input[type=search]", "group=rack1 -ready");
    await page.waitForSelector("h1:has-text('0 of 1 board')");
    await page.fill("input[type=search]", "");
    execFileSync(program, ["fleet", "revoke", "pi1"], { env, stdio: "ignore" });
    await page.waitForSelector("[data-fleet-board=pi1][data-state=revoked]", { timeout: 5000 });
  });

  test("start a run with the token, show it trial by trial, and cancel it", async (t) => {
    const page = await open(t, "#/start");
    await page.fill("input[type=password]", token());
    await page.keyboard.press("Enter");
    await page.selectOption("select >> nth=0", "procedure forward");
    await page.fill("input >> nth=0", "mem");
    await page.fill("textarea", "frame_size=64,512\nrepeat=200");
    await page.getByRole("button", { name: "Start it" }).click();
    await page.waitForSelector("h1:has-text('Measures')");
    await page.waitForSelector("[data-figure=limit-search] .mark");
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("button", { name: "Stop the run now" }).click();
    await page.waitForSelector(".status:has-text('broken off')");
    assert.match(await page.textContent("[role=log]"), /interrupted; finished trials are kept/);
  });

  test("say within a second that the server is gone, and when it is back", async (t) => {
    const page = await open(t, "#/live");
    await page.waitForSelector("[role=log]");
    await stop();
    await page.waitForSelector("[data-connection=gone]", { timeout: 1000 });
    const back = await serve(new URL(address).host);
    assert.equal(back, address);
    await page.waitForSelector("[data-connection=there]", { timeout: 2000 });
  });
});
