// Search, light and dark, and what copies a block. Every page is whole without this.
"use strict";

const root = document.body.dataset.root;
const input = document.getElementById("search");
const list = document.getElementById("found");
const FOUND_MAX = 12;
const AROUND = 70;

function made(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// -- search --

// A script and not a file of data: browsers let a page from a disk load no other.
let loading = null;
function words() {
  loading ??= new Promise((resolve, reject) => {
    const script = made("script", { src: `${root}/assets/words.js` });
    script.onload = () => resolve(window.famulusWords.map(([place, page, heading, text]) =>
      ({ place, page, heading, text, low: { page: page.toLowerCase(), heading: heading.toLowerCase(), text: text.toLowerCase() } })));
    script.onerror = reject;
    document.head.append(script);
  });
  return loading;
}

/** How well a part fits: every word has to be somewhere in it, and counts for more in a heading. */
function fit(part, asked) {
  let sum = 0;
  for (const word of asked) {
    const { page, heading, text } = part.low;
    const inHeading = heading === word ? 60 : begins(heading, word) ? 24 : heading.includes(word) ? 10 : 0;
    const inPage = begins(page, word) ? 8 : 0;
    const times = inHeading ? 0 : text.split(word, 6).length - 1;
    if (!inHeading && !inPage && !times) return 0;
    sum += inHeading + inPage + times + (times && begins(text, word) ? 2 : 0);
  }
  return sum;
}

function begins(text, word) {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (at === 0 || !/[\p{L}\p{N}_]/u.test(text[at - 1])) return true;
  }
  return false;
}

/** The words around the first that was asked for, with all of them marked. */
function excerpt(part, asked) {
  const first = Math.min(...asked.map((word) => part.low.text.indexOf(word)).filter((at) => at >= 0));
  const from = Number.isFinite(first) ? Math.max(0, first - AROUND) : 0;
  const shown = part.text.slice(from, from + 3 * AROUND);
  return marked((from ? "…" : "") + shown, asked);
}

function marked(text, asked) {
  const pattern = new RegExp(`(${asked.map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("|")})`, "giu");
  return text.split(pattern).map((piece, number) => (number % 2 ? made("mark", {}, piece) : piece));
}

async function search() {
  const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!asked.length) return show([]);
  const parts = await words();
  const found = parts.map((part) => [fit(part, asked), part]).filter(([points]) => points);
  found.sort(([one], [other]) => other - one);
  const shown = found.slice(0, FOUND_MAX).map(([, part], number) => made("li", { role: "option", id: `found-${number}` },
    made("a", { href: `${root}/${part.place}`, tabindex: "-1" },
      made("small", {}, part.page),
      made("strong", {}, ...marked(part.heading, asked)),
      made("span", {}, ...excerpt(part, asked)))));
  show(shown.length ? shown : [made("li", { class: "none" }, `Nothing has “${input.value.trim()}” in it.`)]);
}

function show(items) {
  list.replaceChildren(...items);
  list.hidden = !items.length;
  input.setAttribute("aria-expanded", String(!list.hidden));
  choose(items.length ? 0 : -1);
}

let chosen = -1;
function choose(number) {
  const options = [...list.querySelectorAll("[role=option]")];
  chosen = options.length ? Math.min(Math.max(number, 0), options.length - 1) : -1;
  options.forEach((each, at) => each.setAttribute("aria-selected", String(at === chosen)));
  options[chosen]?.scrollIntoView({ block: "nearest" });
  if (chosen >= 0) input.setAttribute("aria-activedescendant", options[chosen].id);
  else input.removeAttribute("aria-activedescendant");
}

input.addEventListener("input", search);
input.addEventListener("focus", () => { words(); search(); });
input.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Enter") list.querySelector("[aria-selected=true] a")?.click();
  else if (event.key === "Escape") { input.value = ""; show([]); input.blur(); }
  else return;
  event.preventDefault();
});
list.addEventListener("click", () => show([]));
document.addEventListener("click", (event) => { if (!event.target.closest(".search")) show([]); });
document.addEventListener("keydown", (event) => {
  const writes = event.target.closest("input, textarea");
  if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); input.focus(); }
});

// -- light and dark --

const button = document.getElementById("scheme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const scheme = () => document.documentElement.dataset.scheme ?? (prefersDark.matches ? "dark" : "light");
function name() { button.textContent = scheme() === "dark" ? "Light" : "Dark"; }
button.addEventListener("click", () => {
  const wanted = scheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.scheme = wanted;
  try { localStorage.setItem("famulus-scheme", wanted); } catch { /* it holds for this page */ }
  name();
});
prefersDark.addEventListener("change", name);
name();

// -- the pages, on narrow screens --

const menu = document.getElementById("menu");
menu.addEventListener("click", () => {
  const opened = document.body.classList.toggle("menu");
  menu.setAttribute("aria-expanded", String(opened));
});
const current = document.querySelector(".pages [aria-current]");
if (current) {
  const pages = document.getElementById("pages");
  pages.scrollTop = current.offsetTop - pages.clientHeight / 2;
}

// -- what is read now, in the list beside the page --

const beside = new Map([...document.querySelectorAll(".headings a")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
const headings = [...beside.keys()].map((id) => document.getElementById(id)).filter(Boolean);
function follow() {
  const read = headings.filter((each) => each.getBoundingClientRect().top < 120).at(-1) ?? headings[0];
  for (const [id, link] of beside) link.classList.toggle("read", id === read?.id);
}
let planned = false;
addEventListener("scroll", () => {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; follow(); });
}, { passive: true });
follow();

// -- blocks that one may want to copy --

for (const block of document.querySelectorAll("pre.code")) {
  const copy = made("button", { class: "copy", type: "button", "aria-label": "Copy this block" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.textContent);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  const frame = made("div", { class: "block" });
  block.replaceWith(frame);
  frame.append(block);
  // A page from a disk may not write to the clipboard in every browser.
  if (navigator.clipboard) frame.append(copy);
}
