// The first page: how much, how fast, how well, and where.

import { h, panel } from "./dom.js";
import { chart, sparkline } from "./charts.js";
import { count, many, ms, rate } from "./format.js";
import { map } from "./map.js";

export function overview({ live, status }) {
  const { tasks } = status;
  const here = status.brokers[0];
  const last = live.points.slice(-90);
  const slots = here.busy + here.free;
  return [
    h("h1", { class: "hidden" }, `Overview of ${status.identity}`),
    h("section", { class: "figures", "aria-label": "Figures" },
      figure("Tasks per second", rate(tasks.rate_s), `${count(tasks.ok)} OK since the start`, sparkline(last.map((point) => point[1]), "recent tasks per second")),
      figure("Failing per second", rate(tasks.failed_rate_s), `${count(tasks.error)} error, ${count(tasks.rejected)} rejected, ${count(tasks.unknown)} unknown`,
        sparkline(last.map((point) => point[2]), "recent failures per second", "error"), tasks.failed_rate_s > 0 ? "bad" : ""),
      figure("Open tasks", count(tasks.open), `${count(tasks.backlog)} wait for a slot`, sparkline(last.map((point) => point[3]), "recently waiting tasks", "wait"), tasks.backlog > 0 ? "warn" : ""),
      figure("Half are done within", ms(tasks.p50_ms), `99 of 100 within ${ms(tasks.p99_ms)}`),
      figure("Busy slots", `${count(here.busy)} / ${count(slots)}`, `${many(status.workers_total, "worker")}, ${many(status.services_total, "service")}`, sparkline(last.map((point) => point[4]), "recently busy slots", "busy"))),
    panel("The network", status.config.network ? `${many(status.brokers_total, "broker")}, as ${status.identity} sees them` : "a broker that stands alone", map(status, live.lost)),
    panel("Throughput", "tasks that ended, each second", chart(live.points, [
      { label: "all tasks", kind: "ok", of: (point) => point[1] },
      { label: "failed", kind: "error", of: (point) => point[2] },
    ], "tasks per second")),
  ];
}

function figure(label, value, note, picture, kind = "") {
  return h("div", { class: `figure ${kind}` }, h("h2", {}, label), h("p", { class: "value" }, value), h("p", { class: "note" }, note), picture);
}
