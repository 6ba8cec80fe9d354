// The map of the network: clients, families with their brokers, services with their slots, and tasks that flow.

import { h, s, toBroker, toService } from "./dom.js";
import { meter, ring } from "./charts.js";
import { count, many, rate } from "./format.js";

const SERVICES = 7;

export function map(status, lost) {
  const busiest = [...status.services].sort((a, b) => b.rate_s - a.rate_s || b.busy - a.busy || a.name.localeCompare(b.name)).slice(0, SERVICES);
  const rest = status.services_total - busiest.length;
  const flows = lost ? 0 : status.tasks.rate_s;
  return h("div", { class: "map" },
    s("svg", { class: "links", "aria-hidden": "true" }),
    h("div", { class: "column" },
      h("h3", {}, "Clients"),
      h("div", { class: "node clients", "data-node": "clients", "data-rate": flows }, h("strong", {}, rate(status.tasks.rate_s)), h("span", { class: "muted" }, "tasks/s"))),
    h("div", { class: "column families" }, h("h3", {}, "Families and brokers"), families(status).map((family) => familyBox(family, status, lost))),
    h("div", { class: "column" },
      h("h3", {}, `Services of ${status.identity}`),
      busiest.length ? h("ul", { class: "plain" }, busiest.map((service) => serviceNode(service, lost))) : h("p", { class: "empty" }, "no service yet: start a worker"),
      rest > 0 && h("p", { class: "note" }, `and ${count(rest)} more`)));
}

function families(status) {
  const names = new Map(status.families.map((family) => [family.name, { ...family, brokers: [] }]));
  for (const broker of status.brokers) {
    if (!names.has(broker.family)) names.set(broker.family, { name: broker.family, fallback_families: [], brokers: [] });
    names.get(broker.family).brokers.push(broker);
  }
  // Our own first, then by name; a family without brokers is worth knowing, too.
  return [...names.values()].sort((a, b) => (b.name === status.family) - (a.name === status.family) || a.name.localeCompare(b.name));
}

function familyBox(family, status, lost) {
  const falls = family.fallback_families.length ? `falls back on ${family.fallback_families.join(", ")}` : "";
  return h("section", { class: "family", "aria-label": `family ${family.name}` },
    h("h4", {}, family.name, falls && h("span", { class: "note" }, falls)),
    family.brokers.length ? h("ul", { class: "plain" }, family.brokers.map((broker) => brokerNode(broker, status, lost))) : h("p", { class: "empty" }, "no broker"));
}

function brokerNode(broker, status, lost) {
  const slots = broker.busy + broker.free;
  const behind = broker.alive && status.config.network && broker.digest !== status.config.digest;
  return h("li", { class: `node broker ${broker.state} ${broker.here ? "here" : ""}`, "data-node": broker.here ? "here" : "peer", "data-alive": broker.alive ? 1 : 0,
    "data-given": lost ? 0 : broker.given_rate_s, "data-taken": lost ? 0 : broker.taken_rate_s },
    ring(broker.busy, slots, `${broker.busy} of ${slots} slots busy`, broker.state),
    h("div", {},
      h("strong", {}, toBroker(broker)), broker.here && h("span", { class: "tag" }, "here"),
      h("p", { class: "note" }, h("span", { class: `state small ${broker.state}` }, broker.state),
        ` · ${many(slots, "slot")}`, broker.backlog > 0 && `, ${count(broker.backlog)} waiting`, broker.here && `, ${many(status.workers_total, "worker")}`, behind && ", config not in step"),
      exchange(broker)));
}

// Tasks between this broker and another one; of this broker, those of all others.
function exchange(broker) {
  const [given, taken] = broker.here ? ["delegated", "taken over"] : ["from here", "to here"];
  const told = [[broker.given_rate_s, given], [broker.taken_rate_s, taken]].filter(([speed]) => speed > 0);
  return told.length > 0 && h("p", { class: "note exchange" }, told.map(([speed, word], index) => [index > 0 && ", ", h("strong", {}, `${rate(speed)}/s`), ` ${word}`]));
}

