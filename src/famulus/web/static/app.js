// The frame around the pages: which one is shown, who the broker is, and whether it is there at all.

import { Account } from "./account.js";
import { follow } from "./actions.js";
import { h, link, morph } from "./dom.js";
import { age, clock } from "./format.js";
import { onPoint } from "./charts.js";
import { Live } from "./live.js";
import { overview } from "./overview.js";
import { draw as drawLinks } from "./map.js";
import { service, services } from "./services.js";
import { worker, workers } from "./workers.js";
import { tasks } from "./tasks.js";
import { life } from "./life.js";
import { config } from "./config.js";
import { PLAIN, access } from "./access.js";
import { broker } from "./broker.js";
import { errors } from "./errors.js";
import { findings } from "./findings.js";

const PAGES = [
  { path: "/", label: "Overview", page: overview },
  { path: "/tasks", label: "Tasks", page: tasks, one: life },
  { path: "/errors", label: "Errors", page: errors },
  { path: "/services", label: "Services", page: services, one: service },
  { path: "/workers", label: "Workers", page: workers, one: worker },
  { path: "/config", label: "Config", page: config },
  { path: "/access", label: "Access", page: access },
  { path: "/findings", label: "Findings", page: findings },
  { path: "/broker", label: "Broker", page: broker },
];

const place = (id) => document.getElementById(id);
// What a page remembers: how it is sorted, what is looked for, what it fetched.
const memory = new Map();

// The page, the one thing that it is about, and what follows a question mark.
function route() {
  const [path, question = ""] = decodeHash().split(/\?(.*)/s);
  const found = PAGES.find((each) => each.path !== "/" && (path === each.path || path.startsWith(`${each.path}/`))) ?? PAGES[0];
  const rest = path.slice(found.path.length + 1);
  return { ...found, name: found.one && rest ? safeDecode(rest) : "", query: new URLSearchParams(question) };
}

const decodeHash = () => (location.hash.startsWith("#/") ? location.hash.slice(1) : "/");
// To another address of the same page: nobody moves, and the way back leads out of the page.
function go(path) {
  history.replaceState(null, "", `#${path}`);
  render();
}
function safeDecode(text) { try { return decodeURIComponent(text); } catch { return text; } }

function troubles(live) {
  const status = live.status;
  const silence = Math.round((performance.now() - live.heardAt) / 1000);
  if (live.lost) return [["bad", `The broker does not answer. It was last heard ${silence} s ago; trying again.`]];
  if (!status) return [];
  const found = [];
  if (!status.ready) found.push(["bad", `Not ready: ${status.reasons.join("; ")}.`]);
  if (status.config.conflicts) found.push(["warn", `${status.config.conflicts === 1 ? "One key of the config has" : `${status.config.conflicts} keys of the config have`} two values: an admin has to choose.`, link("/config", "Look at it")]);
  if (status.plain_on_purpose) found.push(["warn", PLAIN]);
  const away = status.brokers.filter((broker) => !broker.alive && !broker.here);
  if (away.length) found.push(["warn", `${away.map((each) => each.identity).slice(0, 5).join(", ")} ${away.length === 1 ? "does" : "do"} not answer ${status.identity}.`]);
  return found;
}

function render() {
  const { status } = live;
  const here = route();
  document.body.classList.toggle("lost", live.lost);
  morph(place("nav"), h("nav", {}, h("ul", {}, PAGES.map((each) =>
    h("li", {}, h("a", { href: `#${each.path}`, "aria-current": each.path === here.path ? "page" : null }, each.label, badge(each, status)))))));
  morph(place("alerts"), h("div", {}, troubles(live).map(([kind, ...what]) => h("p", { class: `alert ${kind}` }, what.map((each) => [each, " "])))));
  morph(place("account"), account.view(status));
  if (!status) return;
  account.follow(status, live.lost);
  follow(status);
  const state = live.lost ? "gone" : status.state;
  document.title = `${live.lost || !status.ready ? "✕ " : ""}${here.name || here.label} · ${status.identity} · Famulus`;
  morph(place("who"), h("p", {}, h("strong", {}, status.identity), h("span", { class: "muted" }, status.family), h("span", { class: `state ${state}` }, state)));
  morph(place("foot"), h("footer", {}, h("span", {}, `Famulus ${status.version}`), h("span", {}, `up ${age(status.uptime_s)}`),
    h("span", {}, `clients ${status.frontend}`), h("span", {}, `workers ${status.backend}`), h("span", {}, `heard at ${clock(status.at_ms)}`)));
  const key = `${here.path}/${here.name}`;
  if (!memory.has(key)) memory.set(key, {});
  const context = { live, status, account, name: here.name, query: here.query, memory: memory.get(key), render, go };
  morph(place("main"), h("main", {}, (here.name ? here.one : here.page)(context)));
  drawLinks();
}

function badge(page, status) {
  const count = { "/broker": status?.errors.length, "/config": status?.config.conflicts }[page.path];
  return count ? h("span", { class: "badge" }, count) : null;
}

window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#/")) return;
  render();
  showWhere();
  window.scrollTo(0, 0);
  place("main").focus({ preventScroll: true });
});
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); place("main").focus(); });
// On a narrow screen not all pages fit into the bar. Only the bar is moved: whoever reads further down stays there.
function showWhere() {
  const nav = place("nav"), here = nav.querySelector("[aria-current]");
  const left = here.offsetLeft - nav.offsetLeft;
  if (left < nav.scrollLeft || left + here.offsetWidth > nav.scrollLeft + nav.clientWidth) nav.scrollLeft = left - 16;
}
window.addEventListener("resize", () => { drawLinks(); showWhere(); });

let waiting = false;
// Many changes at once are one picture. Hidden pages are not drawn; when they are seen again they catch up.
function soon() {
  if (waiting) return;
  waiting = true;
  setTimeout(() => { waiting = false; render(); }, 0);
}
onPoint(soon);
const live = new Live(soon);
const account = new Account(soon, (said) => { place("notice").textContent = said; });
render();
showWhere();
