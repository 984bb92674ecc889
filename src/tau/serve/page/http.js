// A connection without WebSocket, for networks that block it: server-sent events for what the host says, and requests
// for what the page sends. To connection.js it looks like a WebSocket. It is only loaded when it is needed.

const POLL_MS = 5_000; // for the states of all sessions
const CLOSE_ATTEMPTS = 20; // the host has to notice first that the events of this page have ended
const CLOSE_RETRY_MS = 100;
const DIALECT = "1.5";
const ATTACHED = ": attached "; // a comment at the beginning of the events

export class HttpSocket {
  onopen = null;
  onmessage = null;
  onclose = null;
  #ask; // (path, options) -> Promise of a response; it adds the credential
  #events = null; // AbortController of the events of the session that is attached
  #timer = null;
  #live = new Map(); // sessions that are open at the host: id -> their row, as text
  #ended = false;

  constructor(ask) {
    this.#ask = ask;
    queueMicrotask(() => this.onopen?.());
  }

  send(text) {
    this.#carryOut(JSON.parse(text)).catch((error) => this.#lost(error.status === 401 ? 1008 : 1006, error.message));
  }

  close() {
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#events?.abort();
  }

  async #carryOut(record) {
    switch (record.type) {
      case "hello": return this.#get(record, "v1/host");
      case "watch_sessions": return this.#watch(record);
      case "list_sessions": return this.#get(record, `v1/sessions?${listQuery(record)}`);
      case "open_session": return this.#open(record);
      case "close_session": return this.#close(record);
      case "attach": return this.#attach(record);
      case "detach": return this.#detach(record);
      case "who": return this.#answer(record, {clients: []}); // not known here
      case "ping": return this.#ping(record);
      default: return this.#post(record);
    }
  }

  // Answers

  #deliver(line) {
    if (!this.#ended) this.onmessage?.({data: line});
  }

  #answer({id, type}, data) {
    this.#deliver(JSON.stringify({id, type: "response", command: type, success: true, data}));
  }

  #refuse({id, type}, error) {
    this.#deliver(JSON.stringify({id, type: "response", command: type, success: false, error}));
  }

  #lost(code, reason) {
    if (this.#ended) return;
    this.close();
    this.onclose?.({code, reason});
  }

  async #request(path, options = {}) {
    const answer = await this.#ask(path, options);
    if (answer.status === 401) throw Object.assign(new Error("The login is not valid any more."), {status: 401});
    return answer;
  }

  // Commands

  async #get(record, path, options) {
    const answer = await this.#request(path, options);
    if (answer.ok) this.#answer(record, await answer.json());
    else this.#refuse(record, await errorOf(answer));
  }

  async #open({id, type, ...fields}) {
    await this.#get({id, type}, "v1/sessions", posted(fields));
  }

  // A command of a session. Its response is that of the host, whatever the status.
  async #post({session, ...record}) {
    const answer = await this.#request(`${place(session)}/commands?dialect=${DIALECT}`, posted(record));
    if (answer.status === 204) return; // an answer to a question has no response
    const body = await answer.text();
    if (isResponse(body)) this.#deliver(body);
    else this.#refuse(record, errorIn(body) ?? `The host answered with status ${answer.status}.`);
  }

  async #ping(record) {
    await this.#request("healthz");
    this.#deliver(JSON.stringify({type: "pong", data: record.data}));
    this.#answer(record);
  }

  // The events of this page would keep the session open.
  async #close(record) {
    this.#events?.abort();
    const path = `${place(record.session)}${record.abort ? "?abort" : ""}`;
    let answer = await this.#request(path, {method: "DELETE"});
    for (let attempt = 1; answer.status === 409 && attempt < CLOSE_ATTEMPTS; attempt++) {
      await new Promise((resolve) => setTimeout(resolve, CLOSE_RETRY_MS));
      answer = await this.#request(path, {method: "DELETE"});
    }
    if (answer.ok) return this.#answer(record);
    this.#refuse(record, await errorOf(answer));
    this.#lost(1006, ""); // when it is connected again, the page is attached again
  }

  // The session that is attached

  async #attach(record) {
    this.#events?.abort();
    const {signal} = (this.#events = new AbortController());
    const {session, after, entry} = record;
    const query = new URLSearchParams({dialect: DIALECT});
    if (after) query.set("after", `${after.stream}:${after.seq}`);
    if (entry) query.set("entry", entry);
    try {
      const answer = await this.#request(`${place(session)}/events?${query}`, {signal, headers: {Accept: "text/event-stream"}});
      if (!answer.ok) return this.#refuse(record, await errorOf(answer));
      await this.#listen(answer.body, record);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (!signal.aborted) this.#lost(1006, "");
  }

  async #listen(body, record) {
    const decoder = new TextDecoder();
    let session = record.session;
    let rest = "";
    for await (const bytes of chunks(body)) {
      const events = (rest + decoder.decode(bytes, {stream: true})).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        if (event.startsWith(ATTACHED)) {
          const attached = JSON.parse(event.slice(ATTACHED.length));
          session = attached.session;
          this.#answer(record, attached);
          continue;
        }
        const line = /^data: (.*)$/m.exec(event)?.[1];
        if (!line) continue; // a comment: the connection is there
        this.#deliver(line.startsWith('{"type":"snapshot"') ? line : `${line.slice(0, -1)},"session":${JSON.stringify(session)}}`);
        if (line.startsWith('{"type":"session_changed"')) session = JSON.parse(line).sessionId;
      }
    }
  }

  async #detach(record) {
    this.#events?.abort();
    this.#answer(record);
  }

  // The states of all sessions: asked for again and again while the page is seen.

  async #watch(record) {
    this.#answer(record);
    const poll = async () => {
      if (document.visibilityState === "visible") await this.#readStates();
      if (!this.#ended) this.#timer = setTimeout(() => poll().catch((error) => this.#lost(1006, error.message)), POLL_MS);
    };
    await poll();
  }

  async #readStates() {
    const answer = await this.#request("v1/sessions?all&live");
    if (!answer.ok) return;
    const {sessions} = await answer.json();
    const ids = new Set(sessions.map((row) => row.id));
    for (const id of [...this.#live.keys()].filter((known) => !ids.has(known))) {
      this.#live.delete(id);
      this.#deliver(JSON.stringify({type: "session_closed", session: id}));
    }
    for (const {id: session, cwd, name, streaming, attention, clients, cost = 0} of sessions) {
      const status = JSON.stringify({type: "session_status", session, streaming, attention, clients, cost, name});
      if (!this.#live.has(session)) this.#deliver(JSON.stringify({type: "session_opened", session, cwd, name}));
      if (this.#live.get(session) !== status) this.#deliver(status);
      this.#live.set(session, status);
    }
  }
}

const place = (session) => `v1/sessions/${encodeURIComponent(session)}`;

const posted = (body) => ({method: "POST", body: JSON.stringify(body), headers: {"Content-Type": "application/json"}});

function listQuery({all, cursor}) {
  const query = new URLSearchParams();
  if (all) query.set("all", "");
  if (cursor) query.set("cursor", cursor);
  return query;
}

function isResponse(body) {
  try {
    return JSON.parse(body).type === "response";
  } catch {
    return false;
  }
}

function errorIn(body) {
  try {
    return JSON.parse(body).error;
  } catch {
    return undefined;
  }
}

async function errorOf(answer) {
  return errorIn(await answer.text()) ?? `The host answered with status ${answer.status}.`;
}

async function* chunks(body) {
  const reader = body.getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    yield value;
  }
}
