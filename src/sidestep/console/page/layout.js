// Layout: what queries would read under other layouts, and the load that makes one.
import { bar, busy, card, choice, count, empty, fill, h, note, percent, plural, short, size, slider, svg, table, tile, time } from "./dom.js";
import { api } from "./api.js";
import { curves } from "./charts.js";
import { breakdown, finished, jobCard, newest, onJobs, over, sparkStages, start, stepText } from "./jobs.js";

const kept = { table: null, log: null, size: null, layout: "sop", budget: 1.5 };
const titles = { sop: "SOP: all columns together", gsop: "GSOP: column groups", "gsop-r": "GSOP-R: with replicas" };
const hues = ["--accent", "--k-induced", "--k-feature", "--k-range", "--k-grt", "--k-selector", "--k-values", "--k-bloom", "--k-read", "--k-other"];

export async function layout(main, workspace) {
  const tables = workspace.tables.filter((one) => !one.problem);
  const logs = workspace.logs.filter((one) => !one.problem);
  const body = h("div.stack");
  const head = h("div.row.end");
  fill(main, h("div.head", {}, h("div", {}, h("h1", {}, "Layout"), h("p.muted", {}, "What the queries of a log would read under other layouts, and the load that makes one.")), head), body);
  if (!tables.length || !logs.length) {
    fill(body, empty(tables.length ? "No log here yet" : "No tables here", "A layout is made for a table by the queries of a log: both have to be in the folder."));
    return;
  }
  const last = newest("what-if") ?? newest("load");
  kept.table = [kept.table, last?.request.table, await filtered()].find((name) => tables.some((one) => one.name === name)) ?? tables[0].name;
  kept.log = logs.some((one) => one.name === kept.log) ? kept.log : last?.request.log ?? logs[0].name;
  const whatIf = h("div.stack");
  const advice = h("div.stack");
  const loads = h("div.stack");
  const copies = h("div");
  fill(head, choice("Table", tables.map((one) => one.name), kept.table, (name) => { kept.table = name; begin(); }, { id: "layout-table" }),
    choice("Log", logs.map((one) => one.name), kept.log, (name) => { kept.log = name; begin(); }, { id: "layout-log" }));
  fill(body, whatIf, advice, loads, copies);

  const follow = (place, kind, show, ask) => async function follow_(id) {
    const stop = onJobs((job) => { if (job.id === id && !over(job)) fill(place, card("", null, jobCard(job))); });
    stops.push(stop);
    try {
      fill(place, busy("It begins…"));
      show(await finished(id));
    } catch (problem) { fill(place, note(problem.message, problem.message === "It was stopped." ? "" : "bad"), ask()); }
    stop();
  };
  const stops = [];
  const fits = (job) => job.request.table === kept.table && job.request.log === kept.log && !["failed", "stopped"].includes(job.state);

  const askWhatIf = () => empty("What if?", "Tries block sizes, column groups (GSOP) and replicas of some cells (GSOP-R) on a sample of the table's rows, for the queries of the log. Nothing is written.",
    h("button.button.primary", { id: "what-if", onclick: async () => { try { followWhatIf((await start("what-if", { table: kept.table, log: kept.log })).id); } catch (problem) { fill(whatIf, note(problem.message, "bad")); } } }, "Try layouts"));
  const followWhatIf = follow(whatIf, "what-if", (job) => showWhatIf(whatIf, job.result), askWhatIf);
  const askAdvice = () => card("Row orders", "Sorted, along a Z curve, grouped by features, cut by what queries ask for: which would serve the later queries best?",
    h("button.button", { id: "advise", onclick: async () => { try { followAdvice((await start("advise", { table: kept.table, log: kept.log, ...(kept.size ? { min_size: kept.size } : {}) })).id); } catch (problem) { fill(advice, note(problem.message, "bad")); } } }, "Compare row orders"));
  const followAdvice = follow(advice, "advise", (job) => showAdvice(advice, job.result), askAdvice);

  function loadForm() {
    const target = h("input", { type: "text", id: "target", value: free(workspace, `${kept.table}_${kept.layout}`), "aria-label": "Name of the new table", maxlength: 64 });
    const blocks = h("input", { type: "number", id: "min-size", min: 1, value: kept.size ?? 5000, "aria-label": "Rows of a block, at least" });
    const said = h("div");
    const go = h("button.button.primary", { id: "load", onclick: async () => {
      go.disabled = true;
      try {
        const job = await start("load", { table: kept.table, log: kept.log, target: target.value.trim(), min_size: Number(blocks.value) || null, layout: kept.layout, ...(kept.layout === "gsop-r" ? { storage: kept.budget } : {}) });
        followLoad(job.id);
      } catch (problem) { fill(said, note(problem.message, "bad")); go.disabled = false; }
    } }, "Load");
    return card("Load", `A new table beside ${kept.table}, laid out for the queries of ${kept.log}. ${kept.table} stays as it is.`,
      h("div.stack", {}, h("div.row.end", {}, h("label.field", {}, "New table", target), h("label.field", {}, "Rows of a block, at least", blocks),
        choice("Layout", [["sop", "sop: rows in blocks"], ["gsop", "gsop: column groups"], ["gsop-r", "gsop-r: groups and replicas"]], kept.layout, (name) => { kept.layout = name; target.value = free(workspace, `${kept.table}_${name}`); }, { id: "layout-kind" }), go), said));
  }
  async function followLoad(id) {
    const stop = onJobs((job) => { if (job.id === id && !over(job)) fill(loads, runningLoad(job)); });
    stops.push(stop);
    try {
      fill(loads, busy("The load begins…"));
      const done = await finished(id);
      fill(loads, loadedCard(done), loadForm());
      showCopies(copies);
    } catch (problem) { fill(loads, note(problem.message, problem.message === "It was stopped." ? "" : "bad"), loadForm()); }
    stop();
  }
  function begin() {
    const job = newest("what-if", fits);
    if (job) followWhatIf(job.id); else fill(whatIf, askWhatIf());
    const advised = newest("advise", fits);
    if (advised) followAdvice(advised.id); else fill(advice, askAdvice());
    const loaded = newest("load", fits);
    if (loaded) followLoad(loaded.id); else fill(loads, loadForm());
  }
  begin();
  showCopies(copies);
  return () => stops.forEach((stop) => stop());
}

