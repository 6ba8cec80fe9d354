// All workers, and one of them.

import { counted, h, link, panel, table, tasksWith, toService, toWorker } from "./dom.js";
import { chart, meter } from "./charts.js";
import { count, ms } from "./format.js";
import { fact, search } from "./services.js";

export function workers({ status, memory, render }) {
  memory.order ??= { by: "Worker", down: false };
  const part = (memory.part ?? "").toLowerCase();
  const rows = status.workers.filter((worker) => [worker.identity, ...worker.services].some((name) => name.toLowerCase().includes(part)));
  const hidden = status.workers_total - status.workers.length;
  return [
    h("h1", {}, "Workers"),
    search("Find a worker or a service", memory, render),
    panel(`${count(rows.length)} of ${count(status.workers_total)}`, hidden > 0 ? "more of them: /api/v1/workers" : "",
      table("Workers", [
        { label: "Worker", cell: (row) => toWorker(row.identity), sort: (row) => row.identity },
        { label: "State", cell: (row) => h("span", { class: `state small ${row.state}` }, row.state), sort: (row) => row.state },
        { label: "Slots", num: true, cell: (row) => h("span", { class: "pair" }, meter(row.busy, row.slots, ""), `${count(row.busy)} / ${count(row.slots)}`), sort: (row) => row.busy / row.slots },
        { label: "Silent for", num: true, cell: (row) => silence(row), sort: (row) => row.silent_ms },
        { label: "Services", cell: (row) => names(row) },
      ], rows, { order: memory.order, onOrder: (order) => { memory.order = order; render(); }, empty: part ? "No worker has this in its name." : "No worker is connected." })),
  ];
}

const silence = (row) => h("span", { class: row.silent_ms > 2 * row.heartbeat_ms ? "bad" : "" }, ms(row.silent_ms));

function names(row) {
  const more = row.services_total - row.services.length;
  return h("span", { class: "names" }, row.services.map((name, index) => [index ? " " : "", toService(name)]), more > 0 && ` and ${count(more)} more`);
}

const AGAIN_MS = 5000;
const POINTS = 300;

export function worker({ status, name, memory, render }) {
  if (!memory.asked || performance.now() - memory.asked > AGAIN_MS) {
    memory.asked = performance.now();
    fetchOne(name, memory, render);
  }
  const listed = status.workers.find((each) => each.identity === name);
  const found = listed ?? memory.told?.worker;
  const points = past(status, listed, memory);
  const back = h("p", { class: "crumb" }, link("/workers", "Workers"), " / ", name);
  if (!found) {
    const hidden = status.workers_total > status.workers.length;
    return [back, h("h1", {}, name),
      h("p", { class: "empty" }, hidden ? "It is not among the workers that are listed here; it may still be connected." : "It is not connected to this broker now."),
      points.length > 1 && load(points, name, 0)];
  }
  const faults = status.errors.find((each) => each.identity === name);
  return [
    back,
    h("h1", {}, name),
    h("dl", { class: "facts" },
      fact("State", h("span", { class: `state ${found.state}` }, found.state)),
      fact("Busy slots", h("span", { class: "pair" }, meter(found.busy, found.slots, ""), `${count(found.busy)} of ${count(found.slots)}`)),
      fact("Silent for", silence(found)), fact("Heartbeat", ms(found.heartbeat_ms)), fact("Lost after", ms(3 * found.heartbeat_ms)),
      fact("Its tasks", link(tasksWith({ worker: name }), "the last ones")),
      faults && fact("Faults", counted(faults.faults, count(faults.faults), "/broker"))),
    load(points, name, found.slots),
    panel("Its services", "", table(`Services of ${name}`, [
      { label: "Service", cell: (row) => toService(row.name) },
      { label: "All its slots here", num: true, cell: (row) => (row.slots === null ? "–" : count(row.slots)) },
      { label: "Waiting", num: true, cell: (row) => (row.backlog === null ? "–" : count(row.backlog)) },
    ], found.services.map((each) => {
      const known = status.services.find((service) => service.name === each);
      return { name: each, slots: known ? known.busy + known.free : null, backlog: known ? known.backlog : null };
    }))),
  ];
}

const load = (points, name, slots) => panel("Load", "busy slots, the last five minutes",
  chart(points, [{ label: "busy slots", kind: "busy", of: (point) => point[1] }], `busy slots of ${name}`, { height: 110, most: slots, words: count }));

// What the herald remembers, and the seconds since it was asked.
function past(status, listed, memory) {
  memory.fresh ??= [];
  if (listed && memory.fresh.at(-1)?.[0] !== status.at_ms) memory.fresh = [...memory.fresh, [status.at_ms, listed.busy]].slice(-POINTS);
  const told = memory.told?.seconds ?? [];
  return [...told, ...memory.fresh.filter((point) => !told.length || point[0] > told.at(-1)[0])].slice(-POINTS);
}

async function fetchOne(name, memory, render) {
  try {
    const answer = await fetch(`/api/v1/workers/${encodeURIComponent(name)}`);
    memory.told = answer.ok ? await answer.json() : null;
    render();
  } catch { /* the page says that the broker is gone */ }
}
