// The message field: prompts, steering, the queue, images, slash commands, files, model and thinking.

import {make, picture} from "./transcript.js";

const MAX_IMAGE_BYTES = 8 * 1024 * 1024;
const MAX_IMAGES_BYTES = 23 * 1024 * 1024; // of one message: a third more in base64, and the host takes 32 MiB
const MAX_ROWS = 60;
const LEVELS = {
  off: "No thinking",
  minimal: "Minimal thinking",
  low: "Low thinking",
  medium: "Medium thinking",
  high: "High thinking",
  xhigh: "Very high thinking",
  max: "Maximum thinking",
};
const SHORT_LEVELS = {off: "Off", xhigh: "Very high"}; // others: their first word
const narrow = matchMedia("(max-width: 26rem)");
const $ = (id) => document.getElementById(id);

export class Composer {
  #prompt = $("prompt");
  #menu = $("menu");
  #connection; // () -> Connection
  #actions; // {own: [{name, description, run}], toast, bash, stateChanged}
  #session = null; // the id under which its draft is kept
  #state = null;
  #commands = null; // slash commands of the session, once they are known
  #models = new Map(); // "provider/id" -> model
  #images = [];
  #rows = []; // suggestions
  #chosen = 0;
  #query = null; // what is completed: {kind, start, end, text}
  #asked = 0;
  #history = [];
  #place = 0;
  #drafts = new Map(); // session id -> [text, images]; only in memory

