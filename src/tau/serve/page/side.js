// The list of sessions, by project, and the questions that wait for an answer.

import {make} from "./transcript.js";

const $ = (id) => document.getElementById(id);

export function dollars(cost) {
  if (cost === null || cost === undefined) return "";
  if (cost === 0) return "$0";
  return cost < 0.01 ? "<$0.01" : `$${cost.toFixed(cost < 10 ? 2 : 0)}`;
}

export function folderName(path) {
  return path.replace(/\/+$/, "").split("/").pop() || path || "Other";
}

export function ago(time, now = Date.now()) {
  const seconds = Math.max(0, (now - time) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 7 * 86400) return `${Math.floor(seconds / 86400)} d ago`;
  return new Date(time).toLocaleDateString(undefined, {day: "numeric", month: "short"});
}

export function titleOf(row) {
  const first = row.firstMessage === "(no messages)" ? "" : row.firstMessage;
  return row.name || first?.trim().split("\n")[0].slice(0, 200).replace(/[`*]+|^#+ /g, "") || "New session";
}

export class SessionList {
  #root = $("sessions");
  #filter = $("filter");
  #rows = new Map(); // session id -> elements
  #groups = new Map(); // folder -> elements
  #list = {sessions: [], cursor: null};
  #current = null;
  #actions; // {newIn(cwd), more(), opens}

  constructor(actions) {
    this.#actions = actions;
    this.#filter.addEventListener("input", () => this.#draw());
    this.#more = make("button", "quiet wide", "Show older sessions");
    this.#more.addEventListener("click", () => actions.more());
    this.#nothing = make("p", "note");
    setInterval(() => this.#draw(), 60_000);
  }

  #more;
  #nothing;

  update(list, current) {
    this.#list = list;
    this.#current = current;
    this.#draw();
  }

  #draw() {
    const wanted = this.#filter.value.trim().toLowerCase();
    const focused = document.activeElement?.closest?.(".session");
    const groups = new Map();
    for (const row of this.#list.sessions) {
      if (wanted && !`${titleOf(row)} ${row.cwd}`.toLowerCase().includes(wanted)) continue;
      if (!groups.has(row.cwd)) groups.set(row.cwd, []);
      groups.get(row.cwd).push(row);
    }
    const shown = [...groups].map(([cwd, rows]) => this.#group(cwd, rows));
    this.#nothing.textContent = wanted ? "No session matches." : "There are no sessions yet.";
    if (!shown.length) shown.push(this.#nothing);
    if (this.#list.cursor) shown.push(this.#more);
    if (!sameChildren(this.#root, shown)) this.#root.replaceChildren(...shown);
    if (focused?.isConnected && document.activeElement !== focused) focused.focus();
  }

  #group(cwd, rows) {
    let group = this.#groups.get(cwd);
    if (!group) {
      const section = make("section");
      const head = make("h2");
      const name = make("span", "", folderName(cwd));
      name.title = cwd;
      head.append(name);
      if (cwd) {
        const add = make("button", "icon small drives admins");
        add.append(icon("i-plus"));
        add.setAttribute("aria-label", `New session in ${folderName(cwd)}`);
        add.title = add.getAttribute("aria-label");
        add.addEventListener("click", () => this.#actions.newIn(cwd));
        head.append(add);
      }
      const list = make("ul");
      section.append(head, list);
      this.#groups.set(cwd, (group = {section, list}));
    }
    const items = rows.map((row) => this.#row(row));
    if (!sameChildren(group.list, items)) group.list.replaceChildren(...items);
    return group.section;
  }

  #row(row) {
    let known = this.#rows.get(row.id);
    if (!known) {
      const item = make("li");
      const link = make("a", "session");
      link.href = `#s=${encodeURIComponent(row.id)}`;
      link.dataset.id = row.id;
      const name = make("span", "name");
      const mark = make("span", "mark");
      const meta = make("span", "meta");
      link.append(mark, name, meta);
      item.append(link);
      this.#rows.set(row.id, (known = {item, link, name, mark, meta}));
    }
    const {link, name, mark, meta} = known;
    setText(name, titleOf(row));
    link.classList.toggle("asks", row.attention);
    link.classList.toggle("runs", row.streaming);
    link.classList.toggle("live", row.live);
    setText(mark, row.attention ? "asks" : "");
    const state = row.attention ? "waits for an answer" : row.streaming ? "working" : ago(row.modified);
    setText(meta, [state, row.clients > 1 ? `${row.clients} here` : "", row.cost ? dollars(row.cost) : ""].filter(Boolean).join(" · "));
    if (row.id === this.#current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    return known.item;
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function sameChildren(parent, children) {
  return parent.children.length === children.length && children.every((child, at) => parent.children[at] === child);
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

// Questions: the same on every page that is open; the first answer counts.
export class Questions {
  #root = $("asks");
  #shown = new Map(); // id -> {element, left, deadline}
  #answer; // (record) -> was it sent
  #drives = () => false;
  #timer = null;
  #ended;

  constructor({answer, drives, ended}) {
    this.#answer = answer;
    this.#drives = drives;
    this.#ended = ended; // called when the last question with the focus is gone
  }

  update(dialogs) {
    const ids = new Set(dialogs.map((dialog) => dialog.id));
    let lostFocus = false;
    for (const [id, {element, focused}] of this.#shown) {
      if (ids.has(id)) continue;
      lostFocus ||= focused || element.contains(document.activeElement);
      element.remove();
      this.#shown.delete(id);
    }
    for (const dialog of dialogs) if (!this.#shown.has(dialog.id)) this.#show(dialog);
    if (lostFocus) (this.#root.querySelector("button") ?? {focus: this.#ended}).focus();
    clearInterval(this.#timer);
    if (this.#shown.size) this.#timer = setInterval(() => this.#tick(), 1000);
    this.#tick();
  }

  // The connection was lost: an answer may not have arrived, so it can be given again.
  retry() {
    for (const {element} of this.#shown.values()) {
      for (const control of element.querySelectorAll("form :disabled")) control.disabled = false;
    }
  }

  #show(dialog) {
    const [first, ...rest] = dialog.title.split("\n");
    const element = make("section", "ask");
    element.dataset.id = dialog.id;
    element.tabIndex = -1;
    const heading = make("h2", "", first);
    heading.id = `ask-${this.#root.childElementCount}-${dialog.id}`;
    element.setAttribute("role", "group");
    element.setAttribute("aria-labelledby", heading.id);
    const left = make("span", "left");
    const head = make("header");
    head.append(heading, left);
    element.append(head);
    const detail = rest.join("\n").trim();
    if (detail) element.append(make("pre", "detail", detail));
    if (dialog.message) element.append(make("p", "message", dialog.message));
    element.append(this.#drives() ? this.#form(dialog, element) : make("p", "note", "Waiting for a client that may answer."));
    this.#root.append(element);
    this.#shown.set(dialog.id, {element, left, deadline: dialog.deadline});
    $("announce").textContent = `Question: ${dialog.title}`;
    // The focus is not taken from a field: a key that was meant for it must not answer.
    if (document.activeElement === document.body || document.activeElement?.id === "main") element.focus({preventScroll: true});
  }

  #form(dialog, element) {
    const form = make("form", "choices");
    const reply = (answer) => {
      if (!this.#answer({type: "extension_ui_response", id: dialog.id, ...answer})) return;
      this.#shown.get(dialog.id).focused = element.contains(document.activeElement); // a disabled button has no focus
      for (const control of form.elements) control.disabled = true;
    };
    const button = (text, answer, className = "option") => {
      const it = make("button", className, text);
      it.type = "button";
      it.addEventListener("click", () => reply(answer()));
      form.append(it);
      return it;
    };
    form.addEventListener("submit", (event) => event.preventDefault());
    if (dialog.method === "select") {
      dialog.options.forEach((option, at) => button(option, () => ({value: option}), at ? "option" : "option primary"));
      element.addEventListener("keydown", ({key}) => form.elements[Number(key) - 1]?.focus());
    } else if (dialog.method === "confirm") {
      button("Yes", () => ({confirmed: true}), "option primary");
      button("No", () => ({confirmed: false}));
    } else {
      const field = make(dialog.method === "editor" ? "textarea" : "input");
      field.setAttribute("aria-label", dialog.title);
      field.placeholder = dialog.placeholder ?? "";
      field.value = dialog.prefill ?? "";
      form.append(field);
      form.addEventListener("submit", () => reply({value: field.value}));
      button("Answer", () => ({value: field.value}), "option primary");
      button("Cancel", () => ({cancelled: true}));
    }
    element.addEventListener("keydown", (event) => event.key === "Escape" && reply({cancelled: true}));
    return form;
  }

  #tick() {
    for (const {left, deadline} of this.#shown.values()) {
      if (!deadline) continue;
      const seconds = Math.max(0, Math.ceil((deadline - Date.now()) / 1000));
      setText(left, `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} left`);
      left.classList.toggle("soon", seconds <= 10);
    }
  }
}
