// Curves, drawn by plotly in the page's own colours.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function curves(element, lines, { x, y, share = true, xShare = false, log = false, marks = [], tall = false, least = null }) {
  element.className = `plot${tall ? " tall" : ""}`;
  const text = colour("--muted");
  const grid = colour("--line");
  const axis = { gridcolor: grid, linecolor: colour("--line-strong"), zeroline: false, tickfont: { size: 11, color: text },
    title: { font: { size: 12, color: text }, standoff: 8 }, automargin: true };
  const palette = [colour("--accent"), colour("--k-read"), colour("--k-selector"), colour("--k-range")];
  const data = lines.map((line, at) => ({
    type: "scatter", mode: line.points.length < 15 ? "lines+markers" : "lines", name: line.name, showlegend: lines.length > 1,
    x: line.points.map((point) => point[0]), y: line.points.map((point) => point[1]), marker: { size: 6, symbol: at },
    line: { color: palette[at % palette.length], width: 2, dash: ["solid", "dash", "dot", "dashdot"][at % 4], shape: line.step ? "hv" : "linear" },
    hovertemplate: `%{y${share ? ":.1%" : ""}}<extra>${line.name}</extra>`,
  }));
  const layout = {
    margin: { l: 46, r: 12, t: lines.length > 1 ? 26 : 8, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: colour("--sans"), color: text, size: 12 }, hovermode: "x unified", hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--line-strong"), font: { color: colour("--text") } },
    xaxis: { ...axis, title: { ...axis.title, text: x }, tickformat: xShare ? ".0%" : log ? "~s" : undefined, type: log ? "log" : "linear", ...(log ? { tickvals: [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))] } : {}), ...(least === null ? {} : { range: [least, Math.max(...lines.flatMap((line) => line.points.map((point) => point[0])), ...marks) + 0.05] }) },
    yaxis: { ...axis, title: { ...axis.title, text: y }, tickformat: share ? (Math.max(...lines.flatMap((line) => line.points.map((point) => point[1]))) < 0.06 ? ".1%" : ".0%") : undefined, rangemode: "tozero" },
    legend: { orientation: "h", y: 1.14, x: 0, font: { color: text } },
    shapes: marks.map((at) => ({ type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", line: { color: colour("--accent"), width: 1.2, dash: "dot" } })),
  };
  const draw = () => globalThis.Plotly?.react(element, data, layout, { displayModeBar: false, responsive: true });
  element.redraw = () => curves(element, lines, { x, y, share, xShare, log, marks, tall, least });
  requestAnimationFrame(draw);
  return element;
}

export function redrawAll() {
  for (const element of document.querySelectorAll(".plot, .map canvas")) element.redraw?.();
}
