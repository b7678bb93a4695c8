// Skipping in action: a query, the blocks of each table that it reads, what skipped the others, and the proof.
import { after, busy, card, choice, count, empty, fill, h, note, oneLine, percent, plural, short, size, sizeParts, table, tile, time, timeParts } from "./dom.js";
import { api } from "./api.js";
import { blockMap, label, shareOf } from "./blockmap.js";
import { joinGraph } from "./joingraph.js";
import { jobs, newest } from "./jobs.js";

const kept = { copies: {}, compare: new Set() };

export async function skipping(main, workspace) {
  const tables = workspace.tables.filter((one) => !one.problem);
  const out = h("div.stack", { id: "answer" });
  if (!tables.length) {
    fill(main, h("div.head", {}, h("h1", {}, "Skipping")), empty("No tables here", `Put Parquet folders or Delta tables into ${workspace.folders[0] ?? "the folder"}: their blocks are shown here.`));
    return;
  }
  const sql = h("textarea", { id: "sql", rows: 5, spellcheck: "false", "aria-label": "Query", placeholder: `SELECT count(*) FROM ${tables[0].name} WHERE …` });
  sql.value = sessionStorage.getItem("sidestep-sql") ?? "";
  const picker = h("div.row.end");
  const copies = h("div.row");
  const buttons = [
    h("button.button.primary", { id: "explain", onclick: () => act("explain") }, "Explain"),
    h("button.button", { id: "run", onclick: () => act("run") }, "Run with and without"),
    h("button.button", { id: "compare", onclick: () => act("compare") }, "Compare layouts"),
  ];
  sql.addEventListener("input", after(200, () => { sessionStorage.setItem("sidestep-sql", sql.value); showCopies(); }));
  sql.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); act(event.shiftKey ? "run" : "explain"); }
  });
  fill(main, h("div.head", {}, h("div", {}, h("h1", {}, "Skipping"), h("p.muted", {}, "What a query reads, block by block, and the proof for every block that it passes over.")), picker),
    h("div.stack", {}, h("section.card", {}, h("div.stack", { style: "gap:10px" }, sql, h("div.row", {}, buttons, h("span.grow"), h("span.fine", {}, h("kbd", {}, "Ctrl Enter"), " explains, ", h("kbd", {}, "Ctrl Shift Enter"), " runs, ", h("kbd", {}, "/"), " edits")), copies)), out));

  const named = () => tables.filter((one) => new RegExp(`\\b${one.name}\\b`, "i").test(sql.value));
  function showCopies() {
    const read = named();
    fill(copies, read.length && tables.length > 1 ? read.map((one) => choice(`Read ${one.name} from`, [[one.name, `${one.name} itself`], ...tables.filter((other) => other !== one).map((other) => [other.name, other.name])],
      kept.copies[one.name] ?? one.name, (name) => { if (name === one.name) delete kept.copies[one.name]; else kept.copies[one.name] = name; })) : [],
    read.length && tables.length > 1 ? h("div.field", {}, `Layouts of ${read[0].name} to compare`, h("div.legend", {}, tables.map((one) => {
      const chip = h("button.chip", { "aria-pressed": String(kept.compare.has(one.name)), "data-compare": one.name, onclick: () => {
        if (kept.compare.has(one.name)) kept.compare.delete(one.name); else kept.compare.add(one.name);
        chip.setAttribute("aria-pressed", String(kept.compare.has(one.name)));
      } }, one.name);
      return chip;
    }))) : null);
  }
  const used = () => Object.fromEntries(Object.entries(kept.copies).filter(([name]) => named().some((one) => one.name === name)));

  async function act(what) {
    if (!sql.value.trim()) { fill(out, note("Write a query first, or pick one from a log that was analyzed.", "warn")); sql.focus(); return; }
    const words = { explain: "Planning the query and looking at every block…", run: "Running the query with sidestep, then without…", compare: "Running the query on each layout…" };
    buttons.forEach((button) => { button.disabled = true; });
    fill(out, busy(words[what]));
    try {
      if (what === "compare") await compare();
      else {
        const answer = await api[what]({ sql: sql.value, copies: used() });
        show(what === "run" ? answer.explanation : answer, what === "run" ? answer : null);
      }
    } catch (problem) { fill(out, note(problem.message, "bad")); }
    buttons.forEach((button) => { button.disabled = false; });
  }

  async function compare() {
    const [first] = named();
    if (!first) throw new Error("The query names none of the tables that are open.");
    const layouts = [...new Set([first.name, ...kept.compare])];
    if (layouts.length < 2) throw new Error(`Choose copies of ${first.name} to compare it with: the chips below the query.`);
    const rows = [];
    for (const name of layouts) {
      fill(out, busy(`Running the query on ${name}…`));
      try {
        const answer = await api.run({ sql: sql.value, copies: { ...used(), ...(name === first.name ? {} : { [first.name]: name }) }, both: false });
        rows.push({ name, answer, scan: answer.explanation.scans.find((scan) => scan.blocks) ?? answer.explanation.scans[0] });
      } catch (problem) { rows.push({ name, problem: problem.message }); }
    }
    const good = rows.filter((row) => row.answer);
    const least = Math.min(...good.map((row) => row.answer.runs.on.rows));
    fill(out, card("The same query on several layouts", `${first.name} is read from each of ${plural(layouts.length, "table")}.`,
      table([{ name: "layout" }, { name: "blocks read", number: true }, { name: "rows read", number: true }, { name: "bytes", number: true }, { name: "time", number: true }, { name: "" }],
        rows.map((row) => (row.problem ? [row.name, "", "", "", "", row.problem] : [h("b", {}, row.name), row.scan?.row_groups ? `${count(row.scan.row_groups.kept)} of ${count(row.scan.row_groups.total)}` : "?",
          count(row.answer.runs.on.rows), row.scan?.bytes ? size(row.scan.bytes.kept) : size(row.answer.runs.on.bytes), time(row.answer.runs.on.seconds), row.answer.runs.on.rows === least ? "reads least" : ""])))),
    h("div.columns", {}, good.map((row) => card(row.name, row.scan?.blocks ? plural(row.scan.blocks.count, "block") : null, row.scan?.blocks ? blockMap(row.scan.blocks, row.answer.explanation.id, row.answer.explanation.scans.indexOf(row.scan), { height: 220 })
      : note(row.scan?.reason ? `Nothing is skipped, as ${row.scan.reason}` : "It has no index.")))));
  }

  function show(explanation, ran) {
    const remarks = [...explanation.notes, explanation.problem].filter(Boolean);
    fill(out, ran ? runTiles(ran) : null, remarks.map((text) => note(text, "warn")),
      explanation.scans.map((scan, at) => scanCard(explanation, scan, at)),
      explanation.graph.edges.length ? graphCard(explanation) : null,
      ran ? resultCard(ran, workspace.limits) : null,
      explanation.scans.length ? null : note("The query reads no files."));
  }

  async function statements() {
    const job = newest("analyze", (one) => one.state === "done");
    if (!job) { fill(picker, h("p.fine", {}, "Analyze a log in Workload to pick its queries here.")); return; }
    const whole = await api.job(job.id);
    const list = whole.result.statements.map((one, at) => [String(at), `${one.count > 1 ? `${count(one.count)} × ` : ""}${short(oneLine(one.sql), 70)}`]);
    fill(picker, choice(`Queries of ${job.request.log}`, [["", "Pick a query…"], ...list], "", (at) => {
      if (at === "") return;
      sql.value = whole.result.statements[Number(at)].sql.trim();
      sessionStorage.setItem("sidestep-sql", sql.value);
      showCopies();
      act("explain");
    }, { id: "pick", style: "width:340px" }));
  }
  showCopies();
  fill(out, empty("No query yet", "Write a query above, or pick one from an analyzed log. Explain shows what would be skipped without running it; Run measures it with sidestep and without."));
  statements().catch(() => {});
}

