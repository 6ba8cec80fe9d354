// The first page: how much, how fast, how well, and where.

import { counted, h, panel, panelWith, tasksWith } from "./dom.js";
import { RANGES, chart, ranges, sparkline, within } from "./charts.js";
import { count, many, ms, rate } from "./format.js";
import { map } from "./map.js";
import { DURATIONS } from "./services.js";

export function overview({ live, status, memory, render }) {
  memory.range ??= 900;
  const points = within(live.points, live.minutes, memory.range, status.at_ms);
  const { tasks } = status;
  const here = status.brokers[0];
  const last = live.points.slice(-90);
  const slots = here.busy + here.free;
  return [
    h("h1", { class: "hidden" }, `Overview of ${status.identity}`),
    h("section", { class: "figures", "aria-label": "Figures" },
      figure("Tasks per second", rate(tasks.rate_s), `${count(tasks.ok)} OK since the start`, sparkline(last.map((point) => point[1]), "recent tasks per second")),
      figure("Failing per second", counted(tasks.failed_rate_s, rate(tasks.failed_rate_s), "/errors"), ["error", "rejected", "unknown"].map((name, index) => [index > 0 && ", ", counted(tasks[name], `${count(tasks[name])}\u00a0${name}`, tasksWith({ outcome: name.toUpperCase() }), "soft")]),
        sparkline(last.map((point) => point[2]), "recent failures per second", "error"), tasks.failed_rate_s > 0 ? "fails bad" : "fails"),
      figure("Open tasks", count(tasks.open), `${count(tasks.backlog)} wait for a slot`, sparkline(last.map((point) => point[3]), "recently waiting tasks", "wait"), tasks.backlog > 0 ? "warn" : ""),
      figure("Half are done within", ms(tasks.p50_ms), `99 of 100 within ${ms(tasks.p99_ms)}`, sparkline(last.map((point) => point[6]), "recent p99", "wait")),
      figure("Busy slots", `${count(here.busy)} / ${count(slots)}`, `${many(status.workers_total, "worker")}, ${many(status.services_total, "service")}`, sparkline(last.map((point) => point[4]), "recently busy slots", "busy"))),
    panel("The network", status.config.network ? `${many(status.brokers_total, "broker")}, as ${status.identity} sees them` : "a broker that stands alone", map(status, live.lost)),
    panelWith(ranges(RANGES, memory.range, (seconds) => { memory.range = seconds; render(); }), "Throughput", "tasks that ended, per second", chart(points, [
      { label: "all tasks", kind: "ok", of: (point) => point[1] },
      { label: "failed", kind: "error", of: (point) => point[2] },
    ], "tasks per second")),
    panel("Durations", "from the arrival of a task to its answer", chart(points, DURATIONS, "durations", { height: 130, words: ms, thin: true })),
  ];
}

function figure(label, value, note, picture, kind = "") {
  return h("div", { class: `figure ${kind}` }, h("h2", {}, label), h("p", { class: "value" }, value), h("p", { class: "note" }, note), picture);
}