// The table that the last analysis found most to say of: others may not be in the log at all.
async function filtered() {
  const analyzed = newest("analyze", (job) => over(job) && !["failed", "stopped"].includes(job.state));
  const found = analyzed ? (await finished(analyzed.id)).result.tables : [];
  return found.filter((one) => one.filtered).sort((a, b) => b.filtered - a.filtered)[0]?.table;
}

function free(workspace, name) {
  const taken = new Set(workspace.tables.map((one) => one.name));
  let number = 1;
  while (taken.has(number === 1 ? name : `${name}_${number}`)) number += 1;
  return number === 1 ? name : `${name}_${number}`;
}

function runningLoad(job) {
  return card("Load", job.about, h("div.stack", { id: "running-load" }, job.step?.total ? bar(job.step.done / job.step.total) : h("div.bar.indefinite", {}, h("i")),
    h("p", { id: "load-step" }, stepText(job)), sparkStages(job), Object.keys(job.stages).length ? breakdown(job.stages) : null,
    h("div.row", {}, h("button.button", { onclick: () => api.stop(job.id), disabled: job.state === "stopping" }, "Stop"))));
}

function loadedCard(job) {
  const report = job.result;
  return card(`Loaded ${job.request.target}`, `${time(report.seconds)} in all`, h("div.stack", {}, h("div.tiles", {}, tile("Rows", count(report.rows)), tile("Blocks", count(report.blocks)), tile("Files", count(report.files)),
    tile("On disk", ...size(report.bytes_after).split(" "), `before: ${size(report.bytes_before)}`), tile("Features", count(report.features.length))),
  h("h3", {}, "Where the time went"), breakdown(report.stages), report.groups.length ? groupsPicture(report.groups.map((group) => group.columns), report.groups.map((group) => `${count(group.blocks)} blocks, ${size(group.bytes)}`)) : null,
  report.notes.map((text) => note(text)), h("div.row", {}, h("a.button", { href: "#/skipping", style: "text-decoration:none" }, "Run a query on it"))));
}

