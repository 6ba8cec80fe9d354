// What holds in the network, who has it, what is to be decided, and what was changed last.

import { act, edit } from "./actions.js";
import { h, panel, table, toBroker } from "./dom.js";
import { count, digest, many, moment, ms, setting } from "./format.js";
import { fact } from "./services.js";

export function config({ status, account, memory, render }) {
  if (memory.version !== status.config.digest || !memory.told) load(status.config.digest, memory, render);
  if (!status.config.network) {
    return [h("h1", {}, "Config"),
      h("p", { class: "note" }, "This broker stands alone: only its own settings apply, and there is no config to share. So there are no admins, and nobody can log in."),
      memory.told?.settings && settings(memory.told.settings)];
  }
  if (!account.admin) memory.shown = memory.shownOf = null;
  else if (memory.shownOf !== status.config.digest) look(status.config.digest, account, memory, render);
  const told = memory.told?.config, shown = memory.shown;
  return [
    h("h1", {}, "Config"),
    h("dl", { class: "facts" }, fact("Version", count(status.config.version)), fact("Digest", h("code", {}, digest(status.config.digest))),
      fact("Brokers", status.config.in_step ? "in step" : "not in step", status.config.in_step ? "" : "wait"),
      fact("To be decided", count(status.config.conflicts), status.config.conflicts ? "bad" : "")),
    account.why && h("p", { class: "note" }, `Nobody can log in here: ${account.why}.`),
    !told ? h("p", { class: "empty" }, "Waiting for the config…") : [
      told.conflicts.length > 0 && panel("Conflicts", shown ? "choose which value to keep" : "an admin has to choose: log in, or famulus config conflicts",
        told.conflicts.map((each) => conflict(each, shown?.keys[each.key], account))),
      status.config.conflicts > told.conflicts.length && h("p", { class: "note" }, `${status.config.conflicts - told.conflicts.length} about admins, which are not shown here.`),
      told.warnings.length > 0 && panel("Warnings", "", h("ul", { class: "list" }, told.warnings.map((each) => h("li", {}, h("code", {}, each.key), " ", each.sentence)))),
    ],
    panel("Brokers", "", table("Brokers and their config", [
      { label: "Broker", cell: toBroker }, { label: "Family", cell: (row) => row.family },
      { label: "State", cell: (row) => h("span", { class: `state small ${row.state}` }, row.state) },
      { label: "Version", num: true, cell: (row) => count(row.version) },
      { label: "Digest", cell: (row) => h("code", { class: row.digest === status.config.digest ? "" : "wait" }, digest(row.digest)) },
      ...(account.admin ? [{ label: "Actions", cell: (row) => brokerActions(row, told?.broker_states[row.identity] ?? row.state, account) }] : []),
    ], status.brokers)),
    shown && panel("Keys", "all that is set, but for admins and states", keys(shown, account),
      h("p", { class: "buttons left" }, h("button", { type: "button", class: "button", onclick: () => edit(account, { key: "", path: "set" }) }, "Set another key…"))),
    told && panel("Services", "what the config says about them", table("Services in the config", policies, Object.entries(told.services), { empty: "No service is named; the defaults of each family apply." })),
    memory.told && panel("History", "the newest edits, without those about admins", h("ol", { class: "history" }, memory.told.history.map((edit) => h("li", { "data-key": edit.id },
      h("details", {}, h("summary", {}, h("time", {}, moment(edit.at_ms)), h("strong", {}, edit.key), h("span", { class: `tag ${edit.op === "DEL" ? "del" : ""}` }, edit.op === "DEL" ? "removed" : "set"), h("span", { class: "muted" }, `at ${edit.broker}, `, h("code", {}, edit.id.slice(0, 8)))),
        h("pre", {}, JSON.stringify(edit.value, null, 2))))))),
  ];
}

// Those of a broker that stands alone, as they are in force: from its file, its flags, and the defaults.
function settings(told) {
  const { services, default_service, bounds, ...own } = told;
  const list = (values) => h("dl", { class: "facts settings" }, Object.entries(values).map(([name, value]) => fact(h("code", {}, name), setting(name, value))));
  return [
    panel("Settings", "in force now: from flags, the file of settings, and the defaults", list(own)),
    panel("Bounds", "what it holds at most", list(bounds)),
    panel("Services", "what is declared; the first row is for all others", table("Services in the settings", policies, [["(all others)", default_service], ...Object.entries(services)])),
  ];
}

