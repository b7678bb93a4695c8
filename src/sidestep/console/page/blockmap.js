// A map of blocks: a small square for each, in file order, coloured by what became of it. Up to hundreds of thousands.
import { $, count, fill, h, percent, plural, size } from "./dom.js";
import { api } from "./api.js";

const names = {
  read: ["--k-read", "read"], "zone map": ["--k-zone", "zone map"], feature: ["--k-feature", "feature"], partition: ["--k-partition", "partition"],
  "range-set": ["--k-range", "range-set"], GRT: ["--k-grt", "global range table"], "value set": ["--k-values", "value set"],
  "induced predicate": ["--k-induced", "induced by a join"], "run-time selector": ["--k-selector", "chosen at run time"], "Bloom filter": ["--k-bloom", "Bloom filter"],
};
export const label = (kind) => names[kind]?.[1] ?? kind;
const token = (kind) => names[kind]?.[0] ?? "--k-other";
const rgb = (kind) => {
  const text = getComputedStyle(document.documentElement).getPropertyValue(token(kind)).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
};

export function decode(text) {
  const raw = atob(text);
  const codes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) codes[at] = raw.charCodeAt(at);
  return codes;
}

// The largest squares with which all fit into the height.
export function cellSize(blocks, width, height) {
  for (const side of [16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2]) {
    if (Math.ceil(blocks / Math.floor(width / side)) * side <= height) return side;
  }
  return 2;
}

export function legend(map, only, picked) {
  return h("div.legend", {}, map.kinds.filter((one) => one.blocks).map((one) => h("button.chip", {
    "aria-pressed": String(only.has(one.kind)), "data-kind": one.kind, onclick: () => picked(one.kind),
    title: `${plural(one.rows, "row")}, ${size(one.bytes)}; show these alone`,
  }, h("span.dot", { style: `background:var(${token(one.kind)})` }), label(one.kind), h("span.count", {}, count(one.blocks)))));
}

export function blockMap(map, explanation, scan, { height = 360, small = false } = {}) {
  const codes = decode(map.codes);
  const only = new Set();
  const canvas = h("canvas", { tabindex: small ? null : 0, role: "img", "aria-label":
    `Map of ${plural(map.count, "block")}: ${map.kinds.filter((one) => one.blocks).map((one) => `${count(one.blocks)} ${label(one.kind)}`).join(", ")}` });
  const chips = h("div");
  let side = 10;
  let across = 1;
  let at = -1;

  function draw() {
    const width = canvas.clientWidth || canvas.parentElement?.clientWidth || 800;
    side = cellSize(map.count, width, height);
    across = Math.max(1, Math.floor(width / side));
    const down = Math.max(1, Math.ceil(map.count / across));
    const scale = Math.max(1, Math.round(devicePixelRatio));
    canvas.width = across * side * scale;
    canvas.height = down * side * scale;
    canvas.style.width = `${across * side}px`;
    canvas.style.height = `${down * side}px`;
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const little = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
    const colours = map.kinds.map((one) => {
      const [red, green, blue] = rgb(one.kind);
      const alpha = only.size && !only.has(one.kind) ? 40 : 255;
      return little ? ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0 : ((red << 24) | (green << 16) | (blue << 8) | alpha) >>> 0;
    });
    const gap = side >= 4 ? scale : 0;
    const box = side * scale - gap;
    for (let block = 0; block < codes.length; block += 1) {
      const colour = colours[codes[block]];
      const left = (block % across) * side * scale;
      const top = Math.floor(block / across) * side * scale;
      for (let y = top; y < top + box; y += 1) pixels.fill(colour, y * canvas.width + left, y * canvas.width + left + box);
    }
    context.putImageData(image, 0, 0);
    if (at >= 0) outline(context, scale);
    canvas.dataset.drawn = String(codes.length);
  }

  function outline(context, scale) {
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--text").trim();
    context.lineWidth = 2 * scale;
    context.strokeRect((at % across) * side * scale, Math.floor(at / across) * side * scale, Math.max(side, 4) * scale, Math.max(side, 4) * scale);
  }

  const known = new Map();
  let asked = null;
  async function tell(block, x, y) {
    const tip = $("tip");
    at = block;
    draw();
    if (block < 0) { tip.hidden = true; return; }
    const kind = map.kinds[codes[block]].kind;
    const what = h("div.what", {}, h("span.dot", { style: `background:var(${token(kind)})` }), kind === "read" ? "Read" : `Skipped: ${label(kind)}`);
    fill(tip, what, h("div.muted", {}, known.has(block) ? "" : "Looking up the proof…"));
    tip.hidden = false;
    place(tip, x, y);
    clearTimeout(asked);
    asked = setTimeout(async () => {
      try {
        if (!known.has(block)) known.set(block, await api.block(explanation, scan, block));
        if (at !== block) return;
        const one = known.get(block);
        fill(tip, what, h("div", { id: "proof" }, one.proof),
          h("div.fine", {}, `Block ${count(block)} · ${one.file}, row group ${one.row_group} · ${plural(one.rows, "row")} · ${size(one.bytes)}`));
      } catch (problem) { fill(tip, what, problem.message); }
      place(tip, x, y);
    }, known.has(block) ? 0 : 70);
  }

  function place(tip, x, y) {
    const { width, height: tall } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 12))}px`;
    tip.style.top = `${y + 18 + tall > innerHeight ? Math.max(8, y - tall - 14) : y + 18}px`;
  }

  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / side);
    const block = Math.floor((event.clientY - box.top) / side) * across + column;
    return column >= 0 && column < across && block >= 0 && block < map.count ? block : -1;
  };
  if (!small) {
    canvas.addEventListener("pointermove", (event) => { const block = under(event); if (block !== at) tell(block, event.clientX, event.clientY); });
    canvas.addEventListener("pointerleave", () => tell(-1));
    canvas.addEventListener("blur", () => tell(-1));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -at, End: map.count - 1 - at }[event.key];
      if (event.key === "Escape") { tell(-1); return; }
      if (step === undefined) return;
      event.preventDefault();
      const next = Math.max(0, Math.min(map.count - 1, Math.max(0, at) + (at < 0 ? 0 : step)));
      const box = canvas.getBoundingClientRect();
      tell(next, box.left + (next % across) * side, box.top + Math.floor(next / across) * side);
    });
  }
  function chosen(kind) {
    if (only.has(kind)) only.delete(kind); else only.add(kind);
    fill(chips, legend(map, only, chosen));
    draw();
  }
  fill(chips, legend(map, only, chosen));
  canvas.redraw = draw;
  const whole = h("div", {}, chips, h("div.map", {}, canvas));
  new ResizeObserver(() => { canvas.style.width = "100%"; draw(); }).observe(whole);
  return whole;
}

export const shareOf = (amounts, show = count) => (amounts && amounts.total !== null
  ? [show(amounts.kept), h("span", {}, ` of ${show(amounts.total)}`), amounts.total ? h("span", {}, ` · ${percent(amounts.kept / amounts.total)}`) : ""] : ["?"]);
