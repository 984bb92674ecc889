// The page of `tau serve`: login, the list of sessions, and one session with its transcript and its message field.

import {Connection, firstConnection, keepLogin, login, loginWith, logout} from "./connection.js";
import {emptyList, emptySession, fold, foldList, isBusy, withBash, withoutBash, withRows, withState} from "./state.js";
import {Transcript, make} from "./transcript.js";
import {Composer} from "./composer.js";
import {Questions, SessionList, ago, dollars, folderName, titleOf} from "./side.js";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const INTERRUPTED = "The last run was interrupted. Look at what is done already, then continue with the task.";
const LIST_PATIENCE_MS = 500; // after which the page is shown without it

let connection = null;
let status = {state: "connecting", retryAt: null};
let list = emptyList();
let session = null; // the state of the session that is shown
let stored = null; // why the session that is shown is not attached, if it is not
let cwd = "";
let opening = 0;

// Small helpers

function toast(text, kind = "info") {
  const element = make("p", `toast ${kind}`, text);
  const close = make("button", "icon", "×");
  close.setAttribute("aria-label", "Dismiss");
  close.addEventListener("click", () => element.remove());
  element.append(close);
  $("toasts").append(element);
  while ($("toasts").childElementCount > 4) $("toasts").firstElementChild.remove();
  setTimeout(() => element.remove(), kind === "error" ? 15_000 : 6_000);
}

const failed = (error) => toast(error.message, "error");

function allows(scope) {
  const scopes = ["watch", "drive", "admin"];
  return scopes.indexOf(connection?.hello?.scope) >= scopes.indexOf(scope);
}

// A dialog with fields. Resolves to their values, or null.
function askInDialog({title, text = "", fields = [], action}) {
  const dialog = $("dialog");
  const form = make("form");
  form.method = "dialog";
  const heading = make("h2", "", title);
  heading.id = "dialog-title";
  dialog.setAttribute("aria-labelledby", heading.id);
  form.append(heading);
  if (text) form.append(make("p", "", text));
  const inputs = fields.map(({label, value = "", placeholder = "", choices = []}, at) => {
    const wrapper = make("label", "field");
    const input = make("input");
    input.value = value;
    input.placeholder = placeholder;
    input.autocomplete = "off";
    wrapper.append(make("span", "", label), input);
    if (choices.length) {
      const data = make("datalist");
      data.id = `choices-${at}`;
      data.append(...choices.map((choice) => Object.assign(make("option"), {value: choice})));
      input.setAttribute("list", data.id);
      wrapper.append(data);
    }
    form.append(wrapper);
    return input;
  });
  const buttons = make("div", "buttons");
  const cancel = make("button", "", "Cancel");
  cancel.type = "button";
  cancel.addEventListener("click", () => dialog.close(""));
  const go = make("button", "primary", action);
  go.value = "go";
  buttons.append(cancel, go);
  form.append(buttons);
  return showDialog(form).then((value) => (value === "go" ? inputs.map((input) => input.value.trim()) : null));
}

function showDialog(content, className = "") {
  const dialog = $("dialog");
  const before = document.activeElement;
  dialog.className = className;
  dialog.replaceChildren(content);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        before?.focus?.();
        resolve(dialog.returnValue);
      },
      {once: true},
    );
  });
}

// Parts

const transcript = new Transcript((path) => connection.get(path), {
  onEmpty: (empty) => {
    $("empty").hidden = !empty;
    $("log").classList.toggle("blank", empty);
  },
});

const ownCommands = [
  {name: "new", description: "Open a new session in this folder", run: () => newSession(cwd)},
  {name: "fork", description: "Continue in a copy of this session", run: () => fork()},
  {name: "name", description: "Name this session", run: (name) => (name ? setName(name) : rename())},
  {name: "branches", description: "Show all branches", run: () => showBranches()},
  {name: "compact", description: "Replace older messages by a summary", run: (text) => compact(text)},
  {name: "export", description: "Save the session as HTML", run: () => exportSession()},
];

const composer = new Composer(() => connection, {
  own: ownCommands,
  toast,
  bash: runBash,
  stateChanged: () => askState(),
  sent: () => transcript.toEnd(),
});

