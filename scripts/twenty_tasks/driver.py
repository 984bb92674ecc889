"""One program at a pseudo terminal, driven by keys; it is watched through its session files and the model."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.terminal import Terminal
from twenty_tasks.model import Model
from twenty_tasks.session_files import sessions

TIMEOUT_S = 20.0
QUIET_S, BUSY_S, MAX_QUIET_S = 0.3, 0.6, 4.0
SETTINGS: dict[str, Any] = {
    "quietStartup": True,
    "retry": {"enabled": False},
    "compaction": {"enabled": False, "keepRecentTokens": 1},
    "enableInstallTelemetry": False,
}


class Driver:
    def __init__(self, argv: Sequence[str], env: Mapping[str, str], home: Path, model: Model) -> None:
        self.home = home
        self.model = model
        self.sessions = home / "agent" / "sessions"
        _prepare(home, model.url)
        flags = ["--provider", "mock", "--model", "one", "--models", "mock/one,mock/two"]
        self.terminal = Terminal([*argv, *flags], rows=40, cols=100, env=env, cwd=str(home / "work"))
        self.terminal.wait("one •", TIMEOUT_S)
        self.quiet()

    def close(self) -> None:
        """Leave by Ctrl+D; the files are then written."""
        self.model.release.set()
        self.quiet()
        self.terminal.press("ctrl+c")
        self.quiet()
        self.terminal.press("ctrl+d")
        try:
            self.terminal.wait_end(TIMEOUT_S)
        finally:
            self.terminal.close()

    # Input.

    def type(self, text: str) -> None:
        self.terminal.type(text)
        self.quiet()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.terminal.press(key)
            self.quiet()

    def send(self, text: str) -> None:
        """Type a line and send it."""
        self.type(text)
        self.press("enter")

    def ask(self, text: str) -> None:
        """Send a prompt and wait for the end of the answer."""
        before = self.answers()
        self.send(text)
        self.until(lambda: self.answers() > before, f"no answer to {text!r}")
        self.quiet()

    def hold(self, text: str = "hold on") -> None:
        """Send a prompt whose answer waits for `release`."""
        self.model.release.clear()
        before = len(self.model.asked)
        self.send(text)
        self.until(lambda: len(self.model.asked) > before, "the model was not asked")
        self.terminal.wait("Held.", TIMEOUT_S)

    def release(self, answers: int) -> None:
        """Let the held answer go on; wait until the session has so many answers."""
        self.model.release.set()
        self.until(lambda: self.answers() >= answers, "the answers did not come")
        self.quiet()

    # What can be seen.

    def quiet(self) -> None:
        """Wait until nothing is written any more; a spinner, which never rests, is not waited for."""
        started = changed = time.monotonic()
        written = len(self.terminal.raw())
        while time.monotonic() - changed < QUIET_S and time.monotonic() - started < MAX_QUIET_S:
            self._pause(0.05)
            if len(self.terminal.raw()) != written:
                written, changed = len(self.terminal.raw()), time.monotonic()
            if self._busy() and time.monotonic() - started > BUSY_S:
                return

    def _busy(self) -> bool:
        return "Working" in "\n".join(self.terminal.screen()[-12:])

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.terminal.screen()
            time.sleep(0.02)

    def entries(self) -> list[dict[str, Any]]:
        """All entries of all sessions."""
        try:
            return [entry for entries in sessions(self.sessions) for entry in entries]
        except ValueError:  # a line is being written
            return []

    def answers(self) -> int:
        return sum(
            entry.get("message", {}).get("role") == "assistant" and entry["message"].get("stopReason") != "toolUse"
            for entry in self.entries()
        )

    def until(self, done: Callable[[], object], failure: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not done():
            if time.monotonic() > deadline:
                shown = "\n".join(row for row in self.terminal.screen() if row)
                raise AssertionError(f"{failure}; the screen:\n{shown}")
            self._pause(0.05)

    def until_entry(self, kind: str, count: int = 1) -> None:
        self.until(lambda: sum(entry["type"] == kind for entry in self.entries()) >= count, f"there is no {kind}")
        self.quiet()


def _prepare(home: Path, url: str) -> None:
    agent = home / "agent"
    agent.mkdir(parents=True)
    (home / "work").mkdir()
    model = {
        "reasoning": True,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 200_000,
        "maxTokens": 4096,
    }
    models = [{"id": name, "name": name, **model} for name in ("one", "two")]
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "none", "models": models}
    (agent / "models.json").write_text(json.dumps({"providers": {"mock": provider}}))
    (agent / "settings.json").write_text(json.dumps(SETTINGS))


def environment(home: Path) -> dict[str, str]:
    """Nothing of the caller's keys; the working folder and all files are in `home`."""
    empty = {name: "" for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))}
    own = {
        "HOME": str(home),
        "PI_CODING_AGENT_DIR": str(home / "agent"),
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
    }
    return {**empty, **own, "TMUX": "", "SSH_CONNECTION": "", "COLORTERM": "", "EDITOR": "true"}
