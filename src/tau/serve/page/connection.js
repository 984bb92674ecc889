// The login of this browser, and the connection to the host: one WebSocket that is made again when it is lost. Where
// WebSockets are blocked, http.js does the same with server-sent events and requests.
//
// A lost connection loses nothing: after `hello` the page attaches again after the last number that it has, and sends
// what was not answered once more. Commands that change something have a key, so the host carries them out once.

export const ROOT = new URL("..", import.meta.url);

const STORED = `tau.login ${ROOT.pathname}`;
const SESSION_ONLY = `tau.session-only ${ROOT.pathname}`;
const VERSION = 1;
const OPEN = 1; // the state of a WebSocket
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 10_000;
const HELLO_TIMEOUT_MS = 15_000;
const PING_TIMEOUT_MS = 2_000;
const SILENCE_MS = 30_000; // after which the connection is checked
const REVOKED = "This login is not valid any more: it was revoked, or it has expired. Get a new address with: tau serve url";
const LOST = "The connection was lost before the host answered.";
const OTHER_CHOSEN = "Another session was chosen.";
const UNKNOWN_OUTCOME =
  "The session was opened again before the host answered: it is not known whether this was carried out.";

// Of the host; all others are of a session.
const HOST_COMMANDS = new Set([
  "open_session", "attach", "detach", "close_session", "list_sessions", "watch_sessions", "who", "ping",
]);
const UNKEYED = /^(get_|list_|who$|ping$|watch_|attach$|detach$|close_session$|extension_ui_response$)/;
const HARMLESS = /^(get_|list_|set_|abort|who$|ping$|watch_|open_session$)/; // may be carried out twice
const MESSAGES = new Set(["prompt", "steer", "follow_up"]); // the host knows their keys even after it was killed

// Logins

// The first login and the first connection are begun here, while the browser still loads the other modules.
let firstSocket = codeIn(location.hash) || storedLogin() ? newSocket() : null;
const first = connectFirst();
first.catch(() => takeFirstSocket()?.close()); // the page reports it

// Resolves to the connection that was begun with this module, or to null without a login.
export function firstConnection() {
  return first;
}

async function connectFirst() {
  const found = await login();
  return found && new Connection(found).start();
}

function takeFirstSocket() {
  const socket = firstSocket;
  firstSocket = null;
  return socket;
}

// Takes a code out of the address, or the login that is stored. Returns {token, name, scope}, or null without either.
export async function login() {
  const code = codeIn(location.hash);
  if (code === null) return storedLogin();
  history.replaceState(history.state, "", location.pathname + location.search);
  return redeem(code);
}

// For a form: a code, an address with a code, or a token.
export async function loginWith(text) {
  const given = text.trim();
  const at = given.indexOf("#");
  const code = at >= 0 ? codeIn(given.slice(at)) : given;
  if (!code) throw new Error("This address has no code. Get one with: tau serve url");
  try {
    return await redeem(code);
  } catch (error) {
    if (at >= 0) throw error;
    const answer = await ask("v1/sessions?limit=1", {}, code).catch(() => null);
    if (!answer?.ok) throw error;
    return store({token: code, name: null, scope: null});
  }
}

export async function logout() {
  const known = storedLogin();
  forget();
  if (known) await ask("v1/logout", {method: "POST"}, known.token).catch(() => null);
}

// True: the login stays in this browser. False: only as long as this tab is open.
export function keepLogin(forever) {
  const known = storedLogin();
  forget();
  if (forever) sessionStorage.removeItem(SESSION_ONLY);
  else sessionStorage.setItem(SESSION_ONLY, "true");
  if (known) store(known);
}

export function keepsLogin() {
  return sessionStorage.getItem(SESSION_ONLY) !== "true";
}

function codeIn(fragment) {
  return new URLSearchParams(fragment.replace(/^#/, "")).get("k");
}

async function redeem(code) {
  const body = JSON.stringify({code, name: browserName()});
  const answer = await ask("v1/login", {method: "POST", body, headers: {"Content-Type": "application/json"}});
  const data = await readJson(answer);
  if (!answer.ok) throw new Error(data.error ?? `The login failed with status ${answer.status}.`);
  return store({token: data.token, name: data.name, scope: data.scope});
}

function store(login) {
  (keepsLogin() ? localStorage : sessionStorage).setItem(STORED, JSON.stringify(login));
  return login;
}

function storedLogin() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED) ?? localStorage.getItem(STORED));
  } catch {
    return null;
  }
}

function forget() {
  sessionStorage.removeItem(STORED);
  localStorage.removeItem(STORED);
}

function browserName() {
  const agent = navigator.userAgent;
  const browser = ["Firefox", "Edg", "OPR", "Chrome", "Safari"].find((name) => agent.includes(`${name}/`)) ?? "Browser";
  const system = ["Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux"].find((name) => agent.includes(name));
  const shown = {Edg: "Edge", OPR: "Opera"}[browser] ?? browser;
  return system ? `${shown} on ${system}` : shown;
}

