"""A real Chromium, led by the DevTools protocol over a pair of pipes. Standard library only.

Every host name leads to a server of our own that answers nothing and counts who
comes, so that a request is seen however the browser makes it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE = 110.0
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--disable-default-apps", "--disable-dev-shm-usage", "--force-color-profile=srgb", "--remote-debugging-pipe"),
)


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Trap:
    """Listens, hangs up, and counts."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.visits = 0
        self.visited = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                visitor, _ = self._socket.accept()
                self.visits += 1
                self.visited.set()
                visitor.close()

    def close(self) -> None:
        self._socket.close()


class Browser:
    """One page. `events` holds what the browser told us, in order."""

    def __init__(self, folder: Path, trap: Trap | None = None, *, hosts: str = "") -> None:
        """`hosts` are rules for names instead of those that lead to the trap."""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        plumbing = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash"]
        rules = hosts if trap is None else f"MAP *.example 127.0.0.1:{trap.port}, MAP * ~NOTFOUND"
        places = [f"--user-data-dir={folder / 'profile'}", f"--host-resolver-rules={rules}"]
        with (folder / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*plumbing, str(chromium()), *FLAGS, *places, "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs_in, theirs_out),
                start_new_session=True,
                env={**os.environ, "HOME": str(folder)},
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        page = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        until = time.monotonic() + PATIENCE
        for answer in self._messages(until):
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.events.append(answer)
        raise TimeoutError(f"Chromium did not answer {method}")

    def _messages(self, until: float) -> Iterator[dict[str, Any]]:
        while True:
            message, end, rest = self._buffer.partition(b"\0")
            if end:
                self._buffer = rest
                yield json.loads(message)
            elif select.select([self._in], [], [], max(0.0, until - time.monotonic()))[0]:
                portion = os.read(self._in, 1 << 20)
                if not portion:
                    raise RuntimeError("Chromium ended")
                self._buffer += portion
            else:
                return

    def wait(self, method: str) -> dict[str, Any]:
        """The next event of this name, or one that has come already; it is taken out of `events`."""
        until = time.monotonic() + PATIENCE
        for at, event in enumerate(self.events):
            if event.get("method") == method:
                return dict(self.events.pop(at)["params"])
        for event in self._messages(until):
            if event.get("method") == method:
                return dict(event["params"])
            self.events.append(event)
        raise TimeoutError(f"Chromium did not tell of {method}")

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until it is loaded, and our script, if it is one of our pages, is ready."""
        self.visit(path.as_uri() + fragment)

    def visit(self, url: str) -> None:
        """Open an address and wait until it is loaded."""
        self.events.clear()
        self.ask("Page.navigate", url="about:blank")
        self.wait("Page.loadEventFired")
        self.ask("Page.navigate", url=url)
        self.wait("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is awaited."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def key(self, key: str, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, **({"text": text} if text and kind == "keyDown" else {})
            )

    def picture(self, path: Path, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        self.look(width, height, dark=dark, scale=scale)
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def look(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def traced(self, script: str) -> list[float]:
        """Run a script that takes its time; how many ms of CPU each task of the page's main thread took meanwhile."""
        config = {"includedCategories": ["toplevel"]}
        self.ask("Tracing.start", traceConfig=config, transferMode="ReturnAsStream")
        self.run(script)
        self.ask("Tracing.end")
        stream = self.wait("Tracing.tracingComplete")["stream"]
        text, ended = "", False
        while not ended:
            portion = self.ask("IO.read", handle=stream, size=1 << 24)
            text, ended = text + portion["data"], portion["eof"]
        events = json.loads(text)["traceEvents"]
        main = {
            (e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain"
        }
        return [
            event.get("tdur", event["dur"]) / 1000
            for event in events
            if event.get("ph") == "X" and event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in main
        ]

    def requests(self) -> list[str]:
        """What the page asked for besides itself and what it holds."""
        self.run("1")  # everything that was told before this answer has been read
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("data:", "about:", "file:"))]

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._session = None
            self.ask("Browser.close")
            self._process.wait(10)
        # The whole group, whatever happened: Chromium is many processes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