  constructor(connection, actions) {
    this.#connection = connection;
    this.#actions = actions;
    $("say").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(this.#busy ? "steer" : null);
    });
    $("steer").addEventListener("click", () => this.submit("steer"));
    $("follow-up").addEventListener("click", () => this.submit("followUp"));
    $("abort").addEventListener("click", () => this.abort());
    this.#prompt.addEventListener("keydown", (event) => this.#pressed(event));
    this.#prompt.addEventListener("input", () => this.#typed());
    this.#prompt.addEventListener("blur", () => setTimeout(() => this.#hideMenu(), 150));
    this.#prompt.addEventListener("paste", (event) => this.#addImages(event.clipboardData.files, event));
    $("say").addEventListener("dragover", (event) => event.preventDefault());
    $("say").addEventListener("drop", (event) => this.#addImages(event.dataTransfer.files, event));
    $("attach").addEventListener("click", () => $("image-files").click());
    $("image-files").addEventListener("change", ({target}) => {
      this.#addImages(target.files);
      target.value = "";
    });
    $("model").addEventListener("focus", () => this.#actions.stateChanged()); // another page may have changed it
    $("model").addEventListener("change", ({target}) => this.#setModel(target.value));
    $("thinking").addEventListener("change", ({target}) => this.#setThinking(target.value));
    narrow.addEventListener("change", () => {
      for (const option of $("thinking").options) option.textContent = levelName(option.value);
    });
    this.#menu.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the field keeps the focus
      const row = event.target.closest("[role=option]");
      if (row) this.#take(Number(row.dataset.at));
    });
  }

  get #busy() {
    return Boolean(this.#state?.state.isStreaming || this.#state?.state.isCompacting);
  }

  // Another session is shown. What was written for the one before waits for it.
  reset(before, now) {
    if (before === now) return;
    this.#drafts.set(before, [this.#prompt.value, this.#images]);
    [this.#prompt.value, this.#images] = this.#drafts.get(now) ?? ["", []];
    this.#session = now;
    this.#state = null;
    this.#commands = null;
    this.#hideMenu();
    this.#showImages();
    this.#grow();
  }

  async attached(drives) {
    if (!drives) return;
    const {request} = this.#connection();
    const ask = (type) => request.call(this.#connection(), {type}).catch(() => null);
    const [models, levels, commands] = await Promise.all([
      ask("get_available_models"),
      ask("get_available_thinking_levels"),
      ask("get_commands"),
    ]);
    if (models) this.#models = new Map(models.models.map((model) => [`${model.provider}/${model.id}`, model]));
    if (commands) this.#commands = commands.commands;
    this.#showModels();
    this.#showLevels(levels?.levels ?? []);
  }

  update(state, before) {
    this.#state = state;
    if (state.queue !== before?.queue) this.#showQueue(state.queue);
    if (state.state !== before?.state || state.bash !== before?.bash || state.retry !== before?.retry) this.#showButtons();
    if (state.state.model !== before?.state.model) this.#showModels();
    if (state.state.thinkingLevel !== before?.state.thinkingLevel) $("thinking").value = state.state.thinkingLevel ?? "off";
    if (state.editorText !== before?.editorText && state.editorText && before) this.setText(state.editorText.text);
  }

  setText(text) {
    this.#prompt.value = text;
    this.#grow();
    this.#showButtons();
    this.#prompt.focus();
  }

  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.#prompt.focus({preventScroll: true});
  }

  // Sending

  async submit(behavior) {
    const text = this.#prompt.value.trim();
    if (!text && !this.#images.length) return;
    this.#hideMenu();
    if (this.#runOwn(text)) return this.#sent();
    const images = this.#images;
    const message = {type: "prompt", message: text};
    if (behavior) message.streamingBehavior = behavior;
    if (images.length) message.images = images.map(({data, mimeType}) => ({type: "image", data, mimeType}));
    this.#history.push(text);
    const session = this.#session;
    this.#sent();
    try {
      await this.#connection().request(message);
    } catch (error) {
      this.#actions.toast(error.message, "error");
      this.#giveBack(session, text, images);
    }
  }

  // A message that was not sent is written again, in the session that it was for.
  #giveBack(session, text, images) {
    if (session !== this.#session) {
      const [written, others] = this.#drafts.get(session) ?? ["", []];
      if (!written && !others.length) this.#drafts.set(session, [text, images]);
    } else if (!this.#prompt.value && !this.#images.length) {
      this.#images = images;
      this.#showImages();
      this.setText(text);
    }
  }

  #runOwn(text) {
    if (text.startsWith("!")) {
      const exclude = text.startsWith("!!");
      const command = text.slice(exclude ? 2 : 1).trim();
      if (command) this.#actions.bash(command, exclude);
      return Boolean(command);
    }
    const [, name, rest] = /^\/(\S+)\s*(.*)$/s.exec(text) ?? [];
    const own = this.#actions.own.find((one) => one.name === name);
    if (!own || this.#commands?.some((one) => one.name === name)) return false;
    own.run(rest.trim());
    return true;
  }

  #sent() {
    this.#prompt.value = "";
    this.#images = [];
    this.#place = this.#history.length;
    this.#showImages();
    this.#grow();
    this.#showButtons();
    this.#actions.sent();
  }

  async abort() {
    const connection = this.#connection();
    const {bash, state, retry} = this.#state ?? {};
    const commands = [];
    if (bash?.length) commands.push("abort_bash");
    if (state?.isStreaming || state?.isCompacting || retry) commands.push("abort");
    for (const type of commands) connection.request({type}).catch((error) => this.#actions.toast(error.message, "error"));
  }

  // Keys

  #pressed(event) {
    if (event.isComposing) return;
    const {key} = event;
    if (this.#rows.length && this.#menuKey(key)) return event.preventDefault();
    if (key === "Enter" && !event.shiftKey) {
      if (matchMedia("(pointer: coarse)").matches && !event.altKey && !event.ctrlKey) return; // a phone: Enter is a new line
      event.preventDefault();
      this.submit(this.#busy ? (event.altKey ? "followUp" : "steer") : null);
    } else if (key === "Escape" && this.#isStoppable) {
      event.preventDefault();
      this.abort();
    } else if (key === "ArrowUp" && this.#prompt.selectionEnd === 0) this.#recall(event, -1);
    else if (key === "ArrowDown" && this.#prompt.selectionStart === this.#prompt.value.length) this.#recall(event, 1);
  }

  #menuKey(key) {
    if (key === "ArrowDown") this.#choose(this.#chosen + 1);
    else if (key === "ArrowUp") this.#choose(this.#chosen - 1);
    else if (key === "Tab" || key === "Enter") this.#take(this.#chosen);
    else if (key === "Escape") this.#hideMenu();
    else return false;
    return true;
  }

  #recall(event, step) {
    const text = this.#history[this.#place + step];
    if (text === undefined && step < 0) return;
    event.preventDefault();
    this.#place = Math.min(this.#place + step, this.#history.length);
    this.setText(text ?? "");
  }

  #typed() {
    this.#grow();
    this.#showButtons();
    this.#complete();
  }

  #grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.#prompt.style.height = "auto";
    this.#prompt.style.height = `${this.#prompt.scrollHeight}px`;
  }

  // Suggestions

  #complete() {
    const {value, selectionStart: end} = this.#prompt;
    const head = value.slice(0, end);
    const command = /^\/(\S*)$/.exec(head);
    const file = /(?:^|\s)@("?)([^\s"]*)$/.exec(head);
    if (command) this.#suggest({kind: "command", start: 0, end, text: command[1]}, this.#commandRows(command[1]));
    else if (file) this.#suggestFiles({kind: "file", start: end - file[2].length - file[1].length - 1, end, text: file[2]});
    else this.#hideMenu();
  }