function serviceNode(service, lost) {
  const slots = service.busy + service.free;
  return h("li", { class: `node service ${service.workers ? "" : "idle"}`, "data-node": "service", "data-rate": lost ? 0 : service.rate_s, "data-failed": service.failed_rate_s > 0 ? 1 : 0 },
    h("div", { class: "row" }, toService(service.name), h("span", { class: "muted" }, `${rate(service.rate_s)}/s`)),
    meter(service.busy, slots, `${service.busy} of ${slots} slots busy`),
    h("p", { class: "note" }, service.workers ? `${count(service.busy)} of ${count(slots)} slots, ${many(service.workers, "worker")}` : service.rate_s > 0 ? "no worker here" : "no worker",
      service.backlog > 0 && h("span", { class: "wait" }, ` · ${count(service.backlog)} waiting`)));
}

// -- the lines between them: drawn where the browser has put the boxes --------------------------------------------------

export function draw() {
  const stage = document.querySelector(".map");
  const svg = stage?.querySelector("svg.links");
  if (!svg) return;
  const frame = stage.getBoundingClientRect();
  const here = stage.querySelector('[data-node="here"]');
  const clients = stage.querySelector('[data-node="clients"]');
  if (!here || getComputedStyle(svg).display === "none") return;
  const wanted = [flow(frame, clients, here, clients.dataset.rate, false)];
  for (const service of stage.querySelectorAll('[data-node="service"]')) wanted.push(flow(frame, here, service, service.dataset.rate, service.dataset.failed === "1"));
  for (const peer of stage.querySelectorAll('[data-node="peer"]')) wanted.push(bond(frame, here, peer));
  svg.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  wanted.flat().forEach((each, index) => {
    const path = svg.children[index] ?? svg.appendChild(s("path"));
    for (const [name, value] of Object.entries(each.attributes)) if (path.getAttribute(name) !== value) path.setAttribute(name, value);
    path.style.setProperty("--pace", each.pace ?? "0s");
  });
  while (svg.children.length > wanted.flat().length) svg.lastChild.remove();
}

function flow(frame, from, to, given, failing) {
  const a = from.getBoundingClientRect(), b = to.getBoundingClientRect();
  const x1 = a.right - frame.left, y1 = a.top + a.height / 2 - frame.top, x2 = b.left - frame.left, y2 = b.top + b.height / 2 - frame.top;
  const bend = (x2 - x1) / 2;
  return moving(curve(x1, y1, x1 + bend, x2 - bend, x2, y2), Number(given), failing);
}

const curve = (x1, y1, bend1, bend2, x2, y2) => {
  const at = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  return `M${at(x1, y1)}C${at(bend1, y1)} ${at(bend2, y2)} ${at(x2, y2)}`;
};

// Tasks on their way along a line.
function moving(d, speed, failing) {
  const width = speed > 0 ? Math.min(7, 1.5 + Math.log10(1 + speed) * 1.6) : 1.5;
  // Modest at any load: the busiest line is only some times as quick as the laziest.
  const pace = speed > 0 ? `${Math.max(0.5, 3 - Math.log10(1 + speed) * 0.8).toFixed(1)}s` : "0s";
  return [
    { attributes: { class: "way", d, "stroke-width": width.toFixed(1) } },
    { attributes: { class: `tasks ${speed > 0 ? "moving" : "still"} ${failing ? "failing" : ""}`, d, "stroke-width": Math.max(2.5, width - 0.5).toFixed(1) }, pace },
  ];
}

// Brokers that hear each other, along the left edge of their boxes; and tasks that go from one to the other.
function bond(frame, from, to) {
  const a = from.getBoundingClientRect(), b = to.getBoundingClientRect();
  const x1 = a.left - frame.left, x2 = b.left - frame.left, y1 = a.top + a.height / 2 - frame.top, y2 = b.top + b.height / 2 - frame.top;
  const out = Math.min(34, 12 + Math.abs(y2 - y1) / 12);
  // Above or below where tasks of clients arrive.
  const away = y2 > y1 ? 1 : -1;
  const line = (start, end, wide) => curve(x1, y1 + away * start, x1 - wide, x2 - wide, x2, y2 + away * end);
  const back = (start, end, wide) => curve(x2, y2 + away * end, x2 - wide, x1 - wide, x1, y1 + away * start);
  const given = Number(to.dataset.given), taken = Number(to.dataset.taken);
  return [
    { attributes: { class: `bond ${to.dataset.alive === "1" ? "" : "cut"}`, d: line(8, 0, out), "stroke-width": "1.5" } },
    ...(given > 0 ? moving(line(14, -8, out + 16), given, false) : []),
    ...(taken > 0 ? moving(back(24, 8, out + 34), taken, false) : []),
  ];
}
