"""connection.js in a real browser: login, one connection that comes back, commands that are carried out once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from export.chromium import Browser
from page.served_page import ServedPage, Tab
from tau.core.agent.draft import Draft
from tau.records.events import AgentSettled, MessageEnd, MessageStart
from tau.runtime.runs.model_client import UNKNOWN_MODEL
from tau.serve.web.page import FOLDER
from tau.wire.unfinished import PartialJson

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(400)]

WORDS = [f"w{at} " for at in range(20)]
# The modules without the page: what they tell is kept in `heard`, what is folded in `state`.
HARNESS = """
(async () => {
  // Before the modules: connection.js makes its first socket while it is loaded. Sockets that are deaf neither send
  // nor receive, and no event tells: as after the sleep of a phone.
  const sockets = [];
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (text) {
    if (!this.deaf) send.call(this, text);
  };
  const {get, set} = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
  Object.defineProperty(WebSocket.prototype, "onmessage", {get, set(handler) {
    sockets.push(this);
    set.call(this, handler && ((event) => this.deaf || handler(event)));
  }});
  window.fallAsleep = () => sockets.forEach((socket) => { socket.deaf = true; });
  const [c, s] = await Promise.all([import("./static/connection.js"), import("./static/state.js")]);
  Object.assign(window, {c, s, heard: {status: [], types: [], snapshots: [], lists: [], refused: null}, state: null});
  window.listenTo = (connection) => {
    const onRecord = (record) => {
      heard.types.push(record.type);
      if (record.type === "snapshot") heard.snapshots.push(record.reason);
      if (state && (record.seq !== undefined || record.type === "snapshot")) state = s.fold(state, record);
    };
    const onStatus = (status) => heard.status.push(status.state);
    const onRefused = (text) => { heard.refused = text; };
    window.connection = connection;
    connection.listen({onRecord, onStatus, onRefused, onList: (data) => heard.lists.push(data)});
  };
  window.join = (id) => {
    state = s.emptySession(id);
    return connection.attach(id, () => ({stream: state.stream, seq: state.seq, entry: null}));
  };
})()
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty page and the modules."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "index.html").write_text("<!doctype html><title>modules</title>")
    for name in ("state.js", "connection.js", "http.js"):
        shutil.copy(FOLDER / name, folder / name)
    return folder


@pytest.fixture
def host(tmp_path: Path, modules: Path, browser: Browser) -> Iterator[ServedPage]:
    with ServedPage(tmp_path, {"text": "ok"}, page=modules) as host:
        yield host


def logged_in(tab: Tab, host: ServedPage, scope: Any = "admin") -> None:
    tab.visit(host.login_url(scope))
    tab.run(HARNESS)
    tab.run("c.firstConnection().then(listenTo)")
    tab.until("heard.status.at(-1) === 'online'")


@pytest.mark.promise("N15")
def test_a_code_in_the_address_becomes_a_login_and_leaves_the_history(tab: Tab, host: ServedPage) -> None:
    url = host.login_url("drive")
    tab.visit(url)
    tab.run(HARNESS)
    assert tab.run("c.firstConnection().then(Boolean)")
    login = tab.run("c.login()")  # stored
    assert login["scope"] == "drive" and login["name"] == "Chrome on Linux"
    assert tab.run("location.href") == host.url
    entries = tab.ask("Page.getNavigationHistory")["entries"]
    assert not any("#k=" in entry["url"] for entry in entries)
    assert tab.run("document.cookie") == ""
    assert [(kind, one.name, one.scope) for kind, one in host.server.credentials.stored()] == [
        ("login", "Chrome on Linux", "drive")
    ]
    refused = f"c.loginWith({json.dumps(url)}).catch((error) => error.message)"
    assert tab.run(refused) == "The code is wrong, used or too old. Get a new one: tau serve url"
    tab.run("c.keepLogin(false)")
    assert tab.run("[localStorage.length, c.keepsLogin()]") == [0, False]
    assert tab.run("c.login()") == login
    tab.run("c.logout()")
    assert tab.run("c.login()") is None
    assert host.server.credentials.stored() == []