  #commandRows(text) {
    const wanted = text.toLowerCase();
    const own = this.#actions.own.map(({name, description}) => ({name, description}));
    const all = [...own, ...(this.#commands ?? []).filter((one) => !own.some((other) => other.name === one.name))];
    const rank = (one) => {
      const name = one.name.toLowerCase();
      return name.startsWith(wanted) ? 0 : name.replace(/^skill:/, "").startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3;
    };
    return all
      .map((one) => [rank(one), one])
      .filter(([place]) => place < 3)
      .sort(([one], [other]) => one - other)
      .map(([, one]) => ({value: `/${one.name} `, label: `/${one.name}`, aside: one.description ?? ""}));
  }

  async #suggestFiles(query) {
    const asked = ++this.#asked;
    const id = encodeURIComponent(this.#state?.id ?? "");
    const found = await this.#connection().get(`v1/sessions/${id}/files?query=${encodeURIComponent(query.text)}`).catch(() => null);
    if (asked !== this.#asked || document.activeElement !== this.#prompt) return;
    const rows = (found?.files ?? []).map((path) => {
      const name = /[^/]+\/?$/.exec(path)?.[0] ?? path;
      const written = /\s/.test(path) ? `@"${path}"` : `@${path}`;
      return {value: path.endsWith("/") ? written.replace(/"$/, "") : `${written} `, label: name, aside: path.slice(0, -name.length)};
    });
    this.#suggest(query, rows);
  }

  #suggest(query, rows) {
    this.#query = query;
    this.#rows = rows.slice(0, MAX_ROWS);
    this.#menu.hidden = !this.#rows.length;
    this.#menu.replaceChildren(
      ...this.#rows.map((row, at) => {
        const element = make("div", "option");
        element.setAttribute("role", "option");
        element.id = `option-${at}`;
        element.dataset.at = at;
        element.append(make("span", "label", row.label), make("span", "aside", row.aside));
        return element;
      }),
    );
    if (this.#rows.length) this.#choose(0);
    else this.#hideMenu();
  }

  #choose(at) {
    const count = this.#rows.length;
    this.#chosen = (at + count) % count;
    [...this.#menu.children].forEach((row, number) => row.setAttribute("aria-selected", String(number === this.#chosen)));
    this.#menu.children[this.#chosen].scrollIntoView({block: "nearest"});
    this.#prompt.setAttribute("aria-activedescendant", `option-${this.#chosen}`);
  }

  #take(at) {
    const {start, end} = this.#query;
    const {value} = this.#rows[at];
    this.#prompt.setRangeText(value, start, end, "end");
    this.#hideMenu();
    this.#typed();
  }

