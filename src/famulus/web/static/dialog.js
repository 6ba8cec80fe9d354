// One window over the page. The browser keeps the focus in it, closes it with Escape, and brings the focus back.

import { h } from "./dom.js";

const place = () => document.getElementById("dialog");
let latest = null;

export function open(title, build) {
  const element = place();
  const opener = document.activeElement;
  if (latest) latest.closed = true;
  const dialog = latest = new Dialog(element, title);
  if (!element.open) element.showModal();
  element.onclose = () => {
    // The browser tells of a closed dialog a moment later: the next one may be open by then.
    if (element.open) return;
    element.replaceChildren();
    dialog.closed = true;
    // What was pressed may be gone by now: a broker that drains has no button to drain it.
    const there = opener?.isConnected && opener !== document.body;
    (there ? opener : document.getElementById("main")).focus({ preventScroll: true });
  };
  build(dialog);
}

class Dialog {
  constructor(element, title) {
    this.element = element;
    this.closed = false;
    this.complaint = h("p", { class: "complaint", role: "alert" });
    this.content = h("div", { class: "content" });
    element.replaceChildren(h("h2", { id: "dialog-title" }, title), this.content);
  }

  close() { if (!this.closed) this.element.close(); }

  show(...children) { if (!this.closed) this.content.replaceChildren(...children.flat(9).filter(Boolean)); }

  // What is asked of a person; `submit` may throw, and the person may try again. Nothing is sent twice.
  form(children, label, submit, { danger = false } = {}) {
    const cancel = h("button", { type: "button", class: "button", onclick: () => this.close() }, "Cancel");
    const go = h("button", { type: "submit", class: `button ${danger ? "danger" : "primary"}` }, label);
    let busy = false;
    const onsubmit = async (event) => {
      event.preventDefault();
      if (busy) return;
      busy = true;
      go.setAttribute("aria-disabled", "true");
      this.complaint.textContent = "";
      try {
        await submit();
      } catch (error) {
        this.complaint.textContent = words(error);
      }
      busy = false;
      go.removeAttribute("aria-disabled");
    };
    this.complaint.textContent = "";
    this.show(h("form", { onsubmit, novalidate: false }, children, this.complaint, h("p", { class: "buttons" }, cancel, go)));
    (danger ? cancel : go).focus();
  }

  // What there is to know, and nothing more to do.
  tell(...children) {
    const close = h("button", { type: "button", class: "button primary", onclick: () => this.close() }, "Close");
    this.show(children, h("p", { class: "buttons" }, close));
    if (!this.closed) close.focus();
  }
}

// In the broker's own words, which may begin with a name; without the code, which is for programs.
const CODES = /^(not_allowed|conflict|bad_header|disabled|overload|too_large|no_service|unknown_request): /;

export function words(error) {
  return error instanceof TypeError ? "the broker does not answer" : error.message.replace(CODES, "");
}