const questions = new Questions({
  answer: (record) => connection.send(record) || (toast("There is no connection. Try again when it is back.", "error"), false),
  drives: () => allows("drive"),
  ended: () => $("prompt").focus(),
});

const sessions = new SessionList({newIn: (folder) => newSession(folder), more: () => loadList(true)});

// Login

async function start() {
  setTheme(read("tau-theme"));
  try {
    const found = await firstConnection();
    if (found) return use(found);
    showLogin("");
  } catch (error) {
    showLogin(error.message);
  }
}

// An address of `tau serve url` was opened in a tab that shows the page already.
async function loginAgain() {
  try {
    const found = await login();
    connection?.close();
    begin(found);
    if (session) openSession(session.id);
  } catch (error) {
    if (connection) failed(error);
    else showLogin(error.message);
  }
}

function showLogin(problem) {
  connection?.close();
  connection = null;
  leave();
  list = emptyList();
  sessions.update(list, null);
  $("app").hidden = true;
  $("start").hidden = false;
  $("loading").hidden = true;
  $("login").hidden = false;
  $("login-error").textContent = problem;
  root.dataset.view = "login";
  $("login-code").focus();
}

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  keepLogin($("login-keep").checked);
  try {
    begin(await loginWith($("login-code").value));
    $("login-code").value = "";
  } catch (error) {
    $("login-error").textContent = error.message;
  }
});

const begin = (found) => use(new Connection(found).start());

function use(found) {
  connection = found;
  connection.listen({
    onStatus: statusChanged,
    onList: (data) => {
      showList(data);
      showApp();
    },
    onRecord: received,
    onRefused: (sentence) => showLogin(sentence),
  });
}

function statusChanged(now) {
  status = now;
  root.dataset.connection = now.state;
  if (now.state === "online") {
    root.dataset.scope = connection.hello.scope;
    $("host").textContent = `tau ${connection.hello.tau}`;
    if (sessionInAddress()) showApp();
    else setTimeout(showApp, LIST_PATIENCE_MS); // usually it is drawn once, with its list
    questions.retry();
    if (stored) openSession(session.id);
  }
  showBanner();
}

function showApp() {
  if (!connection || !$("app").hidden) return;
  $("start").hidden = true;
  $("app").hidden = false;
  root.dataset.view = "app";
  route();
}

// Records

function received(record) {
  if (record.type.startsWith("session_") && record.seq === undefined) {
    const clients = list.sessions.find((row) => row.id === session?.id)?.clients;
    list = foldList(list, record);
    sessions.update(list, session?.id);
    const row = list.sessions.find((one) => one.id === session?.id);
    if (row && row.clients !== clients) askWho();
    if (record.type === "session_opened") loadListSoon();
    showElsewhere();
    return;
  }
  if (record.type === "attach_failed") {
    stored = record.error;
    root.dataset.attached = "false";
    return showBanner();
  }
  if (session) show(fold(session, record));
}

// Draw what has changed.
function show(state) {
  const before = session;
  session = state;
  transcript.update(state, before);
  composer.update(state, before);
  if (state.dialogs !== before.dialogs) {
    questions.update(state.dialogs);
    showState();
  }
  if (state.notices !== before.notices) showNotices(state.notices, before.notices);
  if (state.ui !== before.ui) showWidgets(state.ui);
  if (state.state !== before.state || state.retry !== before.retry || state.bash !== before.bash) showState();
  if (state.interrupted !== before.interrupted) showBanner();
  if (state.finished !== before.finished) askFiguresSoon();
  if (before.state.isStreaming && !state.state.isStreaming) askState();
  if (before.state.isStreaming !== state.state.isStreaming) loadListSoon(); // its title, its cost
  if (state.id !== before.id) moved(state);
}

function moved(state) {
  history.replaceState(null, "", `#s=${encodeURIComponent(state.id)}`);
  root.dataset.session = state.id;
  transcript.open(state.id).catch(failed);
  loadList(false);
}

function showNotices(now, before) {
  const known = new Set(before.map((one) => one.id));
  for (const one of now) if (!known.has(one.id)) toast(one.text, one.kind);
}

// The session that is shown