function runTiles(ran) {
  const { on, off } = ran.runs;
  const left = ran.explanation.scans.map((scan) => scan.bytes?.kept);
  const bytes = left.every((one) => Number.isFinite(one)) ? left.reduce((sum, one) => sum + one, 0) : on.bytes;
  const against = (mine, other, show) => (off ? `without: ${show(other)}${other && mine < other ? `, ${(other / Math.max(mine, 1e-9)).toFixed(1)} × more` : ""}` : "");
  return h("div.tiles", { id: "runs" }, tile("Rows read", count(on.rows), "", against(on.rows, off?.rows, count), "good"),
    tile("Files read", count(on.files), "", against(on.files, off?.files, count)),
    tile("Bytes read", ...sizeParts(bytes), against(bytes, off?.bytes, size)),
    tile("Time", ...timeParts(on.seconds), against(on.seconds, off?.seconds, time)));
}

function scanCard(explanation, scan, at) {
  const shares = h("div.shares", {}, [["Files", scan.files, count], ["Row groups", scan.row_groups, count], ["Rows", scan.rows, count], ["Bytes", scan.bytes, size]].map(([name, amounts, show]) =>
    h("div.share", { "data-share": name }, h("div.label", {}, name), h("div.value", {}, shareOf(amounts, show)))));
  const reasons = scan.reasons.filter((one) => one.condition || one.why_not).map((one) => [one.condition ? h("code", {}, short(one.condition, 160)) : h("span.muted", {}, "–"), one.synopsis ? short(one.synopsis, 60) : "–",
    one.synopsis ? count(one.files) : "", one.synopsis && one.row_groups !== null ? count(one.row_groups) : "", one.why_not || ""]);
  return h("section.card", { "data-scan": scan.label }, h("header", {}, h("h2", {}, scan.label), h("p", {}, scan.blocks ? `${plural(scan.blocks.count, "block")} in ${plural(scan.blocks.files, "file")}${scan.groups.length > 1 ? `, ${scan.groups.length} of ${scan.groups_in_all} column groups` : ""}` : "")),
    h("div.stack", {}, shares, scan.reason ? note(`Nothing is skipped, as ${scan.reason}.`, "warn") : null,
      scan.unknown_files ? note(`${plural(scan.unknown_files, "file")} without an up-to-date index entry: always read. Index the table in Tables.`, "warn") : null,
      scan.blocks ? blockMap(scan.blocks, explanation.id, at) : null,
      scan.chosen.map((one) => note(`${one.condition} chooses more when the query runs, by ${one.source}.`)),
      reasons.length ? h("details", { open: reasons.length < 6 }, h("summary", {}, "What each condition did"), table([{ name: "condition" }, { name: "by" }, { name: "files skipped", number: true }, { name: "row groups", number: true }, { name: "" }], reasons)) : null));
}

