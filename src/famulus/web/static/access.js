// Who is connected as whom, and who was refused. Names come from outside, from strangers too: they are text here.

import { h, panel, table } from "./dom.js";
import { age, count, moment } from "./format.js";

const KEYS = {
  none: ["No keys", "Whoever reaches the ports of this broker may use them."],
  remote: ["Keys from elsewhere", "Whoever comes from another machine needs a key that is in the config; whoever comes from this one needs none, and may do anything."],
  all: ["Keys from everybody", "Only those whose key is in the config may connect."],
};

export const PLAIN = "Plain on purpose: whatever has neither keys nor TLS can be read and changed on its way.";

export function access({ status }) {
  const [title, meaning] = KEYS[status.keys] ?? [status.keys, ""];
  return [
    h("h1", {}, "Access"),
    h("p", { class: "note" }, h("strong", {}, title), ". ", meaning),
    panel("Connected", "by the names in their passes", table("Connected", [
      { label: "Principal", cell: (row) => row.name }, { label: "Port", cell: (row) => port(row.port) },
      { label: "Connections", num: true, cell: (row) => count(row.connections) },
      { label: "For", num: true, cell: (row) => age(Math.max(0, status.at_ms - row.since_ms) / 1000) },
    ], status.principals, { empty: "Nobody is connected with a key." })),
    panel("Refused", "the newest first", table("Refused", [
      { label: "Who", cell: (row) => who(row) },
      { label: "Wanted", cell: (row) => [row.wanted, row.service && [" ", h("strong", {}, row.service)]] },
      { label: "Why not", cell: (row) => row.why },
      { label: "From", cell: (row) => row.host || "–" }, { label: "Port", cell: (row) => port(row.port) },
      { label: "Times", num: true, cell: (row) => count(row.times) }, { label: "Last time", cell: (row) => moment(row.at_ms) },
    ], status.refusals, { empty: "Nobody was refused since the dispatcher started." })),
  ];
}

const port = (name) => ({ frontend: "clients", backend: "workers" })[name] ?? name;

function who(row) {
  if (row.principal) return row.principal;
  if (!row.key) return h("span", { class: "muted" }, "no key");
  return h("span", { title: row.key }, "unknown key ", h("code", {}, row.key.slice(0, 12)));
}
