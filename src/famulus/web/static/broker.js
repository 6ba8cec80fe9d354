// For those who operate the broker: its processes, workers that broke the protocol, and every counter.

import { act } from "./actions.js";
import { counted, h, panel, table, tasksWith } from "./dom.js";
import { age, count } from "./format.js";

// By the names of the counters in the status: how they are called here, what they count, and whether that is trouble.
const COUNTERS = {
  accepted: ["Accepted", "tasks that were accepted"],
  by_flow: ["Without a router", "accepted tasks whose header was known, so that no router had to read it"],
  repeated: ["Repeated", "tasks asked for again by their own id, and not run again"],
  delegated: ["Handed over", "tasks that another broker was given"],
  ok: ["OK", "tasks that went well"],
  error: ["Error", "tasks whose worker said that they failed"],
  rejected: ["Rejected", "tasks that provably did not run"],
  unknown: ["Unknown", "tasks that may have run", true],
  late: ["Late answers", "answers to tasks that had their outcome already"],
  attempts_again: ["Tried again", "at-least-once tasks that were given to another worker", true],
  refused_by_worker: ["Worker gone", "messages to workers that were gone"],
  refused_by_client: ["Client gone", "messages to clients that were gone"],
  faults: ["Faults", "messages that broke the protocol", true],
  ignored: ["Ignored", "messages from senders that are ignored", true],
  asked_again: ["Asked again", "questions that were asked again, since their router was lost"],
  stale_decisions: ["Decided twice", "decisions of routers that came too late"],
  workers_lost: ["Workers lost", "workers that were lost", true],
};
const about = (name) => COUNTERS[name] ?? [name.replaceAll("_", " "), ""];

function amount([name, value]) {
  const text = value.toLocaleString("en");
  if (["error", "rejected", "unknown"].includes(name)) return counted(value, text, tasksWith({ outcome: name.toUpperCase() }));
  return h("span", { class: value && about(name)[2] ? "wait" : "" }, text);
}

function forgive(account, identity) {
  const onclick = () => act(account, { title: `Forgive ${identity}`, path: "errors/clear", wish: { identity }, label: "Forgive it" });
  return h("button", { type: "button", class: "button small", "aria-label": `Forgive ${identity}`, onclick }, "Forgive");
}

export function broker({ status, account }) {
  return [
    h("h1", {}, "Broker"),
    panel("Processes of the broker", "", table("Processes", [
      { label: "Process", cell: (row) => row.name }, { label: "State", cell: (row) => h("span", { class: `state small ${row.state}` }, row.state) },
      { label: "Restarts", num: true, cell: (row) => h("span", { class: row.restarts ? "wait" : "" }, count(row.restarts)) }, { label: "pid", num: true, cell: (row) => String(row.pid) },
    ], status.processes)),
    panel("Workers that broke the protocol", account.admin ? "they are ignored for a while, unless they are forgiven" : "they are ignored for a while; an admin can forgive them", table("Workers that broke the protocol", [
      { label: "Worker", cell: (row) => row.identity }, { label: "Faults", num: true, cell: (row) => count(row.faults) },
      { label: "Ignored for", num: true, cell: (row) => (row.ignored_s ? `${age(row.ignored_s)} more` : "no longer") },
      ...(account.admin ? [{ label: "Actions", cell: (row) => forgive(account, row.identity) }] : []),
    ], status.errors, { empty: "None: all workers keep to the protocol." })),
    panel("Counters", "since the dispatcher started", table("Counters", [
      { label: "Counter", cell: (row) => about(row[0])[0] }, { label: "Count", num: true, cell: amount },
      { label: "Meaning", cell: (row) => about(row[0])[1] },
    ], Object.entries(status.counters))),
  ];
}
