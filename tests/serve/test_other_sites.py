"""Pages of other origins in a real browser: nothing they try reaches a session, and no credential leaves for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from export.chromium import Browser, chromium
from serve.serve_process import ServeProcess

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(400)]

# Each attempt returns what the page learned of it. `target` is the server, `token` a valid token: even with it.
ATTEMPTS = """
async (target, token, session) => {
  const commands = `${target}/v1/sessions/${session}/commands`;
  const command = JSON.stringify({type: "bash", command: "touch attacked"});
  const learned = {};
  const proof = {Authorization: `Bearer ${token}`};
  const json = {"Content-Type": "application/json", ...proof};
  const attempt = async (name, run) => {
    try { learned[name] = String(await Promise.race([run(), new Promise(done => setTimeout(done, 5000, "nothing"))])); }
    catch (error) { learned[name] = error.name; }
  };
  const seen = async request => { const answer = await request; return `${answer.type} ${answer.status}`; };
  const socket = (url, hello) => new Promise(done => {
    const one = new WebSocket(url, ["tau.v1"]);
    one.onopen = () => { one.send(JSON.stringify({type: "hello", version: 1, token})); };
    one.onmessage = message => done("open " + message.data);
    one.onerror = () => done("error");
  });
  const element = (tag, attributes) => new Promise(done => {
    const one = document.createElement(tag);
    one.onload = () => done("load");
    one.onerror = () => done("error");
    Object.assign(one, attributes);
    document.body.append(one);
  });
  await attempt("read", () => seen(fetch(`${target}/v1/sessions`)));
  await attempt("read with the token", () => seen(fetch(`${target}/v1/sessions`, {headers: proof})));
  await attempt("read blindly", () => seen(fetch(`${target}/v1/sessions`, {mode: "no-cors", credentials: "include"})));
  await attempt("simple post", () => seen(fetch(commands, {method: "POST", mode: "no-cors", body: command})));
  await attempt("json post", () => seen(fetch(commands, {method: "POST", body: command, headers: json})));
  await attempt("login", () => seen(fetch(`${target}/v1/login`, {method: "POST", mode: "no-cors", body: "{}"})));
  await attempt("beacon", async () => navigator.sendBeacon(commands, new Blob([command], {type: "text/plain"})));
  await attempt("websocket", () => socket(target.replace("http", "ws") + "/v1/ws"));
  await attempt("event source", () => new Promise(done => {
    const one = new EventSource(`${target}/v1/sessions/${session}/events`);
    one.onmessage = () => done("message");
    one.onerror = () => { one.close(); done("error"); };
  }));
  await attempt("script", () => element("script", {src: `${target}/healthz`}));
  await attempt("image", () => element("img", {src: `${target}/metrics`}));
  await attempt("frame", async () => {
    const frame = document.createElement("iframe");
    frame.src = target + "/";
    const loaded = new Promise(done => { frame.onload = done; });
    document.body.append(frame);
    await loaded;
    return frame.contentDocument === null ? "closed" : frame.contentDocument.title;
  });
  await attempt("form", async () => {
    const frame = document.createElement("iframe");
    frame.name = "sink";
    document.body.append(frame);
    const form = document.createElement("form");
    Object.assign(form, {method: "POST", action: commands, target: "sink", enctype: "text/plain"});
    const field = document.createElement("input");
    Object.assign(field, {name: '{"type":"bash","command":"touch attacked","x":"', value: '"}'});
    form.append(field);
    document.body.append(form);
    const loaded = new Promise(done => { frame.onload = done; });
    form.submit();
    await loaded;
    return "sent";
  });
  return learned;
}
"""


class Neighbour:
    """A server on another port of this machine, such as an agent's development server. It keeps the heads it gets."""

    def __init__(self) -> None:
        self.heads: list[dict[str, str]] = []
        heads = self.heads

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heads.append({"target": self.path, **{name.lower(): value for name, value in self.headers.items()}})
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>neighbour</title><body></body>")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    if chromium() is None:
        pytest.skip("NO CHROMIUM HERE: other origins were not tried (Debian: apt-get install chromium)")
    with ServeProcess(tmp_path_factory.mktemp("served"), answers=({"text": "hello"},)) as server:
        yield server


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Neighbour]:
    neighbour = Neighbour()
    yield neighbour
    neighbour.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, server: ServeProcess) -> Iterator[Browser]:
    """Every name of evil.example leads to the server, whatever its port: a rebound name."""
    rules = f"MAP *evil.example 127.0.0.1:{server.port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
    browser = Browser(tmp_path_factory.mktemp("chromium"), hosts=rules)
    yield browser
    browser.close()


