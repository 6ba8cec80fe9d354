// What went wrong: workers that broke the protocol, processes that died, and every counter.

import { act } from "./actions.js";
import { h, panel, table } from "./dom.js";
import { age, count } from "./format.js";

const MEANINGS = {
  accepted: "tasks that were accepted", by_flow: "of them: those that needed no router", repeated: "asked for again by their own id, and not run again",
  delegated: "tasks handed over to another broker", ok: "tasks that went well", error: "tasks whose worker answered so", rejected: "tasks that provably did not run",
  unknown: "tasks that may have run", late: "answers to tasks that had their outcome already", attempts_again: "at-least-once tasks given out once more",
  refused_by_worker: "sends to workers that were gone", refused_by_client: "sends to clients that were gone", faults: "messages that broke the protocol",
  ignored: "messages of ignored senders", asked_again: "questions that a lost router left behind", stale_decisions: "decisions that came twice", workers_lost: "workers that were lost",
};
const BAD = new Set(["unknown", "faults", "ignored", "workers_lost", "attempts_again"]);

function forgive(account, identity) {
  const onclick = () => act(account, { title: `Forgive ${identity}`, path: "errors/clear", wish: { identity }, label: "Forgive it" });
  return h("button", { type: "button", class: "button small", "aria-label": `Forgive ${identity}`, onclick }, "Forgive");
}

export function errors({ status, account }) {
  return [
    h("h1", {}, "Errors"),
    panel("Workers that broke the protocol", account.admin ? "they are ignored for a while, unless they are forgiven" : "they are ignored for a while; an admin can forgive them", table("Workers that broke the protocol", [
      { label: "Worker", cell: (row) => row.identity }, { label: "Faults", num: true, cell: (row) => count(row.faults) },
      { label: "Ignored for", num: true, cell: (row) => (row.ignored_s ? `${age(row.ignored_s)} more` : "no longer") },
      ...(account.admin ? [{ label: "Actions", cell: (row) => forgive(account, row.identity) }] : []),
    ], status.errors, { empty: "None. All workers speak as they should." })),
    panel("Processes of the broker", "", table("Processes", [
      { label: "Process", cell: (row) => row.name }, { label: "State", cell: (row) => h("span", { class: `state small ${row.state}` }, row.state) },
      { label: "Restarts", num: true, cell: (row) => h("span", { class: row.restarts ? "wait" : "" }, count(row.restarts)) }, { label: "pid", num: true, cell: (row) => String(row.pid) },
    ], status.processes)),
    panel("Counters", "since the dispatcher started", table("Counters", [
      { label: "Counter", cell: (row) => row[0] }, { label: "Count", num: true, cell: (row) => h("span", { class: row[1] && BAD.has(row[0]) ? "wait" : "" }, row[1].toLocaleString("en")) },
      { label: "Meaning", cell: (row) => MEANINGS[row[0]] ?? "" },
    ], Object.entries(status.counters))),
  ];
}
