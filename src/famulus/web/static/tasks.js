// The last tasks that have ended, those that somebody looks for, and older ones from the journal.

import { h, outcome, panel, table, toService, toTask, toWorker } from "./dom.js";
import { ago, bytes, count, many, ms, precise, moment, progress } from "./format.js";

const AGAIN_MS = 2000;
const SHOWN = 100;
const FIELDS = ["outcome", "service", "reason", "worker", "principal"];
const OUTCOMES = [["", "Any outcome"], ["failed", "All that failed"], ["ERROR", "ERROR"], ["REJECTED", "REJECTED"], ["UNKNOWN", "UNKNOWN"], ["OK", "OK"]];

export function tasks({ query, memory, render, go }) {
  const wanted = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value));
  const key = String(new URLSearchParams(wanted));
  if (memory.key !== key) Object.assign(memory, { key, asked: 0, older: [], problem: "", done: false, told: memory.told && { ...memory.told, tasks: null } });
  if (!memory.asked || performance.now() - memory.asked > AGAIN_MS) {
    memory.asked = performance.now();
    fetchLast(wanted, memory, render);
  }
  const told = memory.told;
  const change = (name, value) => go(`/tasks?${new URLSearchParams({ ...wanted, [name]: value })}`);
  return [
    h("h1", {}, "Tasks"),
    filters(wanted, told?.choices ?? {}, change, go),
    told?.tasks && told.running?.length ? underWay(told.running) : null,
    told?.tasks ? list([...told.tasks, ...memory.older], wanted, told, memory, render) : h("p", { class: "empty" }, "Asking…"),
  ];
}

function filters(wanted, choices, change, go) {
  const of = (name, any) => [["", any], ...[...new Set([...(choices[name] ?? []), ...(wanted[name] ? [wanted[name]] : [])])].map((value) => [value, value])];
  const one = (name, label, options) => h("label", { class: "choice" }, h("span", {}, label),
    h("select", { name, class: wanted[name] ? "set" : null, chosen: wanted[name] ?? "", onchange: (event) => change(name, event.target.value) },
      options.map(([value, text]) => h("option", { value }, text))));
  return h("div", { class: "choices", role: "search", "aria-label": "Which tasks" },
    one("outcome", "Outcome", OUTCOMES), one("service", "Service", of("service", "Any service")), one("reason", "Reason", of("reason", "Any reason")),
    one("worker", "Worker", of("worker", "Any worker")),
    (choices.principal?.length || wanted.principal) ? one("principal", "Principal", of("principal", "Anybody's")) : null,
    Object.keys(wanted).length ? h("button", { type: "button", class: "button", onclick: () => go("/tasks") }, "Show all") : null);
}

function list(rows, wanted, told, memory, render) {
  const named = rows.some((row) => row.principal);
  const failed = rows.filter((row) => row.outcome !== "OK").length;
  return panel(many(rows.length, "task"), `${failed && failed < rows.length ? `${count(failed)} of them failed; ` : ""}the newest first. Of very many in a second only some are kept here${told.journal ? "; the journal has them all" : ""}.`,
    h("div", { class: "stackable" }, table("Tasks", [
      { label: "Task", cell: toTask },
      { label: "Outcome", cell: (row) => [outcome(row.outcome), row.reason && h("span", { class: "reason" }, row.reason)] },
      { label: "Service", cell: (row) => toService(row.service) },
      { label: "Worker", cell: who },
      ...(named ? [{ label: "Principal", cell: (row) => row.principal || "–" }] : []),
      { label: "Took", num: true, cell: (row) => h("span", { title: `${ms(row.queue_ms)} of that until it was given to a worker` }, ms(row.total_ms)) },
      { label: "Size", num: true, cell: (row) => h("span", { title: "of the task, and of its answer" }, `${bytes(row.request_bytes)} → ${bytes(row.response_bytes)}`) },
      { label: "Ended", num: true, cell: (row) => h("time", { title: moment(row.ended_ms) }, precise(row.ended_ms)) },
    ], rows, { empty: Object.keys(wanted).length ? "No task that is kept here is like this." : "No task has ended since the herald started." })),
    older(rows, wanted, told, memory, render));
}

function underWay(rows) {
  const now = Date.now();
  return panel(`${many(rows.length, "task")} under way`, "Those whose functions say how far they have got, the one that did so last first.",
    h("div", { class: "stackable" }, table("Tasks under way", [
      { label: "Task", cell: toTask },
      { label: "Progress", num: true, cell: (row) => progress(row.done) },
      { label: "Note", cell: (row) => row.note || "–" },
      { label: "Service", cell: (row) => toService(row.service) },
      { label: "Worker", cell: who },
      { label: "Said so", num: true, cell: (row) => h("time", { title: moment(row.told_ms) }, ago(Math.max(0, now - row.told_ms))) },
      { label: "Came", num: true, cell: (row) => h("time", { title: moment(row.arrived_ms) }, ago(Math.max(0, now - row.arrived_ms))) },
    ], rows)));
}

function who(row) {
  if (row.worker) return toWorker(row.worker);
  return row.delegated_to ? ["broker ", row.delegated_to] : h("span", { class: "muted" }, "nobody");
}

function older(rows, wanted, told, memory, render) {
  if (!told.journal) return h("p", { class: "note gap" }, "This broker keeps no journal, so older tasks are not known.");
  if (wanted.principal) return h("p", { class: "note gap" }, "Older tasks are in the journal, which does not say whose they were.");
  if (memory.done) return h("p", { class: "note gap" }, "The journal has no older ones like this.");
  return h("p", { class: "gap" },
    h("button", { type: "button", class: "button", "aria-disabled": memory.searching ? "true" : null, onclick: () => search(rows, wanted, memory, render) }, memory.searching ? "Searching the journal…" : "Older ones, from the journal"),
    memory.problem && h("span", { class: "complaint", role: "alert" }, ` ${memory.problem}`));
}

async function fetchLast(wanted, memory, render) {
  const key = memory.key;
  try {
    const answer = await fetch(`/api/v1/tasks?${new URLSearchParams({ ...wanted, limit: SHOWN })}`);
    if (answer.ok && memory.key === key) { memory.told = await answer.json(); render(); }
  } catch { /* the page says that the broker is gone */ }
}

async function search(rows, wanted, memory, render) {
  if (memory.searching) return;
  const key = memory.key;
  Object.assign(memory, { searching: true, problem: "" });
  render();
  try {
    // Those that are shown stay as they are, and older ones follow.
    const until = rows.length ? { until_ms: rows.at(-1).ended_ms } : {};
    const answer = await fetch(`/api/v1/tasks?${new URLSearchParams({ ...wanted, ...until, from: "journal", limit: SHOWN })}`);
    const told = await answer.json();
    if (memory.key === key) {
      const known = new Set(rows.map((row) => row.message_id));
      const fresh = (told.tasks ?? []).filter((row) => !known.has(row.message_id));
      memory.older = [...memory.older, ...fresh];
      memory.problem = answer.ok ? "" : told.error;
      memory.done = answer.ok && !fresh.length;
    }
  } catch { memory.problem = "The broker does not answer."; }
  memory.searching = false;
  render();
}
