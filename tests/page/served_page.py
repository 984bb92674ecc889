"""A server with the page, in a thread of this process, and tabs of a browser that show it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from export.chromium import Browser
from serve.web_server import Server, serving
from support import served
from support.served import WITHIN, Json
from tau.records.host_commands import Scope
from tau.serve.live_session import LiveSession

T = TypeVar("T")
PATIENCE_MS = 20_000  # only a failure takes them all


class ServedPage:
    """`answers` and `changes` are those of `serving`. All of it runs in an event loop in another thread."""

    def __init__(self, folder: Path, *answers: Json, **changes: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="served page", daemon=True)
        self._thread.start()
        self._context = serving(folder, *answers, **changes)
        self.server: Server = self.call(self._context.__aenter__())
        served.HOSTS.remove(self.server.host)  # it is closed here, in its own loop
        self.url = f"http://127.0.0.1:{self.server.port}/"

    def close(self) -> None:
        self.call(self._context.__aexit__(None, None, None))
        self.call(_end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> ServedPage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WITHIN)

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        answer = self.call(self.server.ask(method, path, body, token=token))
        assert answer.status < 300, (answer.status, answer.body)
        return answer.json if answer.body else None

    def open(self, **fields: Any) -> str:
        return self.call(self.server.open(**fields))

    def command(self, session: str, type: str, **fields: Any) -> Any:
        return self.ask("POST", f"/v1/sessions/{session}/commands", {"type": type, **fields}).get("data")

    def run(self, session: str, message: str = "go") -> None:
        """Prompt, and wait until the run has settled."""
        headers = "Prefer: wait=30"
        command = {"type": "prompt", "message": message}
        answer = self.call(self.server.ask("POST", f"/v1/sessions/{session}/commands", command, headers))
        assert answer.status == 200, answer.body

    def messages(self, session: str, role: str = "user") -> list[str]:
        """The texts of the messages of a session, of one role."""
        messages = self.command(session, "get_messages")["messages"]
        return [_text(message) for message in messages if message["role"] == role]

    def live(self, session: str) -> LiveSession:
        live = self.server.host.live(session)
        assert live is not None
        return live

    def login_url(self, scope: Scope = "admin", session: str = "") -> str:
        return f"{self.url}#k={self.server.credentials.new_code(scope)}"

    def cut(self) -> None:
        """Lose all connections."""

        async def abort() -> None:
            table = self.server.listener.connections
            for connection in [*table._proved, *table._unproved]:
                connection.abort()

        self.call(abort())

    def notice_revocations(self) -> None:
        """What a server does twice a second."""

        async def reload() -> None:
            self.server.credentials.reload()
            self.server.site.end_revoked(self.server.credentials.valid)

        self.call(reload())


async def _end_tasks() -> None:
    """What clients in this process have left."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def _text(message: Json) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


class Tab:
    """A page of a browser. Each is in a window of its own, so that the browser draws all of them."""

    def __init__(self, browser: Browser, *, own_storage: bool = False) -> None:
        self.browser = browser
        with self._in(None):
            place = {"browserContextId": browser.ask("Target.createBrowserContext")["browserContextId"]}
            given = place if own_storage else {}
            target = browser.ask("Target.createTarget", url="about:blank", newWindow=True, **given)["targetId"]
            self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._target = target
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.look(1280, 900)

    @contextmanager
    def _in(self, session: str | None) -> Iterator[None]:
        before, self.browser._session = self.browser._session, session
        try:
            yield
        finally:
            self.browser._session = before

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        with self._in(self._session):
            return self.browser.ask(method, **params)

    def run(self, script: str) -> Any:
        with self._in(self._session):
            return self.browser.run(script)

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        with self._in(self._session):
            self.browser.look(width, height, dark=dark)

    def visit(self, url: str) -> None:
        with self._in(self._session):
            self.browser.visit(url)

    def reload(self) -> None:
        with self._in(self._session):
            self.browser.ask("Page.reload")
            self.browser.wait("Page.loadEventFired")

    def key(self, key: str, **fields: Any) -> None:
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        given: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), **fields}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **given, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **given)

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def until(self, condition: str) -> Any:
        """Wait until an expression is true, and return its value."""
        script = f"""new Promise((done) => {{
          const end = performance.now() + {PATIENCE_MS};
          const ask = () => {{
            let value;
            try {{ value = ({condition}); }} catch (error) {{ value = null; }}
            if (value) done(typeof value === "object" ? true : value);
            else if (performance.now() > end) done(null);
            else setTimeout(ask, 10);
          }};
          ask();
        }})"""
        value = self.run(script)
        assert value, f"this did not become true: {condition}"
        return value

    def text(self, selector: str) -> str:
        """The text of an element, "" if there is none."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"))

    def click(self, selector: str) -> None:
        self.until(f"document.querySelector({json.dumps(selector)})")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def offline(self, away: bool) -> None:
        self.ask(
            "Network.emulateNetworkConditions", offline=away, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )

    def close(self) -> None:
        with self._in(None):
            self.browser.ask("Target.closeTarget", targetId=self._target)
