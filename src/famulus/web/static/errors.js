// What went wrong with tasks: by service and reason, with an example of each, and whether it is safe to try again.

import { counted, h, link, outcome, panel, table, tasksWith, toService, toTask } from "./dom.js";
import { meter } from "./charts.js";
import { ago, count, many, moment, rate } from "./format.js";
import { fact } from "./services.js";

const AGAIN_MS = 2000;

export function errors({ status, memory, render }) {
  if (!memory.asked || performance.now() - memory.asked > AGAIN_MS) {
    memory.asked = performance.now();
    fetchKinds(memory, render);
  }
  memory.order ??= { by: "Times", down: true };
  const { tasks } = status;
  const number = (name) => counted(tasks[name], count(tasks[name]), tasksWith({ outcome: name.toUpperCase() }));
  return [
    h("h1", {}, "Errors"),
    h("dl", { class: "facts few" },
      fact("Failing now", [counted(tasks.failed_rate_s, `${rate(tasks.failed_rate_s)}/s`, tasksWith({ outcome: "failed" })), meaning("the last five seconds")]),
      fact("ERROR", [number("error"), meaning("the worker said that it failed")]), fact("REJECTED", [number("rejected"), meaning("it provably did not run")]),
      fact("UNKNOWN", [number("unknown"), meaning("it may have run")])),
    memory.told ? kinds(memory, tasks, status.at_ms, render) : h("p", { class: "empty" }, "Asking…"),
  ];
}

const meaning = (words) => h("span", { class: "note" }, words);

function kinds(memory, tasks, now_ms, render) {
  const rows = memory.told;
  const seen = rows.reduce((sum, row) => sum + row.times, 0);
  const most = Math.max(1, ...rows.map((row) => row.times));
  const all = tasks.error + tasks.rejected + tasks.unknown;
  const note = all > seen ? `among the ${count(seen)} that were looked at, of ${many(all, "failure")} since the dispatcher started` : `since the ${all < seen ? "herald" : "dispatcher"} started`;
  return panel("By service and reason", rows.length ? note : "", h("div", { class: "stackable" }, table("Failures by service and reason", [
    { label: "Service", cell: (row) => toService(row.service), sort: (row) => row.service },
    { label: "Why", cell: (row) => [outcome(row.outcome), row.reason && h("span", { class: "reason" }, row.reason)], sort: (row) => `${row.outcome} ${row.reason}` },
    { label: "Times", num: true, cell: (row) => h("span", { class: "pair fails" }, meter(row.times, most * 1.0001, ""), counted(row.times, count(row.times), tasksWith({ service: row.service, outcome: row.outcome, ...(row.reason && { reason: row.reason }) }))), sort: (row) => row.times },
    { label: "Try again?", cell: (row) => h("span", { class: "advice" }, row.try_again) },
    { label: "An example", cell: (row) => toTask(row.example) },
    { label: "Last time", num: true, cell: (row) => h("time", { title: moment(row.example.ended_ms) }, ago(now_ms - row.example.ended_ms)), sort: (row) => row.example.ended_ms },
  ], rows, { order: memory.order, onOrder: (order) => { memory.order = order; render(); }, empty: "No task has failed since the herald started." })),
  h("p", { class: "note gap" }, "What each reason means: ", h("code", {}, "famulus explain REASON"), ". Faults of the protocol, processes and counters: ", link("/broker", "Broker"), "."));
}

async function fetchKinds(memory, render) {
  try {
    const answer = await fetch("/api/v1/failures");
    if (answer.ok) { memory.told = (await answer.json()).failures; render(); }
  } catch { /* the page says that the broker is gone */ }
}
