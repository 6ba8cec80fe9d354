// Elements from plain values, and trees that change in place. Text is always text: nothing here reads HTML, so whatever a
// service or a worker is called, it is shown and never run.

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "vars") element.vars = value;
    else if (name === "chosen") element.chosen = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  applyVars(element);
  if ("chosen" in element) element.value = element.chosen;
  return element;
}

export const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

// Custom properties are set one by one, since the page's policy forbids style attributes.
function applyVars(element) {
  for (const [name, value] of Object.entries(element.vars ?? {})) element.style.setProperty(name, value);
}

// Makes `old` look like `fresh` and keeps what is the same: focus, selection, open details and running animations stay.
export function morph(old, fresh) {
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((node, index) => {
    const present = before[index];
    if (!present) old.append(node);
    else if (present.nodeType !== node.nodeType || present.nodeName !== node.nodeName || keyOf(present) !== keyOf(node)) present.replaceWith(node);
    else if (node.nodeType === Node.TEXT_NODE) { if (present.data !== node.data) present.data = node.data; }
    else { copyAttributes(present, node); morph(present, node); choose(present, node); }
  });
  before.slice(after.length).forEach((node) => node.remove());
}

const keyOf = (node) => node.dataset?.key ?? "";

function copyAttributes(present, fresh) {
  for (const { name } of [...present.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "style" && name !== "open") present.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (name !== "style" && present.getAttribute(name) !== value) present.setAttribute(name, value);
  }
  for (const event of ["onclick", "oninput", "onchange", "onpointermove", "onpointerleave"]) if (present[event] !== fresh[event]) present[event] = fresh[event];
  present.vars = fresh.vars;
  applyVars(present);
}

// What a list of choices shows is what the address says; only the page changes that.
function choose(present, fresh) {
  if (!("chosen" in fresh)) return;
  present.chosen = fresh.chosen;
  if (present.value !== fresh.chosen) present.value = fresh.chosen;
}

export const link = (path, ...children) => h("a", { href: `#${path}` }, ...children);
export const toService = (name) => link(`/services/${encodeURIComponent(name)}`, name);
// Another broker has a dashboard of its own.
export const toBroker = (broker) => (broker.dashboard ? h("a", { href: broker.dashboard, title: `The dashboard of ${broker.identity}` }, broker.identity) : broker.identity);
// Tasks that have these values: {service, outcome, reason, worker, principal}.
export const tasksWith = (values) => `/tasks?${new URLSearchParams(values)}`;
export const toTask = (task) => h("a", { class: "task", href: `#/tasks/${encodeURIComponent(task.message_id)}${task.ended_ms ? `?ended_ms=${task.ended_ms}` : ""}` }, shortId(task.message_id));
// As `famulus tasks` shows it: a beginning and an end are enough to find it again.
export const shortId = (id) => (/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(id) ? `${id.slice(0, 8)}..${id.slice(-12).replace(/^0+/, "") || "0"}` : id);
// A number that counts something bad leads to what it counts.
export const counted = (value, text, path, kind = "bad") => (value > 0 ? h("a", { href: `#${path}`, class: kind }, text) : h("span", {}, text));
export const outcome = (name) => h("span", { class: `outcome ${name.toLowerCase()}` }, name);
export const toWorker = (identity) => link(`/workers/${encodeURIComponent(identity)}`, identity);

export function panel(title, note, ...children) {
  return panelWith(null, title, note, ...children);
}

// With something at the end of its head.
export function panelWith(tool, title, note, ...children) {
  return h("section", { class: "panel" }, h("div", { class: "panel-head" }, h("h2", {}, title), note && h("p", { class: "note" }, note), tool), ...children);
}

// Columns: {label, cell(row), num, sort(row), key}. With `order`, headings are buttons that sort.
export function table(caption, columns, rows, { order, onOrder, empty = "none" } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const sorted = order ? sort(rows, columns, order) : rows;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => heading(column, order, onOrder)))),
      h("tbody", {}, sorted.map((row) => h("tr", {}, columns.map((column, index) =>
        h(index ? "td" : "th", { scope: index ? null : "row", class: column.num ? "num" : null }, column.cell(row))))))));
}

function heading(column, order, onOrder) {
  const attributes = { scope: "col", class: column.num ? "num" : null };
  if (!order || !column.sort) return h("th", attributes, column.label);
  const active = order.by === column.label;
  const arrow = active ? (order.down ? " ↓" : " ↑") : "";
  return h("th", { ...attributes, "aria-sort": active ? (order.down ? "descending" : "ascending") : "none" },
    h("button", { class: "sort", onclick: () => onOrder({ by: column.label, down: active ? !order.down : Boolean(column.num) }) }, column.label + arrow));
}

function sort(rows, columns, order) {
  const column = columns.find((each) => each.label === order.by) ?? columns[0];
  const value = column.sort ?? column.cell;
  const compare = (a, b) => (a === b ? 0 : a === null ? -1 : b === null ? 1 : a < b ? -1 : 1);
  return [...rows].sort((a, b) => compare(value(a), value(b)) * (order.down ? -1 : 1));
}