def test_a_page_that_listens_late_is_told_what_the_host_has_said(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    tab.visit(host.login_url())
    tab.run(HARNESS)
    tab.run("c.firstConnection().then((found) => { window.early = found; })")
    tab.until("early.hello")
    tab.run("listenTo(early)")
    assert tab.run("heard.status") == ["connecting", "online"]
    tab.until("heard.lists.length === 1")
    assert tab.run("heard.lists[0].sessions.map((row) => row.id)") == [session]
    host.cut()
    tab.until("heard.lists.length === 2")  # with each hello


def test_a_token_or_an_address_can_be_typed_in(tab: Tab, host: ServedPage) -> None:
    tab.visit(host.url)
    tab.run(HARNESS)
    assert tab.run("c.login()") is None
    token = host.server.credentials.new_token("phone", "watch")
    assert tab.run(f"c.loginWith({json.dumps(token)})")["token"] == token
    assert tab.run(f"c.loginWith({json.dumps(' ' + host.login_url('watch'))})")["scope"] == "watch"
    assert tab.run("c.loginWith('#x=1').catch((error) => error.message)").startswith("This address has no code.")


@pytest.mark.promise("N10")
def test_a_connection_that_is_lost_in_the_middle_of_an_answer_misses_nothing(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    logged_in(tab, host)
    tab.run(f"join({json.dumps(session)})")
    stream = host.live(session).stream
    draft = Draft(UNKNOWN_MODEL, 1, PartialJson)

    async def publish(*events: Any) -> None:
        for event in events:
            stream.publish(event)

    host.call(publish(MessageStart(draft.begin().message), draft.open("text")))
    for connections in (2, 3, 4):
        host.call(publish(*(draft.add(0, word) for word in WORDS)))
        host.cut()
        host.call(publish(*(draft.add(0, word) for word in WORDS)))
        tab.until(f"heard.status.filter((one) => one === 'online').length === {connections}")
    tab.until(f"state.seq === {stream.last}")
    assert tab.run("state.partial.blocks[0].text") == "".join(WORDS) * 6
    assert tab.run("heard.snapshots") == ["new"]  # resumed by number, each time
    host.call(publish(MessageEnd(draft.message("stop")), AgentSettled()))
    tab.until("state.settled")
    assert tab.run("heard.types.filter((type) => type === 'message_end').length") == 1


@pytest.mark.promise("N09")
def test_a_prompt_whose_answer_is_lost_is_sent_again_and_runs_once(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    logged_in(tab, host)
    tab.run(f"join({json.dumps(session)})")
    # The connection ends right after the command was written.
    tab.run("""(() => {
      const send = WebSocket.prototype.send;
      let cut = false;
      window.prompts = 0;
      WebSocket.prototype.send = function (text) {
        send.call(this, text);
        if (text.includes('"prompt"')) { prompts += 1; if (!cut) { cut = true; this.close(); } }
      };
    })()""")
    assert tab.run("connection.request({type: 'prompt', message: 'once'})") == {"disposition": "started"}
    tab.until("state.settled")
    assert tab.run("prompts") == 2
    assert host.messages(session) == ["once"]


def test_a_message_that_the_host_does_not_take_fails_and_the_connection_stays(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    logged_in(tab, host)
    tab.run(f"join({json.dumps(session)})")
    long = "connection.request({type: 'prompt', message: 'x'.repeat(35e6)}).catch((error) => error.message)"
    assert tab.run(long) == "Failed to parse command: the line is longer than 33554432 bytes"
    assert tab.run("connection.send({type: 'extension_ui_response', id: 'x', value: 'x'.repeat(35e6)})") is False
    tab.run("connection.request({type: 'prompt', message: 'short'})")
    tab.until("state.settled")
    assert tab.run("heard.status") == ["connecting", "online"]
    assert host.messages(session) == ["short"]


def test_a_connection_that_is_good_for_nothing_is_made_again_more_and_more_slowly(tab: Tab, host: ServedPage) -> None:
    logged_in(tab, host)
    tab.run("""(() => {
      window.delays = [];
      const onStatus = ({state, retryAt}) => {
        heard.status.push(state);
        if (state === "waiting") delays.push(retryAt - Date.now());
      };
      connection.listen({onStatus, onRecord() {}, onList() {}, onRefused() {}});
    })()""")
    for connections in (2, 3, 4):
        host.cut()
        tab.until(f"heard.status.filter((one) => one === 'online').length === {connections}")
    assert [delay > 100 for delay in tab.run("delays")] == [False, True, True]


def test_a_session_that_was_opened_again_is_told_by_a_snapshot(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    host.run(session)
    logged_in(tab, host)
    tab.run(f"join({json.dumps(session)})")
    tab.until("state.loaded")
    stream = tab.run("state.stream")
    host.call(host.server.host.close_session(host.live(session), abort=True, client=tab.run("connection.hello.client")))
    host.cut()
    tab.until("heard.snapshots.length === 2")
    assert tab.run("heard.snapshots.at(-1)") == "stream"
    assert tab.run("state.stream") != stream


@pytest.mark.promise("N14")
def test_a_revoked_login_ends_the_connection_with_a_sentence(tab: Tab, host: ServedPage) -> None:
    logged_in(tab, host)
    host.server.credentials.revoke("Chrome on Linux")
    host.notice_revocations()
    tab.until("heard.refused")
    assert "revoked" in tab.run("heard.refused") and "tau serve url" in tab.run("heard.refused")
    assert tab.run("c.login()") is None  # forgotten
    assert tab.run("connection.get('v1/sessions').catch((error) => error.status)") == 401


def test_without_a_network_the_connection_waits_and_comes_back_at_once(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    logged_in(tab, host)
    tab.run(f"join({json.dumps(session)})")
    tab.offline(True)
    host.cut()
    tab.until("heard.status.at(-1) === 'offline'")
    tab.run("void (window.sent = connection.request({type: 'prompt', message: 'later'}))")
    tab.offline(False)
    tab.until("heard.status.at(-1) === 'online'")
    assert tab.run("sent") == {"disposition": "started"}
    tab.until("state.settled")
    assert host.messages(session) == ["later"]


def test_a_connection_that_is_dead_after_sleep_is_noticed_when_the_page_is_shown(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    logged_in(tab, host)
    tab.run(f"join({json.dumps(session)})")
    tab.run("fallAsleep()")
    tab.run("document.dispatchEvent(new Event('visibilitychange'))")
    tab.until("heard.status.filter((one) => one === 'online').length === 2")
    tab.run("connection.request({type: 'prompt', message: 'awake'})")
    tab.until("state.settled")


def test_a_command_waits_until_the_host_has_attached_the_session(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    logged_in(tab, host)
    sent_early = tab.run(f"""(() => {{
      const send = WebSocket.prototype.send;
      const sent = [];
      WebSocket.prototype.send = function (text) {{ sent.push(JSON.parse(text).type); send.call(this, text); }};
      join({json.dumps(session)});
      window.answer = connection.request({{type: 'prompt', message: 'at once'}});
      return [...sent];
    }})()""")
    assert sent_early == ["attach"]
    assert tab.run("answer") == {"disposition": "started"}
    tab.until("state.settled")
    assert host.messages(session) == ["at once"]


def test_a_command_that_waits_is_not_sent_to_the_session_that_is_chosen_next(tab: Tab, host: ServedPage) -> None:
    left, chosen = host.open(), host.open()
    logged_in(tab, host)
    refused = tab.run(f"""(() => {{
      join({json.dumps(left)}).catch(() => null);
      const answer = connection.request({{type: 'prompt', message: 'for the first'}}).catch((error) => error.message);
      window.joined = join({json.dumps(chosen)});
      return answer;
    }})()""")
    assert refused == "Another session was chosen."
    tab.run("joined")
    assert host.messages(left) == host.messages(chosen) == []


@pytest.mark.promise("N12")
def test_a_watcher_is_refused_by_the_host(tab: Tab, host: ServedPage) -> None:
    session = host.open()
    logged_in(tab, host, "watch")
    assert tab.run("connection.hello.scope") == "watch"
    tab.run(f"join({json.dumps(session)})")
    for command in ("{type: 'prompt', message: 'x'}", "{type: 'abort'}", "{type: 'set_session_name', name: 'x'}"):
        refused = tab.run(f"connection.request({command}).catch((error) => error.message)")
        assert refused.endswith("needs the scope drive.")
    assert tab.run("connection.request({type: 'open_session'}).catch((error) => error.message)").endswith("admin.")
    assert host.messages(session) == []