function route() {
  if (new URLSearchParams(location.hash.slice(1)).has("k")) return void loginAgain();
  const wanted = sessionInAddress();
  if (wanted && wanted !== session?.id) openSession(wanted);
  else if (!wanted && !session) showNothing();
}

const sessionInAddress = () => new URLSearchParams(location.hash.slice(1)).get("s");

addEventListener("hashchange", () => {
  if (connection?.hello) showApp(); // a session was chosen before the list came
  route();
});

// Show no session any more.
function leave() {
  opening++;
  composer.reset(session?.id, null);
  session = null;
  stored = null;
  transcript.close();
  questions.update([]);
  $("banner").replaceChildren();
  $("who").replaceChildren();
}

function showNothing() {
  $("title").textContent = "tau";
  $("place").textContent = "";
  $("empty").hidden = false;
  $("empty-place").textContent = "Choose a session, or open a new one.";
  root.dataset.session = "";
  document.title = "tau";
  if (matchMedia("(max-width: 52rem)").matches) setDrawer(true);
}

async function openSession(id) {
  const turn = ++opening;
  composer.reset(session?.id, id);
  session = emptySession(id);
  stored = null;
  cwd = list.sessions.find((row) => row.id === id)?.cwd ?? "";
  root.dataset.session = id;
  setDrawer(false);
  questions.update([]);
  composer.update(session, null);
  showWidgets(session.ui);
  $("who").replaceChildren();
  showHead();
  showFigures(null);
  sessions.update(list, id);
  root.dataset.attached = "true";
  const cards = transcript.open(id).catch((error) => turn === opening && error.status !== 404 && failed(error));
  const position = () => ({stream: session.stream, seq: session.seq, entry: session.loaded ? transcript.leaf : null});
  try {
    const attached = await connection.attach(id, position);
    if (turn !== opening) return;
    root.dataset.session = attached.session;
    composer.attached(allows("drive"));
    askWho();
    askFigures();
    composer.focus();
  } catch (error) {
    if (turn !== opening) return;
    stored = error.message;
    root.dataset.attached = "false";
    await cards;
    showHead();
    askFigures();
  }
  showBanner();
}

const askState = () =>
  connection
    .request({type: "get_state"})
    .then((data) => session?.id === data.sessionId && show(withState(session, data)))
    .catch(() => null);

function showHead() {
  const row = list.sessions.find((one) => one.id === session?.id);
  const name = session?.state.sessionName || (row ? titleOf(row) : stored ? "Session" : session ? "New session" : "tau");
  if ($("title").textContent !== name) $("title").textContent = name;
  document.title = session?.dialogs.length ? `? ${name}` : isBusy(session ?? emptySession("")) ? `… ${name}` : `${name} – tau`;
  $("place").textContent = cwd || row?.cwd || "";
  $("place").title = $("place").textContent;
  if (session) $("empty-place").textContent = cwd ? `in ${cwd}` : "";
}

// List of sessions

let listTimer = 0;
const loadListSoon = () => {
  clearTimeout(listTimer);
  listTimer = setTimeout(() => loadList(false), 400);
};

async function loadList(older) {
  const cursor = older ? list.cursor : null;
  try {
    const data = await connection.request({type: "list_sessions", all: true, ...(cursor ? {cursor} : {})});
    showList(data, older);
  } catch {
    // the list comes again when the connection is back
  }
}

function showList(data, older = false) {
  list = withRows(list, data, older);
  sessions.update(list, session?.id);
  showHead();
  showElsewhere();
}

// A mark on the button of the list: another session asks.
function showElsewhere() {
  const count = list.sessions.filter((row) => row.attention && row.id !== session?.id).length;
  $("elsewhere").hidden = !count;
  $("elsewhere").textContent = String(count);
  $("menu-button").setAttribute("aria-label", count ? `Sessions, ${count} with a question` : "Sessions");
}

function setDrawer(open) {
  const narrow = matchMedia("(max-width: 52rem)").matches;
  $("app").classList.toggle("drawer", open);
  $("menu-button").setAttribute("aria-expanded", String(open));
  $("session").inert = open && narrow;
  if (open && narrow) ($("sessions").querySelector("a") ?? $("new-session")).focus();
}

