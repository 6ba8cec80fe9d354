// The life of one task: what happened when and where, whether it ran, and whether it may be tried again.

import { h, link, outcome, panel, s, shortId, toService, toWorker } from "./dom.js";
import { fact } from "./services.js";
import { moment, ms, progress } from "./format.js";

// Rows of the journal can be read after a while; until then we ask again.
const AGAIN_MS = 5000;
const PATIENCE_MS = 120000;

export function life({ name, query, memory, render }) {
  const ended = Number(query.get("ended_ms")) || 0;
  ask(name, ended, memory, render);
  const told = memory.told;
  const head = [h("p", { class: "crumb" }, link("/tasks", "Tasks"), " / ", shortId(name)), h("h1", { class: "id" }, name)];
  if (!told) return [...head, h("p", { class: "empty" }, memory.problem || "Asking…")];
  const { story } = told;
  const took = ending(story).after_ms, { running } = told;
  return [
    ...head,
    verdict(story),
    h("dl", { class: "facts few" },
      fact("Service", toService(story.service)),
      fact("Outcome", [running ? "not yet" : outcome(story.outcome ?? "none"), story.reason && [" ", link(`/tasks?${new URLSearchParams({ service: story.service, reason: story.reason })}`, story.reason)]]),
      running && fact("Progress", progress(running.done)),
      fact("Did it run?", running ? "it is running" : story.ran), !running && fact("Took", ms(took)), fact("Delivery", story.at_most_once ? "at most once" : "at least once"), fact("Priority", String(story.priority)),
      told.principal && fact("Principal", link(`/tasks?${new URLSearchParams({ principal: told.principal })}`, told.principal)), fact("Arrived", moment(Date.parse(story.steps[0].at)))),
    panel("What happened", story.outcome && took > 0 ? `until its outcome ${ms(took)}` : "", running ? progressBar(running) : bar(story), steps(story)),
    story.notes.length > 0 && panel("Notes", "", h("ul", { class: "list" }, story.notes.map((note) => h("li", {}, note)))),
    h("p", { class: "note" }, source(told), " In a terminal: ", h("code", {}, `famulus trace ${shortId(name)}`)),
  ];
}

const source = (told) => (told.source === "journal" ? "As the journal of this broker has it."
  : told.journal ? "As the broker remembers it; the journal tells more within a minute or so." : "As the broker remembers it; it keeps no journal.");

function verdict(story) {
  const kind = story.outcome === "OK" || story.ran === "no" ? "" : "warn";
  return h("section", { class: `verdict ${kind}` }, h("span", { class: "sign", "aria-hidden": "true" }, kind ? "!" : "✓"),
    h("div", {}, h("h2", {}, "Try it again? ", story.try_again), h("p", { class: "note" }, story.meaning)));
}

const KINDS = { delayed: "delay", queued: "wait", assigned: "busy", delegated: "busy", retry: "error", arrived: "wait" };

// The step that was its outcome; what comes after that, such as a late answer, no client waited for.
const ending = (story) => story.steps.findLast((step) => step.event === "answered" || step.event === "ended") ?? story.steps.at(-1);

function progressBar({ done, note }) {
  const said = `${progress(done)} ${note}`;
  return h("figure", { class: "spans" },
    s("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", role: "img", "aria-label": said },
      s("rect", { class: "track", x: 0, y: 0, width: 1000, height: 14, rx: 4 }),
      s("rect", { class: "busy", x: 0, y: 0, width: (done * 1000).toFixed(1), height: 14 })),
    h("figcaption", { class: "legend" }, h("span", { class: "busy" }, said)));
}

// The same as a line: what it spent its time with, to scale.
function bar(story) {
  const end = ending(story), whole = end.after_ms;
  if (!(whole > 0)) return null;
  const until = story.steps.slice(0, story.steps.indexOf(end) + 1);
  const parts = until.slice(0, -1).map((step, index) => ({ kind: KINDS[step.event] ?? "ok", from: step.after_ms, to: until[index + 1].after_ms })).filter((part) => part.to > part.from);
  const spent = (kind) => parts.filter((part) => part.kind === kind).reduce((sum, part) => sum + part.to - part.from, 0);
  const delayed = spent("delay"), waited = spent("wait"), ran = spent("busy");
  const place = story.steps.some((step) => step.event === "delegated") ? "with another broker" : "with a worker";
  return h("figure", { class: "spans" },
    s("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", role: "img", "aria-label": `waited ${ms(waited)}, ${place} ${ms(ran)}` },
      s("rect", { class: "track", x: 0, y: 0, width: 1000, height: 14, rx: 4 }),
      parts.map((part) => s("rect", { class: part.kind, x: ((part.from / whole) * 1000).toFixed(1), y: 0, width: Math.max(2, ((part.to - part.from) / whole) * 1000).toFixed(1), height: 14 }))),
    h("figcaption", { class: "legend" }, delayed > 0 && h("span", {}, `delayed ${ms(delayed)}`), waited > 0 && h("span", { class: "wait" }, `waited ${ms(waited)}`), ran > 0 && h("span", { class: "busy" }, `${place} ${ms(ran)}`)));
}

function steps(story) {
  const last = ending(story);
  return h("ol", { class: "steps" }, story.steps.map((step) => h("li", { class: `step ${step.event} ${step === last ? (story.outcome ?? "none").toLowerCase() : ""}` },
    h("span", { class: "when num", title: moment(Date.parse(step.at)) }, `+${ms(step.after_ms)}`),
    h("span", { class: "what" }, h("strong", {}, sentence(step)), h("span", { class: "note" }, `at broker ${step.broker}`, step.worker ? [", worker ", toWorker(step.worker)] : "")))));
}

const sentence = (step) => step.sentence[0].toUpperCase() + step.sentence.slice(1) + ".";

// First what the herald remembers, which is there at once; then the journal, which needs a second or two.
async function ask(name, ended, memory, render) {
  const now = performance.now();
  if (!memory.since || memory.told?.running) memory.since = now;
  if (memory.busy || memory.whole || (memory.asked && now - memory.asked < AGAIN_MS) || now - memory.since > PATIENCE_MS) return;
  Object.assign(memory, { busy: true, asked: now });
  const address = `/api/v1/tasks/${encodeURIComponent(name)}`;
  try {
    if (!memory.told || memory.told.running) await take(await fetch(`${address}?from=memory`), memory, render);
    if (memory.told?.journal !== false) await take(await fetch(ended ? `${address}?ended_ms=${ended}` : address), memory, render, true);
    memory.whole = !memory.told?.running && (memory.told?.source === "journal" || memory.told?.journal === false);
  } catch { /* the page says that the broker is gone */ }
  memory.busy = false;
}

async function take(answer, memory, render, last = false) {
  const told = await answer.json();
  if (answer.ok) { memory.told = told; memory.problem = ""; } else if (last) memory.problem = told.error;
  render();
}
