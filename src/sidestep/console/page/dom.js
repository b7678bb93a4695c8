// Elements, and numbers with their units.
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name || "div");
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") made.style.cssText = value;
    else if (key === "class") made.className += ` ${value}`;
    else if (["value", "checked", "disabled", "selected", "hidden"].includes(key)) made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const svg = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

export const $ = (id) => document.getElementById(id);
export const fill = (element, ...children) => { element.replaceChildren(...children.flat(4).filter(Boolean)); return element; };

const whole = new Intl.NumberFormat("en-US");
export const count = (number) => (number === null || number === undefined ? "?" : whole.format(number));
export const plural = (number, thing) => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;

export function percent(share, digits = 1) {
  if (share === null || share === undefined) return "?";
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share === 1 || share === 0 ? 0 : digits)} %`;
}

export function sizeParts(bytes) {
  if (bytes === null || bytes === undefined) return ["?", ""];
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let value = bytes;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return [at === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1), units[at]];
}
export const size = (bytes) => sizeParts(bytes).join(" ");

export function timeParts(seconds) {
  if (seconds === null || seconds === undefined) return ["?", ""];
  if (seconds < 1) return [(1000 * seconds).toFixed(0), "ms"];
  if (seconds < 120) return [seconds.toFixed(seconds < 10 ? 2 : 1), "s"];
  return [`${Math.floor(seconds / 60)}:${String(Math.round(seconds % 60)).padStart(2, "0")}`, "min"];
}
export const time = (seconds) => timeParts(seconds).join(" ");

export const short = (text, most = 90) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
export const oneLine = (text) => text.replace(/\s+/g, " ").trim();

export function card(title, also, ...children) {
  return h("section.card", {}, title ? h("header", {}, h("h2", {}, title), also ? (also instanceof Node ? also : h("p", {}, also)) : null) : null, children);
}

export function tile(label, value, unit = "", also = "", kind = "") {
  return h(`div.tile${kind ? `.${kind}` : ""}`, {}, h("div.label", {}, label),
    h("div.value", {}, value, unit ? h("small", {}, unit) : null), also ? h("div.also", {}, also) : null);
}

export function table(columns, rows, attributes = {}) {
  const numeric = (at) => (columns[at].number ? "number" : columns[at].tight ? "tight" : null);
  return h("div.scroll", {}, h("table", attributes,
    h("thead", {}, h("tr", {}, columns.map((column, at) => h("th", { class: numeric(at), scope: "col", title: column.title }, column.name)))),
    h("tbody", {}, rows.map((row) => {
      const cells = (row.cells ?? row).map((cell, at) => h("td", { class: numeric(at) }, cell));
      if (!row.pick) return h("tr", {}, cells);
      return h("tr.pick", { tabindex: 0, "aria-selected": row.selected ? "true" : "false", onclick: row.pick,
        onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); row.pick(); } } }, cells);
    }))));
}

export function choice(label, names, value, changed, attributes = {}) {
  const select = h("select", { onchange: () => changed(select.value), "aria-label": label, ...attributes },
    names.map((name) => (Array.isArray(name) ? h("option", { value: name[0], selected: name[0] === value }, name[1])
      : h("option", { value: name, selected: name === value }, name))));
  return h("label.field", {}, label, select);
}

export function slider(label, { min, max, value, step = 1, show = count, id }, moved) {
  const output = h("output", {}, show(value));
  const input = h("input", { type: "range", min, max, step, value, id, "aria-label": label,
    oninput: () => { output.textContent = show(Number(input.value)); moved(Number(input.value)); } });
  return h("div.slider", {}, h("div.top", {}, h("span.muted", {}, label), output), input);
}

export function empty(title, text, ...buttons) {
  return h("div.empty", {}, h("h2", {}, title), h("p", {}, text), h("div.row", {}, buttons));
}

export const note = (text, kind = "") => h(`div.note${kind ? `.${kind}` : ""}`, { role: kind === "bad" ? "alert" : null }, text);
export const busy = (text) => h("div.stack", { "aria-busy": "true" }, h("p.muted", {}, text), h("div.bar.indefinite", {}, h("i")));
export const bar = (share) => h("div.bar", { role: "progressbar", "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100 },
  h("i", { style: `width:${Math.max(0, Math.min(100, 100 * share))}%` }));

export function after(milliseconds, act) {
  let waiting = null;
  return (...values) => { clearTimeout(waiting); waiting = setTimeout(() => act(...values), milliseconds); };
}