$("menu-button").addEventListener("click", () => setDrawer(!$("app").classList.contains("drawer")));
$("shade").addEventListener("click", () => setDrawer(false));
$("side").addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    setDrawer(false);
    $("prompt").focus();
  }
  const rows = [...$("sessions").querySelectorAll("a.session")];
  const at = rows.indexOf(document.activeElement);
  if (event.key === "ArrowDown" && (at >= 0 || document.activeElement.id === "filter")) rows[at + 1]?.focus();
  else if (event.key === "ArrowUp" && at >= 0) (rows[at - 1] ?? $("filter")).focus();
  else return;
  event.preventDefault();
});
$("sessions").addEventListener("click", (event) => event.target.closest("a[aria-current]") && setDrawer(false));

// Actions

async function newSession(folder) {
  let wanted = folder;
  let name = "";
  if (wanted === undefined) {
    const folders = [...new Set(list.sessions.map((row) => row.cwd).filter(Boolean))];
    const given = await askInDialog({
      title: "New session",
      fields: [
        {label: "Folder", value: cwd, placeholder: "the folder of the host", choices: folders},
        {label: "Name", placeholder: "optional"},
      ],
      action: "Open",
    });
    if (!given) return;
    [wanted, name] = given;
  }
  await open({...(wanted ? {cwd: wanted} : {}), ...(name ? {name} : {})});
}

async function open(fields) {
  try {
    const {session: id} = await connection.request({type: "open_session", attach: false, ...fields});
    location.hash = `#s=${encodeURIComponent(id)}`;
    return id;
  } catch (error) {
    failed(error);
    return null;
  }
}

const fork = (entryId) => session && open({forkOf: session.id, ...(entryId ? {entryId} : {})});

async function rename() {
  const given = await askInDialog({
    title: "Rename the session",
    fields: [{label: "Name", value: session?.state.sessionName ?? ""}],
    action: "Rename",
  });
  if (given?.[0]) setName(given[0]);
}

const setName = (name) => connection.request({type: "set_session_name", name}).then(loadListSoon).catch(failed);

const compact = (text) =>
  connection.request({type: "compact", ...(text ? {customInstructions: text} : {})}).catch(failed);

async function closeSession() {
  const running = session && isBusy(session);
  if (running) {
    const sure = await askInDialog({title: "Stop and close?", text: "tau is working in this session.", action: "Stop and close"});
    if (!sure) return;
  }
  const id = session.id;
  try {
    await connection.request({type: "close_session", session: id, ...(running ? {abort: true} : {})});
    connection.detach();
    leave();
    history.replaceState(null, "", location.pathname + location.search);
    showNothing();
    loadList(false);
  } catch (error) {
    failed(error);
  }
}

