// What the page knows: a fold of records. Pure: no DOM, no clock, no network, and nothing is ever mutated.
//
// fold(state, record) returns the state after one more record of a session. A field that did not change keeps its
// reference, so that the page can compare with === and draw only what is new.

const MAX_NOTICES = 20;
const REDACTED = "[Reasoning redacted]";
const QUESTIONS = ["select", "confirm", "input", "editor"];

export function emptySession(id) {
  return {
    id,
    stream: "",
    seq: 0,
    loaded: false,
    state: {},
    leafId: null,
    entries: [],
    more: false,
    finished: 0,
    partial: null,
    tools: {},
    bash: [],
    queue: {steering: [], followUp: []},
    dialogs: [],
    notices: [],
    ui: {title: null, statuses: {}, widgets: {}},
    editorText: null,
    retry: null,
    budget: null,
    settled: null,
    interrupted: null,
    moved: null,
    cost: 0,
    usage: null,
  };
}

// The state after a snapshot or an event. Records that are not newer than the state change nothing.
export function fold(state, record) {
  if (record.type === "snapshot") return fromSnapshot(state, record);
  if (typeof record.seq !== "number" || record.seq <= state.seq) return state;
  const change = Object.hasOwn(EVENTS, record.type) ? EVENTS[record.type](state, record) : null;
  return {...state, seq: record.seq, ...change};
}

// The state with what get_state has answered.
export function withState(state, data) {
  return {...state, state: data};
}

// A bash command of this page has been sent; its output arrives in events with the same id.
export function withBash(state, id, command) {
  return {...state, bash: [...state.bash, {id, command, output: ""}]};
}

// A bash command of this page was answered.
export function withoutBash(state, id) {
  return {...state, bash: state.bash.filter((one) => one.id !== id)};
}

export function isBusy(state) {
  return Boolean(state.state.isStreaming || state.state.isCompacting || state.retry || state.bash.length);
}

// Snapshots

function fromSnapshot(state, record) {
  const at = record.receivedAt ?? 0;
  return {
    ...state,
    id: record.session,
    stream: record.stream,
    seq: record.seq,
    loaded: true,
    state: record.state,
    leafId: record.leafId,
    entries: record.entries,
    more: record.more,
    finished: state.finished + 1,
    partial: record.partial && partialFrom(record.partial, record.partialArguments ?? {}),
    tools: Object.fromEntries(record.tools.map((tool) => [tool.toolCallId, runningTool(tool, at)])),
    bash: record.bash.map(({id, command}) => ({id, command, output: ""})),
    queue: {steering: record.queue.steering, followUp: record.queue.followUp},
    dialogs: record.dialogs.map((dialog) => question(dialog, at)),
    ui: {title: record.ui.title ?? null, statuses: record.ui.statuses, widgets: record.ui.widgets},
    retry: null,
    settled: record.settled,
    interrupted: record.state.isStreaming ? null : record.interrupted,
  };
}

// `texts`: the JSON text so far of calls whose arguments are not complete, by content index.
function partialFrom(message, texts) {
  const content = message.content ?? [];
  const blocks = content.map((block, index) => {
    const last = index === content.length - 1;
    if (block.type === "text") return {kind: "text", text: block.text, done: !last};
    if (block.type === "thinking")
      return {kind: "thinking", text: block.thinking, done: !last, redacted: block.redacted === true};
    const open = Object.hasOwn(texts, index);
    return {
      kind: "call",
      id: block.id,
      name: block.name,
      argumentText: open ? texts[index] : JSON.stringify(block.arguments),
      arguments: open ? null : block.arguments,
      done: !open,
    };
  });
  return {...head(message), blocks};
}

function head(message) {
  const {model, provider, timestamp, usage, errorMessage} = message;
  const stopReason = message.stopReason === "stop" ? "pending" : message.stopReason; // a snapshot says "stop" early
  return {model, provider, timestamp, usage, stopReason, errorMessage};
}

// The message that is streamed