function showWhatIf(place, result) {
  const sizes = [...new Set(result.points.map((one) => one.min_size))].sort((a, b) => a - b);
  kept.size = sizes.includes(kept.size) ? kept.size : sizes[Math.floor(sizes.length / 2)];
  const most = Math.max(1.05, ...result.points.map((one) => one.storage));
  kept.budget = Math.min(kept.budget, Math.ceil(most * 100) / 100);
  const detail = h("div.stack");
  const chart = h("div");
  const storage = h("div");
  const least = (points) => points.reduce((best, one) => (!best || one.read < best.read ? one : best), null);
  const fitting = (size, name) => result.points.filter((one) => one.min_size === size && (!name || one.layout === name) && one.storage <= kept.budget + 1e-9);
  const names = [...new Set(result.points.map((one) => one.layout))];
  function tileOf(name, best) {
    const one = least(fitting(kept.size, name));
    if (one) return tile(titles[name], ...percent(one.read).split(" "), `of the cells that queries ask for; storage ${one.storage.toFixed(2)} ×`, best === one ? "good" : "");
    const others = result.points.filter((other) => other.min_size === kept.size && other.layout === name).map((other) => other.storage);
    return tile(titles[name], "–", "", others.length ? `takes ${Math.min(...others).toFixed(2)} × at least` : "saves nothing at this block size");
  }
  function draw() {
    const best = least(fitting(kept.size));
    kept.layout = best && (best.replicas.length || best.groups.length > 1) ? best.layout : "sop";
    const field = document.getElementById("min-size");
    if (field) field.value = kept.size;
    const picture = !best ? note("No layout fits this budget.") : best.replicas.length ? replicasPicture(best)
      : best.groups.length > 1 ? h("div.stack", { style: "gap:8px" }, h("h3", {}, plural(best.groups.length, "column group")), groupsPicture(best.groups))
        : note("Within this budget all columns in one group serve the queries best at this block size.");
    fill(detail, h("div.tiles", { id: "what-if-tiles" }, names.map((name) => tileOf(name, best))), picture);
    const lines = names.map((name) => ({ name: titles[name] ?? name, points: sizes.map((size) => [size, least(fitting(size, name))]).filter(([, one]) => one).map(([size, one]) => [size, one.read]) }));
    curves(chart, lines.filter((line) => line.points.length), { x: "rows of a block, at least", y: "cells read", log: true, marks: [kept.size], tall: true });
    const frontier = [];
    for (const one of result.points.filter((point) => point.min_size === kept.size).sort((a, b) => a.storage - b.storage || a.read - b.read)) {
      if (!frontier.length || one.read < frontier.at(-1)[1]) frontier.push([one.storage, one.read]);
    }
    const end = Math.max(most, kept.budget);
    if (frontier.length) frontier.push([end, frontier.at(-1)[1]]);
    curves(storage, [{ name: "the least with so much storage", points: frontier, step: true }], { x: "storage, as a multiple of the table", y: "cells read", marks: [kept.budget], tall: true, least: 0.97 });
  }
  fill(place, card("What if", `${count(result.queries)} queries on a sample of ${count(result.sample_rows)} of ${count(result.total_rows)} rows`, h("div.stack", {}, h("div.columns", {},
    slider("Rows of a block, at least", { min: 0, max: sizes.length - 1, value: sizes.indexOf(kept.size), show: (at) => count(sizes[at]), id: "block-size" }, (at) => { kept.size = sizes[at]; draw(); }),
    slider("Storage budget, row ids included", { min: 100, max: Math.ceil(most * 100), value: Math.round(kept.budget * 100), show: (value) => `${(value / 100).toFixed(2)} ×`, id: "budget" }, (value) => { kept.budget = value / 100; draw(); })),
  detail, h("div.two", {}, h("div", {}, h("h3", {}, "Cost by block size, within the budget"), chart), h("div", {}, h("h3", {}, "Cost against storage, at this block size"), storage)))));
  draw();
}

