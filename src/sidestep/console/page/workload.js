// Workload: what a log asks for, which features represent it, and how far they can be trusted.
import { after, busy, card, choice, count, empty, fill, h, note, oneLine, percent, plural, short, slider, table, tile } from "./dom.js";
import { api } from "./api.js";
import { curves } from "./charts.js";
import { finished, jobCard, newest, onJobs, over, start } from "./jobs.js";

const kept = { log: null, table: null };

export async function workload(main, workspace) {
  const logs = workspace.logs.filter((log) => !log.problem);
  const body = h("div.stack");
  kept.log = logs.some((log) => log.name === kept.log) ? kept.log : newest("analyze")?.request.log ?? logs[0]?.name ?? null;
  const go = h("button.button", { id: "analyze", disabled: !kept.log, onclick: () => analyze() }, "Analyze");
  fill(main, h("div.head", {}, h("div", {}, h("h1", {}, "Workload"), h("p.muted", {}, "What the queries of a log share: the features that rows can be laid out by.")),
    logs.length ? h("div.row.end", {}, choice("Log", logs.map((log) => log.name), kept.log, (name) => { kept.log = name; begin(); }, { id: "log" }), go) : null), body);

  let id = null;
  const stop = onJobs((job) => { if (job.id === id && !over(job)) fill(body, card("", null, jobCard(job))); });

  // At once, not when the server answers: what an earlier analysis showed, or is about to show, is no longer wanted.
  function wait() {
    id = null;
    go.disabled = true;
    fill(body, busy("The analysis begins…"));
  }
  async function analyze() {
    wait();
    try {
      const job = await start("analyze", { log: kept.log });
      await follow(job.id);
    } catch (problem) {
      go.disabled = false;
      fill(body, note(problem.message, "bad"));
    }
  }
  async function follow(job) {
    wait();
    id = job;
    try {
      const done = await finished(job);
      if (id === job) show(done);
    } catch (problem) {
      if (id === job) fill(body, note(problem.message, "bad"));
    } finally { if (id === job) go.disabled = false; }
  }
  function begin() {
    id = null;
    go.disabled = !kept.log;
    if (!logs.length) {
      fill(body, empty("No log here yet", `Put a query log (.sql, .jsonl, .csv, a recording or an event log) into ${workspace.folders[0] ?? "the folder"}, or start sidestep serve with --log. sidestep.record(spark, path) writes one as queries run.`));
      return;
    }
    const last = newest("analyze", (job) => job.request.log === kept.log && job.state !== "failed" && job.state !== "stopped");
    if (last) follow(last.id);
    else fill(body, empty(`${kept.log} has not been analyzed yet`, "The analysis reads the log, finds predicates that queries share, and says how well they would have served later queries. No query is run.",
      h("button.button.primary", { onclick: analyze }, "Analyze it")));
  }
  function show(job) {
    const result = job.result;
    const withFilters = result.tables.filter((one) => one.filtered);
    const shown = withFilters.length ? withFilters : result.tables;
    kept.table = shown.some((one) => one.table === kept.table) ? kept.table : shown[0]?.table;
    const days = result.first !== null && result.last !== null ? (result.last - result.first) / 86400 : null;
    const glance = h("div.tiles", {}, tile("Queries understood", count(result.queries)),
      tile("Statements not understood", count(result.failures), "", result.failures ? short(result.reasons[0].reason, 60) : "none"),
      tile("Tables with filters", count(withFilters.length), "", `of ${count(result.tables.length)} that are read`),
      tile("Distinct filters", count(shown.reduce((sum, one) => sum + one.distinct_filters, 0))),
      days === null ? null : tile("Span", days < 2 ? (24 * days).toFixed(1) : days.toFixed(1), days < 2 ? "h" : "days"));
    const detail = h("div.stack");
    const tabs = shown.length > 1 ? h("div.tabs", { role: "tablist" }, shown.map((one) => h("button", { role: "tab", "aria-selected": String(one.table === kept.table),
      onclick: () => { kept.table = one.table; show(job); } }, one.table))) : null;
    fill(body, glance, result.failures ? failures(result) : null, tabs, detail);
    const chosen = shown.find((one) => one.table === kept.table);
    if (chosen) tableDetail(detail, job, chosen);
  }
  begin();
  return stop;
}