function withPiece(partial, record) {
  const piece = record.assistantMessageEvent;
  const index = piece.contentIndex;
  const before = partial ?? {...head({}), blocks: []};
  if (typeof index !== "number") return before; // the message failed: its end follows
  const block = BLOCKS[piece.type]?.(before.blocks[index], piece);
  if (!block) return before;
  const blocks = before.blocks.slice();
  blocks[index] = block;
  return {...before, blocks, usage: record.usage ?? before.usage};
}

const TEXT = {kind: "text", text: "", done: false};
const THINKING = {kind: "thinking", text: "", done: false, redacted: false};
const CALL = {kind: "call", id: "", name: "", argumentText: "", arguments: null, done: false};

const BLOCKS = {
  text_start: () => TEXT,
  text_delta: (block = TEXT, piece) => ({...block, text: block.text + piece.delta}),
  text_end: (block = TEXT, piece) => ({...block, text: piece.content, done: true}),
  thinking_start: () => THINKING,
  thinking_delta: (block = THINKING, piece) => ({...block, text: block.text + piece.delta}),
  thinking_end: (block = THINKING, piece) => ({
    ...block,
    text: piece.content,
    done: true,
    redacted: block.redacted || piece.content === REDACTED,
  }),
  toolcall_start: (block, piece) => ({...CALL, id: piece.id, name: piece.toolName}),
  toolcall_delta: (block = CALL, piece) => ({...block, argumentText: block.argumentText + piece.delta}),
  toolcall_end: (block = CALL, {toolCall}) => ({
    ...block,
    id: toolCall.id,
    name: toolCall.name,
    arguments: toolCall.arguments,
    argumentText: JSON.stringify(toolCall.arguments),
    done: true,
  }),
};

// Tools

function runningTool(tool, at) {
  return {
    id: tool.toolCallId,
    name: tool.toolName,
    args: tool.args,
    ...shownResult(tool.partialResult),
    status: "running",
    startedAt: at,
    durationMs: null,
  };
}

function shownResult(result) {
  const content = result?.content ?? [];
  return {
    output: content.filter((block) => block.type === "text").map((block) => block.text).join("\n"),
    images: content.filter((block) => block.type === "image").map(({data, mimeType}) => ({data, mimeType})),
    details: result?.details ?? null,
  };
}