  #hideMenu() {
    this.#asked++;
    this.#rows = [];
    this.#menu.hidden = true;
    this.#menu.replaceChildren();
    this.#prompt.removeAttribute("aria-activedescendant");
  }

  // Images

  #addImages(files, event) {
    const images = [...files].filter((file) => file.type.startsWith("image/"));
    if (!images.length) return;
    event?.preventDefault();
    for (const file of images) {
      if (file.size > MAX_IMAGE_BYTES) {
        this.#actions.toast(`${file.name} is larger than 8 MB.`, "error");
        continue;
      }
      const reader = new FileReader();
      const session = this.#session;
      reader.onload = () => {
        if (session !== this.#session) return; // another session was chosen meanwhile
        if (this.#images.reduce((sum, {size}) => sum + size, file.size) > MAX_IMAGES_BYTES) {
          this.#actions.toast(`${file.name}: the images of a message may have 23 MB together.`, "error");
          return;
        }
        const data = reader.result.split(",")[1];
        this.#images = [...this.#images, {data, mimeType: file.type, name: file.name, size: file.size}];
        this.#showImages();
      };
      reader.readAsDataURL(file);
    }
  }

  #showImages() {
    $("images").hidden = !this.#images.length;
    $("images").replaceChildren(
      ...this.#images.map((image) => {
        const figure = make("span", "thumb");
        const remove = make("button", "", "×");
        remove.type = "button";
        remove.setAttribute("aria-label", `Remove ${image.name || "the image"}`);
        remove.addEventListener("click", () => {
          this.#images = this.#images.filter((one) => one !== image);
          this.#showImages();
          this.#prompt.focus();
        });
        figure.append(picture(image), remove);
        return figure;
      }),
    );
    this.#showButtons();
  }

  // Model and thinking

  #showModels() {
    const select = $("model");
    const current = this.#state?.state.model;
    const value = current ? `${current.provider}/${current.id}` : "";
    const shown = new Map(this.#models);
    if (current && !shown.has(value)) shown.set(value, current);
    const groups = new Map();
    for (const [key, model] of shown) {
      if (!groups.has(model.provider)) groups.set(model.provider, []);
      const option = make("option", "", model.name || model.id);
      option.value = key;
      groups.get(model.provider).push(option);
    }
    select.replaceChildren(
      ...[...groups].map(([provider, options]) => {
        const group = make("optgroup");
        group.label = provider;
        group.append(...options);
        return group;
      }),
    );
    if (!current) select.prepend(make("option", "", "No model"));
    select.value = value;
  }

  #showLevels(levels) {
    const current = this.#state?.state.thinkingLevel ?? "off";
    const shown = levels.includes(current) ? levels : [current, ...levels];
    $("thinking").replaceChildren(
      ...shown.map((level) => {
        const option = make("option", "", levelName(level));
        option.value = level;
        return option;
      }),
    );
    $("thinking").value = current;
    $("thinking").parentElement.hidden = levels.length < 2;
  }

  async #setModel(key) {
    const model = this.#models.get(key);
    if (!model) return;
    const connection = this.#connection();
    try {
      await connection.request({type: "set_model", provider: model.provider, modelId: model.id});
      const levels = await connection.request({type: "get_available_thinking_levels"});
      this.#actions.stateChanged();
      this.#showLevels(levels.levels);
    } catch (error) {
      this.#actions.toast(error.message, "error");
      this.#showModels();
    }
  }

  async #setThinking(level) {
    try {
      await this.#connection().request({type: "set_thinking_level", level});
    } catch (error) {
      this.#actions.toast(error.message, "error");
      $("thinking").value = this.#state?.state.thinkingLevel ?? "off";
    }
  }

  // Buttons and the queue

  get #isStoppable() {
    return this.#busy || Boolean(this.#state?.retry || this.#state?.bash.length);
  }

  #showButtons() {
    const busy = this.#busy;
    const written = Boolean(this.#prompt.value.trim() || this.#images.length);
    $("abort").hidden = !this.#isStoppable;
    $("steer").hidden = $("follow-up").hidden = !(busy && written);
    $("send").hidden = busy;
    $("send").disabled = !written;
    this.#prompt.placeholder = busy ? "Steer it, or queue what comes next" : "Message, / for commands, @ for files";
  }

  #showQueue({steering, followUp}) {
    const queue = $("queue");
    const count = steering.length + followUp.length;
    queue.hidden = !count;
    if (!count) return queue.replaceChildren();
    const list = make("ul");
    const add = (text, kind) => {
      const row = make("li");
      row.append(make("span", "kind", kind), make("span", "text", text));
      list.append(row);
    };
    for (const text of steering) add(text, "next");
    for (const text of followUp) add(text, "later");
    const edit = make("button", "drives quiet", "Take back");
    edit.type = "button";
    edit.addEventListener("click", () => this.#takeBack());
    queue.replaceChildren(list, edit);
  }

  async #takeBack() {
    try {
      const {steering, followUp} = await this.#connection().request({type: "clear_queue"});
      this.setText([...steering, ...followUp, this.#prompt.value].filter(Boolean).join("\n\n"));
    } catch (error) {
      this.#actions.toast(error.message, "error");
    }
  }
}

function levelName(level) {
  const name = LEVELS[level] ?? level;
  return narrow.matches ? (SHORT_LEVELS[level] ?? name.split(" ")[0]) : name;
}