function failures(result) {
  return h("details.card", {}, h("summary", {}, `Why ${plural(result.failures, "statement")} could not be understood`),
    table([{ name: "reason" }, { name: "statements", number: true }], result.reasons.map((one) => [short(oneLine(one.reason), 220), count(one.count)])));
}

function tableDetail(detail, job, first) {
  let current = first;
  const most = Math.max(40, first.features.length);
  const highest = Math.max(2, Math.ceil(first.filtered / 4));
  const wanted = { num_features: first.features.length || 15, threshold: Math.max(1, first.feature_set.found.threshold) };
  const features = h("div");
  const covered = h("div.tiles");
  const coverage = h("div");
  const said = h("p.muted");
  const reselect = after(60, async () => {
    try {
      const began = performance.now();
      current = await api.select(job.id, { table: first.table, ...wanted });
      draw(performance.now() - began);
    } catch (problem) { fill(features, note(problem.message, "bad")); }
  });
  const sliders = card("Select", said, h("div.columns", {},
    slider("Number of features", { min: 1, max: most, value: wanted.num_features, id: "num-features" }, (value) => { wanted.num_features = value; reselect(); }),
    slider("Threshold T: queries that a feature must subsume, at least", { min: 1, max: highest, value: Math.min(highest, wanted.threshold), id: "threshold" }, (value) => { wanted.threshold = value; reselect(); })));

  function draw(milliseconds) {
    const share = current.feature_set.found.queries ? current.feature_set.found.covered / current.feature_set.found.queries : 0;
    said.textContent = milliseconds === undefined ? (first.choice ? `Chosen by cross-validation over time: at most ${first.choice.num_features} features, T = ${count(first.choice.threshold)}.` : "") : `Selected again in ${milliseconds.toFixed(0)} ms.`;
    fill(covered, tile("Features", count(current.features.length)), tile("Queries that some feature serves", ...percent(share).split(" "), `${count(current.feature_set.found.covered)} of ${count(current.feature_set.found.queries)} scans with a filter`, "good"),
      tile("Threshold T", count(current.feature_set.found.threshold), "queries"), tile("Scans", count(current.scans), "", `${count(current.unfiltered)} without a filter`));
    const heaviest = Math.max(1, ...current.features.map((one) => one.weight));
    fill(features, current.features.length ? table([{ name: "#", number: true }, { name: "feature" }, { name: "queries", number: true }],
      current.features.map((one, at) => [String(at + 1), h("div", {}, h("code.clamp", { title: one.feature }, one.feature), h("details", {}, h("summary", {}, `${plural(one.filters, "distinct filter")}; queries behind it`),
        one.examples.map((text) => h("pre", {}, text)))),
      h("div.weight", {}, h("div.bar", {}, h("i", { style: `width:${(100 * one.weight) / heaviest}%` })), h("span", {}, count(one.weight)))]))
      : note("No set of predicates serves that many queries: lower the threshold."), current.notes.map((text) => note(text, "warn")));
    curves(coverage, [{ name: "this log", points: current.curves.coverage, step: true }, ...later(first)], { x: "features", y: "queries served", marks: [current.features.length] });
  }
  fill(detail, sliders, covered, h("div.two", {}, card("Features", "Each a filter that many queries imply: a block without such a row is skipped by all of them.", features),
    h("div.stack", {}, card("How many features do I need?", "Share of queries that the first features serve.", coverage),
      card("How predictable is the future from the past?", "Of the filters in a window of time, how many had been seen after the earlier share of the log.", curves(h("div"), [{ name: "stability", points: first.curves.stability }], { x: "share of the log seen", y: "later queries known", xShare: true })),
      card("How much do queries have in common?", "The most frequent predicates, and the share of queries that use one of them.", curves(h("div"), [{ name: "commonality", points: first.curves.commonality }], { x: "share of distinct predicates", y: "queries that use one", xShare: true })))));
  draw();
}

function later(first) {
  const scores = (first.choice?.scores ?? []).filter((one) => one.share === first.choice.share);
  return scores.length ? [{ name: "later queries, cross-validated", points: scores.map((one) => [one.num_features, one.coverage]) }] : [];
}