// HTTP: the credential is in a header; there are no cookies

function ask(path, options, token) {
  const headers = {...options.headers, ...(token ? {Authorization: `Bearer ${token}`} : {})};
  return fetch(new URL(path, ROOT), {...options, headers, credentials: "omit", cache: "no-store", redirect: "error"});
}

async function readJson(answer) {
  try {
    return await answer.json();
  } catch {
    return {};
  }
}

export class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The connection

// Null if the browser refuses it.
function newSocket() {
  const address = new URL("v1/ws", ROOT);
  address.protocol = address.protocol.replace("http", "ws");
  try {
    return new WebSocket(address, ["tau.v1"]);
  } catch {
    return null;
  }
}

export class Connection {
  #login;
  #on = null; // the handlers of the page
  #untold = []; // what they would have been called with before the page was there: [name, value]
  #socket = null;
  #websocketWorks = false; // the host has answered on one
  #HttpSocket = null; // instead of WebSocket, for the next attempt
  #viaHttp = false; // the last attempt
  #online = false; // the host has answered `hello`
  #ended = false;
  #delay = 0;
  #timer = null;
  #patience = null; // for the answer to hello or to a ping
  #heardAt = 0;
  #attached = null; // {session, stream, position, answered}: what this page is, or wants to be, attached to
  #pending = new Map(); // requests without a response, by id
  #ids = 0;
  #name = `page ${randomText()}`;
  #listeners = new AbortController();
  #reading = new AbortController(); // what is read by HTTP

  constructor(login) {
    this.#login = login;
    this.hello = null;
  }

