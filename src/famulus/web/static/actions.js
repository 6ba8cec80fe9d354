// What an admin does: first the broker says what it would change, then the admin says yes, then the broker says what became
// of it. If somebody else was faster in between, nothing is done, and the difference is shown.

import { h, table } from "./dom.js";
import { open, words } from "./dialog.js";

// The answer that is shown now, while the brokers tell each other.
let spreading = null;

// `wish` is the body of the request, without a value that a person typed: that is `text`. With `heads`: those that the
// page showed.
export function act(account, { title, ...what }) {
  open(title, async (dialog) => {
    dialog.show(h("p", { role: "status" }, "Asking the broker…"));
    try { await plan(account, dialog, what); } catch (error) { refuse(dialog, error); }
  });
}

async function plan(account, dialog, what) {
  const told = (await account.post(what.path, body(what, { dry_run: true }))).plan;
  const shown = [told.note && h("p", {}, told.note), changes(told), warnings(told.warnings)];
  if (!told.needed) dialog.tell(shown);
  else if (told.ignored.length) dialog.tell(shown, h("p", { class: "complaint", role: "alert" }, `Brokers would ignore ${told.ignored.join(", ")}: nothing is sent.`));
  else dialog.form(shown, what.label, () => confirm(account, dialog, what, told), { danger: what.danger });
}

async function confirm(account, dialog, what, told) {
  const heads = Object.keys(told.heads).length ? { heads: told.heads } : {};
  try {
    answer(dialog, (await account.post(what.path, body(what, heads))).done);
  } catch (error) {
    if (!error.moved?.length && error.code !== 401) throw error;
    refuse(dialog, error);
  }
}

// What was typed stays as it was typed: to make it a number of JavaScript and back may change it.
function body({ wish, text }, more) {
  const fields = JSON.stringify({ ...wish, ...more });
  return text === undefined ? fields : `${fields.slice(0, -1)},"value":${text}}`;
}

function answer(dialog, done) {
  const line = h("p", { class: "answer", role: "status" });
  dialog.tell(line, warnings(done.warnings));
  // In a moment: a screen reader tells what changes in a region that is there already.
  setTimeout(() => { line.textContent ||= done.sentence; }, 50);
  spreading = done.brokers ? { dialog, line, done, seen: done.seen } : null;
}

// With each status: how many brokers have what the broker that accepted it has.
export function follow(status) {
  if (!spreading || spreading.dialog.closed) { spreading = null; return; }
  const { line, done } = spreading;
  if (status.config.version < done.version) return;
  const seen = status.brokers.filter((broker) => broker.alive && broker.digest === status.config.digest).length;
  if (seen <= spreading.seen) return;
  spreading.seen = seen;
  line.textContent = `accepted, seen by ${seen} of ${done.brokers} brokers`;
}

function refuse(dialog, error) {
  dialog.tell(h("p", { class: "complaint", role: "alert" }, words(error)),
    (error.moved ?? []).map((each) => [h("h3", {}, each.key), differences(each.difference, "As you saw it", "Now")]));
}

function changes(told) {
  return told.changes.map((each) => [
    h("h3", {}, each.key),
    each.ends_conflict_of > 0 && h("p", {}, `This ends the conflict of its ${each.ends_conflict_of} heads.`),
    each.op === "DEL" ? h("p", {}, "It is deleted.") : differences(each.difference, "Now", "Then"),
  ]);
}

function differences(list, before, after) {
  return table("What changes", [
    { label: "Field", cell: (row) => row.field || "the whole value" },
    { label: before, cell: (row) => value(row, "seen") },
    { label: after, cell: (row) => value(row, "now") },
  ], list, { empty: "The value stays what it is." });
}

const value = (row, name) => (name in row ? h("code", {}, JSON.stringify(row[name])) : h("span", { class: "muted" }, "not there"));

function warnings(list) {
  return list.length > 0 && h("ul", { class: "list wait" }, list.map((each) => h("li", {}, h("code", {}, each.key), " ", each.sentence)));
}

// -- a value of the config ---------------------------------------------------------------------------------------------

// `key` is empty for one that is to be named. `path` is "set", or "resolve" where there are several heads.
export function edit(account, { key, present, heads, path }) {
  open(key ? `${path === "resolve" ? "Another value for" : "Edit"} ${key}` : "Set a key", (dialog) => {
    const name = h("input", { id: "edit-key", required: true, maxlength: 540, placeholder: "service/echo", spellcheck: "false", autocapitalize: "none" });
    const text = h("textarea", { id: "edit-value", rows: 10, required: true, spellcheck: "false" });
    text.value = JSON.stringify(present ?? {}, null, 2);
    dialog.form(
      [
        !key && h("div", { class: "field" }, h("label", { for: "edit-key" }, "Key"), name),
        h("div", { class: "field" }, h("label", { for: "edit-value" }, "Value, as JSON"), text),
      ],
      "Show what changes",
      async () => {
        const wished = key || name.value.trim();
        try { JSON.parse(text.value); } catch (error) {
          text.focus();
          throw new Error(`This is not JSON: ${error.message}`);
        }
        const wish = { key: wished, ...(heads && { heads: { [wished]: heads } }) };
        try {
          await plan(account, dialog, { path, wish, text: text.value, label: "Set it" });
        } catch (error) {
          if (!error.moved?.length && error.code !== 401) throw error;
          refuse(dialog, error);
        }
      });
    (key ? text : name).focus();
  });
}