def attack(browser: Browser, server: ServeProcess, target: str) -> dict[str, str]:
    session = server.ask("POST", "/v1/sessions", {}).json["session"]
    given = ", ".join(json.dumps(text) for text in (target, server.token, session))
    learned: dict[str, str] = browser.run(f"({ATTEMPTS})({given})")
    entries = server.ask("GET", f"/v1/sessions/{session}").json["entries"]
    assert [entry for entry in entries if entry["type"] == "message"] == []
    assert list((server.folder / "work").iterdir()) == []
    return learned


@pytest.mark.promise("N02", "N03", "N16")
def test_a_page_on_another_port_gets_nothing(browser: Browser, server: ServeProcess, neighbour: Neighbour) -> None:
    browser.visit(neighbour.url)
    assert attack(browser, server, server.url) == {
        "read": "TypeError",
        "read with the token": "TypeError",
        "read blindly": "TypeError",
        "simple post": "TypeError",
        "json post": "TypeError",
        "login": "TypeError",
        "beacon": "true",
        "websocket": "error",
        "event source": "error",
        "script": "error",
        "image": "error",
        "frame": "closed",
        "form": "sent",
    }


@pytest.mark.promise("N02", "N03")
def test_a_name_that_was_rebound_to_this_machine_gets_nothing(browser: Browser, server: ServeProcess) -> None:
    rebound = f"http://www.evil.example:{server.port}"
    browser.visit(f"{rebound}/")
    said = browser.run("document.body.innerText").strip()
    assert said.startswith('{"error":"This server is not known under this Host. ')
    browser.ask("Page.setBypassCSP", enabled=True)  # the attacker's own page would have no policy
    browser.visit(f"{rebound}/")
    learned = attack(browser, server, rebound)
    browser.ask("Page.setBypassCSP", enabled=False)
    for name in ("read", "read with the token", "read blindly", "simple post", "json post", "login"):
        assert learned[name] == "basic 403", (name, learned)
    assert (learned["websocket"], learned["event source"], learned["script"]) == ("error", "error", "error")


@pytest.mark.promise("N15", "N16")
def test_a_login_stays_in_its_origin(browser: Browser, server: ServeProcess, neighbour: Neighbour) -> None:
    code = server.command("serve", "url").stdout.strip().partition("#k=")[2]
    browser.visit(f"{server.url}/")  # without the code, which the page would use
    logged_in = browser.run(
        f"""fetch("v1/login", {{method: "POST", headers: {{"Content-Type": "application/json"}},
            body: JSON.stringify({{code: {json.dumps(code)}}})}}).then(answer => answer.json()).then(login => {{
              localStorage.setItem("token", login.token); history.replaceState(null, "", "./");
              return fetch("v1/sessions", {{headers: {{Authorization: `Bearer ${{login.token}}`}}}}); }})
            .then(answer => answer.status)"""
    )
    assert logged_in == 200
    assert browser.run("document.cookie") == ""
    assert browser.run("location.href") == f"{server.url}/"
    elsewhere = json.dumps(neighbour.url)
    assert browser.run(f"fetch({elsewhere}).catch(error => error.name)") == "TypeError"  # the policy of the page
    neighbour.heads.clear()
    browser.run(f"location.href = {elsewhere}")
    browser.wait("Page.loadEventFired")
    assert browser.run("document.title") == "neighbour"
    assert browser.run("localStorage.getItem('token')") is None
    token = server.token
    for head in neighbour.heads:
        assert {"cookie", "authorization"} & head.keys() == set()
        assert server.url not in head.get("referer", "")
        assert token not in json.dumps(head) and code not in json.dumps(head)
    assert browser.ask("Network.getCookies", urls=[server.url, neighbour.url])["cookies"] == []


@pytest.mark.promise("N15")
def test_no_credential_is_in_a_file_or_on_stderr(server: ServeProcess, neighbour: Neighbour, tmp_path: Path) -> None:
    token = server.token.encode()
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    assert [path.name for path in files if token in path.read_bytes()] == ["token"]