  // Handlers: onStatus(status), onList(data of list_sessions), onRecord(record), onRefused(sentence).
  listen(handlers) {
    this.#on = handlers;
    for (const [name, value] of this.#untold.splice(0)) this.#tell(name, value);
  }

  start() {
    const {signal} = this.#listeners;
    addEventListener("online", () => this.retryNow(), {signal});
    addEventListener("offline", () => this.#check(), {signal});
    addEventListener("pageshow", (event) => event.persisted && this.#check(), {signal});
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#check(), {signal});
    const silence = setInterval(() => this.#checkSilence(), SILENCE_MS / 3);
    signal.addEventListener("abort", () => clearInterval(silence));
    this.#connect();
    return this;
  }

  close() {
    this.#ended = true;
    this.#listeners.abort();
    clearTimeout(this.#timer);
    this.#drop();
  }

  // Attach to a session, and leave the one before. `position()` says what the page has: {stream, seq, entry}.
  attach(session, position) {
    if (this.#attached && this.#attached.session !== session) this.detach();
    return new Promise((resolve, reject) => {
      this.#attached = {session, stream: null, position, answered: false, unsent: [], resolve, reject};
      if (this.#online) this.#sendAttach();
    });
  }

  detach() {
    const left = this.#attached;
    this.#attached = null;
    if (!left) return;
    left.reject?.(new Error(OTHER_CHOSEN));
    for (const waiting of [...this.#pending.values()].filter((one) => one.followed)) {
      // What is for the session that is left must not reach the next one.
      if (!waiting.sent) this.#settle(waiting).reject(new Error(OTHER_CHOSEN));
      else Object.assign(waiting, {followed: false, record: {...waiting.record, session: left.session}});
    }
    if (this.#online) this.request({type: "detach", session: left.session}).catch(() => null);
  }

  // Send a command; the result is the `data` of its response.
  request(command) {
    const host = HOST_COMMANDS.has(command.type);
    const followed = !host && command.session === undefined; // of the attached session, wherever that goes
    if (followed && !this.#attached) return Promise.reject(new Error("No session is open."));
    const record = {id: `${this.#name}-${++this.#ids}`, ...command};
    if (!UNKEYED.test(command.type) && record.key === undefined) record.key = randomText();
    return new Promise((resolve, reject) => {
      const waiting = {record, followed, resolve, reject, sent: false};
      this.#pending.set(record.id, waiting);
      if (this.#online && (!followed || this.#attached.answered)) this.#write(waiting);
    });
  }

  // Send a record that has no response. Returns false if it was not sent.
  send(record) {
    if (!this.#online || !this.#attached) return false;
    const line = JSON.stringify({session: this.#attached.session, ...record});
    if (this.#isTooLong(line)) return false;
    if (this.#attached.answered) this.#socket.send(line);
    else this.#attached.unsent.push(record);
    return true;
  }

  // Connect now instead of after the delay; if there is a connection, find out whether it works.
  retryNow() {
    if (this.#ended) return;
    if (this.#socket) return this.#check();
    this.#delay = 0;
    clearTimeout(this.#timer);
    this.#connect();
  }

  // Fails with the connection: a page that was asleep may wait for ever for the rest of an answer.
  async get(path) {
    const answer = await this.#fetch(path, {signal: this.#reading.signal});
    return answer.json();
  }

  async blob(path) {
    return (await this.#fetch(path)).blob();
  }

  async #fetch(path, options = {}) {
    const answer = await ask(path, options, this.#login.token);
    if (answer.ok) return answer;
    if (answer.status === 401) this.#refuse();
    throw new HttpError(answer.status, (await readJson(answer)).error ?? `The host answered with status ${answer.status}.`);
  }

  // Connecting

  #connect() {
    if (this.#ended || this.#socket) return;
    this.#status("connecting");
    const socket = this.#open();
    if (!socket) return void this.#chooseTransport().then(() => this.#connectLater(""));
    this.#socket = socket;
    this.#expect(HELLO_TIMEOUT_MS);
    const greet = () => this.#greetings().forEach((record) => socket.send(JSON.stringify(record)));
    if (socket.readyState === OPEN) greet();
    else socket.onopen = greet;
    socket.onmessage = ({data}) => socket === this.#socket && this.#receive(data);
    socket.onclose = ({code, reason}) => socket === this.#socket && this.#lost(code, reason);
  }

  // A WebSocket, or what stands for it; null if the browser refuses it.
  #open() {
    this.#viaHttp = Boolean(this.#HttpSocket);
    if (this.#viaHttp) return new this.#HttpSocket((path, options) => ask(path, options, this.#login.token));
    const first = takeFirstSocket();
    return first && first.readyState <= OPEN ? first : newSocket();
  }

  // An attempt has failed. As long as no WebSocket has worked, the next one is made without, or with one again.
  async #chooseTransport() {
    const module = this.#viaHttp ? null : await import("./http.js").catch(() => null);
    this.#HttpSocket = module?.HttpSocket ?? null;
  }

  // Hello, and what the page needs in any case: it is sent without waiting for an answer.
  #greetings() {
    const hello = {
      id: "hello",
      type: "hello",
      version: VERSION,
      client: this.#name,
      token: this.#login.token,
      dialect: "1.5",
      numbers: true,
      flow: "skip",
      pace: 33,
    };
    return [hello, {id: "watch", type: "watch_sessions", enabled: true}, {id: "list", type: "list_sessions", all: true}];
  }

  #greeted(record) {
    clearTimeout(this.#patience);
    if (!record.success) return this.#lost(1008, record.error);
    this.hello = record.data;
    this.#online = true;
    this.#websocketWorks ||= !this.#viaHttp;
    const unanswered = [...this.#pending.values()];
    this.#status("online");
    if (this.#attached) this.#sendAttach();
    for (const waiting of unanswered) {
      // What is for the attached session is repeated when the host has said whether its stream is the same.
      if (!waiting.followed || !this.#attached) this.#write(waiting);
    }
  }

  #sendAttach() {
    const {session, position} = this.#attached;
    this.#attached.answered = false; // until then the host refuses what is for the session
    this.#attached.unsent = [];
    const {stream, seq, entry} = position?.() ?? {};
    const after = stream ? {stream, seq} : undefined;
    this.#socket.send(JSON.stringify({id: `attach ${session}`, type: "attach", session, after, entry: entry ?? undefined}));
  }

  #attachAnswered(record) {
    const attached = this.#attached;
    if (!attached || record.id !== `attach ${attached.session}`) return;
    if (!record.success) {
      this.#attached = null;
      const error = new Error(record.error);
      this.#rejectFollowed(error.message);
      if (attached.reject) attached.reject(error);
      else this.#tell("onRecord", {type: "attach_failed", session: attached.session, error: record.error, receivedAt: Date.now()});
      return;
    }
    const moved = attached.stream !== null && attached.stream !== record.data.stream;
    attached.stream = record.data.stream;
    attached.session = record.data.session;
    attached.answered = true;
    for (const waiting of [...this.#pending.values()].filter((one) => one.followed)) {
      const {type} = waiting.record;
      if (!waiting.sent || !moved || MESSAGES.has(type) || HARMLESS.test(type)) this.#write(waiting);
      else this.#settle(waiting).reject(new Error(UNKNOWN_OUTCOME));
    }
    for (const unsent of attached.unsent.splice(0)) this.send(unsent);
    attached.resolve?.(record.data);
    attached.resolve = attached.reject = null;
  }

  #rejectFollowed(sentence) {
    for (const waiting of [...this.#pending.values()]) {
      if (waiting.followed) this.#settle(waiting).reject(new Error(sentence));
    }
  }

  #write(waiting) {
    const session = waiting.followed ? {session: this.#attached?.session} : {};
    const line = JSON.stringify({...waiting.record, ...session});
    if (this.#isTooLong(line)) {
      const sentence = `Failed to parse command: the line is longer than ${this.hello.limits.line} bytes`;
      return void this.#settle(waiting).reject(new Error(sentence));
    }
    waiting.sent = true;
    this.#socket.send(line);
  }

  // The host closes a connection with such a message, and it would be repeated on the next one.
  #isTooLong(line) {
    const limit = this.hello.limits.line;
    return line.length * 3 > limit && new TextEncoder().encode(line).length > limit; // a unit has at most three bytes
  }

  #settle(waiting) {
    this.#pending.delete(waiting.record.id);
    return waiting;
  }

  // Losing the connection

  #lost(code, reason) {
    const greeted = this.#online;
    this.#drop();
    for (const waiting of [...this.#pending.values()]) {
      if (waiting.sent && waiting.record.key === undefined) this.#settle(waiting).reject(new Error(LOST));
    }
    if (this.#ended) return;
    if (code === 1008) this.#verify(reason);
    else if (greeted || this.#websocketWorks) this.#connectLater(reason);
    else this.#chooseTransport().then(() => this.#connectLater(reason));
  }

  #connectLater(reason) {
    if (this.#ended || this.#socket) return;
    clearTimeout(this.#timer);
    const delay = this.#delay * (0.5 + Math.random() / 2);
    this.#delay = Math.min(this.#delay * 2 || FIRST_DELAY_MS, MAX_DELAY_MS);
    this.#timer = setTimeout(() => this.#connect(), delay);
    this.#status(navigator.onLine ? "waiting" : "offline", {retryAt: Date.now() + delay, error: reason || null});
  }

  #drop() {
    clearTimeout(this.#patience);
    this.#reading.abort();
    this.#reading = new AbortController();
    const socket = this.#socket;
    this.#socket = null;
    this.#online = false;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  // The host has ended the connection for a reason: is the credential still valid?
  async #verify(reason) {
    const answer = await ask("v1/sessions?limit=1", {}, this.#login.token).catch(() => null);
    if (answer?.status === 401) this.#refuse();
    else if (!this.#ended && !this.#socket) this.#connectLater(reason);
  }

  #refuse() {
    if (this.#ended) return;
    this.close();
    if (storedLogin()?.token === this.#login.token) forget();
    this.#tell("onRefused", REVOKED);
  }

  // Is the connection still there? After sleep, or without a network, no close event tells.
  #check() {
    if (this.#ended) return;
    if (!this.#socket) return this.retryNow();
    if (!this.#online) return; // the hello has its own time limit
    this.#socket.send(JSON.stringify({id: "ping", type: "ping", data: "check"}));
    this.#expect(PING_TIMEOUT_MS);
  }

  #checkSilence() {
    if (this.#online && document.visibilityState === "visible" && Date.now() - this.#heardAt > SILENCE_MS) this.#check();
  }

  #expect(patience) {
    clearTimeout(this.#patience);
    this.#patience = setTimeout(() => {
      const greeted = this.#online;
      this.#lost(1006, "");
      if (greeted) this.retryNow();
    }, patience);
  }

  // Receiving

  #receive(data) {
    const receivedAt = (this.#heardAt = Date.now());
    for (const line of data.split("\n")) {
      if (line) this.#take(JSON.parse(line), receivedAt);
    }
  }

  #take(record, receivedAt) {
    if (record.type === "response") return this.#answered(record);
    clearTimeout(this.#online ? this.#patience : null); // whatever arrives shows that the connection works
    if (record.type === "pong") return;
    record.receivedAt = receivedAt;
    if (record.seq !== undefined) this.#delay = 0;
    if (record.type === "host_closing") this.#status("closing");
    const ofSession = record.seq !== undefined || record.type === "snapshot";
    if (ofSession && record.session !== this.#attached?.session) return; // of a session that was left
    if (record.type === "session_changed") this.#attached.session = record.sessionId;
    this.#tell("onRecord", record);
  }

  #answered(record) {
    if (record.id === "hello") return this.#greeted(record);
    if (record.command === "attach") return this.#attachAnswered(record);
    if (record.id === "list" && record.success) return this.#tell("onList", record.data);
    if (record.id === "ping") clearTimeout(this.#patience);
    const waiting = this.#pending.get(record.id);
    if (!waiting) return;
    this.#delay = 0; // only a connection that was good for something ends the delays
    this.#settle(waiting);
    if (record.success) waiting.resolve(record.data);
    else waiting.reject(new Error(record.error));
  }

  #status(state, more = {}) {
    this.#tell("onStatus", {state, retryAt: null, error: null, ...more});
  }

  #tell(name, value) {
    if (this.#on) this.#on[name](value);
    else this.#untold.push([name, value]);
  }
}

function randomText() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
