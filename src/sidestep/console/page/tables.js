// Tables: what is indexed, what that takes and is good for, drift, advice; and the bounds of every block on demand.
import { bar, busy, card, choice, count, empty, fill, h, note, percent, plural, short, size, table, tile } from "./dom.js";
import { api } from "./api.js";
import { finished, jobCard, onJobs, over, start } from "./jobs.js";

const kept = { table: null, columns: [], offset: 0 };
const PAGE = 25;

export async function tables(main, workspace) {
  const list = h("div");
  const detail = h("div.stack");
  const stops = [];
  fill(main, h("div.head", {}, h("div", {}, h("h1", {}, "Tables"), h("p.muted", {}, `In ${workspace.folders.join(", ") || "the tables that were given"}.`))), h("div.stack", {}, list, detail));
  if (!workspace.tables.length) {
    fill(list, empty("No tables here", `Put Parquet folders or Delta tables into ${workspace.folders[0] ?? "the folder"}, or start sidestep serve with --table NAME=PATH.`));
    return;
  }
  const known = new Map();
  kept.table = workspace.tables.some((one) => one.name === kept.table) ? kept.table : workspace.tables.find((one) => !one.problem)?.name;

  function showList() {
    fill(list, card("", null, table([{ name: "table" }, { name: "format" }, { name: "indexed", number: true }, { name: "" }, { name: "rows", number: true }, { name: "blocks", number: true }, { name: "size", number: true }, { name: "index", number: true }, { name: "" }],
      workspace.tables.map((one) => {
        const status = known.get(one.name);
        const cells = one.problem ? [one.name, one.kind, "", "", "", "", "", "", h("span.muted", {}, one.problem)]
          : !status ? [h("b", {}, one.name), one.kind, "…", "", "", "", "", "", "reading"]
            : status.problem ? [h("b", {}, one.name), one.kind, "", "", "", "", "", "", h("span.muted", {}, status.problem)]
              : [h("b", {}, one.name), one.kind === "groups" ? "column groups" : status.format + (status.version === null ? "" : `, version ${count(status.version)}`), status.files ? percent(status.indexed_files / status.files, 0) : "–",
                h("div", { style: "width:80px;padding-top:7px" }, bar(status.files ? status.indexed_files / status.files : 0)), ...(status.indexed_files ? [count(status.indexed_rows), count(status.blocks)] : ["–", "–"]), size(status.bytes), status.indexed_files ? size(status.index_bytes) : "–", verdict(status)];
        return { cells, selected: one.name === kept.table, pick: one.problem ? null : () => { kept.table = one.name; kept.offset = 0; kept.columns = []; showList(); showDetail(); } };
      }))));
  }
  async function look(name) {
    try { known.set(name, await api.table(name)); } catch (problem) { known.set(name, { problem: problem.message }); }
    showList();
    if (name === kept.table) showDetail();
  }
  async function run(kind, request, place) {
    try {
      const job = await start(kind, request);
      const stop = onJobs((one) => { if (one.id === job.id && !over(one)) fill(place, jobCard(one)); });
      stops.push(stop);
      fill(place, busy("It begins…"));
      const done = await finished(job.id);
      stop();
      if (kind === "drift" || kind === "index") known.set(request.table, done.result);
      if (kind === "optimize") await look(request.table);
      showList();
      if (kept.table === request.table) showDetail();
    } catch (problem) { fill(place, note(problem.message, problem.message === "It was stopped." ? "" : "bad")); }
  }
  function showDetail() {
    const status = known.get(kept.table);
    if (!status) { fill(detail, busy(`Reading the index of ${kept.table}…`)); return; }
    if (status.problem) { fill(detail, note(status.problem, "bad")); return; }
    const place = h("div");
    const logs = workspace.logs.filter((one) => !one.problem);
    const missing = status.files - status.indexed_files;
    let log = logs[0]?.name;
    const callings = [...new Set([...workspace.tables.map((one) => one.name), status.log_name ?? kept.table])];
    let called = status.log_name ?? kept.table;
    const acts = h("div.row.end", {}, h("button.button", { class: missing ? "primary" : "", id: "index-table", onclick: () => run("index", { table: kept.table }, place) }, missing ? `Index ${plural(missing, "file")}` : "Index again"),
      status.blocks_with_ids ? h("button.button", { onclick: () => run("optimize", { table: kept.table }, place) }, "Optimize") : null,
      logs.length && status.blocks_with_ids ? [choice("Log", logs.map((one) => one.name), log, (name) => { log = name; }), choice("which calls it", callings, called, (name) => { called = name; }),
        h("button.button", { id: "drift", onclick: () => run("drift", { table: kept.table, log, name: called }, place) }, "Measure drift")] : null);
    fill(detail, h("div.tiles", {}, tile("Files indexed", count(status.indexed_files), `of ${count(status.files)}`), tile("Blocks", count(status.blocks), "", status.blocks ? `${count(Math.round(status.indexed_rows / status.blocks))} rows each, on average` : ""),
      tile("Index", ...size(status.index_bytes).split(" "), status.indexed_bytes ? `${percent(status.index_bytes / status.indexed_bytes, 2)} of the data` : ""), tile("Laid out", status.files ? percent(status.organized_files / status.files, 0).split(" ")[0] : "–", status.files ? "%" : "", `${count(status.organized_files)} of ${plural(status.files, "file")}`)),
    card("Advice", acts, h("div.stack", {}, place, advice(status).map(([text, kind]) => note(text, kind)), status.problems.map((text) => note(text, "bad")), status.notes.map((text) => note(text)), status.drift ? drift(status.drift) : null)),
    h("div.two.wide", {}, status.synopses.length ? card("Synopses beside zone maps", "What they take, and the share of blocks a value is looked for in.", table([{ name: "column", tight: true }, { name: "synopsis", tight: true }, { name: "blocks", number: true }, { name: "size", number: true }, { name: "keeps", number: true, title: "share of other blocks that are read when one value is looked for" }, { name: "zone map alone", number: true }, { name: "false positives", number: true, title: "estimated, at most" }],
      status.synopses.flatMap((one) => one.held.map((held, at) => [at ? "" : h("code", {}, one.column), held.text, count(held.blocks), size(held.bytes), at ? "" : percent(one.kept), at ? "" : percent(one.zone_map_kept), at || one.false_positives === null ? "" : `≤ ${percent(one.false_positives)}`]))))
      : card("Synopses beside zone maps", "None: zone maps alone say which blocks a value may be in.", note(missing === status.files ? "Index the table to have them chosen." : "A sample showed none that would save enough; with a log, they are chosen for its queries.")),
    card("Columns", `${plural(status.columns.length, "column")} indexed${status.partition_columns.length ? `; partitioned by ${status.partition_columns.join(", ")}` : ""}`, status.columns.length ? h("div", { style: "max-height:320px;overflow:auto" }, table([{ name: "column" }, { name: "type" }, { name: "files", number: true }], status.columns.map((one) => [h("code", {}, one.name), one.type, `${count(one.files)} of ${count(status.files)}`]))) : note("Index the table to see its columns."))),
    status.blocks ? blocksCard(status) : empty("No blocks are known yet", "Index the table: what each block holds is then known, and queries pass over those that cannot matter."));
  }
  function blocksCard(status) {
    const rows = h("div");
    const names = status.columns.map((one) => one.name);
    const isNumber = (name) => /int|float|double|decimal/.test(status.columns.find((one) => one.name === name)?.type ?? "");
    kept.columns = kept.columns.filter((name) => names.includes(name));
    if (!kept.columns.length) kept.columns = names.slice(0, 2);
    const chips = h("div.legend", { style: "max-height:86px;overflow:auto" }, names.map((name) => {
      const chip = h("button.chip", { "aria-pressed": String(kept.columns.includes(name)), onclick: () => {
        kept.columns = kept.columns.includes(name) ? kept.columns.filter((one) => one !== name) : [...kept.columns, name].slice(-6);
        for (const other of chips.children) other.setAttribute("aria-pressed", String(kept.columns.includes(other.textContent)));
        show();
      } }, name);
      return chip;
    }));
    async function show() {
      fill(rows, busy("Reading blocks…"));
      try {
        const found = await api.blocks(kept.table, kept.columns, kept.offset, PAGE);
        const at = (name) => found.columns.findIndex((one) => one.name === name);
        const columns = [{ name: "block", number: true }, { name: "file", tight: true }, { name: "rows", number: true }, { name: "bytes", number: true }, ...kept.columns.flatMap((name) => [{ name: `min ${name}`, number: isNumber(name) }, { name: `max ${name}`, number: isNumber(name) }]), ...(found.rows.some((row) => row[at("features")]) ? [{ name: "features that some row has" }] : [])];
        const cell = (value) => (value === null || value === undefined ? h("span.muted", {}, "–") : short(String(value), 40));
        fill(rows, table(columns, found.rows.map((row) => [count(row[at("block")]), h("span", { title: row[at("file")] }, short(String(row[at("file")]), 28)), count(row[at("rows")]), size(row[at("bytes")]),
          ...kept.columns.flatMap((name) => [cell(row[at(`min:${name}`)]), cell(row[at(`max:${name}`)])]), ...(columns.at(-1).name.startsWith("features") ? [row[at("features")] ? h("span", { title: row[at("features")].join("\n") }, `${row[at("features")].length} of ${row[at("union_vector")].length}`) : "–"] : [])])),
        h("div.row", { style: "margin-top:10px" }, h("button.button", { disabled: !kept.offset, onclick: () => { kept.offset = Math.max(0, kept.offset - PAGE); show(); } }, "Before"),
          h("button.button", { disabled: kept.offset + PAGE >= found.total, onclick: () => { kept.offset += PAGE; show(); } }, "Next"), h("span.fine", {}, `${count(kept.offset + 1)} to ${count(Math.min(found.total, kept.offset + PAGE))} of ${plural(found.total, "block")}`)));
      } catch (problem) { fill(rows, note(problem.message, "bad")); }
    }
    show();
    return card("Blocks", "The least and greatest value of each column in each block, as the index has them.", h("div.stack", {}, chips, rows));
  }
  showList();
  showDetail();
  for (const one of workspace.tables) if (!one.problem) look(one.name);
  return () => stops.forEach((stop) => stop());
}

