// Who is logged in. A password goes out once and is kept nowhere. Of the session only the token is kept, for all pages of
// this port; it is worth nothing without the cookie, which no script can read.

import { h, link } from "./dom.js";
import { open } from "./dialog.js";

const KEY = "famulus-token";
const ROOT = "/api/v1/admin/";

// A refusal of the broker, in its own words.
export class Refusal extends Error {
  constructor(code, told) {
    super(told.error ?? "the broker's answer does not fit the question");
    this.code = code;
    this.moved = told.moved ?? [];
  }
}

export class Account {
  constructor(onChange, announce) {
    this.admin = null;
    this.offered = false;
    this.why = "";
    this.onChange = onChange;
    this.announce = announce;
    this.heard = "";
    // Another page of this port logged in or out.
    window.addEventListener("storage", (event) => event.key === KEY && this.check());
    this.check();
  }

  get token() { return localStorage.getItem(KEY) ?? ""; }

  // Asked when the page opens; again when the broker has said who it is; and when it is back, since it may have forgotten us.
  follow(status, lost) {
    const heard = `${status.identity} ${status.config.network} ${lost}`;
    if (this.heard !== heard && !lost) this.check();
    this.heard = heard;
  }

  async check() {
    try {
      const told = await this.ask("GET", "session");
      this.take(told);
    } catch { /* the page says that the broker is gone */ }
  }

  take(told) {
    const before = this.admin;
    Object.assign(this, { admin: told.admin ?? null, offered: told.offered ?? true, why: told.why ?? "" });
    if (!this.admin) localStorage.removeItem(KEY);
    if (before && !this.admin) this.announce("You are logged out.");
    this.end(told.left_s);
    this.onChange();
  }

  // Nobody has to ask for something in vain to learn that the session is over.
  end(left_s) {
    clearTimeout(this.timer);
    if (this.admin && left_s !== undefined) this.timer = setTimeout(() => this.check(), (left_s + 1) * 1000);
  }

  async login(name, password) {
    const told = await this.ask("POST", "login", JSON.stringify({ name, password }));
    localStorage.setItem(KEY, told.token);
    this.take(told);
    this.announce(`You are logged in as ${told.admin}.`);
  }

  async logout() {
    try { await this.ask("POST", "logout", "{}"); } catch { /* then it is over already, or ends by itself */ }
    this.take({ admin: null });
  }

  async get(path) { return this.ask("GET", path); }

  // `body` is a text of JSON, so that the figures in it stay as they were typed.
  async post(path, body) {
    const told = await this.ask("POST", path, body);
    this.end(told.left_s);
    return told;
  }

  async ask(method, path, body) {
    const headers = { ...(this.token && { "x-famulus-token": this.token }), ...(body !== undefined && { "content-type": "application/json" }) };
    const answer = await fetch(ROOT + path, { method, headers, body, cache: "no-store", credentials: "same-origin" });
    const told = await answer.json().catch(() => ({}));
    if (answer.ok) return told;
    if (answer.status === 401) this.take({ admin: null });
    throw new Refusal(answer.status, told);
  }

  // -- what is seen of it ------------------------------------------------------------------------------------------

  // The same button for both, so that the focus stays on it.
  view(status) {
    const [label, onclick] = this.admin ? ["Log out", () => this.logout()] : ["Log in", () => this.dialog()];
    return h("div", {}, h("span", { class: "muted" }, this.admin && ["admin ", h("strong", {}, this.admin)]),
      this.admin || this.offered ? h("button", { type: "button", class: "button", onclick }, label) : status?.config.network && this.why && link("/config", "No login here"));
  }

  dialog() {
    open("Log in", (dialog) => {
      const name = h("input", { id: "login-name", name: "username", autocomplete: "username", required: true, maxlength: 255, spellcheck: "false", autocapitalize: "none" });
      const password = h("input", { id: "login-password", name: "password", type: "password", autocomplete: "current-password", required: true });
      dialog.form(
        [
          h("p", { class: "note" }, "As an admin of the network, with the name and the password of famulus admins."),
          h("div", { class: "field" }, h("label", { for: "login-name" }, "Name"), name),
          h("div", { class: "field" }, h("label", { for: "login-password" }, "Password"), password),
        ],
        "Log in",
        async () => {
          const typed = password.value;
          password.value = "";
          try {
            await this.login(name.value, typed);
          } catch (error) {
            password.focus();
            throw error;
          }
          dialog.close();
        });
      name.focus();
    });
  }
}
