// SPDX-License-Identifier: Apache-2.0
import { mount } from "svelte";
import "../app.css";
import "../controls.css";
import "./serve.css";
import Shell from "./Shell.svelte";

mount(Shell, { target: document.getElementById("app")! });