// What each layout of a table with replicas holds: a cell for each column, filled by the share of rows that are there.
function replicasPicture(point) {
  const [side, tall, head] = [19, 24, 92];
  const holders = new Map();
  for (const one of point.replicas) for (const name of one.columns) holders.set(name, (holders.get(name) ?? 0) + 1);
  const shown = [...holders].filter(([, times]) => times > 1).sort(([a, x], [b, y]) => y - x || a.localeCompare(b)).map(([name]) => name);
  const single = point.replicas.map((one) => one.columns.filter((name) => holders.get(name) === 1));
  const width = shown.length * side + 2;
  const names = svg("svg", { width: width + 64, height: head, class: "graph", style: `width:${width + 64}px`, "aria-hidden": "true" });
  shown.forEach((name, at) => {
    const [x, y] = [at * side + side / 2, head - 5];
    const text = svg("text", { x, y, class: "small", transform: `rotate(-48 ${x} ${y})` });
    text.textContent = short(name, 17);
    names.append(text);
  });
  const strip = (one) => {
    const made = svg("svg", { width, height: tall, style: `width:${width}px`, class: "graph", role: "img", "aria-label": shown.filter((name) => one.columns.includes(name)).join(", ") || "no column that is stored twice" });
    shown.forEach((name, at) => {
      const held = one.masters.includes(name) ? 1 : one.columns.includes(name) ? one.rows : 0;
      const box = svg("rect", { class: "gone", x: at * side + 1, y: 1, width: side - 2, height: tall - 2, rx: 3 });
      const full = svg("rect", { class: one.masters.includes(name) ? "master" : "copy", x: at * side + 1, y: 1, width: side - 2, height: held ? Math.max(3, (tall - 2) * held) : 0, rx: 3 });
      const hint = svg("title");
      hint.textContent = held ? `${name}: ${one.masters.includes(name) ? "all rows" : `once more, in ${percent(held)} of the rows`}` : `${name}: not here`;
      made.append(box, full, svg("rect", { x: at * side, y: 0, width: side, height: tall, fill: "transparent" }, hint));
    });
    return made;
  };
  const rest = (list) => (list.length ? h("span.muted", { title: list.join(", ") }, `and ${plural(list.length, "column")} stored once`) : "");
  return h("div.stack", { style: "gap:8px", id: "replicas" }, h("div.row", {}, h("h3", {}, `${plural(point.replicas.length, "layout")}, ${plural(shown.length, "column")} stored more than once`), h("span.grow"),
    h("div.legend", {}, [["--accent", "all rows"], ["--k-induced", "once more, in some rows"]].map(([hue, text]) => h("span.chip", { style: "cursor:default" }, h("span.dot", { style: `background:var(${hue})` }), text)))),
  h("div.scroll", {}, h("table.replicas", {}, h("thead", {}, h("tr", {}, h("th", {}, ""), h("th.number", {}, "rows"), h("th", {}, names), h("th", {}, "rows that are there"))),
    h("tbody", {}, point.replicas.map((one, at) => h("tr", {}, h("td.tight", {}, h("b", {}, String(at + 1))), h("td.number", {}, percent(one.masters.length ? 1 : one.rows)), h("td", {}, strip(one)),
      h("td", { title: one.features.join("\nor ") }, one.masters.length ? h("span", {}, "all; ") : null, one.features.length ? [h("code", {}, short(one.features[0], 44)), one.features.length > 1 ? ` or one of ${count(one.features.length - 1)} more` : ""] : null, " ", rest(single[at]))))))),
  h("p.fine", {}, "A query reads each column from the layout with the fewest rows that has all it wants."));
}

function groupsPicture(groups, notes = []) {
  return h("div.groups", {}, groups.map((columns, at) => h("div.group", {}, h("div", {}, h("b", {}, `Group ${at + 1}`), notes[at] ? h("div.fine", {}, notes[at]) : null),
    h("div.cols", { style: `--hue:var(${hues[at % hues.length]})` }, columns.map((name) => h("span.col", {}, name))))));
}

function showAdvice(place, result) {
  const entries = Object.entries(result.estimates);
  const least = Math.min(...entries.map(([, one]) => one.seconds).filter((value) => value > 0));
  fill(place, card("Row orders", result.verdict, table([{ name: "layout" }, { name: "rows read", number: true }, { name: "" }, { name: "bytes", number: true }, { name: "files", number: true }, { name: "cost", number: true }, { name: "how" }],
    entries.map(([name, one]) => [name === result.choice.family ? h("b", {}, `${name} (chosen)`) : name, percent(one.rows), h("div", { style: "width:120px;padding-top:7px" }, bar(one.rows)), percent(one.bytes), percent(one.files, 0), `${(one.seconds / least).toFixed(1)} ×`, short(one.detail, 80)])),
  h("p.fine", { style: "margin-top:8px" }, `${count(result.queries)} queries (${result.judged_by}), on ${count(result.sample_rows)} of ${count(result.total_rows)} rows.`)));
}

async function showCopies(place) {
  const workspace = await api.workspace();
  const found = await Promise.all(workspace.tables.filter((one) => !one.problem).slice(0, 12).map(async (one) => [one, await api.table(one.name).catch(() => null)]));
  const known = found.filter(([, status]) => status?.indexed_files);
  if (known.length < 2) return;
  fill(place, card("Copies side by side", "How each table that is indexed here lies on disk.", table([{ name: "table" }, { name: "format" }, { name: "rows", number: true }, { name: "blocks", number: true }, { name: "rows per block", number: true }, { name: "files", number: true }, { name: "on disk", number: true }, { name: "index", number: true }],
    known.map(([one, status]) => [h("b", {}, one.name), one.kind === "groups" ? "column groups" : status.format, count(status.indexed_rows), count(status.blocks), status.blocks ? count(Math.round(status.indexed_rows / status.blocks)) : "–", count(status.files), size(status.bytes), size(status.index_bytes)]))));
}