async function exportSession() {
  try {
    const blob = await connection.blob(`v1/sessions/${encodeURIComponent(session.id)}/export`);
    const link = make("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${session.id}.html`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  } catch (error) {
    failed(error);
  }
}

// Without a secure connection a page has no clipboard.
function copyLink() {
  const copied = navigator.clipboard?.writeText(location.href) ?? Promise.reject(new Error("no clipboard"));
  const show = () => askInDialog({title: "Link", fields: [{label: "Copy it", value: location.href}], action: "Done"});
  copied.then(() => toast("The link is copied."), show);
}

function runBash(command, exclude) {
  const id = `bash ${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
  show(withBash(session, id, command));
  connection
    .request({type: "bash", id, command, ...(exclude ? {excludeFromContext: true} : {})})
    .catch(failed)
    .then(() => session && show({...withoutBash(session, id), finished: session.finished + 1}));
}

const onMenu = {
  rename,
  fork: () => fork(),
  compact: () => compact(""),
  "copy-link": copyLink,
  export: exportSession,
  close: closeSession,
};
for (const [id, run] of Object.entries(onMenu)) {
  $(id).addEventListener("click", () => {
    $("actions").hidePopover();
    if (session) run();
  });
}
$("actions").addEventListener("toggle", ({newState}) => {
  $("more").setAttribute("aria-expanded", String(newState === "open"));
  if (newState === "open") [...$("actions").children].find((item) => item.checkVisibility())?.focus();
});
$("actions").addEventListener("keydown", (event) => {
  const items = [...$("actions").children].filter((item) => item.checkVisibility());
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (!step) return;
  event.preventDefault();
  items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
});
$("new-session").addEventListener("click", () => newSession());
$("branches").addEventListener("click", () => session && showBranches());

// Branches

async function showBranches() {
  let answer;
  try {
    answer = await connection.get(`v1/sessions/${encodeURIComponent(session.id)}/outline`);
  } catch (error) {
    return failed(error);
  }
  const box = make("div");
  const heading = make("h2", "", "Branches");
  heading.id = "dialog-title";
  $("dialog").setAttribute("aria-labelledby", heading.id);
  const note = make("p", "", "Prompts and ends of branches. The current branch is marked.");
  const rows = make("ul", "branches");
  for (const row of answer.rows) rows.append(branchRow(row));
  const close = make("button", "", "Done");
  close.addEventListener("click", () => $("dialog").close(""));
  const buttons = make("div", "buttons");
  buttons.append(close);
  box.append(heading, note, rows, buttons);
  const shown = showDialog(box, "wide");
  const here = rows.querySelector(".here") ?? rows.lastElementChild;
  here?.scrollIntoView({block: "center"});
  (here?.querySelector("button") ?? close).focus();
  await shown;
}

function branchRow(row) {
  const item = make("li", [row.kind, row.current ? "on" : "", row.leaf ? "here" : ""].filter(Boolean).join(" "));
  item.classList.add(`depth-${Math.min(row.depth, 8)}`);
  const go = make("button", "go");
  go.append(make("span", "dot"), make("span", "text", row.text || row.kind));
  if (row.label) go.append(make("span", "tag", row.label));
  if (row.leaf) go.setAttribute("aria-current", "true");
  go.addEventListener("click", () => {
    $("dialog").close("");
    if (row.current) transcript.show(row.id);
    else if (allows("drive")) navigate(row);
  });
  go.title = row.current ? "Show it" : "Continue on this branch";
  item.append(go);
  if (row.kind === "user") {
    const copy = make("button", "drives admins quiet", "Fork");
    copy.title = "Open a copy that ends before this message";
    copy.addEventListener("click", () => {
      $("dialog").close("");
      fork(row.id);
    });
    item.append(copy);
  }
  return item;
}

async function navigate(row) {
  const others = list.sessions.find((one) => one.id === session.id)?.clients > 1;
  if (others) {
    const text = "Everybody who has this session open goes along.";
    if (!(await askInDialog({title: "Continue on another branch?", text, action: "Continue there"}))) return;
  }
  try {
    const {editorText} = await connection.request({type: "navigate", entryId: row.id});
    if (editorText) composer.setText(editorText);
  } catch (error) {
    failed(error);
  }
}

// Figures

let figuresTimer = 0;
const askFiguresSoon = () => {
  if (figuresTimer) return;
  figuresTimer = setTimeout(() => {
    figuresTimer = 0;
    askFigures();
  }, 500);
};

async function askFigures() {
  if (!session) return;
  const id = session.id;
  const answer = await connection.get(`v1/sessions/${encodeURIComponent(id)}/overview`).catch(() => null);
  if (answer && session?.id === id) {
    cwd = answer.cwd;
    showHead();
    showFigures(answer);
  }
}

const short = (count) => (count < 1000 ? String(count) : count < 999_500 ? `${Math.round(count / 1000)}k` : `${(count / 1e6).toFixed(1)}M`);

function showFigures(answer) {
  const usage = answer?.stats.contextUsage;
  const percent = usage?.percent ?? null;
  $("context").textContent = percent === null ? "" : `Context ${Math.round(percent)}% of ${short(usage.contextWindow)}`;
  $("context").title = percent === null ? "" : `The context holds ${usage.tokens} of ${usage.contextWindow} tokens`;
  $("context").classList.toggle("soon", percent > 80);
  const cost = answer?.stats.cost;
  $("cost").textContent = answer ? `${dollars(cost)}${answer.stats.costUnknown ? " + unknown" : ""}` : "";
  $("cost").title = answer ? `${answer.stats.tokens.total} tokens in this session` : "";
  $("budget").textContent = answer?.budget ? budgetText(answer.budget, answer.spent) : "";
}

function budgetText(budget, spent) {
  const parts = [];
  if (budget.maxTurns) parts.push(`${spent.turns}/${budget.maxTurns} turns`);
  if (budget.maxTokens) parts.push(`${short(spent.tokens)}/${short(budget.maxTokens)} tokens`);
  if (budget.maxCost) parts.push(`${dollars(spent.cost)}/${dollars(budget.maxCost)}`);
  if (budget.timeLimit) parts.push(`${budget.timeLimit} s`);
  return parts.length ? `Budget ${parts.join(", ")}` : "";
}

function showState() {
  const {state, retry, bash, dialogs} = session;
  const busy = isBusy(session);
  root.dataset.busy = String(busy);
  let text = "";
  if (dialogs.length) text = "Waiting for an answer";
  else if (retry) text = `Trying again (${retry.attempt} of ${retry.maxAttempts}): ${retry.error}`;
  else if (state.isCompacting) text = "Compacting …";
  else if (state.isStreaming) text = "Working …";
  else if (bash.length) text = "Running a command …";
  $("state").textContent = text;
  $("state").classList.toggle("working", busy);
  showHead();
}

function showWidgets({statuses, widgets}) {
  $("statuses").textContent = Object.values(statuses).join(" · ");
  $("widgets").replaceChildren(
    ...Object.values(widgets).map(({lines}) => make("pre", "widget", lines.join("\n"))),
  );
}

// Who else is there

async function askWho() {
  if (!session || stored) return;
  const id = session.id;
  const answer = await connection.request({type: "who", session: id}).catch(() => null);
  if (!answer || session?.id !== id) return;
  const others = answer.clients.filter((one) => one.client !== connection.hello?.client);
  $("who").replaceChildren();
  if (!others.length) return;
  const names = others.map((one) => `${one.name || one.client} (${one.scope}, since ${ago(one.since).replace(" ago", "")})`);
  const chip = make("button", "chip", others.length === 1 ? "1 other" : `${others.length} others`);
  chip.title = names.join("\n");
  chip.addEventListener("click", () => toast(`Also here: ${names.join(", ")}`));
  $("who").append(chip);
}

// Banners

let bannerTimer = 0;

function showBanner() {
  clearTimeout(bannerTimer);
  const banner = $("banner");
  banner.replaceChildren();
  banner.className = "";
  const add = (text, action, run) => {
    const line = make("p", "", text);
    if (action) {
      const button = make("button", "drives", action);
      button.addEventListener("click", run);
      line.append(button);
    }
    banner.append(line);
  };
  const retry = () => connection.retryNow();
  if (status.state === "offline") add("You are offline. The session goes on without this page.");
  else if (status.state === "waiting") {
    const seconds = Math.max(0, Math.round((status.retryAt - Date.now()) / 1000));
    if (seconds > 0) add(`The connection is lost. Trying again in ${seconds} s.`, "Now", retry);
    else add("The connection is lost. Trying again …");
    bannerTimer = setTimeout(showBanner, 1000);
  } else if (status.state === "closing") add("The host is closing.");
  if (banner.firstElementChild) banner.className = "lost";
  if (stored) add(stored);
  if (session?.interrupted && status.state === "online") {
    add("The last run was interrupted: the host ended while tau was working.", "Continue …", () => {
      composer.setText(INTERRUPTED);
    });
  }
}

// Theme, images, keys

function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function setTheme(theme) {
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
}

$("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
  try {
    localStorage.setItem("tau-theme", root.dataset.theme);
  } catch {
    // it holds for this visit
  }
});
$("logout").addEventListener("click", async () => {
  await logout();
  showLogin("");
});

document.addEventListener("click", (event) => {
  const image = event.target.closest?.("#main .pictures img");
  if (!image) return;
  const large = make("img");
  large.src = image.src;
  large.alt = image.alt || "Image";
  $("zoom").replaceChildren(large);
  $("zoom").showModal();
});
$("zoom").addEventListener("click", () => $("zoom").close());

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    setDrawer(true);
    $("filter").focus();
  } else if (!typing && event.key === "/" && !event.ctrlKey && !event.metaKey && !$("dialog").open) {
    event.preventDefault();
    $("prompt").focus();
  }
});

start();
