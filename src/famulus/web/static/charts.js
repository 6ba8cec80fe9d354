// Charts as SVG. A point is [at_ms, rate, failed rate, backlog, busy, p50, p99]; that of a worker is [at_ms, busy].

import { h, s } from "./dom.js";
import { clock, count, rate, short } from "./format.js";

const WIDTH = 600;

// Where the pointer is: over which chart, and how far from its left edge. It stays while the picture changes under it.
let pointed = null;
let redraw = () => {};
export const onPoint = (render) => { redraw = render; };

// A round number that is not below the highest value.
function ceiling(values) {
  const highest = Math.max(...values, 0);
  if (highest <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(highest));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12].map((each) => each * step).find((each) => each >= highest * 1.02) ?? highest;
}

const tick = (value) => (value >= 10 || Number.isInteger(value) ? count(value) : rate(value));
const tickWith = (words) => (value) => (value ? words(value).replace(".0 ", " ") : "0");
const there = (value) => value !== null && value !== undefined;

// Runs of points without a gap: [[x, y], ...]; where there is no value there is no line.
function runs(values, xs, top, height) {
  const found = [];
  values.forEach((value, index) => {
    if (!there(value)) return;
    if (!index || !there(values[index - 1])) found.push([]);
    found.at(-1).push([xs[index].toFixed(1), (height - (value / top) * height).toFixed(1)]);
  });
  return found;
}

// A run of one point is a dot: the ends of a line are round.
const lines = (found) => found.map((run) => `M${run.map((at) => at.join(" ")).join("L")}${run.length > 1 ? "" : "l0 0"}`).join("");
const areas = (found, height) => found.map((run) => `M${run[0][0]} ${height}L${run.map((at) => at.join(" ")).join("L")}L${run.at(-1)[0]} ${height}Z`).join("");
const spread = (length, width) => Array.from({ length }, (_, index) => (length > 1 ? (index * width) / (length - 1) : 0));

export function sparkline(values, label, kind = "ok") {
  const height = 28, width = 120;
  const shown = values.filter(there).length > 1 ? values : [0, 0];
  const found = runs(shown, spread(shown.length, width), ceiling(shown.filter(there)) * 1.08, height - 2);
  return s("svg", { class: `spark ${kind}`, viewBox: `0 -1 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("path", { class: "area", d: areas(found, height - 1) }), s("path", { class: "line", d: lines(found) }));
}

// series: [{label, kind, of(point)}], drawn one over the other. `most`: what is full, where something can be. `words`: a
// value as people read it. `thin`: lines without what is below them.
export function chart(points, series, label, { height = 170, most = 0, words = rate, thin = false } = {}) {
  if (points.length < 2) return h("p", { class: "empty tall" }, "There is nothing to draw yet; it takes a few seconds.");
  const all = series.flatMap((each) => points.map(each.of)).filter(there);
  const highest = most > 0 ? Math.max(most, ...all) : ceiling(all);
  // What is counted one by one has whole numbers at its side.
  const top = words === count && !most ? 2 * Math.ceil(highest / 2) : highest;
  const from = points[0][0], to = points.at(-1)[0];
  const xs = points.map((point) => (to > from ? ((point[0] - from) / (to - from)) * WIDTH : 0));
  const at = words === rate || words === count ? tick : tickWith(words);
  const now = series.map((each) => `${each.label} ${words(each.of(points.at(-1)))}`).join(", ");
  const near = pointed?.label === label ? nearest(xs, pointed.share * WIDTH) : -1;
  return h("figure", { class: "chart" },
    h("div", { class: "plot" },
      h("div", { class: "y", "aria-hidden": "true" }, h("span", {}, at(top)), h("span", {}, at(top / 2)), h("span", {}, at(0))),
      s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${label}: now ${now}`, onpointermove: (event) => point(event, label), onpointerleave: leave },
        s("rect", { class: "field", x: 0, y: 0, width: WIDTH, height }),
        [0, 0.5, 1].map((share) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: share * height, y2: share * height })),
        series.map((each) => {
          const found = runs(points.map(each.of), xs, top, height);
          return s("g", { class: each.kind }, !thin && s("path", { class: "area", d: areas(found, height) }), s("path", { class: "line", d: lines(found) }));
        }),
        near >= 0 && s("line", { class: "cross", x1: xs[near].toFixed(1), x2: xs[near].toFixed(1), y1: 0, y2: height })),
      near >= 0 && tip(points[near], series, words, xs[near] / WIDTH, to - from)),
    h("div", { class: "x", "aria-hidden": "true" }, [from, (from + to) / 2, to].map((each) => h("span", {}, short(each, to - from)))),
    h("figcaption", { class: "legend" }, series.map((each) => h("span", { class: each.kind }, each.label))));
}

function nearest(xs, wanted) {
  return xs.reduce((best, x, index) => (Math.abs(x - wanted) < Math.abs(xs[best] - wanted) ? index : best), 0);
}

function tip(point, series, words, share, whole) {
  return h("div", { class: `tip ${share > 0.6 ? "left" : ""}`, vars: { "--at": share.toFixed(4) } }, h("strong", {}, whole > 7200000 ? short(point[0], whole) : clock(point[0])),
    series.map((each) => h("span", { class: each.kind }, `${each.label} `, h("b", {}, there(each.of(point)) ? words(each.of(point)) : "–"))));
}

function point(event, label) {
  const frame = event.currentTarget.getBoundingClientRect();
  pointed = { label, share: Math.min(1, Math.max(0, (event.clientX - frame.left) / frame.width)) };
  redraw();
}
function leave() { pointed = null; redraw(); }

// How much of the past is shown: [label, seconds].
export const RANGES = [["5 min", 300], ["15 min", 900], ["3 h", 10800], ["24 h", 86400]];

export function ranges(offered, chosen, choose) {
  return h("div", { class: "ranges", role: "group", "aria-label": "How much of the past" }, offered.map(([label, seconds]) =>
    h("button", { type: "button", "aria-pressed": seconds === chosen ? "true" : "false", onclick: () => choose(seconds) }, label)));
}

// Points of the last so many seconds: one a second as long as there are such, else one a minute.
export function within(seconds, minutes, range, now_ms) {
  const since = now_ms - range * 1000;
  return (range <= 900 ? seconds : [...minutes, ...seconds.slice(-1)]).filter((each) => each[0] >= since);
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