function graphCard(explanation) {
  const flows = explanation.graph.flows.filter((one) => one.removed);
  const names = new Map(explanation.graph.nodes.map((node) => [node.id, node.label]));
  return card("What joins induce", flows.length ? "Predicates that flowed from table to table, and the blocks that each removed." : "No predicate that flowed along these joins removed a block.",
    h(flows.length ? "div.two" : "div", {}, joinGraph(explanation.graph), flows.length ? table([{ name: "from" }, { name: "to" }, { name: "says" }, { name: "round", number: true }, { name: "blocks removed", number: true }],
      flows.slice(0, 40).map((one) => [`${names.get(one.from)}.${one.origin_column}`, `${names.get(one.to)}.${one.column}`, one.says, count(one.round), count(one.removed)])) : null));
}

function resultCard(ran, limits) {
  const numeric = /^(tinyint|smallint|int|bigint|float|double|decimal)/;
  return card("Result", `${plural(ran.rows.length, "row")}${ran.more ? `, the first of more: at most ${count(limits.rows)} are shown` : ""}`,
    ran.rows.length ? table(ran.columns.map((one) => ({ name: one.name, title: one.type, number: numeric.test(one.type) })),
      ran.rows.slice(0, 200).map((row) => row.map((value) => (value === null ? h("span.muted", {}, "NULL") : typeof value === "object" ? JSON.stringify(value) : String(value))))) : note("The query gives no rows."));
}
