// The join graph: tables with what is left of their blocks, conditions between them, and the predicates that flowed.
import { count, plural, svg } from "./dom.js";

function levels(graph) {
  const near = new Map(graph.nodes.map((node) => [node.id, new Set()]));
  for (const edge of graph.edges) { near.get(edge.left)?.add(edge.right); near.get(edge.right)?.add(edge.left); }
  const left = new Map(graph.nodes.filter((node) => near.get(node.id).size).map((node) => [node.id, node]));
  const rows = [];
  while (left.size) {
    let row = [[...left.values()].sort((a, b) => b.blocks - a.blocks || a.id - b.id)[0].id];
    for (let depth = 0; row.length; depth += 1) {
      for (const id of row) left.delete(id);
      (rows[depth] ??= []).push(...row);
      row = [...new Set(row.flatMap((id) => [...near.get(id)]))].filter((id) => left.has(id)).sort((a, b) => a - b);
    }
  }
  return rows;
}

export function joinGraph(graph) {
  const rows = levels(graph);
  if (!rows.length) return null;
  const [step, box, tall] = [118, 168, 52];
  const width = Math.max(520, 240 * Math.max(...rows.map((row) => row.length)));
  const place = new Map();
  rows.forEach((row, depth) => row.forEach((id, at) => place.set(id, [(width * (at + 1)) / (row.length + 1), 46 + depth * step])));
  const made = svg("svg", { class: "graph", style: `max-width:${width}px`, viewBox: `0 0 ${width} ${rows.length * step - step + 96}`, role: "img", "aria-label":
    `Join graph of ${plural(place.size, "table")}` });
  made.append(svg("defs", {}, svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    svg("path", { d: "M0,0 L8,4 L0,8 z", class: "flow-head" }))));
  for (const edge of graph.edges) {
    const [[x1, y1], [x2, y2]] = [place.get(edge.left), place.get(edge.right)];
    made.append(svg("line", { class: "edge", x1, y1, x2, y2 }));
    const text = svg("text", { class: "small", x: (x1 + x2) / 2 + 18, y: (y1 + y2) / 2 + 16 });
    text.textContent = edge.text.length > 44 ? `${edge.text.slice(0, 43)}…` : edge.text;
    made.append(text);
  }
  const flows = new Map();
  for (const flow of graph.flows) {
    if (!flow.removed) continue;
    const key = `${flow.from} ${flow.to}`;
    const known = flows.get(key) ?? { ...flow, removed: 0, said: [] };
    known.removed += flow.removed;
    known.said.push(`${flow.origin_column} → ${flow.column}: ${flow.says}, removed ${count(flow.removed)} in round ${flow.round}`);
    flows.set(key, known);
  }
  for (const flow of flows.values()) {
    const [[x1, y1], [x2, y2]] = [place.get(flow.from), place.get(flow.to)];
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
    const reach = Math.min(box / 2 / Math.max(Math.abs(dx), 1e-9), tall / 2 / Math.max(Math.abs(dy), 1e-9)) + 4;
    const [ox, oy] = [-9 * dy, 9 * dx];
    const path = svg("path", { class: "flow", "marker-end": "url(#head)",
      d: `M${x1 + reach * dx + ox},${y1 + reach * dy + oy} L${x2 - reach * dx + ox},${y2 - reach * dy + oy}` });
    const hint = svg("title");
    hint.textContent = flow.said.join("\n");
    path.append(hint);
    const right = ox > 0 || (ox === 0 && oy < 0);
    const text = svg("text", { class: "flow-text", x: (x1 + x2) / 2 + 2.2 * ox, y: (y1 + y2) / 2 + 2.2 * oy - 2, "text-anchor": right ? "start" : "end" });
    text.textContent = `${flow.origin_column} → ${flow.column}  −${count(flow.removed)}`;
    made.append(path, text);
  }
  for (const node of graph.nodes) {
    if (!place.has(node.id)) continue;
    const [x, y] = place.get(node.id);
    const share = node.blocks ? node.kept / node.blocks : 1;
    const name = svg("text", { x, y: y - 5, "text-anchor": "middle", "font-size": 13, "font-weight": 600 });
    name.textContent = node.label.length > 24 ? `${node.label.slice(0, 23)}…` : node.label;
    const known = svg("text", { class: "small", x, y: y + 12, "text-anchor": "middle" });
    known.textContent = node.blocks ? `${count(node.kept)} of ${count(node.blocks)} blocks` : "not indexed";
    made.append(svg("rect", { class: "node", x: x - box / 2, y: y - tall / 2, width: box, height: tall, rx: 8 }),
      svg("rect", { class: "gone", x: x - box / 2 + 10, y: y + tall / 2 - 8, width: box - 20, height: 3, rx: 1.5 }),
      svg("rect", { class: "kept", x: x - box / 2 + 10, y: y + tall / 2 - 8, width: (box - 20) * share, height: 3, rx: 1.5 }), name, known);
  }
  return made;
}
