// SPDX-License-Identifier: Apache-2.0
// Looks at the pages that page.Write writes, in Debian's headless Chromium:
// BOXDYNO_CHROMIUM names another one.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../../..");
const dir = mkdtempSync(join(tmpdir(), "boxdyno-pages-"));
let browser;

before(async () => {
  execFileSync("go", ["test", "./report", "-run", "^TestWritePages$", "-count=1"], { cwd: root, env: { ...process.env, BOXDYNO_PAGES: dir }, stdio: ["ignore", "ignore", "inherit"] });
  browser = await chromium.launch({
    executablePath: process.env.BOXDYNO_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});
after(async () => {
  await browser?.close();
  rmSync(dir, { recursive: true, force: true });
});

// open loads a page and fails on console errors and on any request but the file's own.
async function open(t, name, options = {}) {
  const context = await browser.newContext({ viewport: { width: options.width ?? 1200, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  const bad = [];
  const url = pathToFileURL(join(dir, `${name}.html`)).href;
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && bad.push(m.text()));
  page.on("pageerror", (e) => bad.push(String(e)));
  page.on("request", (r) => r.url() !== url && !r.url().startsWith("blob:") && !r.url().startsWith("data:") && bad.push(`request ${r.url()}`));
  await page.goto(url);
  if (options.javaScriptEnabled !== false) await page.waitForSelector("h1");
  t.after(async () => {
    await context.close();
    assert.deepEqual(bad, [], `${name} complains or reaches out`);
  });
  return page;
}

const data = (page) => page.evaluate(() => JSON.parse(document.getElementById("boxdyno-data").textContent));
const plain = (s) => s.replaceAll("\u00a0", " ").trim();
const figures = ["rate-by-frame-size", "services", "latency", "latency-distribution", "ledger-flow", "limit-search"];

describe("the page", () => {
  test("says the verdict first, with number, unit and bound, and where it was measured", async (t) => {
    const page = await open(t, "firewall");
    const { document: doc } = await data(page);
    assert.equal(plain(await page.textContent("h1")), doc.sentence);
    assert.match(doc.sentence, /\d ?[kMG]bit\/s/);
    assert.equal(await page.getAttribute(".verdict [data-status]", "data-status"), "failed");
    assert.equal(plain(await page.textContent(".caveat")), doc.caveat);
    const headings = await page.locator("h2").allTextContents();
    assert.deepEqual(headings, ["How sure", "What it carries", "Why there", "What next", "How it was measured"]);
    assert.equal(await page.textContent(".command code"), doc.command);
    for (const s of [...doc.how_sure, ...doc.what_next, ...doc.not_measured, ...doc.deviations]) assert.ok(plain(await page.textContent("main")).includes(s), s);
  });

  test("says what survived a flood, and draws when frames were lost", async (t) => {
    const page = await open(t, "flood");
    const { document: doc, records } = await data(page);
    const figures = page.locator("[data-figure=flood]");
    assert.equal(await figures.count(), doc.rows.length);
    for (const [i, r] of doc.rows.entries()) {
      const figure = figures.nth(i);
      assert.deepEqual(await figure.locator("[data-phase]").evaluateAll((els) => els.map((e) => e.dataset.phase)), ["before", "flood", "after"]);
      const samples = records.find((t) => t.parent === r.id).samples;
      assert.equal(((await figure.locator("[data-lost]").getAttribute("d")).match(/H/g) ?? []).length, samples.length);
    }
    const line = async (service) => plain(await page.locator("[data-table=flood_borne_fps] tr", { hasText: service }).first().textContent());
    assert.match(await line("search"), /412 k.*99\.97 %.*205 µs.*412 k/);
    assert.match(await line("dns"), /7\.8 %.*450 k/);
    assert.match(plain(await page.textContent("main")), /failed: benign frames were still lost 1s after/);
    assert.equal(await page.locator("table", { hasText: "good frames, their delay" }).count(), doc.rows.length);
    // Tables stand in the document's order.
    const shown = await page.locator("[role=region][aria-label]").evaluateAll((els) => els.map((e) => e.getAttribute("aria-label")));
    assert.deepEqual(shown.filter((s) => doc.tables.some((t) => t.title === s)), doc.tables.map((t) => t.title));
    assert.match(await page.locator("[data-figure=ledger-flow] select").last().locator("option").first().textContent(), /flood 1, \d+ kframe\/s/);
    assert.match(await page.textContent("[data-figure=ledger-flow]"), /tx_dropped: a veth counts at the sender/);
  });

  test("shows which knob helped, about a line of no effect", async (t) => {
    const page = await open(t, "ablation");
    const { document: doc } = await data(page);
    const figure = page.locator("[data-figure=forest]");
    assert.equal(await figure.count(), doc.ablation.places.length);
    const first = figure.first();
    assert.match(await first.locator("h3").textContent(), /^Which knob helped: route/);
    assert.match(await first.locator(".repeats").textContent(), /n = 12 repeats/);
    const at = (knob, how) => first.locator(`[data-knob="${knob}"][data-how="${how}"]`);
    for (const k of doc.ablation.places[0].knobs) {
      assert.equal(await at(k.knob.name, "in the recipe").getAttribute("data-verdict"), k.in_recipe.verdict);
      assert.equal(await at(k.knob.name, "alone").getAttribute("data-verdict"), k.alone.verdict);
    }
    // What helps stands to the right of the line, what harms to its left; ~ is greyed, and says so.
    const zero = (await first.locator("line.zero").boundingBox()).x;
    const whisker = async (knob) => await at(knob, "in the recipe").locator(".whisker").boundingBox();
    assert.ok((await whisker("mtu")).x > zero, "mtu helps");
    const gro = await whisker("gro");
    assert.ok(gro.x + gro.width < zero, "gro harms");
    const none = await whisker("txqueuelen");
    assert.ok(none.x < zero && none.x + none.width > zero, "txqueuelen does nothing");
    assert.match(await at("txqueuelen", "in the recipe").textContent(), /~/);
    assert.ok(Number(await at("txqueuelen", "in the recipe").evaluate((e) => getComputedStyle(e).opacity)) < 1);
    assert.match(plain(await page.textContent("[data-table=untested]")), /rings.*not supported/);
    for (const s of doc.ablation.advice) assert.ok(plain(await page.textContent("#next")).includes(s), s);
  });

  test("says what a load beside and heat do to each figure", async (t) => {
    const page = await open(t, "beside");
    const { document: doc } = await data(page);
    const rows = page.locator("[data-table=beside] tbody tr");
    const want = doc.beside.metrics.flatMap((m) => m.rows.map((r) => [m.name, r]));
    assert.equal(await rows.count(), want.length);
    for (const [i, [name, r]] of want.entries()) {
      const text = plain(await rows.nth(i).textContent());
      for (const s of [name, r.side, r.config.find((p) => p.key === "service").value]) assert.ok(text.includes(s), `${text} lacks ${s}`);
      assert.match(text, { "~": /~.*no difference found/, worse: /−\d+\.\d %.*worse/ }[r.verdict]);
    }
    const main = plain(await page.textContent("main"));
    for (const s of [...doc.beside.notes, "route, beside cpu:1", "nat, 0 flows, heated 10m"]) assert.ok(main.includes(s), s);
    const without = await open(t, "passed");
    assert.equal(await without.locator("[data-table=beside]").count(), 0);
  });

  test("lays the published comparison beside what was measured, each figure once, with its error bar", async (t) => {
    const page = await open(t, "study");
    const { document: doc } = await data(page);
    for (const metric of ["CPU", "memory", "counted"]) {
      const figure = page.locator(`[data-figure=study-${metric.toLowerCase()}]`);
      const points = doc.study.panels.filter((p) => p.metric === metric).flatMap((p) => p.points);
      assert.equal(await figure.locator("svg .mark:has(title)").count(), points.length, metric);
      assert.equal(await figure.locator("svg path.bar").count(), points.filter((p) => p.lo !== undefined).length, `error bars of ${metric}`);
      assert.equal(await figure.locator("[data-kind=study]").count(), points.filter((p) => p.kind === "study").length);
      assert.match(await figure.locator(".repeats").textContent(), /n = 3 repeats by our method, n = 1 to 3 repeats by the published one/);
    }
    // A note of a published figure is told where the figure stands.
    assert.match(await page.locator("[data-figure=study-cpu] [data-kind=study][data-subject=pyshark] title").first().textContent(), /python process only/);
    // A point is listed once.
    assert.equal(await page.locator("[data-table=frames_offered] tbody tr:not(.note)").count(), doc.rows.length);
    const main = plain(await page.textContent("main"));
    for (const s of [...doc.study.why, doc.study.where, doc.study.caution]) assert.ok(main.replaceAll("\u00a0", " ").includes(s), s);
    assert.equal(await (await open(t, "passed")).locator("[data-figure^=study]").count(), 0);
  });

  test("says whether an IDS keeps up and whether it still sees", async (t) => {
    const page = await open(t, "ids");
    const { document: doc } = await data(page);
    const sensed = doc.rows.filter((r) => r.ids);
    const counted = sensed.filter((r) => r.ids.frames_offered); // the others are missing
    const whole = (v) => String(v.value).replace(/\B(?=(\d{3})+$)/g, " ");
    for (const metrics of [["frames_offered", "frames_lost"], ["attacks_planted", "attacks_detected"]]) {
      const table = doc.tables.find((t) => t.columns.some((c) => c.name === metrics[0]));
      const names = table.columns.filter((c) => c.metric).map((c) => c.name);
      const rows = page.locator(`[data-table=${names[0]}] tbody tr:not(.note)`);
      assert.equal(await rows.count(), table.rows.length, metrics[0]);
      for (const r of counted) {
        const cells = (await rows.nth(table.ids.indexOf(r.id)).locator("td.num").allTextContents()).map(plain);
        for (const m of metrics) assert.equal(cells[names.indexOf(m)], whole(r.ids[m]), `${r.name}: ${m}`);
      }
    }
    assert.match(plain(await page.textContent("main")), /it keeps up and does not see/);
    // A mark for each load above, and one below; the frame that is lost stands above the foot.
    const loads = page.locator("[data-figure=ids-loads]");
    const marks = await loads.locator("title").allTextContents();
    const every = sensed.flatMap((r) => r.ids.loads ?? []);
    assert.equal(marks.filter((m) => /attacks detected at/.test(m)).length, every.length);
    assert.equal(marks.filter((m) => /of the frames lost at/.test(m)).length, every.length);
    // Without any rule there is still a place on the logarithmic axis.
    const limits = sensed.filter((r) => r.ids.ids_rate_bps);
    assert.ok(limits.some((r) => r.ids.rules_loaded.value === 0));
    const rules = page.locator("[data-figure=ids-rules]");
    assert.equal(await rules.locator("title").count(), limits.length);
    for (const figure of [loads, rules]) assert.doesNotMatch(await figure.locator("svg").innerHTML(), /NaN|Infinity/);
  });

  test("says what a box can do, and what could not be measured", async (t) => {
    const page = await open(t, "box");
    const { document: doc } = await data(page);
    assert.equal(plain(await page.textContent("h1")), doc.sentence);
    assert.match(await page.textContent(".verdict [data-status=failed]"), /failed in part/);
    const powers = page.locator("dl.powers > div");
    assert.equal(await powers.count(), doc.powers.length);
    for (const [i, p] of doc.powers.entries()) assert.equal(plain((await powers.nth(i).textContent()).replaceAll("\u00a0", " ")), p.name + p.text);
    const skipped = page.locator("[data-list=skipped] li");
    assert.equal(await skipped.count(), doc.skipped.length);
    for (const [i, s] of doc.skipped.entries()) for (const text of [s.reason, ...s.points]) assert.ok((await skipped.nth(i).textContent()).includes(text), text);
    // What was skipped is in no table, and frames through a tunnel are not those of a service.
    assert.ok(!(await page.locator("[data-table=dhrystones_per_s]").textContent()).includes(doc.rows.find((r) => r.work && r.verdict === "skipped").reason));
    assert.equal(await page.locator("[data-figure=rate-by-frame-size]").count(), 0);
    for (const figure of await page.locator("#carries [data-figure]").all()) {
      assert.match(await figure.locator(".repeats").textContent(), /n = [1-9]/);
      assert.doesNotMatch(await figure.locator("svg").innerHTML(), /NaN|Infinity|undefined/);
    }
    assert.match(plain(await page.textContent(".verdict dl:not(.powers)")), /DMIPS.*GB\/s.*Mbit\/s.*MB\/s/);
  });

  test("draws work on one CPU beside all, from zero and to scale", async (t) => {
    const page = await open(t, "box");
    const { document: doc } = await data(page);
    for (const procedure of new Set(doc.rows.filter((r) => r.work?.figures.length).map((r) => r.procedure))) {
      const figures = doc.rows.filter((r) => r.procedure === procedure && r.verdict !== "skipped").flatMap((r) => r.work.figures.filter((f) => f.metric !== "dmips" && f.unit !== "B").map((f) => ({ ...f, row: r.name })));
      const bars = await page.locator(`[data-figure=work-${procedure}] svg rect.bar:has(title)`).evaluateAll((els) => els.map((e) => ({ w: +e.getAttribute("width"), x: +e.getAttribute("x"), text: e.textContent, v: +e.textContent.match(/exactly ([\d.e+-]+)/)[1] })));
      assert.equal(bars.length, figures.length, procedure);
      for (const metric of new Set(figures.map((f) => f.metric))) {
        const panel = figures.filter((f) => f.metric === metric).map((f) => ({ f, b: bars.find((b) => b.v === f.figure.value && b.text.startsWith(`${f.row}, ${f.what}`)) }));
        for (const { f, b } of panel) {
          assert.ok(b, `${f.row} has no bar of ${f.what}`);
          assert.equal(b.x, panel[0].b.x, "a bar does not start at zero");
          assert.ok(Math.abs(b.w / b.v / (panel[0].b.w / panel[0].b.v) - 1) < 0.01 || b.w <= 1, `${b.text} is not to scale`);
        }
      }
    }
    const energy = page.locator("table[data-table=joules_per] tbody tr:not(.note)");
    assert.equal(await energy.count(), doc.rows.flatMap((r) => r.energy ?? []).length);
    assert.match(plain(await energy.nth(0).textContent()), /wall.*333 mJ.*83\.3 mJ.*4\.00/);
    assert.match(plain(await energy.nth(1).textContent()), /package.*111 mJ.*-/);
    assert.match(await page.locator("[data-table=joules_per] .note").first().textContent(), /Shelly covers the wall/);
    // A curve: a mark for each of its points, the larger set the slower load.
    const row = doc.rows.find((r) => r.work?.curve);
    const marks = await page.locator("[data-figure=curve-memory] svg .mark:has(title) circle").evaluateAll((els) => els.map((e) => ({ x: +e.getAttribute("cx"), y: +e.getAttribute("cy") })));
    assert.equal(marks.length, row.work.curve.points.length);
    for (let i = 1; i < marks.length; i++) assert.ok(marks[i].x > marks[i - 1].x && marks[i].y <= marks[i - 1].y);
    const main = await page.textContent("#carries");
    for (const r of doc.rows.filter((r) => r.verdict !== "skipped")) for (const p of r.work?.published ?? []) assert.ok(main.includes(p.said) && main.includes(p.text), p.text);
  });

  test("lays published figures beside ciphers, each with what must be said of it", async (t) => {
    const page = await open(t, "box");
    const { document: doc } = await data(page);
    const figure = page.locator("[data-figure=ciphers]");
    const ciphers = doc.rows.filter((r) => r.crypto?.encrypt_bytes_per_s);
    assert.equal(await figure.locator("svg .mark.disc:has(title)").count(), ciphers.length);
    assert.equal(await figure.locator("svg .mark.ring:has(title)").count(), ciphers.filter((r) => r.crypto.decrypt_bytes_per_s).length);
    const published = new Map(ciphers.map((r) => [r.crypto.cipher, r.crypto.published_ciphers ?? []]));
    const marks = await figure.locator("svg [data-published]:has(title)").evaluateAll((els) => els.map((e) => ({ letter: e.dataset.published, text: e.querySelector("title").textContent, x: e.getBoundingClientRect().x, y: e.getBoundingClientRect().y })));
    assert.equal(marks.length, [...published.values()].flat().length);
    const legend = await figure.locator(".legend").textContent();
    for (const p of [...published.values()].flat()) {
      assert.ok(legend.includes(p.box), `the legend lacks ${p.box}`);
      assert.ok(marks.some((m) => m.text.includes(`on ${p.box}, published`) && m.text.endsWith(p.said)), `${p.box} has no mark with its note`);
      const row = page.locator("[role=region][aria-label^='The same ciphers'] tr", { hasText: p.box }).first();
      assert.ok((await row.locator("xpath=following-sibling::tr[1]").textContent()).includes(p.said));
    }
    for (const a of marks) for (const b of marks) assert.ok(a === b || Math.abs(a.x - b.x) > 10 || Math.abs(a.y - b.y) > 10, "a mark hides another");
    const discs = await figure.locator("svg .mark.disc:has(title)").evaluateAll((els) => els.map((e) => ({ x: +e.querySelector("circle").getAttribute("cx"), v: +e.textContent.match(/exactly ([\d.e+]+)/)[1] })));
    for (const a of discs) for (const b of discs) assert.ok(a.v <= b.v || a.x > b.x, "more is not further to the right");
  });

  test("shows a fleet's figures, without the drawing of one machine's ciphers", async (t) => {
    const page = await open(t, "fleet");
    assert.equal(await page.locator("[data-figure=ciphers]").count(), 0);
    const { document: doc } = await data(page);
    assert.ok(doc.rows.some((r) => r.figures?.encrypt_bytes_per_s && !r.crypto));
  });

  test("shows tunnels and disks beside the same without", async (t) => {
    const page = await open(t, "box");
    const { document: doc } = await data(page);
    const bars = (name) => page.locator(`[data-figure=${name}] svg rect.bar:has(title)`);
    const streams = doc.rows.filter((r) => r.tunnel?.goodput_bps);
    assert.equal(await bars("tunnels").count(), streams.length + streams.filter((r) => r.tunnel.baseline_goodput_bps).length);
    const go = plain(await page.locator("[data-table=goodput_bps] tr", { hasText: "wireguard-go" }).first().textContent());
    assert.match(go, /800 M.*10\.0 %/);
    assert.match(await page.textContent("#carries"), /WireGuard is 10 times as fast as OpenVPN/);
    const sized = doc.rows.filter((r) => r.tunnel && r.forwarding_rate_fps);
    assert.equal(await page.locator("[data-figure=tunnel-sizes] svg .mark:has(title)").count(), sized.length + sized.filter((r) => r.throughput_fps).length);
    assert.match(await page.textContent("[data-figure=tunnel-sizes] .legend"), /wireguard-go.*openvpn.*no tunnel/);
    const patterns = doc.rows.flatMap((r) => r.storage?.patterns ?? []);
    assert.equal(await bars("disks").count(), 2 * patterns.length);
    assert.match(plain(await page.locator("[data-table=luks2_write_octet_rate] tr", { hasText: "aes-xts" }).first().textContent()), /210 MB\/s.*420 MB\/s.*50\.0 %/);
    assert.match(await page.locator("[data-table=luks2_write_octet_rate] .note", { hasText: "cannot compute this cipher" }).first().textContent(), /seen not to hold the text/);
  });

  test("shows every table of the document, each note under its row, and folds the secondary ones", async (t) => {
    const page = await open(t, "box");
    const { document: doc } = await data(page);
    assert.ok(doc.tables.length > 8);
    for (const table of doc.tables) {
      const same = doc.tables.filter((o) => o.title === table.title);
      const regions = page.locator("[role=region]").and(page.locator(`[aria-label=${JSON.stringify(table.title)}]`));
      assert.equal(await regions.count(), same.length, table.title);
      let region; // of tables with one title, that with as many rows
      for (const r of await regions.all()) if ((await r.locator("tbody tr:not(.note)").count()) === table.rows.length) region = r;
      const figures = table.columns.map((c, i) => ({ ...c, i })).filter((c) => c.metric);
      const shown = await region.locator("tbody tr:not(.note)").evaluateAll((rows) => rows.map((r) => [...r.querySelectorAll("td.num")].map((c) => ({ text: c.firstChild.textContent, interval: c.querySelector("small")?.textContent, exact: c.title }))));
      assert.equal(shown.length, table.rows.length);
      for (const [i, row] of table.rows.entries()) {
        for (const [k, c] of figures.entries()) {
          const { text, interval, exact } = shown[i][k];
          assert.deepEqual([text, interval], [row[c.i].text, row[c.i].interval], `${table.title}, ${c.label}`);
          if (row[c.i].value !== undefined) assert.ok(exact.includes(`exactly ${row[c.i].value}`), exact);
        }
      }
      const marks = table.columns.findIndex((c) => c.name === "notes");
      const noted = marks < 0 ? [] : table.rows.filter((r) => r[marks].text);
      const notes = await region.locator(".note").allTextContents();
      assert.equal(notes.length, noted.length);
      for (const [i, r] of noted.entries()) for (const mark of r[marks].text.split(" ")) assert.ok(notes[i].includes(table.notes.find((n) => n.mark === mark).text));
      if (table.columns.some((c) => c.heads)) assert.equal(await region.locator("xpath=ancestor::details").count(), 0, table.title);
      if (/^What \w+ took|at random places/.test(table.title)) assert.equal(await region.locator("xpath=ancestor::details").count(), 1, table.title);
    }
    await page.locator("summary", { hasText: "What cpu took" }).click();
    await page.locator("[data-table=copies]").first().waitFor();
  });

  test("passes in words as well as in colour", async (t) => {
    const page = await open(t, "passed");
    assert.match(await page.textContent(".verdict [data-status=passed]"), /passed/);
    assert.match(plain(await page.textContent("h1")), /^Passes: carries 611 Mbit\/s without loss, 100 Mbit\/s asked/);
  });

  test("has every drawing, with a name, units and its number of repeats", async (t) => {
    const page = await open(t, "firewall");
    for (const name of figures) {
      const f = page.locator(`[data-figure=${name}]`);
      assert.equal(await f.count(), 1, name);
      assert.ok((await f.locator("svg[role=img]").getAttribute("aria-labelledby")).length > 0, name);
      assert.match(await f.locator(".repeats").textContent(), /n = [1-9]/, `${name} has no number of repeats`);
      assert.ok((await f.locator("svg *").count()) > 10, `${name} is empty`);
    }
    const units = { "rate-by-frame-size": ["frame/s", "bit/s", "frame size with FCS"], services: ["frame/s"], latency: ["one-way delay"], "latency-distribution": ["one-way delay", "share of frames"], "limit-search": ["frame/s", "trial"] };
    for (const [name, words] of Object.entries(units)) {
      const text = (await page.locator(`[data-figure=${name}] svg text.unit`).allTextContents()).join(" ");
      for (const w of words) assert.ok(text.includes(w), `${name} lacks the unit ${w}: ${text}`);
    }
    assert.match((await page.locator("[data-figure=latency] svg text.tick").allTextContents()).join(" "), /µs/);
  });

  test("draws RFC 2544's suite, each value once", async (t) => {
    const page = await open(t, "suite");
    const { document: doc, records } = await data(page);
    const count = (name, marks) => page.locator(`[data-figure=${name}] svg ${marks}:has(title)`).count();
    for (const name of ["rate-by-frame-size", "latency-by-size", "loss-curve", "bursts"]) {
      assert.equal(await page.locator(`[data-figure=${name}]`).count(), 1, name);
      assert.match(await page.locator(`[data-figure=${name}] .repeats`).textContent(), /n = [1-9]/, name);
    }
    assert.equal(await count("loss-curve", ".mark"), records.filter((r) => r.config.some((p) => p.key === "trial" && p.value === "loss-curve")).length);
    assert.equal(await count("latency-by-size", ".mark"), 5 * doc.rows.filter((r) => r.procedure === "latency").length);
    assert.equal(await count("bursts", ".mark"), 3 * doc.rows.filter((r) => r.procedure === "recovery").length);
    for (const table of doc.tables) assert.equal(await page.getByRole("region", { name: table.title, exact: true }).locator("tbody tr:not(.note)").count(), table.rows.length, table.title);
    const lossless = await page.locator("[data-figure=loss-curve] svg .mark:has(title)").evaluateAll((els) => els.map((e) => ({ y: +e.querySelector("circle").getAttribute("cy"), x: +e.querySelector("circle").getAttribute("cx"), v: +e.textContent.match(/exactly ([\d.e-]+)/)[1] })));
    const panel = lossless.filter((m) => Math.abs(m.x - lossless[0].x) < 250);
    for (const m of panel.filter((m) => m.v === 0)) assert.ok(panel.every((o) => o.v === 0 || o.y < m.y), "a load without loss is not at the foot");
  });

  test("starts bars at zero, to scale", async (t) => {
    const page = await open(t, "firewall");
    const { document: doc } = await data(page);
    const f = page.locator("[data-figure=services]");
    assert.ok((await f.locator("svg text.tick").allTextContents()).includes("0"));
    const bars = await f.locator("svg rect.bar:has(title)").evaluateAll((els) => els.map((e) => ({ x: +e.getAttribute("x"), w: +e.getAttribute("width"), v: +e.textContent.match(/exactly ([\d.e+]+)/)[1] })));
    assert.ok(bars.length >= 7);
    const axis = await f.locator("svg line.axis").evaluate((e) => +e.getAttribute("x1"));
    for (const b of bars) {
      assert.equal(b.x, axis, "a bar does not start at zero");
      assert.ok(Math.abs(b.w / b.v - bars[0].w / bars[0].v) < (1.01 / b.v) + 1e-9, `a bar of ${b.v} is ${b.w} wide`);
    }
    const route = doc.rows.find((r) => r.service === "route" && r.frame_size === "64" && r.direction === "lan-to-wan");
    assert.ok(bars.some((b) => b.v === route.throughput_fps));
  });

  test("puts marks where their figures belong on a logarithmic axis", async (t) => {
    const page = await open(t, "firewall");
    const marks = await page.locator("[data-figure=rate-by-frame-size] svg .mark.disc:has(title) circle").evaluateAll((els) => els.map((e) => ({ y: +e.getAttribute("cy"), x: +e.getAttribute("cx"), v: +e.parentNode.querySelector("title").textContent.match(/exactly ([\d.e+]+)/)[1] })));
    assert.equal(marks.length, 18); // 9 points, in frame/s and in bit/s
    const [a, b] = [marks[0], marks.find((m) => Math.abs(m.v - marks[0].v) > 1e4 && m.v < 1e6)];
    const c = marks.findLast((m) => m.v < 1e6 && m.v !== a.v && m.v !== b.v && m.y < 350);
    const slope = (p, q) => (p.y - q.y) / Math.log(p.v / q.v);
    assert.ok(Math.abs(slope(a, b) - slope(a, c)) < 1, "the axis is not logarithmic");
    assert.ok(slope(a, b) < 0, "more is not higher");
  });

  test("draws the ledger to scale, and unexplained even when it is 0", async (t) => {
    const page = await open(t, "firewall");
    const { document: doc, records } = await data(page);
    const row = doc.rows.find((r) => r.id === doc.bottleneck.row);
    const account = records.filter((r) => r.parent === row.id && r.ledger && r.config.some((p) => p.key === "trial" && p.value === "overload")).at(-1).ledger;
    assert.doesNotMatch(await page.textContent("[data-figure=ledger-flow]"), /a veth counts/);
    const flow = page.locator("[data-figure=ledger-flow] svg");
    const height = (term) => flow.locator(`rect[data-term=${term}]`).evaluate((e) => +e.getAttribute("height"));
    const offered = await height("offered"), received = await height("received");
    assert.ok(Math.abs(received / offered - account.received / account.accepted) < 1e-3);
    const drops = await flow.locator("path[data-term]").evaluateAll((els) => els.map((e) => ({ term: e.dataset.term, n: +e.dataset.n, width: +e.dataset.width, tall: e.getBBox().height, fill: getComputedStyle(e).fill })));
    assert.deepEqual(drops.map((d) => d.term), [...account.terms.map((x) => x.name), "unexplained"]);
    for (const d of drops) if (d.n * offered / account.accepted > 2) assert.ok(Math.abs(d.width / offered - d.n / account.accepted) < 1e-3, `${d.term} is not to scale`);
    const unexplained = drops.at(-1);
    assert.equal(unexplained.n, 0);
    assert.ok(unexplained.width >= 1 && unexplained.tall > 10);
    assert.ok(!drops.slice(0, -1).some((d) => d.fill === unexplained.fill), "unexplained shares its colour");
    assert.ok((await flow.textContent()).includes("unexplained"));
    assert.equal(await page.getAttribute("[data-unexplained]", "data-unexplained"), "0");
    assert.ok(plain(await page.textContent("[data-table=ledger]")).includes(account.terms[0].from));
  });

  test("shows any point and trial that is chosen", async (t) => {
    const page = await open(t, "firewall");
    const { document: doc } = await data(page);
    const drop = doc.rows.find((r) => r.service === "drop-xdp");
    await page.locator("[data-figure=ledger-flow] select").first().selectOption(drop.id);
    await page.locator("[data-figure=ledger-flow] [data-term='thrown away in XDP']").waitFor();
    assert.match(await page.textContent("[data-figure=limit-search] h3"), /drop in XDP/);
    const route = doc.rows.find((r) => r.service === "route" && r.direction === "both" && r.frame_size === "64");
    await page.locator("[data-figure=limit-search] select").selectOption(route.id);
    const marks = page.locator("[data-figure=limit-search] svg .mark:has(title)");
    const shapes = await marks.evaluateAll((els) => els.map((e) => [e.querySelector("title").textContent.match(/(clean|lossy|invalid)/)[1], e.classList.contains("disc") ? "disc" : e.classList.contains("triangle") ? "triangle" : "diamond"].join(" ")));
    for (const s of shapes) assert.ok(["clean disc", "lossy triangle", "invalid diamond"].includes(s), s);
    for (const kind of ["clean", "lossy", "invalid"]) assert.ok(shapes.some((s) => s.startsWith(kind)), `no ${kind} trial`);
    await page.locator("[data-table=throughput_fps] tbody button").first().click();
    assert.match(await page.textContent("[data-figure=ledger-flow] h3"), /route, lan-to-wan, 64 B/);
  });

  test("has warnings beside the numbers they touch", async (t) => {
    const page = await open(t, "firewall");
    const { document: doc } = await data(page);
    const warned = doc.rows.filter((r) => r.warnings.some((w) => !doc.shared_warnings.includes(w)));
    assert.ok(warned.length > 0);
    for (const r of warned) {
      const notes = page.getByRole("list", { name: `Warnings of ${r.name}` });
      assert.equal(await notes.count(), 1);
      assert.ok(await notes.evaluate((e, name) => e.closest("tr").previousElementSibling.querySelector("button").title === `Show ${name} in the drawings`, r.name));
    }
  });

  test("claims no throughput where none was measured", async (t) => {
    const page = await open(t, "shared");
    assert.ok(!(await page.textContent("[data-figure=services] .legend")).includes("without loss"));
    assert.equal(await page.locator("[data-figure=latency]").count(), 0);
    assert.match(await page.textContent(".caveat"), /lower bound/);
    assert.match(await page.textContent("[data-figure=limit-search]"), /No throughput is claimed/);
  });

  test("opens when nothing was measured", async (t) => {
    const page = await open(t, "empty");
    assert.match(await page.textContent("#carries"), /No point was measured/);
  });

  test("treats hostile names as text", async (t) => {
    const page = await open(t, "hostile");
    assert.notEqual(await page.title(), "pwned");
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.locator("body script").count(), 1);
    const text = await page.textContent("main");
    assert.ok(text.includes('<img src=x onerror="document.title='));
    assert.ok(!/[\u001b\u202e]/.test(text), "a name steers the text");
    assert.match(await page.textContent(".alarm"), /−3/);
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator("[data-figure=ledger-flow]").getByRole("button", { name: /as CSV$/ }).click()]);
    const cells = readFileSync(await file.path(), "utf8");
    assert.match(cells, /^"'=/m);
    assert.doesNotMatch(cells, /(^|,)"?=/m, "a name is a formula");
  });

  test("draws what was sampled over one axis of time, with trials and gaps behind", async (t) => {
    const page = await open(t, "board");
    const { document: doc, records } = await data(page);
    const { timeline: line } = doc;
    const figure = page.locator("[data-figure=over-time]");
    assert.deepEqual(await figure.locator("[data-panel]").evaluateAll((els) => els.map((e) => e.dataset.panel)), ["softirq", "drops", "clock", "throttled", "temperature", "power"]);
    assert.match(await figure.locator(".repeats").textContent(), /n = 146 steps of 100 ms, sampled at 10 Hz, over \d+ trials/);
    const units = (await figure.locator("svg text.strong").allTextContents()).join(" ");
    for (const u of ["share of time", "frame/s", "Hz", "°C", "W"]) assert.ok(units.includes(u), `no unit ${u}`);

    // Bands stand where their trials ran, and phases inside of them.
    const box = await figure.locator("rect.sense").evaluate((e) => ({ x: +e.getAttribute("x"), w: +e.getAttribute("width") }));
    const x = (ns) => box.x + (box.w * (ns - line.from_ns)) / (line.steps * line.step_ns);
    const trials = records.filter((r) => r.parent);
    assert.equal(await figure.locator("[data-trial]").count(), trials.length);
    for (const r of trials.slice(0, 5)) {
      const traffic = figure.locator(`[data-trial="${r.id}"] [data-phase=traffic]`);
      assert.ok(Math.abs((await traffic.getAttribute("x")) - x(r.phases[0].begin_ns)) < 0.01, `${r.id} is not where it ran`);
      assert.ok(Math.abs((await traffic.getAttribute("width")) - (x(r.phases[0].end_ns) - x(r.phases[0].begin_ns))) < 0.01);
    }
    const gap = figure.locator("[data-gap]");
    assert.equal(await gap.count(), 1);
    assert.ok(Math.abs((await gap.getAttribute("width")) - (x(line.gaps[0].to_ns) - x(line.gaps[0].from_ns))) < 0.01);
    assert.match(await gap.locator("title").textContent(), /no samples for 0\.70 s/);
    // No line goes through the gap, and the area of a counter is to scale.
    const ends = (d) => [...d.matchAll(/[HM]([\d.]+)/g)].map((m) => +m[1]);
    const area = await figure.locator("[data-row='CPU 1'] [data-line=softirq]").getAttribute("d");
    const [g0, g1] = [x(line.gaps[0].from_ns), x(line.gaps[0].to_ns)];
    assert.ok(!ends(area).some((v) => v > g0 + box.w / line.steps && v < g1 - box.w / line.steps), "a line goes through the gap");
    assert.equal((area.match(/M/g) ?? []).length, 2);
    assert.equal(await figure.locator("[data-panel=throttled] [data-row]").count(), 1);
    assert.match(plain(await figure.locator("[data-told='CPU 1']").textContent()), /softirq most 100 %.*all work most 100 %/s);
  });

  test("tells the values of an instant by pointer and by key, and shows a point alone", async (t) => {
    const page = await open(t, "board");
    const { document: doc } = await data(page);
    const figure = page.locator("[data-figure=over-time]");
    const slider = page.getByRole("slider", { name: /Instant/ });
    await slider.focus();
    for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
    const value = +(await slider.inputValue());
    assert.equal(value, 3);
    assert.equal(await page.getAttribute("[data-instant]", "data-instant"), "3");
    assert.match(await slider.getAttribute("aria-valuetext"), /^0\.3 s .*CPU 1 softirq .*cpu-thermal 48\.0 °C/);
    const heat = doc.timeline.panels.find((p) => p.kind === "temperature").lines[0];
    await slider.fill("80");
    assert.equal(plain(await figure.locator("[data-told='cpu-thermal']").textContent()), `${heat.mean[80].toFixed(1)} °C`);
    await slider.fill("25");
    assert.match(await page.textContent("[data-instant]"), /no samples for 0\.70 s/);
    assert.match(await figure.locator("[data-told='CPU 1']").textContent(), /over the gap/);
    assert.equal(await figure.locator("[data-told='cpu-thermal']").textContent(), "absent");
    const box = await figure.locator("rect.sense").boundingBox();
    await page.mouse.move(box.x + (box.width * 60.5) / doc.timeline.steps, box.y + 40);
    assert.equal(await page.getAttribute("[data-instant]", "data-instant"), "60");
    await page.mouse.move(5, 5);
    const pick = figure.locator("select");
    const options = await pick.locator("option").allTextContents();
    assert.deepEqual([options[0], options.length], ["the whole run", 4]);
    const before = await figure.locator("[data-trial]").count();
    await pick.selectOption(doc.rows[0].id);
    const after = await figure.locator("[data-trial]").count();
    assert.ok(after > 3 && after < before, `${after} of ${before} trials`);
  });

  test("names what telemetry did not record, and draws no empty plot", async (t) => {
    const page = await open(t, "bare");
    assert.deepEqual(await page.locator("[data-panel]").evaluateAll((els) => els.map((e) => e.dataset.panel)), ["softirq", "drops"]);
    assert.match(await page.textContent("[data-remarks]"), /recorded nothing of: clock, throttling, temperature, power/);
    assert.equal(await (await open(t, "firewall")).locator("[data-figure=over-time], [data-remarks]").count(), 0);
  });

  test("saves what was sampled", async (t) => {
    const page = await open(t, "board");
    const { document: doc } = await data(page);
    const save = async (kind) => {
      const [file] = await Promise.all([page.waitForEvent("download"), page.locator("[data-figure=over-time]").getByRole("button", { name: new RegExp(`as ${kind}$`) }).click()]);
      return readFileSync(await file.path(), "utf8");
    };
    const svg = await save("SVG");
    assert.equal(await page.evaluate((s) => new DOMParser().parseFromString(s, "image/svg+xml").querySelector("parsererror")?.textContent ?? "", svg), "");
    const lines = (await save("CSV")).trim().split("\r\n").map((l) => l.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/));
    assert.equal(lines.length, doc.timeline.steps + 1);
    const heat = lines[0].findIndex((h) => h.includes("cpu-thermal"));
    assert.equal(+lines[81][heat], doc.timeline.panels.find((p) => p.kind === "temperature").lines[0].mean[80]);
    assert.equal(lines[26][heat], "", "a gap is not empty");
    assert.match(lines[40][2], /^overload/);
  });

  // fits fails if the page, or a text of its drawings, is wider than the window.
  async function fits(page, drawings, width, hostile) {
    await page.setViewportSize({ width, height: 900 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `the page is ${wide} wide at ${width}`);
    const cut = await page.locator(`${drawings} text`).evaluateAll((els) => els.flatMap((e) => {
      const b = e.getBoundingClientRect();
      return b.left < -1 || b.right > innerWidth + 1 ? [e.textContent] : [];
    }));
    if (!hostile) assert.deepEqual(cut, [], `text of a drawing is cut off at ${width}`);
  }

  for (const name of ["board", "bare", "hostile-board"]) {
    test(`keeps drawings over time within the window (${name})`, async (t) => {
      const page = await open(t, name, { width: 380 });
      for (const look of [false, true]) {
        if (look) await page.getByRole("slider").fill("60");
        for (const width of [380, 1600]) await fits(page, "[data-figure=over-time] svg", width, name === "hostile-board");
      }
      assert.notEqual(await page.title(), "pwned");
      assert.equal(await page.locator("img").count(), 0);
    });
  }

  for (const name of ["firewall", "hostile", "box"]) {
    test(`fits any window (${name})`, async (t) => {
      const page = await open(t, name, { width: 380 });
      for (const width of [380, 768, 1600]) await fits(page, "main svg[role=img]", width, name === "hostile");
    });
  }

  for (const name of ["firewall", "board", "box"]) test(`can be read, light and dark (${name})`, async (t) => {
    const page = await open(t, name);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      const low = await page.evaluate(() => {
        const luminance = (c) => {
          const [r, g, b] = c.match(/[\d.]+/g).map(Number).map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const ground = (e) => {
          for (; e; e = e.parentElement) {
            const c = getComputedStyle(e).backgroundColor;
            if (c !== "rgba(0, 0, 0, 0)" && c !== "transparent") return luminance(c);
          }
          return 1;
        };
        const out = [];
        for (const e of document.querySelectorAll("main *")) {
          const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
          if (!own || ["title", "style", "option"].includes(e.tagName.toLowerCase())) continue;
          const s = getComputedStyle(e), c = contrast(luminance(e.closest("svg") ? s.fill : s.color), ground(e.closest("svg") ?? e));
          if (c < 4.5) out.push(`${c.toFixed(2)} ${e.tagName} ${e.textContent.slice(0, 30)}`);
        }
        const probe = document.body.appendChild(document.createElement("i"));
        for (let i = 1; i <= 8; i++) {
          probe.style.color = `var(--c${i})`;
          const c = contrast(luminance(getComputedStyle(probe).color), ground(document.body));
          if (c < 3) out.push(`${c.toFixed(2)} colour ${i}`);
        }
        probe.remove();
        return out;
      });
      assert.deepEqual(low, [], colorScheme);
      const body = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(body === "rgb(255, 255, 255)", colorScheme === "light");
    }
  });

  test("is walked with the keyboard, and focus is seen", async (t) => {
    const page = await open(t, "firewall");
    const seen = new Set();
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const e = document.activeElement;
        if (e === document.body) return null;
        return { what: `${e.tagName} ${e.getAttribute("aria-label") ?? e.textContent.trim().slice(0, 40)}`, outline: getComputedStyle(e).outlineStyle };
      });
      if (!at) break;
      assert.notEqual(at.outline, "none", `focus on ${at.what} is not seen`);
      seen.add(at.what);
    }
    for (const name of ["as SVG", "as CSV", "Without loss", "Data as a table", "Ledger of", "Copy"]) assert.ok([...seen].some((s) => s.includes(name)), `${name} cannot be reached: ${[...seen].join("; ")}`);
  });

  test("has names for a screen reader, and a table behind every drawing", async (t) => {
    const page = await open(t, "firewall");
    for (const name of figures) {
      const title = (await page.textContent(`[data-figure=${name}] h3`)).trim();
      assert.equal(await page.getByRole("img", { name: title }).count(), 1, name);
    }
    const block = page.locator(".figure").filter({ has: page.locator("[data-figure=services]") });
    await block.locator("summary").click();
    await block.locator("table.data tbody tr").first().waitFor();
    assert.ok((await block.locator("table.data tbody tr").count()) >= 7);
    for (const select of await page.locator("select").all()) assert.ok((await select.evaluate((e) => e.labels[0]?.textContent.trim())).length > 0);
  });

  // Chromium lets a page save ten files, so each kind has a page of its own.
  test("saves each drawing as SVG", async (t) => {
    const page = await open(t, "firewall");
    for (const name of figures) {
      const [file] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-figure=${name}]`).getByRole("button", { name: /as SVG$/ }).click()]);
      assert.equal(file.suggestedFilename(), `${name}.svg`);
      const text = readFileSync(await file.path(), "utf8");
      const fault = await page.evaluate((s) => new DOMParser().parseFromString(s, "image/svg+xml").querySelector("parsererror")?.textContent ?? "", text);
      assert.equal(fault, "");
      assert.ok(!text.includes("fill: var("), `${name}.svg depends on the page's styles`);
    }
  });

  test("saves the data of each drawing as CSV", async (t) => {
    const page = await open(t, "firewall");
    const { document: doc } = await data(page);
    for (const name of figures) {
      const [file] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-figure=${name}]`).getByRole("button", { name: /as CSV$/ }).click()]);
      assert.equal(file.suggestedFilename(), `${name}.csv`);
      const lines = readFileSync(await file.path(), "utf8").trim().split("\r\n");
      assert.ok(lines.length > 1, `${name}.csv is empty`);
      if (name === "rate-by-frame-size") assert.ok(lines.some((l) => l.includes(String(doc.rows[0].throughput_fps))), "the exact value is not in the CSV");
    }
  });

  test("prints: light, without buttons, on few pages", async (t) => {
    const page = await open(t, "firewall", { colorScheme: "dark" });
    const pdf = (await page.pdf({ preferCSSPageSize: true })).toString("latin1");
    const pages = (pdf.match(/\/Type\s*\/Page\b/g) ?? []).length;
    assert.ok(pages >= 3 && pages <= 10, `${pages} pages`);
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
    assert.equal(await page.locator("button:visible").filter({ hasText: /^(SVG|CSV|Copy)$/ }).count(), 0);
    const folded = await page.locator("details:not([open]) table[data-table]").all();
    assert.ok(folded.length > 0);
    for (const table of folded) assert.ok(await table.isVisible(), "a folded table is not printed");
  });

  test("says the same without scripts", async (t) => {
    const page = await open(t, "firewall", { javaScriptEnabled: false });
    assert.match(await page.textContent("noscript"), /FAILED {2}Carries 611 of the 1,000 Mbit\/s asked/);
  });
});
