// Jobs as the server tells of them: the page only shows what is there, so it may be loaded again at any time.
import { $, bar, count, fill, h, note, percent, plural, size, time } from "./dom.js";
import { api } from "./api.js";

export const jobs = new Map();
const listeners = new Set();
const titles = { analyze: "Analyze", advise: "Compare row orders", "what-if": "What if", load: "Load", optimize: "Optimize", index: "Index", drift: "Measure drift" };
export const title = (job) => `${titles[job.kind] ?? job.kind} ${job.about}`;
export const over = (job) => ["done", "failed", "stopped"].includes(job.state);

export function onJobs(listener) { listeners.add(listener); return () => listeners.delete(listener); }
export const newest = (kind, fits = () => true) =>
  [...jobs.values()].filter((job) => job.kind === kind && fits(job)).sort((a, b) => b.id - a.id)[0];

export function listen() {
  const events = new EventSource("/api/jobs/events");
  events.addEventListener("job", (event) => {
    const job = JSON.parse(event.data);
    jobs.set(job.id, job);
    for (const listener of listeners) listener(job);
    show();
  });
  show();
}

export async function start(kind, request) {
  const job = await api.start(kind, request);
  if (!jobs.has(job.id)) jobs.set(job.id, job);
  show();
  return jobs.get(job.id);
}

// Resolves with the result when the job is over; refuses with its error. `moved` is told of each change on the way.
export async function finished(id, moved = () => {}) {
  const job = jobs.get(id);
  if (!job || !over(job)) {
    await new Promise((resolve) => {
      const stop = onJobs((changed) => { if (changed.id === id) { moved(changed); if (over(changed)) { stop(); resolve(); } } });
    });
  }
  const whole = await api.job(id);
  if (whole.state !== "done") throw new Error(whole.error || "It was stopped.");
  return whole;
}

export function stepText(job) {
  const step = job.step;
  if (job.state === "waiting") return "Waits for the job before it.";
  if (job.state === "stopping") return "Stopping, as soon as the step it is in lets go.";
  if (!step) return job.state === "running" ? "Begins." : "";
  const words = [step.stage + (step.detail ? `: ${step.detail}` : "")];
  if (step.total) words.push(`${count(step.done)} of ${count(step.total)} ${step.unit}`);
  if (step.total && step.done) words.push(`${count(Math.round(step.rate))} ${step.unit}/s`);
  if (step.seconds_left !== null && step.total) words.push(`${time(step.seconds_left)} left`);
  const text = words.join(" · ");
  return text[0].toUpperCase() + text.slice(1);
}

const hues = ["--accent", "--k-feature", "--k-induced", "--k-range", "--k-grt", "--k-selector", "--k-zone", "--k-values", "--k-bloom", "--k-partition"];
export function breakdown(stages) {
  const entries = Object.entries(stages);
  const total = entries.reduce((sum, [, seconds]) => sum + seconds, 0) || 1;
  return h("div.stack", { style: "gap:6px" },
    h("div.breakdown", { role: "img", "aria-label": "Time by stage" }, entries.map(([name, seconds], at) =>
      h("i", { title: `${name}: ${time(seconds)}`, style: `flex:${Math.max(seconds, total / 400)};background:var(${hues[at % hues.length]})` }))),
    h("div.legend", {}, entries.map(([name, seconds], at) => h("span.chip", { style: "cursor:default" },
      h("span.dot", { style: `background:var(${hues[at % hues.length]})` }), name, h("span.count", {}, time(seconds))))));
}

export function sparkStages(job) {
  const running = job.step?.spark ?? [];
  if (!running.length) return null;
  const head = ["Spark stage", "tasks", "rows read", "read", "written"];
  return h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, head.map((name, at) => h("th", { class: at ? "number" : null }, name)))),
    h("tbody", {}, running.map((stage) => h("tr", {},
      h("td", {}, h("span", { title: stage.name }, `${stage.id} ${stage.name.split(" at ")[0]}`)),
      h("td.number", {}, `${count(stage.done)} of ${count(stage.tasks)}`), h("td.number", {}, count(stage.rows)),
      h("td.number", {}, size(stage.bytes)), h("td.number", {}, count(stage.rows_written)))))));
}

export function jobCard(job) {
  const step = job.step;
  return h("article.job", { "data-job": job.id },
    h("div.top", {}, h("h3", {}, title(job)), h(`span.state.${job.state}`, {}, job.state)),
    over(job) || job.state === "waiting" ? null : step?.total ? bar(step.done / step.total) : h("div.bar.indefinite", {}, h("i")),
    over(job) ? h("p.fine", {}, time(job.seconds)) : h("p.fine", {}, stepText(job)),
    job.error ? note(job.error, job.state === "failed" ? "bad" : "") : null,
    over(job) ? null : sparkStages(job),
    Object.keys(job.stages).length > 1 ? breakdown(job.stages) : null,
    over(job) ? null : h("div.row", {}, h("button.button", { onclick: () => api.stop(job.id), disabled: job.state === "stopping" }, "Stop")));
}

let waiting = false;
function show() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const all = [...jobs.values()].sort((a, b) => b.id - a.id);
    const busy = all.find((job) => ["running", "stopping"].includes(job.state));
    const left = all.filter((job) => job.state === "waiting").length;
    fill($("jobs-button"), busy ? `${title(busy)}${left ? ` and ${left} more` : ""}` : all.length ? `Jobs · ${count(all.length)}` : "No jobs yet",
      busy ? (busy.step?.total ? bar(busy.step.done / busy.step.total) : h("div.bar.indefinite", {}, h("i"))) : null);
    const drawer = $("jobs");
    if (drawer.hidden) return;
    fill(drawer, h("header", {}, h("h2", {}, "Jobs"), h("button.button.quiet", { onclick: toggle }, "Close")),
      all.length ? all.map(jobCard) : note("Nothing has been started yet. Analyze a log in Workload, or index a table in Tables."));
  });
}

export function toggle() {
  const drawer = $("jobs");
  drawer.hidden = !drawer.hidden;
  $("jobs-button").setAttribute("aria-expanded", String(!drawer.hidden));
  show();
}
