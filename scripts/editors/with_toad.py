"""Drives Toad with `tau acp`, by keys, without a screen. The task is in $EDITOR_TASK; a line per step is its result."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TASK = json.loads(os.environ["EDITOR_TASK"])
sys.path[:0] = [str(next(Path(TASK["venv"]).glob("lib/python*/site-packages")))]

from textual.widget import Widget  # noqa: E402
from toad.app import ToadApp  # noqa: E402

WORK = Path(TASK["work"])


def report(step: str, state: str, seen: str = "") -> None:
    with open(TASK["results"], "a") as file:
        file.write(json.dumps([step, state, seen]) + "\n")


class Driver:
    def __init__(self, app: Any, pilot: Any) -> None:
        self.app, self.pilot = app, pilot

    def text(self) -> str:
        """What the widgets of the screen contain."""
        found: list[str] = []
        for widget in self.app.screen.query(Widget):
            for name in ("source", "content", "_content", "_markdown", "title", "question", "text"):
                value = getattr(widget, name, None)
                if value is not None and not callable(value):
                    found.append(str(value))
            found += [str(option) for option in getattr(widget, "options", None) or []]
        return "\n".join(found)

    async def until(self, check: Callable[[], Any], seconds: float = 20) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if check():
                return True
            await self.pilot.pause(0.1)
        return False

    async def has(self, words: str, seconds: float = 20) -> bool:
        return await self.until(lambda: words in self.text(), seconds)

    def asks(self) -> bool:
        return any(widget.display for widget in self.app.screen.query("Question"))

    async def prompt(self, text: str) -> None:
        from toad.widgets.prompt import PromptTextArea

        await self.until(lambda: not self.asks(), 3)
        area = self.app.screen.query_one(PromptTextArea)
        area.focus()
        area.text = text
        area.move_cursor((0, len(text)))
        await self.pilot.pause(0.2)
        for _ in range(3):  # the first one may only close a list
            await self.pilot.press("enter")
            if await self.until(lambda: not area.text, 1):
                break

    async def answer(self, words: str, key: str) -> str:
        """Answer the question, and return what is wrong."""
        if not await self.until(self.asks):
            return "no question"
        await self.pilot.pause(0.5)
        shown = await self.has(words, 3)
        await self.pilot.pause(TASK["late"])
        TASK["late"] = 0
        await self.pilot.press(key)
        return "" if shown else f"the question does not show {words}"


async def main() -> None:
    command = shlex.join(TASK["command"])
    agent = {
        "identity": "tau.example",
        "name": "tau",
        "short_name": "tau",
        "url": "",
        "protocol": "acp",
        "type": "coding",
        "author_name": "",
        "author_url": "",
        "publisher_name": "",
        "publisher_url": "",
        "description": "",
        "tags": [],
        "help": "",
        "run_command": {"*": command},
        "actions": {},
    }
    app = ToadApp(agent_data=agent, project_dir=str(WORK))
    async with app.run_test(size=(140, 50)) as pilot:
        driver = Driver(app, pilot)

        async def step(name: str, work: Callable[[], Any]) -> None:
            try:
                wrong = await work()
            except Exception as error:
                wrong = repr(error)
            report(name, "bad" if wrong else "ok", str(wrong or "")[:600])

        async def start() -> str:
            conversation = "Conversation"
            fine = await driver.until(
                lambda: any(getattr(one, "agent_ready", False) for one in app.screen.query(conversation))
            )
            return "" if fine else driver.text()[-400:]

        async def say() -> str:
            await driver.prompt("say hello")
            return "" if await driver.has("Hello from the model.") else driver.text()[-500:]

        async def question() -> str:
            await driver.prompt("run it")
            wrong = await driver.answer("touch ran", "a")
            ran = await driver.until(lambda: (WORK / "ran").exists())
            return wrong or ("" if ran else driver.text()[-500:])

        async def deny() -> str:
            await driver.prompt("deny it")
            wrong = await driver.answer("touch denied", "r")
            await pilot.pause(1)
            return wrong or ("it ran" if (WORK / "denied").exists() else "")

        async def diff() -> str:
            await driver.prompt("edit it")
            wrong = await driver.answer("a.txt", "a")
            fine = await driver.until(lambda: "2" in (WORK / "a.txt").read_text())
            return wrong or ("" if fine else driver.text()[-500:])

        async def error() -> str:
            await driver.prompt("fail")
            return "" if await driver.has("the parameter x is wrong") else driver.text()[-500:]

        async def cancel() -> str:
            await driver.prompt("wait")
            wrong = await driver.answer("touch waiting", "a")
            if wrong or not await driver.until(lambda: (WORK / "waiting").exists()):
                return wrong or "it did not run"
            await pilot.press("escape")
            await pilot.pause(0.3)
            await pilot.press("escape")
            await pilot.pause(1)
            await driver.prompt("who")
            return "" if await driver.has("I am one.") else driver.text()[-500:]

        for name, work in (("start", start), ("prompt", say), ("question", question), ("deny", deny), ("diff", diff)):
            await step(name, work)
        await step("cancel", cancel)
        await step("error", error)
        for name in ("model", "mode", "commands", "list", "load"):
            report(name, "-", "not driven")


asyncio.run(main())