function verdict(status) {
  if (!status.indexed_files) return h("span.muted", {}, "not indexed");
  if (!status.complete) return `${plural(status.files - status.indexed_files, "file")} not indexed`;
  return status.advice ? "see advice" : status.blocks_with_ids ? "laid out" : "";
}

function advice(status) {
  const said = [];
  if (!status.indexed_files) said.push(["No file is indexed, so queries read everything: index the table.", "warn"]);
  else if (!status.complete) said.push([`${plural(status.files - status.indexed_files, "file")} came since the table was indexed and are always read: index them.`, "warn"]);
  if (status.blocks_with_ids && status.unorganized_files) said.push([`${plural(status.unorganized_files, "file")} came since the table was laid out: optimize organizes them.`, "warn"]);
  if (status.advice) said.push([status.advice, "warn"]);
  return said.length ? said : [["Nothing to do: every file is indexed.", ""]];
}

function drift(found) {
  const units = found.units.filter((one) => found.worthwhile.includes(one.unit));
  return h("div.stack", {}, note(found.text, found.worthwhile.length ? "warn" : ""), units.length ? h("div", {}, h("h3", {}, `Reorganize ${units.length === 1 ? "this unit" : `these ${units.length} units`}`),
    table([{ name: "unit" }, { name: "share of rows", number: true }, { name: "read now", number: true }, { name: "laid out anew", number: true }], units.slice(0, 30).map((one) => [short(one.unit, 60), percent(one.rows), percent(one.now), percent(one.anew)]))) : null);
}