function own(object, key) {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function without(object, key) {
  if (!Object.hasOwn(object, key)) return object;
  return Object.fromEntries(Object.entries(object).filter(([name]) => name !== key));
}

// Dialogs and what extensions show

function question(dialog, at) {
  const {id, method, title, message, options, placeholder, prefill, timeout} = dialog;
  const deadline = typeof timeout === "number" ? at + timeout : null;
  return {id, method, title, message, options, placeholder, prefill, timeout, deadline};
}

function onRequest(state, record) {
  const {method} = record;
  const {ui} = state;
  if (QUESTIONS.includes(method)) {
    const others = state.dialogs.filter((dialog) => dialog.id !== record.id);
    return {dialogs: [...others, question(record, record.receivedAt ?? 0)]};
  }
  if (method === "notify") return notice(state, record, record.message, record.notifyType ?? "info");
  if (method === "setTitle") return {ui: {...ui, title: record.title}};
  if (method === "setStatus") {
    const {statusKey: key, statusText: text} = record;
    const statuses = typeof text === "string" ? {...ui.statuses, [key]: text} : without(ui.statuses, key);
    return {ui: {...ui, statuses}};
  }
  if (method === "setWidget") {
    const {widgetKey: key, widgetLines: lines, widgetPlacement: placement} = record;
    const widgets = lines ? {...ui.widgets, [key]: {lines, placement}} : without(ui.widgets, key);
    return {ui: {...ui, widgets}};
  }
  if (method === "set_editor_text") return {editorText: {text: record.text, n: (state.editorText?.n ?? 0) + 1}};
  return null;
}

function notice(state, record, text, kind) {
  const added = {id: record.seq, text: String(text), kind, at: record.receivedAt ?? 0};
  return {notices: [...state.notices, added].slice(-MAX_NOTICES)};
}

function finished(state, change = {}) {
  return {finished: state.finished + 1, ...change};
}

// Events

function onMessageEnd(state, record) {
  const {message} = record;
  const change = finished(state);
  if (message.role === "assistant") {
    change.partial = null;
    change.usage = message.usage ?? state.usage;
    change.cost = state.cost + (message.usage?.cost?.total ?? 0);
  } else if (message.role === "toolResult") {
    change.tools = without(state.tools, message.toolCallId);
  } else if (message.role === "bashExecution") {
    const at = state.bash.findIndex((one) => one.command === message.command || one.command === null);
    if (at >= 0) change.bash = state.bash.filter((one, index) => index !== at);
  }
  return change;
}

function onToolEnd(state, record) {
  const before = own(state.tools, record.toolCallId);
  const ended = {
    ...(before ?? runningTool({...record, args: null}, record.receivedAt ?? 0)),
    ...shownResult(record.result),
    status: record.isError ? "failed" : "done",
    durationMs: record.durationMs ?? null,
  };
  return {tools: {...state.tools, [record.toolCallId]: ended}};
}

function onToolUpdate(state, record) {
  const before = own(state.tools, record.toolCallId);
  const startedAt = before?.startedAt ?? record.receivedAt ?? 0;
  return {tools: {...state.tools, [record.toolCallId]: {...runningTool(record, startedAt)}}};
}

function onBashUpdate(state, record) {
  const at = state.bash.findIndex((one) => one.id === record.id);
  if (at < 0) return {bash: [...state.bash, {id: record.id, command: null, output: record.delta}]};
  return {bash: state.bash.map((one, index) => (index === at ? {...one, output: one.output + record.delta} : one))};
}

function onSettled(state, record) {
  return {
    state: {...state.state, isStreaming: false},
    tools: Object.keys(state.tools).length ? {} : state.tools,
    retry: null,
    settled: {seq: record.seq, aborted: record.aborted},
    interrupted: null,
  };
}

function onSessionChanged(state, record) {
  const {sessionId, sessionFile} = record;
  const sessionName = sessionId === state.state.sessionId ? state.state.sessionName : undefined; // else it is not known
  return finished(state, {
    id: sessionId,
    leafId: record.leafId,
    state: {...state.state, sessionId, sessionFile, sessionName},
    entries: [],
    more: true,
    partial: null,
    tools: {},
    settled: null,
    interrupted: null,
    moved: {to: sessionId, reason: record.reason},
  });
}

function onCompactionEnd(state, record) {
  const ended = finished(state, {state: {...state.state, isCompacting: false}});
  const error = record.errorMessage ?? record.error;
  return error ? {...ended, ...notice(state, record, `The conversation was not compacted: ${error}`, "error")} : ended;
}

const EVENTS = {
  agent_start: (state) => ({state: {...state.state, isStreaming: true}, interrupted: null, budget: null, retry: null}),
  agent_end: () => ({partial: null}),
  agent_settled: onSettled,
  message_start: (state, {message}) =>
    message.role === "assistant" ? {partial: partialFrom(message, {})} : null,
  message_update: (state, record) => ({partial: withPiece(state.partial, record)}),
  message_end: onMessageEnd,
  tool_execution_start: (state, record) => ({
    tools: {...state.tools, [record.toolCallId]: runningTool(record, record.receivedAt ?? 0)},
  }),
  tool_execution_update: onToolUpdate,
  tool_execution_end: onToolEnd,
  queue_update: (state, {steering, followUp}) => ({
    queue: {steering, followUp},
    state: {...state.state, pendingMessageCount: steering.length + followUp.length},
  }),
  compaction_start: (state) => ({state: {...state.state, isCompacting: true}}),
  compaction_end: onCompactionEnd,
  auto_retry_start: (state, record) => ({
    retry: {
      attempt: record.attempt,
      maxAttempts: record.maxAttempts,
      at: (record.receivedAt ?? 0) + record.delayMs,
      error: record.errorMessage,
    },
  }),
  auto_retry_end: (state, record) =>
    record.success
      ? {retry: null}
      : {retry: null, ...notice(state, record, record.finalError ?? "The model call failed.", "error")},
  entry_appended: (state, {entry}) => finished(state, {entries: [...state.entries, entry]}),
  session_info_changed: (state, {name}) => finished(state, {state: {...state.state, sessionName: name}}),
  thinking_level_changed: (state, {level}) => ({state: {...state.state, thinkingLevel: level}}),
  bash_execution_update: onBashUpdate,
  budget_exceeded: (state, record) => {
    const {limit, used, allowed, costUnknown} = record;
    const text =
      limit === "stuck"
        ? `Stopped: the tool calls of ${allowed} answers in a row all failed in the same way.`
        : `The ${limit} budget has ended the work: ${used} of ${allowed}.`;
    return {budget: {limit, used, allowed, costUnknown}, ...notice(state, record, text, "warning")};
  },
  structured_output: (state, record) =>
    record.error ? notice(state, record, `There is no structured output: ${record.error}`, "error") : null,
  session_damaged: (state, record) =>
    notice(state, record, `Parts of the session file cannot be read: ${record.problems.join("; ")}`, "warning"),
  session_write_failed: (state, record) =>
    notice(state, record, `The session file cannot be written: ${record.error}`, "error"),
  session_write_recovered: (state, record) => notice(state, record, "The session file is written again.", "info"),
  extension_error: (state, record) => notice(state, record, `${record.extensionPath}: ${record.error}`, "error"),
  mcp_server_update: (state, record) =>
    record.state === "failed"
      ? notice(state, record, `MCP server ${record.server}: ${record.error ?? "it failed"}`, "error")
      : null,
  session_changed: onSessionChanged,
  extension_ui_request: onRequest,
  extension_ui_resolved: (state, {id}) => ({dialogs: state.dialogs.filter((dialog) => dialog.id !== id)}),
};

// The list of sessions

export function emptyList() {
  return {sessions: [], cursor: null};
}

// The list with rows of list_sessions: instead of those that it has, or after them.
export function withRows(list, data, append = false) {
  const rows = data.sessions.map((row) => {
    const known = list.sessions.find((one) => one.id === row.id);
    return {...row, cost: row.cost ?? known?.cost ?? null};
  });
  const ids = new Set(rows.map((row) => row.id));
  const kept = append ? list.sessions.filter((row) => !ids.has(row.id)) : [];
  return {sessions: [...kept, ...rows], cursor: data.cursor ?? null};
}

// The list after session_opened, session_closed or session_status.
export function foldList(list, record) {
  const id = record.session;
  const known = list.sessions.some((row) => row.id === id);
  if (record.type === "session_closed") {
    const closed = {live: false, streaming: false, attention: false, clients: 0};
    return known ? {...list, sessions: changeRow(list.sessions, id, closed)} : list;
  }
  const change = rowChange(record);
  if (!change) return list;
  if (known) return {...list, sessions: changeRow(list.sessions, id, change)};
  return {...list, sessions: [{...newRow(id, record.receivedAt ?? 0), ...change}, ...list.sessions]};
}

function rowChange(record) {
  const name = record.name === undefined ? {} : {name: record.name};
  if (record.type === "session_opened") return {live: true, cwd: record.cwd, ...name};
  if (record.type !== "session_status") return null;
  const {streaming, attention, clients, cost} = record;
  return {live: true, streaming, attention, clients, cost, ...name};
}

function newRow(id, now) {
  const counts = {messageCount: 0, clients: 0, cost: null};
  return {id, cwd: "", firstMessage: "", created: now, modified: now, live: true, streaming: false, attention: false, ...counts};
}

function changeRow(rows, id, change) {
  return rows.map((row) => (row.id === id ? {...row, ...change} : row));
}
