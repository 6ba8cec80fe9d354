// All services, and one of them.

import { counted, h, link, panel, panelWith, table, tasksWith, toService, toWorker } from "./dom.js";
import { RANGES, chart, meter, ranges, sparkline, within } from "./charts.js";
import { bytes, count, ms, rate, setting } from "./format.js";

// What the herald keeps of a service: five minutes in seconds, three hours in minutes.
const PASTS = RANGES.filter(([, seconds]) => seconds === 300 || seconds === 10800);
export const DURATIONS = [{ label: "p50", kind: "busy", of: (point) => point[5] }, { label: "p99", kind: "wait", of: (point) => point[6] }];

export function services({ live, status, memory, render }) {
  memory.order ??= { by: "Service", down: false };
  const part = (memory.part ?? "").toLowerCase();
  const rows = status.services.filter((service) => service.name.toLowerCase().includes(part));
  const hidden = status.services_total - status.services.length;
  return [
    h("h1", {}, "Services"),
    search("Find a service", memory, render),
    panel(`${count(rows.length)} of ${count(status.services_total)}`, hidden > 0 ? `the ${status.services.length} busiest; all of them: /api/v1/services` : "",
      table("Services", columns(live), rows, { order: memory.order, onOrder: (order) => { memory.order = order; render(); }, empty: "No service yet: start a worker, or declare one in the settings." })),
  ];
}

export function search(label, memory, render) {
  return h("label", { class: "search" }, h("span", { class: "hidden" }, label),
    h("input", { type: "search", placeholder: label, oninput: (event) => { memory.part = event.target.value; render(); } }));
}

const columns = (live) => [
  { label: "Service", cell: (row) => toService(row.name), sort: (row) => row.name },
  { label: "Last two minutes", cell: (row) => sparkline((live.services.get(row.name) ?? []).map((point) => point[1]), `tasks per second of ${row.name}`) },
  { label: "Tasks/s", num: true, cell: (row) => rate(row.rate_s), sort: (row) => row.rate_s },
  { label: "Failed/s", num: true, cell: (row) => counted(row.failed_rate_s, rate(row.failed_rate_s), tasksWith({ service: row.name, outcome: "failed" })), sort: (row) => row.failed_rate_s },
  { label: "Waiting", num: true, cell: (row) => h("span", { class: row.backlog > 0 ? "wait" : "" }, count(row.backlog)), sort: (row) => row.backlog },
  { label: "Slots", num: true, cell: (row) => h("span", { class: "pair" }, meter(row.busy, row.busy + row.free, ""), `${count(row.busy)} / ${count(row.busy + row.free)}`), sort: (row) => row.busy },
  { label: "p50", num: true, cell: (row) => ms(row.p50_ms), sort: (row) => row.p50_ms },
  { label: "p99", num: true, cell: (row) => ms(row.p99_ms), sort: (row) => row.p99_ms },
  { label: "Workers", num: true, cell: (row) => h("span", { class: row.workers ? "" : "bad" }, count(row.workers)), sort: (row) => row.workers },
];

export function service({ live, status, name, memory, render }) {
  const found = status.services.find((each) => each.name === name) ?? memory.told?.service;
  if (!memory.asked || performance.now() - memory.asked > 5000) {
    memory.asked = performance.now();
    fetchOne(name, memory, render);
  }
  const back = h("p", { class: "crumb" }, link("/services", "Services"), " / ", name);
  if (!found) return [back, h("h1", {}, name), h("p", { class: "empty" }, memory.missing ? "There is no such service at this broker." : "Asking…")];
  const told = memory.told;
  const fresh = live.services.get(name) ?? [];
  const past = (told?.seconds ?? []).filter((point) => !fresh.length || point[0] < fresh[0][0]);
  memory.range ??= 300;
  const points = within([...past, ...fresh].slice(-300), told?.minutes ?? [], memory.range, status.at_ms);
  const slots = found.busy + found.free;
  return [
    back,
    h("h1", {}, name),
    h("dl", { class: "facts" },
      fact("Tasks per second", rate(found.rate_s)), fact("Failing per second", counted(found.failed_rate_s, rate(found.failed_rate_s), tasksWith({ service: name, outcome: "failed" }))),
      fact("Waiting", `${count(found.backlog)} (${bytes(found.backlog_bytes)})`, found.backlog ? "wait" : ""), fact("Slots", `${count(found.busy)} of ${count(slots)} busy`),
      fact("p50", ms(found.p50_ms)), fact("p99", ms(found.p99_ms)),
      fact("OK", link(tasksWith({ service: name, outcome: "OK" }), count(found.ok))), ended("Error", found.error, name), ended("Rejected", found.rejected, name), ended("Unknown", found.unknown, name)),
    panelWith(ranges(PASTS, memory.range, (seconds) => { memory.range = seconds; render(); }), "Tasks", "that ended, per second", chart(points, [
      { label: "all tasks", kind: "ok", of: (point) => point[1] }, { label: "failed", kind: "error", of: (point) => point[2] }], `tasks per second of ${name}`)),
    panel("Durations", "from the arrival of a task to its answer", chart(points, DURATIONS, `durations of ${name}`, { height: 130, words: ms, thin: true })),
    panel("Load", "busy slots and waiting tasks", chart(points, [
      { label: "busy slots", kind: "busy", of: (point) => point[4] }, { label: "waiting", kind: "wait", of: (point) => point[3] }], `load of ${name}`, { height: 110, words: count })),
    panel("Workers", "", table(`Workers of ${name}`, [
      { label: "Worker", cell: (row) => toWorker(row.identity) },
      { label: "State", cell: (row) => h("span", { class: `state small ${row.state}` }, row.state) },
      { label: "Slots", num: true, cell: (row) => h("span", { class: "pair" }, meter(row.busy, row.slots, ""), `${count(row.busy)} / ${count(row.slots)}`) },
      { label: "Silent for", num: true, cell: (row) => ms(row.silent_ms) },
    ], told?.workers ?? [], { empty: "No worker offers it now." })),
    told?.policy && panel("In the config", "", h("dl", { class: "facts settings" }, Object.entries(told.policy).map(([key, value]) => fact(h("code", {}, key), setting(key, value))))),
  ];
}

const ended = (label, value, name) => fact(label, counted(value, count(value), tasksWith({ service: name, outcome: label.toUpperCase() })));

async function fetchOne(name, memory, render) {
  try {
    const answer = await fetch(`/api/v1/services/${encodeURIComponent(name)}`);
    memory.missing = answer.status === 404;
    if (answer.ok) memory.told = await answer.json();
    render();
  } catch { /* the page says that the broker is gone */ }
}

export const fact = (label, value, kind = "") => h("div", {}, h("dt", {}, label), h("dd", { class: kind }, value));
