// What holds in the network, who has it, what is to be decided, and what was changed last.

import { h, panel, table } from "./dom.js";
import { count, digest, moment } from "./format.js";
import { fact } from "./services.js";

export function config({ status, memory, render }) {
  if (memory.version !== status.config.digest || !memory.told) load(status.config.digest, memory, render);
  if (!status.config.network) {
    return [h("h1", {}, "Config"), h("p", { class: "empty tall" }, "This broker stands alone: what holds is in its settings, and there is no config to share.")];
  }
  const told = memory.told?.config;
  return [
    h("h1", {}, "Config"),
    h("dl", { class: "facts" }, fact("Version", count(status.config.version)), fact("Digest", h("code", {}, digest(status.config.digest))),
      fact("Brokers", status.config.in_step ? "in step" : "not in step", status.config.in_step ? "" : "wait"),
      fact("To be decided", count(status.config.conflicts), status.config.conflicts ? "bad" : "")),
    !told ? h("p", { class: "empty" }, "Waiting for the config…") : [
      told.conflicts.length > 0 && panel("Conflicts", "an admin has to choose: famulus config conflicts", told.conflicts.map((each) => h("article", { class: "conflict" },
        h("h3", {}, each.key), h("ul", {}, each.heads.map((head) => h("li", {}, h("code", {}, head.id.slice(0, 12)), ` ${head.op} accepted by ${head.broker}`, head.id === each.chosen && h("span", { class: "tag" }, "in force")))))) ),
      status.config.conflicts > told.conflicts.length && h("p", { class: "note" }, `${status.config.conflicts - told.conflicts.length} about admins, which are not shown here.`),
      told.warnings.length > 0 && panel("Warnings", "", h("ul", { class: "list" }, told.warnings.map((each) => h("li", {}, h("code", {}, each.key), " ", each.sentence)))),
    ],
    panel("Brokers", "", table("Brokers and their config", [
      { label: "Broker", cell: (row) => row.identity }, { label: "Family", cell: (row) => row.family },
      { label: "State", cell: (row) => h("span", { class: `state small ${row.state}` }, row.state) },
      { label: "Version", num: true, cell: (row) => count(row.version) },
      { label: "Digest", cell: (row) => h("code", { class: row.digest === status.config.digest ? "" : "wait" }, digest(row.digest)) },
    ], status.brokers)),
    told && panel("Services", "what the config says about them", table("Services in the config", [
      { label: "Service", cell: (row) => row[0] }, { label: "Delivery", cell: (row) => row[1].delivery.replaceAll("_", "-") },
      { label: "Time-out", num: true, cell: (row) => `${count(row[1].timeout_ms)} ms` }, { label: "Attempts", num: true, cell: (row) => count(row[1].max_attempts) },
      { label: "Backlog", num: true, cell: (row) => count(row[1].backlog_tasks_max) },
    ], Object.entries(told.services), { empty: "No service is named; the defaults of each family hold." })),
    memory.told && panel("History", "the newest edits, without those about admins", h("ol", { class: "history" }, memory.told.history.map((edit) => h("li", { "data-key": edit.id },
      h("details", {}, h("summary", {}, h("time", {}, moment(edit.at_ms)), h("strong", {}, edit.key), h("span", { class: `tag ${edit.op === "DEL" ? "del" : ""}` }, edit.op === "DEL" ? "removed" : "set"), h("span", { class: "muted" }, `at ${edit.broker}, `, h("code", {}, edit.id.slice(0, 8)))),
        h("pre", {}, JSON.stringify(edit.value, null, 2))))))),
  ];
}

async function load(version, memory, render) {
  if (memory.loading) return;
  memory.loading = true;
  try {
    const answer = await fetch("/api/v1/config");
    if (answer.ok) {
      const told = await answer.json();
      memory.told = told;
      // The herald may hear of a change a moment later than of its digest: then it is asked again.
      if (!told.network || told.config.digest === version) memory.version = version;
    }
  } catch { /* the page says that the broker is gone */ }
  setTimeout(() => { memory.loading = false; }, 1000);
  render();
}