const policies = [
  { label: "Service", cell: (row) => row[0] }, { label: "Delivery", cell: (row) => row[1].delivery.replaceAll("_", "-") },
  { label: "Time-out", num: true, cell: (row) => ms(row[1].timeout_ms) }, { label: "Attempts", num: true, cell: (row) => count(row[1].max_attempts) },
  { label: "Backlog", num: true, cell: (row) => many(row[1].backlog_tasks_max, "task") },
];

function conflict(told, key, account) {
  const heads = key?.heads.map((head) => head.id);
  const choose = (head) => act(account, { title: `Choose for ${told.key}`, path: "resolve", wish: { key: told.key, choose: head.id, heads: { [told.key]: heads } }, label: "Keep this one" });
  return h("article", { class: "conflict", "data-key": told.key }, h("h3", {}, told.key),
    h("ul", {}, (key?.heads ?? told.heads).map((head) => h("li", {},
      h("p", {}, h("code", {}, head.id.slice(0, 12)), ` ${head.op === "DEL" ? "removed" : "set"} at ${head.broker}`, key && ` by ${head.author}`, head.id === told.chosen && h("span", { class: "tag" }, "in force"),
        key && [" ", h("button", { type: "button", class: "button small", "aria-label": `Choose ${head.id.slice(0, 12)} for ${told.key}`, onclick: () => choose(head) }, "Choose this")]),
      key && head.op === "PUT" && h("pre", {}, JSON.stringify(head.value, null, 2))))),
    key && h("button", { type: "button", class: "button small", onclick: () => edit(account, { key: told.key, present: key.value, heads, path: "resolve" }) }, "Another value…"));
}

// By what the config wants of a broker: it may be gone, and still be disabled for its next start.
function brokerActions(broker, wanted, account) {
  const button = (label, path, danger) => {
    const onclick = () => act(account, { title: `${label} ${broker.identity}`, path, wish: { identity: broker.identity }, label, danger });
    return h("button", { type: "button", class: "button small", "aria-label": `${label} ${broker.identity}`, onclick }, label);
  };
  return h("span", { class: "actions" }, wanted !== "active" && button("Enable", "enable"), wanted === "active" && button("Drain", "drain"),
    wanted !== "disabled" && button("Disable", "disable", true), !broker.alive && !broker.here && button("Forget", "forget", true));
}

// Admins and revoked keys are changed by commands, and the state of a broker by its buttons above.
const byHand = (key) => !["admin/", "revoked/", "broker_state/"].some((kind) => key.startsWith(kind));

function keys(shown, account) {
  const rows = Object.entries(shown.keys).filter(([key, view]) => byHand(key) && view.op === "PUT" && view.heads.length === 1);
  const heads = (view) => view.heads.map((head) => head.id);
  return table("Keys of the config", [
    { label: "Key", cell: ([key]) => key },
    { label: "Value", cell: ([, view]) => h("code", { class: "value" }, JSON.stringify(view.value)) },
    { label: "By", cell: ([, view]) => view.heads[0].author },
    { label: "Actions", cell: ([key, view]) => h("span", { class: "actions" },
      h("button", { type: "button", class: "button small", "aria-label": `Edit ${key}`, onclick: () => edit(account, { key, present: view.value, heads: heads(view), path: "set" }) }, "Edit"),
      // To take a broker out of the config is to forget it: that is said above, and only of one that is gone.
      !key.startsWith("broker/") && h("button", { type: "button", class: "button small", "aria-label": `Unset ${key}`, onclick: () => act(account, { title: `Unset ${key}`, path: "unset", wish: { key, heads: { [key]: heads(view) } }, label: "Unset it", danger: true }) }, "Unset")) },
  ], rows.sort((a, b) => (a[0] < b[0] ? -1 : 1)), { empty: "No key is set." });
}

// The keys with their heads, which only admins see. Once for each config: the broker checks the password each time.
async function look(version, account, memory, render) {
  if (memory.looking) return;
  memory.looking = true;
  try {
    memory.shown = await account.get("config");
    memory.shownOf = memory.shown.digest;
  } catch { /* the next status asks again, if somebody is still logged in */ }
  setTimeout(() => { memory.looking = false; }, 1000);
  render();
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
