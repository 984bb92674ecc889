"""Schedules of the terminal interface: keys, sizes, questions and stalled output, played in a scheduled loop.

    question    no key answers a question that was not on the screen when the key was pressed (Escape may deny it)
    asked       each question ends once
    settled     each prompt that was accepted settles
    output      what waits for a terminal that has stalled is bounded
    restored    at the end the terminal is as it was: no mode is on, and it is not raw
    hang, task left, descriptor left, exception, error logged

The session, the interface and the terminal are real; the device and signals are not.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any
from unittest.mock import patch

from support.schedule_cases import Json, _answer
from support.schedule_world import Workshop
from support.staged_schedule import Played, Stage, timed
from support.terminal_schedule_tty import FakeSignals, FakeStderr, FakeTty
from tau.records.dialogs import Confirm, Input, Select
from tau.runtime.app.process import GarbageCollector
from tau.runtime.extensions.dialogs import DENY, Dialogs, dialog_id
from tau.tui import app
from tau.tui import terminal as terminal_module
from tau.tui.file_index import FileIndex
from tau.tui.interface import Interface
from tau.tui.questions import Questions
from tau.tui.terminal import Terminal
from tau.tui.terminal_modes import first_modes, questions

EVENTS = (
    *("agent_start", "message_update", "tool_execution_start", "tool_execution_end", "agent_end", "agent_settled"),
    *("question", "question", "question", "shown", "shown", "shown", "answer", "key", "key", "resize", "stall"),
)
KEYS: dict[str, bytes] = {
    "enter": b"\r",
    "escape": b"\x1b[27u",
    "bare escape": b"\x1b",
    "tab": b"\t",
    "y": b"y",
    "n": b"n",
    "1": b"1",
    "2": b"2",
    "space": b" ",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "ctrl+c": b"\x03",
    "ctrl+l": b"\x0c",
    "backspace": b"\x7f",
    "half a key": b"\x1b[",
    "focus": b"\x1b[I",
    "no focus": b"\x1b[O",
}
OPERATIONS = {
    "prompt": 12,
    "key": 30,
    "type": 6,
    "paste": 3,
    "question": 12,
    "resize": 7,
    "stall": 6,
    "resume": 5,
    "permissions": 2,
    "command": 3,
    "abort": 2,
    "quit": 1,
}
COMMANDS = ("/help", "/session", "/hotkeys", "/model", "/redraw", "/new", "/nothing", "/name n")
PLAIN: Json = {"stall": 0.0, "asks": False, "output_bytes": 1_000_000, "rows": 24, "columns": 80}
MAX_WAITING_BYTES = 400_000
STARTED_S = 0.5


def case(seed: int) -> Json:
    random = Random(seed)
    kinds = random.choices(list(OPERATIONS), list(OPERATIONS.values()), k=random.randint(4, 18))
    first = [{"do": "prompt"}] if random.random() < 0.7 else []
    return {
        "seed": seed,
        "stall": random.choice((0.0, 0.02, 0.2)),
        "settings": random.randrange(3),
        "extensions": "none",
        "asks": random.random() < 0.6,
        "output_bytes": random.choice((200, 5_000, 1_000_000)),  # that the terminal takes at once
        "rows": random.choice((3, 10, 24, 24, 50)),
        "columns": random.choice((10, 40, 80, 80, 140)),
        "answers": [_answer(random, at) for at in range(random.randint(1, 4))] + [{"text": "ok"}],
        "operations": timed(random, [*first, *({"do": do} for do in kinds)], EVENTS),
    }


def play(case: Json, workshop: Workshop, *, permute: bool = False) -> Played:
    return TerminalStage(case, workshop, permute=permute).perform()


class TerminalStage(Stage):
    _tty: FakeTty
    _terminal: Terminal
    _interface: Interface

    def __init__(self, case: Json, workshop: Workshop, *, permute: bool = False) -> None:
        super().__init__(case, workshop, permute=permute)
        self.pressed_at, self.pressed = -1.0, b""  # when the keys were pressed that are handled now, and which
        self._frames: list[tuple[str, int]] = []  # questions in frames that are not on the screen yet, and their ends
        self._shown: dict[str, float] = {}  # when each question was on the screen
        self._drawing: str | None = None
        self._asked: dict[str, list[Any]] = {}
        self._running = False

    def perform(self) -> Played:
        factory = self.workshop.factory(self.case)
        for path in self.workshop.agent.iterdir():
            if path.is_file() and path.name not in ("models.json", "settings.json"):
                path.unlink()  # what was typed in the schedule before
        patches: tuple[tuple[Any, str, Any], ...] = (
            (terminal_module, "JobControl", FakeSignals),
            (app, "CapturedStderr", FakeStderr),
            (GarbageCollector, "settled", lambda self, name: None),
            (FileIndex, "refresh", lambda self: None),  # it has a thread of its own
            (Terminal, "open", self._open_terminal),
            (Terminal, "write_frame", self._watch_frame(Terminal.write_frame)),
            (Questions, "view", self._watch_view(Questions.view)),
            (Questions, "not_drawn", self._watch_not_drawn(Questions.not_drawn)),
            (Questions, "_answer", self._watch_answer(Questions._answer)),
            (Dialogs, "ask", self._watch_ask(Dialogs.ask)),
        )
        return self.play(lambda: self._main(factory), [patch.object(*one) for one in patches])

    async def _main(self, factory: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fuzzer")

        async def open_session(client: Any) -> Any:
            def watched(event: Any) -> Any:
                tag = getattr(getattr(event, "__struct_config__", None), "tag", "message_update")
                self.happened(str(tag))
                return client(event)

            self._handle = factory.open(watched, "tui", saves=False)
            if self.case["asks"]:
                self._handle.permissions.add("ask")
            return self._handle

        def connect(handle: Any, interface: Interface) -> None:
            self._interface = interface

        running = self.loop.create_task(app.run(factory, (), open_session, connect), name="interface")
        self._running = True
        await asyncio.sleep(STARTED_S)
        self._tty.type(b"\x1b[?62;22c")  # the terminal says what it is
        await self.perform_all(self._operation)
        await asyncio.sleep(0.5)
        self._tty.stall(stalled=False)
        await self._until_quiet()
        self.stop_performing()
        self._running = False
        self._interface.quit()
        code = await running
        self.note(f"ended with {code}")
        await self._handle.release()
        await asyncio.sleep(30.0)
        self._check_end()

    async def _until_quiet(self) -> None:
        for _ in range(4):
            if self._interface._stop.asked or not self._handle.runs.busy:
                return
            await asyncio.sleep(1.0)
        self._handle.dialogs.cancel()
        await self._handle.abort()

    def _open_terminal(self, loop: Any) -> Terminal:
        """In the place of Terminal.open."""
        self._tty = tty = FakeTty(self, self.case["rows"], self.case["columns"])
        for name in ("add_reader", "remove_reader", "add_writer", "remove_writer"):
            setattr(self.loop, name, getattr(tty, name))
        self._terminal = terminal = Terminal(loop, tty, {})  # type: ignore[arg-type]
        terminal._take_over(first_modes({}), questions({}))
        return terminal

    # What is done.

    def _operation(self, operation: Json) -> None:
        if not self._running or self._interface._stop.asked:
            return
        do, n, pick = operation["do"], operation["n"], operation["pick"]
        self.note(f"{do} {n} {pick}")
        tty = self._tty
        match do:
            case "prompt":
                tty.type(f"text-{n}.".encode())
                tty.type(b"\r")
            case "key":
                self.happened("key")
                tty.type(KEYS[[*KEYS][pick % len(KEYS)]])
            case "type":
                for character in "some words"[: 1 + pick % 10]:
                    tty.type(character.encode())
            case "paste":
                tty.type(b"\x1b[200~pasted\x1b[201~")
            case "question":
                self._ask(pick)
            case "resize":
                self.happened("resize")
                tty.now_size = type(tty.now_size)((1, 5, 24, 50)[pick % 4], (5, 40, 80, 140)[pick % 3])
                self._terminal.size_changed()
            case "stall" | "resume":
                self.happened("stall")
                tty.stall(stalled=do == "stall")
            case "permissions":
                self._handle.permissions.add("ask")
            case "command":
                tty.type(COMMANDS[pick % len(COMMANDS)].encode() + b"\r")
            case "abort":
                self.loop.create_task(self._handle.abort(), name="abort")
            case "quit":
                self._interface.quit()

    def _ask(self, pick: int) -> None:
        id = dialog_id()
        timeout: Json = {"timeout": (200, 3000)[pick % 2]} if pick % 5 == 0 else {}
        asked = (
            Confirm(id, "Sure?", "Really?", **timeout),
            Select(id, "Which?", ["one", "two"], **timeout),
            Input(id, "Name?", **timeout),
        )[pick % 3]
        self.loop.create_task(self._handle.dialogs.ask(asked), name="question")

    # What is seen.

    def _watch_ask(self, ask: Any) -> Any:
        async def watched(dialogs: Dialogs, question: Any, **named: Any) -> Any:
            self.happened("question")
            self.note(f"question {question.id[:4]}")
            self._asked[question.id] = []
            answer = None
            try:
                answer = await ask(dialogs, question, **named)
            finally:
                self._asked[question.id].append(answer)
                self.note(f"question {question.id[:4]} ended: {answer!r}")
            return answer

        return watched

    def _watch_view(self, view: Any) -> Any:
        def watched(panels: Questions, width: int, max_rows: int) -> Any:
            rows = view(panels, width, max_rows)
            self._drawing = panels._open[0].dialog.id if rows is not None else None
            return rows

        return watched

    def _watch_not_drawn(self, not_drawn: Any) -> Any:
        def watched(panels: Questions) -> None:
            self._drawing = None
            not_drawn(panels)

        return watched

    def _watch_frame(self, write_frame: Any) -> Any:
        def watched(terminal: Terminal, data: bytes) -> None:
            write_frame(terminal, data)
            if self._drawing is not None:
                self._frames.append((self._drawing, self._tty.taken + len(terminal._output._waiting)))
            waiting = len(terminal._output._waiting)
            if waiting > MAX_WAITING_BYTES:
                self.problem("output", f"{waiting} bytes wait")
            self.drawn()

        return watched

    def drawn(self) -> None:
        """The terminal has taken output: which questions are on the screen now?"""
        for id, end in [one for one in self._frames if one[1] <= self._tty.taken]:
            self._frames.remove((id, end))
            if id not in self._shown:
                self._shown[id] = self.loop.time()
                self.note(f"shown {id[:4]}")
                self.happened("shown")

    def _watch_answer(self, answer: Any) -> Any:
        def watched(panels: Questions, dialog: Any, given: Any) -> None:
            self.happened("answer")
            self.note(f"answer to {dialog.id[:4]}: {given}, pressed at {self.pressed_at:.3f}")
            shown = self._shown.get(dialog.id)
            escaped = b"\x1b" in self.pressed or b"\x03" in self.pressed
            denied = given.value is None or (given.value == DENY and escaped)
            if not denied and (shown is None or self.pressed_at < shown):
                self.problem("question", f"{dialog.id[:4]} was answered by a key of {self.pressed_at}, shown {shown}")
            answer(panels, dialog, given)

        return watched

    # What must hold.

    def _check_end(self) -> None:
        tty = self._tty
        left = tty.modes - {b"25"}  # the cursor is shown
        if left or b"25" not in tty.modes or tty.raw or not tty.closed:
            self.problem("restored", f"modes {sorted(tty.modes)}, raw {tty.raw}, closed {tty.closed}")
        for id, ends in self._asked.items():
            if len(ends) != 1:
                self.problem("asked", f"question {id[:4]} ended {len(ends)} times")
        runs = self._handle.runs
        if runs.accepted != runs.settled:
            self.problem("settled", f"{runs.accepted} prompts were accepted, {runs.settled} settled")

    def let_go(self) -> None:
        for name in ("_handle", "_interface", "_terminal", "_tty"):
            self.__dict__.pop(name, None)
