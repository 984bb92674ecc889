// One extension: its registrations, the calls in progress and its actions, over the connection that all share.

import { pathToFileURL } from "node:url";
import { LatestTells } from "./latest_tells.mjs";
import { createApi } from "./api.mjs";
import { loadFactory, pathOf } from "./loading.mjs";
import { currentCall } from "./scope.mjs";

const TELLS_AHEAD = 256;
const STALE =
  "This extension ctx is stale: its session has been left, and extensions start anew with every session. After newSession, fork and switchSession, use the ctx that withSession gets.";

/** The text of an error, as people read it. */
export function errorText(error) {
  if (error instanceof Error || typeof error?.message === "string") return error.message || error.name || "Error";
  return String(error);
}

/** An extension is used in a session after that in which it was made. */
export class StaleError extends Error {
  constructor() {
    super(STALE);
  }
}

/** A call of tau that has not been answered. */
export class Call {
  #extension;
  #newest = [];
  #scheduled = false;

  constructor(id, extension) {
    this.id = id;
    this.#extension = extension;
    this.controller = new AbortController();
  }

  get signal() {
    return this.controller.signal;
  }

  /** Reports progress. Of several reports in one turn of the event loop the newest is sent. */
  update(value) {
    this.#newest = [value];
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.flush());
  }

  flush() {
    this.#scheduled = false;
    const newest = this.#newest;
    this.#newest = [];
    if (newest.length && !this.signal.aborted) this.#extension.send({ type: "update", id: this.id, value: newest[0] });
  }

  /** Sends a part of the answer; resolves when there is room for more. */
  put(value) {
    return this.#extension.request((ask) => ({ type: "update", id: this.id, value, ask }));
  }
}

