// What the pipeline found that an admin should do, and how the journal is that it reads.

import { act } from "./actions.js";
import { h, panel, toService, toWorker } from "./dom.js";
import { age, bytes, count, moment } from "./format.js";
import { fact, search } from "./services.js";

const SEVERITIES = new Set(["critical", "warning", "info"]);
const AGAIN_MS = 5000;
// Findings are those of the last day of data: older ones may be about what is long over.
const OLD_S = 2 * 86400;
// With more than these, one may want to look for something.
const FEW = 8;

export function findings({ status, account, memory, render }) {
  if (!memory.asked || performance.now() - memory.asked > AGAIN_MS) {
    memory.asked = performance.now();
    load(memory, render);
  }
  return [
    h("h1", {}, "Findings"),
    memory.told?.there && verdict(memory.told),
    panel("What an admin should do", memory.told?.there && made(status, memory.told), list({ status, account, memory, render })),
    journal(status),
  ];
}

function list({ status, account, memory, render }) {
  const { told, problem } = memory;
  if (problem) return h("p", { class: "complaint", role: "alert" }, problem);
  if (!told) return h("p", { class: "empty tall" }, "Looking…");
  if (told.problem) return [h("p", { class: "complaint", role: "alert" }, `${told.problem}.`), h("p", { class: "note" }, "This makes them anew:"), command(told.command)];
  if (!told.there) return nothing(status, told);
  if (!told.total) return h("p", { class: "empty tall" }, "Nothing was found that an admin should do.");
  const part = (memory.part ?? "").toLowerCase();
  const rows = told.findings.filter((each) => [each.title, each.subject, each.severity, each.kind].some((text) => text.toLowerCase().includes(part)));
  const hidden = told.total - told.findings.length;
  return [
    told.findings.length > FEW && search("Find a finding", memory, render),
    rows.length ? h("ol", { class: "findings" }, rows.map((each) => card(each, status, account))) : h("p", { class: "empty" }, "None of them has this in it."),
    hidden > 0 && h("p", { class: "note" }, `and ${count(hidden)} more, which are less urgent: famulus findings`),
  ];
}

function nothing(status, told) {
  return h("div", { class: "empty tall" },
    h("p", {}, h("strong", {}, "There are no findings yet.")),
    h("p", {}, "The pipeline makes them from the journal: slow workers, short backlogs and time-outs, losses, tasks without an outcome."),
    status.journal.on ? h("p", {}, "Run it, and they are here:") : h("p", {}, "This broker keeps no journal now. If there is an older one:"),
    command(told.command));
}

const command = (text) => h("pre", { class: "command" }, h("code", {}, text));

function made(status, told) {
  const seconds = Math.max(0, (status.at_ms - told.made_ms) / 1000);
  const old = seconds > OLD_S;
  return h("span", {}, "made ", h("time", { datetime: new Date(told.made_ms).toISOString(), title: moment(told.made_ms), class: old ? "wait" : null }, `${age(seconds)} ago`),
    old ? [" by ", h("code", {}, told.command)] : " by famulus pipeline run", told.total > 1 && "; the most urgent first");
}

function verdict(told) {
  const [kind, sign, title, note] = told.accounted
    ? ["good", "✓", "Every task that the journal knows of is accounted for", "The audit of the last week of data found nothing that it could not explain."]
    : ["bad", "✕", "Not every task is accounted for", "The audit of the last week of data found what nothing explains: see below."];
  return h("section", { class: `verdict ${kind}`, "aria-label": "Verdict of the audit" },
    h("span", { class: "sign", "aria-hidden": "true" }, sign), h("div", {}, h("h2", {}, title), h("p", { class: "note" }, note)));
}

function card(finding, status, account) {
  const severity = SEVERITIES.has(finding.severity) ? finding.severity : "info";
  const seconds = Math.max(0, (status.at_ms - finding.last_seen_ms) / 1000);
  return h("li", { class: `finding ${severity}`, "data-key": finding.id },
    h("div", { class: "finding-head" }, h("h3", {}, finding.title), h("span", { class: `severity ${severity}` }, finding.severity)),
    h("p", { class: "note" }, "about ", about(finding.subject, status), ", last seen ", h("time", { datetime: new Date(finding.last_seen_ms).toISOString(), title: moment(finding.last_seen_ms) }, `${age(seconds)} ago`)),
    h("p", {}, finding.evidence),
    h("p", { class: "advice" }, h("strong", {}, "Do: "), finding.advice),
    finding.key !== null && proposal(finding, status, account));
}

// Who it is about, with a way to its page if there is one.
function about(subject, status) {
  if (status.services.some((each) => each.name === subject)) return toService(subject);
  if (status.workers.some((each) => each.identity === subject)) return toWorker(subject);
  return h("strong", {}, subject);
}

function proposal(finding, status, account) {
  if (finding.value === null) return h("p", { class: "note" }, "The key to edit is ", h("code", {}, finding.key), "; its value is yours to choose.");
  return h("div", { class: "proposal" },
    h("p", {}, "Would set ", h("code", {}, finding.key), ":"),
    h("ul", { class: "fields" }, Object.entries(finding.value).map(([name, value]) => h("li", {}, h("code", {}, name), " to ", h("code", {}, JSON.stringify(value))))),
    account.admin
      ? h("button", { type: "button", class: "button small", "aria-label": `Apply: ${finding.title}`, onclick: () => apply(account, finding) }, "Apply…")
      : status.config.network && h("p", { class: "note" }, "An admin can apply it: log in, or ", h("code", {}, `famulus findings apply ${finding.rank}`)));
}

// Only which one, and by its digest that it is the one that is shown here: what it says, the broker reads itself.
function apply(account, { id, title, digest }) {
  act(account, { title: `Apply: ${title}`, path: "findings/apply", wish: { id, digest }, label: "Make this edit" });
}

function journal(status) {
  const { journal } = status;
  if (!journal.on) {
    return panel("The journal", "", h("p", { class: "empty" }, `${status.identity} keeps no journal: its settings say so (journal = false). So nobody can tell later what became of a task.`));
  }
  return panel("The journal", `what ${status.identity} wrote down since its scribe started`, h("dl", { class: "facts" },
    fact("Scribe", h("span", { class: `state ${journal.state}` }, journal.state)),
    fact("Rows", count(journal.rows)), fact("Files", count(journal.files)), fact("Bytes", bytes(journal.bytes)),
    fact("Rows not in a file yet", count(journal.open_rows)), fact("Rows lost", count(journal.lost), journal.lost ? "bad" : "")),
  journal.lost > 0 && h("p", { class: "note gap" }, "What is lost is a gap in the journal, and the audit knows of it: the scribe was away, too slow, or its disk was full."));
}

async function load(memory, render) {
  try {
    const answer = await fetch("/api/v1/findings");
    const told = await answer.json();
    memory.problem = answer.ok ? "" : `${told.error}.`;
    if (answer.ok) memory.told = told;
    render();
  } catch { /* the page says that the broker is gone */ }
}
