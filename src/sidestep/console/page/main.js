// The frame of the page: views by address, keys, theme.
import { $, count, fill, h, note, busy } from "./dom.js";
import { api } from "./api.js";
import { redrawAll } from "./charts.js";
import * as jobs from "./jobs.js";
import { workload } from "./workload.js";
import { layout } from "./layout.js";
import { skipping } from "./skipping.js";
import { tables } from "./tables.js";

const views = { workload: ["Workload", workload], layout: ["Layout", layout], skipping: ["Skipping", skipping], tables: ["Tables", tables] };
let leave = () => {};

export async function show() {
  const name = Object.hasOwn(views, location.hash.slice(2).split("?")[0]) ? location.hash.slice(2).split("?")[0] : "workload";
  fill($("nav"), Object.entries(views).map(([key, [title]], at) =>
    h("a", { href: `#/${key}`, "aria-current": key === name ? "page" : null }, title, h("kbd", {}, String(at + 1)))));
  document.title = `${views[name][0]} · sidestep`;
  leave();
  leave = () => {};
  $("tip").hidden = true;
  const main = $("main");
  fill(main, busy("Looking at the folders…"));
  try {
    const workspace = await api.workspace();
    fill($("about"), `sidestep ${workspace.version} · Spark ${workspace.spark}`);
    leave = (await views[name][1](main, workspace)) ?? (() => {});
  } catch (problem) {
    fill(main, note(problem.message, "bad"));
  }
}

function theme(next) {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme ?? (dark ? "dark" : "light");
  if (next) {
    root.dataset.theme = now === "dark" ? "light" : "dark";
    localStorage.setItem("sidestep-theme", root.dataset.theme);
    redrawAll();
  }
  $("theme-button").textContent = (root.dataset.theme ?? now) === "dark" ? "Light theme" : "Dark theme";
}

addEventListener("hashchange", show);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const name = Object.keys(views)[Number(event.key) - 1];
  if (name) location.hash = `#/${name}`;
  else if (event.key === "j") jobs.toggle();
  else if (event.key === "t") theme(true);
  else if (event.key === "Escape" && !$("jobs").hidden) jobs.toggle();
  else if (event.key === "/" && $("sql")) { event.preventDefault(); $("sql").focus(); }
});
$("jobs-button").addEventListener("click", jobs.toggle);
$("jobs-button").title = "Jobs (j)";
$("theme-button").addEventListener("click", () => theme(true));
$("theme-button").title = "Theme (t)";
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(false); redrawAll(); });
theme(false);
jobs.listen();
for (const job of await api.jobs().catch(() => [])) if (!jobs.jobs.has(job.id)) jobs.jobs.set(job.id, job);
show();