export class Extension {
  #channel;
  #number;
  #message;
  #targets = new Map();
  #calls = new Map();
  #pending = new Map();
  #pieces = new Map();
  #ids = { next: 1 };
  #facts;
  #fresh = false;
  #ended = false;
  #endings = [];
  #told = 0;
  #next; // the one that has started anew for another session
  #latest = new LatestTells((message) => {
    if (!this.#next) this.#transmit(message);
  });

  constructor(number, channel, message) {
    this.#number = number;
    this.#channel = channel;
    this.#message = message;
    this.#facts = message.facts;
    this.path = message.path;
    this.root = message.root ?? message.path;
    this.ready = false; // actions are possible
    this.flags = { ...message.flags };
    this.following = message.following ?? {};
    this.agentDir = message.agentDir;
    this.cache = new Map(); // of synchronous reads, see session_manager.mjs
  }

  get ended() {
    return this.#ended;
  }

  /** The extension of the present session. */
  get latest() {
    return this.#next?.latest ?? this;
  }

  /** Starts anew for another session: nothing that was registered is left, and only calls in progress go on. */
  renewed() {
    for (const target of this.#targets.keys()) this.unregister(target);
    for (const action of this.#endings.splice(0)) action();
    const next = new Extension(this.#number, this.#channel, this.#message);
    [next.#calls, next.#pending, next.#pieces, next.#ids] = [this.#calls, this.#pending, this.#pieces, this.#ids];
    next.#facts = this.#facts;
    this.#next = next;
    return next;
  }

  requirePresent() {
    if (this.#next) throw new StaleError();
  }

  // Loading

  async load() {
    const { pi, loaded } = createApi(this);
    let ended;
    const stopped = new Promise((resolve) => (ended = resolve));
    this.onEnd(() => ended());
    try {
      const work = currentCall.run({ extension: this }, async () => {
        const factory = await loadFactory(this.#message);
        await factory(pi);
      });
      await Promise.race([work, stopped]);
      if (this.#ended) return;
      this.ready = true;
      loaded();
      this.send({ type: "loaded" });
    } catch (error) {
      const where = this.locate(error);
      const text = errorText(error);
      this.send({ type: "failed", error: `Failed to load extension: ${text}${where ? ` (${where})` : ""}` });
    }
  }

  onEnd(action) {
    this.#endings.push(action);
  }

  end() {
    this.#ended = true;
    for (const action of this.#endings) action();
    for (const call of this.#calls.values()) call.controller.abort();
  }

  // Messages to tau

  send(message) {
    this.#latest.flush();
    this.#transmit(message);
  }

  #transmit(message) {
    if (!this.#ended) this.#channel.send(this.#number, message);
  }

  register(kind, name, spec, run) {
    this.requirePresent();
    const target = this.#ids.next++;
    if (run) this.#targets.set(target, run);
    this.send({ type: "register", kind, target, name, spec: spec ?? {} });
    return target;
  }

  unregister(target) {
    if (this.#targets.delete(target) || target !== undefined) this.send({ type: "unregister", target });
  }

  tell(name, params = {}) {
    this.requirePresent();
    this.#fresh = false;
    const message = { type: "tell", name, params, ...this.#origin() };
    if (this.#facts.mode === "tui" && this.#latest.put(message)) return;
    this.send(message);
    // tau accepts a limited number of actions at once: a loop waits now and then until they are carried out.
    if (++this.#told % TELLS_AHEAD === 0 && this.ready && !this.#ended) this.read("get_facts");
  }

  /** Performs an action. An AbortSignal withdraws it; `receive` gets the pieces that come before the answer. */
  act(name, params = {}, { signal, receive } = {}) {
    this.requirePresent();
    this.#fresh = false;
    let id;
    const answer = this.request((chosen) => {
      id = chosen;
      if (receive) this.#pieces.set(id, receive);
      return { type: "action", id, name, params, ...this.#origin() };
    });
    if (!signal) return answer;
    const withdraw = () => this.tell("withdraw", { ask: id });
    if (signal.aborted) withdraw();
    else signal.addEventListener("abort", withdraw, { once: true });
    return answer.finally(() => signal.removeEventListener("abort", withdraw));
  }

  /** Performs an action and blocks until it is answered. */
  read(name, params = {}) {
    this.requirePresent();
    this.#latest.flush();
    const answer = this.#channel.read(this.#number, { name, params, ...this.#origin() });
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer.value;
  }

  request(message) {
    const id = this.#ids.next++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.send(message(id));
    });
  }

  #origin() {
    const call = currentCall.getStore()?.call?.id;
    return { ...(call === undefined ? {} : { call }), session: this.#facts.sessionId ?? undefined };
  }

  // Facts

  /** A value of the session. Those that tau sent in this turn of the event loop are current; otherwise tau is asked. */
  fact(name) {
    this.requirePresent();
    if (!this.#fresh && !this.#ended) {
      this.#keep(this.read("get_facts"));
    }
    return this.#facts[name];
  }

  /** A value that does not change while a session runs, or whose last known value is good enough. */
  knownFact(name) {
    return this.#facts[name];
  }

  /** Sets a value until tau sends it: a change of the extension's own is visible at once. */
  assume(name, value) {
    this.#facts[name] = value;
  }

  #keep(facts) {
    Object.assign(this.#facts, facts);
    if (!this.#fresh) setImmediate(() => (this.#fresh = false));
    this.#fresh = true;
  }

  // Messages from tau

  received(message) {
    switch (message.type) {
      case "facts":
        return this.#keep(message.facts);
      case "call":
        this.#keep({});
        return this.#run(message);
      case "cancel":
        return this.#calls.get(message.id)?.controller.abort();
      case "ping":
        return this.send({ type: "pong", id: message.id });
      case "piece":
        return this.#pieces.get(message.ask)?.(message.value);
      case "answer":
        return this.#answered(message);
    }
  }

  async #run({ id, target, params }) {
    const run = this.#targets.get(target);
    if (run === undefined) return this.send({ type: "answer", id }); // unregistered while the call was in transit
    const call = new Call(id, this);
    this.#calls.set(id, call);
    await currentCall.run({ extension: this, call }, async () => {
      try {
        const value = await run(params, call);
        call.flush();
        this.send({ type: "answer", id, value });
      } catch (error) {
        this.send({ type: "answer", id, error: errorText(error), where: this.locate(error) });
      } finally {
        this.#calls.delete(id);
      }
    });
  }

  #answered({ id, value, error }) {
    this.#keep({});
    this.#pieces.delete(id);
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (pending === undefined) return;
    if (error === undefined || error === null) pending.resolve(value);
    else pending.reject(new Error(error));
  }

  /** The nearest line of the extension on the stack of an error, as file:line. */
  locate(error) {
    return this.frameOf(error)?.where;
  }

  /** The same with its depth on the stack. */
  frameOf(error) {
    for (const [depth, frame] of String(error?.stack ?? "").split("\n").entries()) {
      const found = frame.match(/(?:file:\/\/)?(\/[^()]*?):(\d+)(?::\d+)?\)?$/);
      if (!found) continue;
      const path = pathOf(`file://${frame.includes("file://") ? found[1] : pathToFileURL(found[1]).pathname}`);
      if (path === this.root || path.startsWith(`${this.root}/`)) return { depth, where: `${path}:${found[2]}` };
    }
    return undefined;
  }
}
