// Charts as SVG. A point is [at_ms, rate, failed rate, backlog, busy]; that of a worker is [at_ms, busy].

import { h, s } from "./dom.js";
import { clock, count, rate } from "./format.js";

const WIDTH = 600;

// A round number that is not below the highest value.
function ceiling(values) {
  const highest = Math.max(...values, 0);
  if (highest <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(highest));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((each) => each * step).find((each) => each >= highest * 1.02) ?? highest;
}

const tick = (value) => (value >= 10 || Number.isInteger(value) ? count(value) : rate(value));

function line(values, top, height, width = WIDTH) {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  return values.map((value, index) => `${index ? "L" : "M"}${(index * step).toFixed(1)} ${(height - (value / top) * height).toFixed(1)}`).join("");
}

const area = (path, height, width = WIDTH) => `${path}L${width} ${height}L0 ${height}Z`;

export function sparkline(values, label, kind = "ok") {
  const height = 28, width = 120;
  const shown = values.length > 1 ? values : [0, 0];
  const path = line(shown, ceiling(shown) * 1.08, height - 2, width);
  return s("svg", { class: `spark ${kind}`, viewBox: `0 -1 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("path", { class: "area", d: area(path, height - 1, width) }), s("path", { class: "line", d: path }));
}

// series: [{label, kind, of(point)}], drawn one over the other. `most`: what is full, where something can be.
export function chart(points, series, label, height = 170, most = 0) {
  if (points.length < 2) return h("p", { class: "empty tall" }, "There is nothing to draw yet; it takes a few seconds.");
  const all = series.flatMap((each) => points.map(each.of));
  const top = most > 0 ? Math.max(most, ...all) : ceiling(all);
  const from = points[0][0], to = points.at(-1)[0];
  const now = series.map((each) => `${each.label} ${rate(each.of(points.at(-1)))}`).join(", ");
  return h("figure", { class: "chart" },
    h("div", { class: "plot" },
      h("div", { class: "y", "aria-hidden": "true" }, h("span", {}, tick(top)), h("span", {}, tick(top / 2)), h("span", {}, "0")),
      s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${label}: now ${now}` },
        [0, 0.5, 1].map((share) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: share * height, y2: share * height })),
        series.map((each) => {
          const path = line(points.map(each.of), top, height);
          return s("g", { class: each.kind }, s("path", { class: "area", d: area(path, height) }), s("path", { class: "line", d: path }));
        }))),
    h("div", { class: "x", "aria-hidden": "true" }, h("span", {}, clock(from)), h("span", {}, clock((from + to) / 2)), h("span", {}, clock(to))),
    h("figcaption", { class: "legend" }, series.map((each) => h("span", { class: each.kind }, each.label))));
}

// How full something is.
export function meter(part, wholeOf, label) {
  const share = wholeOf > 0 ? Math.min(1, part / wholeOf) : 0;
  return h("span", { class: `meter ${share >= 1 ? "full" : ""}`, role: "img", "aria-label": label, vars: { "--share": `${(share * 100).toFixed(1)}%` } }, h("span", {}));
}

export function ring(part, wholeOf, label, kind) {
  const share = wholeOf > 0 ? Math.min(1, part / wholeOf) : 0;
  const round = 2 * Math.PI * 15;
  return s("svg", { class: `ring ${kind}`, viewBox: "0 0 40 40", role: "img", "aria-label": label },
    s("circle", { class: "track", cx: 20, cy: 20, r: 15 }),
    share > 0 && s("circle", { class: "value", cx: 20, cy: 20, r: 15, "stroke-dasharray": `${(share * round).toFixed(1)} ${round.toFixed(1)}`, transform: "rotate(-90 20 20)" }),
    s("text", { x: 20, y: 24, "text-anchor": "middle" }, wholeOf > 0 ? `${Math.round(share * 100)}` : "–"));
}
