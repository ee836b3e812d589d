// SPDX-License-Identifier: Apache-2.0
import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import "./controls.css";
import HistoryFile from "./HistoryFile.svelte";
import { read } from "./lib/data";

const target = document.getElementById("app")!;
const data = read();
if (data && "history" in data) {
  document.title = `boxdyno: history of ${data.history.metric}`;
  mount(HistoryFile, { target, props: { history: data.history } });
} else if (data) {
  document.title = `boxdyno: ${data.document.verdict}, ${data.document.role ?? "run"} ${data.document.id}`;
  mount(App, { target, props: { data } });
} else {
  target.textContent = "This page holds no run: boxdyno report -o FILE.html makes one that does.";
}
