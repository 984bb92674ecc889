// The transcript: finished entries are cards, made by the server; what streams is text, drawn once a frame.

const CARDS_PER_SECTION = 16;
const KEPT_SCREENS = 30; // above and below the reader; the cards of sections further away are dropped
const FIRST_CARDS = 48;
const EARLIER_CARDS = 96;
const CHUNK = 1500; // characters of streamed text in one element, so that layout stays cheap
const MAX_LIVE_OUTPUT = 6000; // characters of output that are shown while a tool runs
const MAX_PARSED = 50_000; // characters of arguments that are made readable in each frame
const NEAR_END = 60; // pixels
const BEFORE_BEGINNING = 1500; // pixels between the reader and the first card, at which earlier ones are read
const RETRY_MS = 500;

const policy = globalThis.trustedTypes?.createPolicy("tau", {createHTML: (html) => html}) ?? {createHTML: (html) => html};

// The only place where HTML becomes elements. It is made by the server, which escapes and sanitizes all content.
function cardElement(html) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(html);
  return template.content.firstElementChild;
}

export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// Streamed Markdown as text: paragraphs, lines of lists and fenced code become elements, everything else stays as it is.
class LiveText {
  constructor(parent) {
    this.parent = parent;
    this.#restart();
  }

  #restart() {
    this.parent.replaceChildren();
    this.drawn = 0;
    this.fenced = false;
    this.node = null; // the text node to which is added
    this.atLineStart = true;
    this.rest = ""; // the beginning of a line that cannot be drawn yet
  }

  update(text) {
    if (text.length < this.drawn) this.#restart();
    if (text.length === this.drawn) return;
    const added = this.rest + text.slice(this.drawn);
    this.drawn = text.length;
    this.rest = "";
    for (let at = 0; at < added.length; ) {
      const end = added.indexOf("\n", at);
      const line = added.slice(at, end < 0 ? undefined : end);
      if (this.atLineStart && end < 0 && /^\s*(`{0,2}|```.*)$/.test(line)) {
        this.rest = line; // it may become a fence, or an empty line
        return;
      }
      this.#line(line, end >= 0);
      at = end < 0 ? added.length : end + 1;
    }
  }

  #line(line, ended) {
    const starts = this.atLineStart;
    this.atLineStart = ended;
    if (starts && /^\s*```/.test(line)) {
      this.fenced = !this.fenced;
      this.node = null;
    } else if (this.fenced) {
      this.#append(ended ? `${line}\n` : line, "pre", "");
      if (ended && this.node.length > CHUNK) this.node = this.node.parentNode.appendChild(document.createTextNode(""));
    } else if (starts && line.trim() === "") this.node = null;
    else {
      const marked = starts && /^\s*([-*+>|]|#{1,6} |\d+[.)])/.test(line);
      if (marked || this.node?.length > CHUNK) this.node = null;
      this.#append(starts && this.node ? ` ${line}` : line, "p", marked ? (line.trimStart().startsWith("#") ? "line heading" : "line") : "");
    }
  }

  #append(text, tag, className) {
    this.node ??= this.parent.appendChild(make(tag, className)).appendChild(document.createTextNode(""));
    this.node.appendData(text);
  }
}

// The arguments of a call while they come: JSON that is not complete, as readable lines.
export function readableArguments(json, name) {
  if (json.length > MAX_PARSED) return json.slice(-MAX_LIVE_OUTPUT).replaceAll("\\n", "\n");
  const pairs = [];
  // Every string is matched, closed or not, so that no part of the text is read twice.
  const pattern = /"((?:[^"\\]|\\.)*)(?:"|\\?$)(\s*:\s*(?:[[{]|([^",\s[\]{}][^",}\]]*))?)?/gs;
  let key = null;
  for (const [, string, colon, other] of json.matchAll(pattern)) {
    if (colon === undefined && key !== null) pairs.push([key, string.replace(/\\(u[0-9a-fA-F]{4}|.)/gs, unescaped)]);
    else if (other !== undefined) pairs.push([string, other]);
    key = colon?.trim() === ":" ? string : null;
  }
  if (name === "bash" && pairs[0]?.[0] === "command") return pairs[0][1];
  return pairs.map(([key, value]) => (value.includes("\n") ? `${key}:\n${value}` : `${key}: ${value}`)).join("\n");
}

function unescaped(whole, sign) {
  if (sign.length > 1) return String.fromCharCode(parseInt(sign.slice(1), 16));
  return {n: "\n", t: "\t", r: "", b: "", f: ""}[sign] ?? sign;
}

export class Transcript {
  #scroller = document.getElementById("main");
  #log = document.getElementById("log");
  #live = document.getElementById("live");
  #earlier = document.getElementById("earlier");
  #latest = document.getElementById("latest");
  #get; // (path) -> Promise of JSON
  #session = null;
  #turn = 0; // of the session: answers for another one are dropped
  #cards = new Map(); // entry id -> article; null while it is dropped
  #parts = new WeakMap(); // section -> {ids, calls} of its cards
  #near = new Set(); // sections that are near to the reader
  #distance; // observes which they are
  #filling = false;
  #target = null; // the entry to scroll to when its card is here
  #calls = new Map(); // tool call id -> {article, number}
  #leaf = null; // the last entry that the cards contain
  #more = false;
  #loading = null;
  #stale = false; // something ended while cards were being read
  #follows = true;
  #state = null;
  #message = null; // the live message: {article, body, blocks}
  #ended = []; // live messages whose cards are not here yet
  #tools = new Map(); // tool call id -> {element, ...}
  #frame = 0;
  #top = 0; // how far the reader had scrolled at the last look

  constructor(get, {onEmpty}) {
    this.#get = get;
    this.onEmpty = onEmpty;
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), {passive: true});
    this.#latest.addEventListener("click", () => this.toEnd());
    this.#earlier.addEventListener("click", () => this.#loadEarlier());
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.#loadEarlier(), {
      root: this.#scroller,
      rootMargin: `${BEFORE_BEGINNING}px 0px 0px 0px`,
    }).observe(this.#earlier);
    this.#distance = new IntersectionObserver((seen) => this.#moved(seen), {
      root: this.#scroller,
      rootMargin: `${KEPT_SCREENS * 100}% 0px`,
    });
    const resized = new ResizeObserver(() => this.#keepEnd());
    for (const element of [this.#scroller, this.#log, this.#live]) resized.observe(element);
    this.#log.addEventListener("click", (event) => this.#clicked(event));
  }

  // The last entry that is shown, for the position of the connection.
  get leaf() {
    return this.#leaf;
  }

  // Show a session from its newest cards on.
  async open(session) {
    this.#session = session;
    this.#state = null;
    this.#clear();
    await this.#load();
  }

  close() {
    this.#session = null;
    this.#turn++;
    this.#clear();
  }

  // The state of the session has changed.
  update(state, before) {
    this.#state = state;
    this.#endMessage(state.partial);
    if (state.finished !== before?.finished) this.#refresh();
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  toEnd() {
    this.#follows = true;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#latest.hidden = true;
  }

  // Scroll to an entry of the branch. Its card is read first, if it is not here.
  async show(entry) {
    const turn = this.#turn;
    for (let known = -1; !this.#cards.has(entry) && this.#more && known < this.#cards.size; ) {
      known = this.#cards.size;
      this.#follows = false;
      await this.#loadEarlier();
      if (turn !== this.#turn) return;
    }
    const card = this.#cards.get(entry);
    if (card === null) {
      this.#target = entry;
      [...this.#log.children].find((section) => this.#parts.get(section).ids.includes(entry))?.scrollIntoView({block: "start"});
    } else card?.scrollIntoView({block: "start"});
  }

  // Cards

  #clear() {
    this.#turn++;
    this.#removeCards();
    this.#live.replaceChildren();
    this.#tools.clear();
    this.#ended = [];
    this.#message = null;
    this.#leaf = null;
    this.#more = false;
    this.#loading = null;
    this.#stale = false;
    this.#follows = true;
    this.#earlier.hidden = true;
    this.#latest.hidden = true;
    this.#log.setAttribute("aria-busy", "true");
  }

  #removeCards() {
    this.#distance.disconnect();
    this.#near.clear();
    this.#log.replaceChildren();
    this.#cards.clear();
    this.#calls.clear();
    this.#target = null;
  }

  #path(query) {
    return `v1/sessions/${encodeURIComponent(this.#session)}/cards?${query}`;
  }

  async #load() {
    const turn = this.#turn;
    const reading = (this.#loading = this.#get(this.#path(`limit=${FIRST_CARDS}`)));
    let answer = null;
    try {
      answer = await reading;
    } catch (error) {
      if (error.status) throw error;
      this.#retry(turn);
    } finally {
      if (turn === this.#turn) this.#loading = null;
    }
    if (turn !== this.#turn || !answer) return;
    this.#removeCards();
    this.#more = answer.more;
    this.#leaf = answer.leafId;
    this.#log.append(...this.#sections(answer.cards));
    this.#earlier.hidden = !this.#more;
    this.#dropEnded();
    this.toEnd();
    this.#draw();
    requestAnimationFrame(() => turn === this.#turn && this.#log.removeAttribute("aria-busy"));
    this.#goOn();
  }

  // Ask for what is new: one request at a time.
  async #refresh() {
    if (!this.#session) return;
    if (this.#loading) {
      this.#stale = true;
      return;
    }
    this.#stale = false;
    if (this.#leaf === null) return this.#load().catch(() => null);
    const turn = this.#turn;
    const ended = [...this.#ended];
    this.#loading = this.#get(this.#path(`after=${encodeURIComponent(this.#leaf)}&limit=${FIRST_CARDS * 4}`));
    let answer = null;
    let gone = false;
    try {
      answer = await this.#loading;
    } catch (error) {
      gone = error.status === 404;
      if (!error.status) this.#retry(turn);
    }
    if (turn !== this.#turn) return;
    this.#loading = null;
    if (gone || answer?.more) return this.#load().catch(() => null);
    if (answer) {
      this.#leaf = answer.leafId;
      this.#put(answer.cards);
      for (const message of ended) message.article.remove();
      this.#ended = this.#ended.filter((message) => !ended.includes(message));
      this.#draw();
    }
    this.#goOn();
  }

  // The connection was lost while cards were read.
  #retry(turn) {
    setTimeout(() => turn === this.#turn && this.#refresh(), RETRY_MS);
  }

  // Cards of the end: new ones, and those that have changed.
  #put(cards) {
    const changed = cards.filter((card) => this.#cards.get(card.id)); // one that is dropped is read again later
    const added = cards.filter((card) => !this.#cards.has(card.id));
    if (changed.length) {
      this.#log.setAttribute("aria-live", "off"); // a result is not read out with the whole card around it
      for (const card of changed) {
        const old = this.#cards.get(card.id);
        const fresh = this.#card(card, old.parentElement);
        keepOpen(old, fresh);
        old.replaceWith(fresh);
      }
      setTimeout(() => this.#log.removeAttribute("aria-live"), 200);
    }
    const last = this.#log.lastElementChild;
    const room = last ? CARDS_PER_SECTION - last.childElementCount : 0;
    if (room > 0) last.append(...added.splice(0, room).map((card) => this.#card(card, last)));
    this.#log.append(...this.#sections(added));
  }

  #sections(cards) {
    const sections = [];
    for (let at = 0; at < cards.length; at += CARDS_PER_SECTION) {
      const section = make("section");
      this.#parts.set(section, {ids: [], calls: []});
      section.append(...cards.slice(at, at + CARDS_PER_SECTION).map((card) => this.#card(card, section)));
      this.#distance.observe(section);
      sections.push(section);
    }
    return sections;
  }

  #card({id, html, calls}, section) {
    const article = cardElement(html);
    const part = this.#parts.get(section);
    if (!part.ids.includes(id)) part.ids.push(id);
    this.#cards.set(id, article);
    calls?.forEach((call, number) => {
      this.#calls.set(call, {article, number});
      part.calls.push(call);
    });
    return article;
  }

  // Cards that are far from the reader: dropped, and read again when the reader comes near

  #moved(seen) {
    for (const {target, isIntersecting, boundingClientRect} of seen) {
      if (isIntersecting) this.#near.add(target);
      else {
        this.#near.delete(target);
        this.#drop(target, boundingClientRect.height);
      }
    }
    this.#fill();
  }

  // The section keeps its height, so that nothing moves.
  #drop(section, height) {
    const used = section === this.#log.lastElementChild || section.contains(document.activeElement);
    if (used || !section.isConnected || section.dataset.dropped) return;
    const part = this.#parts.get(section);
    section.dataset.dropped = "true";
    section.style.height = `${height}px`;
    section.replaceChildren();
    for (const id of part.ids) this.#cards.set(id, null);
    for (const call of part.calls) if (!this.#calls.get(call)?.article.isConnected) this.#calls.delete(call);
    part.calls = [];
  }

  // Read the cards of dropped sections that are near again: one request at a time, the nearest section first.
  async #fill() {
    if (this.#filling) return;
    const wanted = [...this.#near].filter((section) => section.dataset.dropped && section.isConnected);
    if (!wanted.length) return;
    const middle = this.#scroller.getBoundingClientRect().top + this.#scroller.clientHeight / 2;
    const distance = (section) => Math.abs(section.getBoundingClientRect().top - middle);
    const section = wanted.reduce((one, other) => (distance(other) < distance(one) ? other : one));
    const {ids} = this.#parts.get(section);
    const [next] = this.#parts.get(section.nextElementSibling).ids;
    this.#filling = true;
    const answer = await this.#get(this.#path(`before=${encodeURIComponent(next)}&limit=${2 * ids.length}`)).catch(() => null);
    this.#filling = false;
    if (!answer) setTimeout(() => this.#fill(), RETRY_MS);
    else {
      if (this.#near.has(section)) this.#refill(section, answer.cards); // else the reader has gone on
      this.#fill();
    }
  }

  #refill(section, cards) {
    const {ids} = this.#parts.get(section);
    const above = section.getBoundingClientRect().bottom <= this.#scroller.getBoundingClientRect().top;
    const anchor = section.nextElementSibling;
    const top = anchor.getBoundingClientRect().top;
    this.#log.setAttribute("aria-live", "off");
    delete section.dataset.dropped;
    section.style.height = "";
    section.replaceChildren(...cards.filter(({id}) => ids.includes(id)).map((card) => this.#card(card, section)));
    if (above) {
      this.#scroller.scrollTop += anchor.getBoundingClientRect().top - top;
      this.#top = this.#scroller.scrollTop;
    }
    setTimeout(() => this.#log.removeAttribute("aria-live"), 200);
    if (!ids.includes(this.#target)) return;
    this.#cards.get(this.#target)?.scrollIntoView({block: "start"});
    this.#target = null;
  }

  async #loadEarlier() {
    const first = this.#cards.keys().next().value;
    if (!this.#more || this.#loading || !first) return;
    const turn = this.#turn;
    const reading = (this.#loading = this.#get(this.#path(`before=${encodeURIComponent(first)}&limit=${EARLIER_CARDS}`)));
    const answer = await reading.catch(() => null);
    if (turn !== this.#turn) return;
    this.#loading = null;
    if (answer) {
      this.#more = answer.more;
      this.#earlier.hidden = !this.#more;
      this.#prepend(answer.cards);
    }
    if (answer) this.#goOn();
    else if (this.#stale) this.#refresh();
  }

  // Something was read: read what is wanted next.
  #goOn() {
    if (this.#stale) this.#refresh();
    else this.#readOn();
  }

  // The observer only tells changes from frame to frame, and none counts while something is being read.
  #readOn() {
    const {clientHeight, scrollTop} = this.#scroller;
    if (this.#more && !this.#loading && clientHeight && scrollTop < BEFORE_BEGINNING) this.#loadEarlier();
  }

  #prepend(cards) {
    const known = [...this.#cards];
    this.#cards.clear();
    this.#log.setAttribute("aria-live", "off");
    const sections = this.#sections(cards);
    for (const [id, article] of known) this.#cards.set(id, article); // the map stays in the order of the page
    const anchor = this.#log.firstElementChild;
    const top = anchor.getBoundingClientRect().top;
    this.#log.prepend(...sections);
    this.#scroller.scrollTop += anchor.getBoundingClientRect().top - top;
    this.#top = this.#scroller.scrollTop;
    setTimeout(() => this.#log.removeAttribute("aria-live"), 200);
  }

  #dropEnded() {
    for (const message of this.#ended) message.article.remove();
    this.#ended = [];
  }

  #clicked(event) {
    const link = event.target.closest("a[href]");
    if (!link) return;
    event.preventDefault(); // the page stays, and its fragment names the session
    if (link.getAttribute("href").startsWith("#")) {
      document.getElementById(decodeURIComponent(link.hash.slice(1)))?.scrollIntoView({block: "start"});
    } else if (/^(https?|mailto):$/.test(link.protocol)) open(link.href, "_blank", "noopener,noreferrer");
  }

  // What streams

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const state = this.#state;
    if (!state) return;
    this.#drawMessage(state.partial);
    this.#drawTools(state);
    this.#drawBash(state);
    const begun = this.#more || this.#live.firstElementChild || this.#log.querySelector("article:not(.quiet, .line)");
    this.onEmpty(!this.#loading && !begun && state.loaded);
    this.#keepEnd();
  }

  // A live message that has ended stays until its card is here.
  #endMessage(partial) {
    const message = this.#message;
    if (!message || partial?.timestamp === message.timestamp) return;
    message.article.classList.add("ended");
    this.#ended.push(message);
    this.#message = null;
  }

  #drawMessage(partial) {
    if (!partial) return;
    const live = (this.#message ??= this.#newMessage(partial));
    partial.blocks.forEach((block, index) => {
      if (!block || live.drawn[index] === block) return;
      live.drawn[index] = block;
      (live.blocks[index] ??= this.#newBlock(live.body, block)).update(block);
    });
  }

  #newMessage(partial) {
    const above = [...this.#log.querySelectorAll(":scope > section:last-child > article:not(.quiet)")].pop();
    const follows = above?.matches(".assistant") && above.querySelector(".who")?.textContent === partial.model;
    const article = make("article", `assistant streaming${follows ? " follows" : ""}`);
    const header = make("header");
    header.append(make("span", "who", partial.model ?? ""), make("span", "when", "now"));
    const body = make("div", "body");
    article.append(header, body);
    this.#live.append(article);
    return {article, body, blocks: [], drawn: [], timestamp: partial.timestamp};
  }

  #newBlock(body, block) {
    if (block.kind === "text") {
      const text = new LiveText(body.appendChild(make("div", "prose text")));
      return {update: (now) => text.update(now.text)};
    }
    if (block.kind === "thinking") return this.#newThinking(body);
    return this.#newCall(body);
  }

  #newThinking(body) {
    const details = make("details", "thinking");
    const summary = make("summary", "", "Thinking ");
    const quote = summary.appendChild(make("q"));
    const prose = make("div", "prose");
    const text = new LiveText(prose);
    details.append(summary, prose);
    body.append(details);
    return {
      update: (block) => {
        text.update(block.redacted ? "" : block.text);
        const line = block.text.trimEnd().slice(-400).split("\n").pop().replaceAll("*", "");
        quote.textContent = block.redacted ? "hidden by the provider" : line;
      },
    };
  }

  #newCall(body) {
    const section = make("section", "call");
    const head = make("div", "head");
    const name = head.appendChild(make("b"));
    const given = make("pre", "given");
    const slot = make("div", "slot");
    section.append(head, given, slot);
    body.append(section);
    return {
      update: (block) => {
        name.textContent = block.name;
        section.dataset.call = block.id;
        given.classList.toggle("command", block.name === "bash");
        given.textContent = readableArguments(block.argumentText, block.name).slice(-MAX_LIVE_OUTPUT);
        if (block.id) this.#calls.set(block.id, {article: section.closest("article"), number: -1, section});
      },
    };
  }

  // Output of tools that run, in the slots of their calls.
  #drawTools(state) {
    for (const [id, live] of this.#tools) {
      if (Object.hasOwn(state.tools, id) || this.#loading) continue; // the card with the result is on its way
      live.element.remove();
      this.#tools.delete(id);
    }
    for (const tool of Object.values(state.tools)) {
      let live = this.#tools.get(tool.id);
      if (!live) this.#tools.set(tool.id, (live = newToolOutput()));
      if (live.drawn !== tool) {
        live.drawn = tool;
        drawTool(live, tool);
      }
      const slot = this.#slot(tool);
      if (live.element.parentNode !== slot && !slot.querySelector(".result:not(.running)")) slot.append(live.element);
    }
    for (const alone of this.#live.querySelectorAll("[data-alone]")) if (!alone.querySelector(".result")) alone.remove();
  }

  #slot(tool) {
    const place = this.#calls.get(tool.id);
    const section = place?.section ?? place?.article.querySelectorAll(".call")[place.number];
    if (section?.isConnected) return section.querySelector(".slot");
    let alone = this.#live.querySelector(`[data-alone="${CSS.escape(tool.id)}"]`);
    if (!alone) {
      alone = make("section", "call");
      alone.dataset.alone = tool.id;
      const head = alone.appendChild(make("div", "head"));
      head.append(make("b", "", tool.name));
      alone.append(make("div", "slot"));
      this.#live.append(alone);
    }
    return alone.querySelector(".slot");
  }

  // `bash` commands of clients.
  #drawBash(state) {
    const shown = new Set(state.bash.map((one) => String(one.id)));
    for (const old of this.#live.querySelectorAll("[data-bash]")) if (!shown.has(old.dataset.bash)) old.remove();
    for (const one of state.bash) {
      let element = this.#live.querySelector(`[data-bash="${CSS.escape(String(one.id))}"]`);
      if (!element) {
        element = make("section", "call bash");
        element.dataset.bash = String(one.id);
        const command = make("pre", "given command", one.command ?? "");
        element.append(command, make("div", "result running"));
        element.lastElementChild.append(make("pre", "output"));
        this.#live.append(element);
      }
      element.querySelector(".output").textContent = one.output.slice(-MAX_LIVE_OUTPUT);
    }
  }

  // The end of the conversation

  #scrolled() {
    const {scrollHeight, scrollTop, clientHeight} = this.#scroller;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END) this.#follows = true;
    else if (scrollTop < this.#top) this.#follows = false; // only a reader scrolls up
    this.#top = scrollTop;
    this.#latest.hidden = this.#follows;
    this.#readOn();
  }

  #keepEnd() {
    if (!this.#follows) return;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#top = this.#scroller.scrollTop;
  }
}

// What a reader has unfolded stays so when a card is replaced.
function keepOpen(old, fresh) {
  const folds = fresh.querySelectorAll("details");
  old.querySelectorAll("details").forEach((fold, at) => fold.open && folds[at] && (folds[at].open = true));
}

function newToolOutput() {
  const element = make("div", "result running");
  const change = make("div", "diff");
  const note = make("p", "note");
  const output = make("pre", "output");
  const pictures = make("div", "pictures");
  element.append(change, output, pictures, note);
  return {element, change, output, pictures, note, drawn: null};
}

function drawTool(live, tool) {
  const text = tool.output.length > MAX_LIVE_OUTPUT ? `…${tool.output.slice(-MAX_LIVE_OUTPUT)}` : tool.output;
  if (live.text !== text) live.output.textContent = live.text = text;
  live.output.hidden = !text;
  live.element.classList.toggle("error", tool.status === "failed");
  live.element.dataset.status = tool.status;
  if (!live.shown && (tool.name === "edit" || tool.name === "write")) drawChange(live.change, tool.args ?? {});
  live.shown = true;
  if (tool.images.length !== live.pictures.childElementCount) {
    live.pictures.replaceChildren(...tool.images.map(picture));
  }
  live.note.textContent = tool.status === "running" && !text && !live.change.firstChild ? "running …" : "";
}

// What an edit intends, before it is done: the user may be asked whether it is allowed.
function drawChange(parent, args) {
  const edits = Array.isArray(args.edits) ? args.edits : [args];
  const rows = [];
  for (const edit of edits) {
    if (typeof edit?.oldText === "string") for (const line of edit.oldText.split("\n")) rows.push(["del", line]);
    if (typeof edit?.newText === "string") for (const line of edit.newText.split("\n")) rows.push(["ins", line]);
  }
  if (!rows.length) return;
  const pre = parent.appendChild(make("pre"));
  for (const [kind, line] of rows.slice(0, 200)) {
    const row = make(kind);
    row.append(make("i", "", kind === "del" ? "-" : "+"), line);
    pre.append(row, "\n");
  }
}

const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export function picture({data, mimeType}) {
  const image = make("img");
  if (IMAGE_TYPES.has(mimeType)) image.src = `data:${mimeType};base64,${data}`;
  image.alt = "Image";
  return image;
}
