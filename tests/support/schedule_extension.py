"""The process of an extension without a process: what runtime/extensions/process.py asks of the system, in memory.

`emulated` replaces sockets, subprocesses, signals and the waiting thread in that module. Its own code runs as it is,
and so does the protocol. Lines arrive after a latency that the seed draws, in their order.

The extension at the other end handles the hooks of the case: it waits, fails, dies, or sends messages.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from support.schedule_cases import Json
from support.schedule_loop import ScheduleLoop
from tau.runtime.extensions import process as extension_process

LATENCIES = (0.0, 0.0, 0.0, 0.001, 0.01, 0.05)
FIRST_PID = 10_000_000  # larger than any real one


class Pipe:
    """One direction of a connection: delivers data later, in order."""

    def __init__(self, loop: ScheduleLoop) -> None:
        self._loop = loop
        self._last = 0.0
        self.receive: Callable[[bytes], None] = lambda data: None

    def write(self, data: bytes) -> None:
        self._last = max(self._last + 1e-6, self._loop.time() + self._loop.random.choice(LATENCIES))
        self._loop.call_at(self._last, lambda: self.receive(data))


class Socket:
    def __init__(self, number: int, sends: Pipe, receives: Pipe) -> None:
        self.number, self.sends, self.receives = number, sends, receives

    def fileno(self) -> int:
        return self.number

    def close(self) -> None:
        pass

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class MemoryTransport(asyncio.Transport):
    def __init__(self, loop: ScheduleLoop, protocol: asyncio.BufferedProtocol, socket: Socket) -> None:
        super().__init__()
        self._loop, self._protocol, self._socket = loop, protocol, socket
        self._closing = False
        socket.receives.receive = self._received

    def write(self, data: Any) -> None:
        if not self._closing:
            self._socket.sends.write(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closing

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    close = abort

    def _received(self, data: bytes) -> None:
        if self._closing:
            return
        if not data:
            return self.abort()
        buffer = self._protocol.get_buffer(len(data))
        for at in range(0, len(data), len(buffer)):
            piece = data[at : at + len(buffer)]
            buffer[: len(piece)] = piece  # type: ignore[index]
            self._protocol.buffer_updated(len(piece))


class System:
    """The processes and sockets of one schedule.

    `sends` gives the next text that the extension sends, if it may send one more; `reloads` is called when it asks for
    a reload. Both are told the session in which the extension believes to be.
    """

    def __init__(self, loop: ScheduleLoop, hooks: Json, *, has_command: bool) -> None:
        self.loop = loop
        self.hooks = hooks
        self.has_command = has_command
        self.loads: list[int] = []
        self.happened: Callable[[str], None] = lambda event: None
        self.sends: Callable[[str, str], str | None] = lambda does, session: None
        self.reloads: Callable[[str], None] = lambda session: None
        self._sockets: dict[int, Socket] = {}
        self._processes: dict[int, Child] = {}

    @contextmanager
    def emulated(self) -> Iterator[None]:
        module, system = extension_process, _Os(self)
        replaced: dict[str, Any] = {
            "socket": SimpleNamespace(socketpair=self._pair, socket=Socket),
            "subprocess": SimpleNamespace(Popen=self._start, DEVNULL=-3),
            "threading": SimpleNamespace(Thread=self._thread),
            "os": system,
        }
        with ExitStack() as patches:
            for name, value in replaced.items():
                patches.enter_context(patch.object(module, name, value))
            patches.enter_context(patch.object(self.loop, "create_unix_connection", self._connect))
            yield

    def forget(self) -> None:
        """Drop all references to the session."""
        self._sockets.clear()
        self._processes.clear()

    def kill(self, pid: int) -> None:
        if pid not in self._processes:
            raise ProcessLookupError
        self._processes[pid].exit(-9)

    def _pair(self) -> tuple[Socket, Socket]:
        there, back = Pipe(self.loop), Pipe(self.loop)
        number = 1000 + len(self._sockets)
        pair = Socket(number, there, back), Socket(number + 1, back, there)
        self._sockets |= {one.number: one for one in pair}
        return pair

    def _start(self, command: list[str], **options: Any) -> Child:
        pid = FIRST_PID + len(self._processes)
        self._processes[pid] = Child(self, pid, self._sockets[options["pass_fds"][0]])
        return self._processes[pid]

    def _thread(self, target: Callable[..., None], args: Any = (), name: str = "", daemon: bool = False) -> Any:
        newest = [*self._processes.values()][-1]
        return SimpleNamespace(start=lambda: newest.at_exit(lambda: target(*args)))

    async def _connect(self, factory: Callable[[], Any], *, sock: Socket) -> tuple[Any, Any]:
        protocol = factory()
        transport = MemoryTransport(self.loop, protocol, sock)
        protocol.connection_made(transport)
        await asyncio.sleep(0)
        return transport, protocol


class _Os:
    """The module os, with other processes."""

    def __init__(self, system: System) -> None:
        self._system = system

    def killpg(self, pid: int, signal: int) -> None:
        self._system.kill(pid)

    def waitid(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class Child:
    """The process of an extension, and the extension in it."""

    def __init__(self, system: System, pid: int, socket: Socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._system, self._loop, self._socket = system, system.loop, socket
        self._rest = b""
        self._facts: Json = {}
        self._targets: dict[int, tuple[str, float, str | None]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._waiting: Callable[[], None] | None = None
        self._asks: dict[int, int] = {}  # dialogs: the call in which each was asked
        self._over = False
        self._count = 0
        socket.receives.receive = self._received

    # As subprocess.Popen.

    def wait(self) -> int:
        assert self.returncode is not None
        return self.returncode

    def at_exit(self, tell: Callable[[], None]) -> None:
        self._waiting = tell

    def exit(self, code: int) -> None:
        if self._over:
            return
        self._over = True
        for timer in self._timers.values():
            timer.cancel()
        self._socket.sends.write(b"")

        def reap() -> None:
            self.returncode = code
            if self._waiting is not None:
                self._waiting()

        self._loop.start_thread(reap)

    # The extension.

    def _received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self._over:
                self._hear(json.loads(line))

    def _send(self, message: Json) -> None:
        if not self._over:
            self._socket.sends.write(json.dumps(message).encode() + b"\n")

    def _hear(self, message: Json) -> None:
        match message["type"]:
            case "load":
                self._facts = message["facts"]
                self._system.loads.append(self._loop.steps)
                self._load()
            case "renew":
                self._load()
            case "facts":
                self._facts |= message["facts"]
            case "call":
                self._call(message["id"], *self._targets[message["target"]], message["params"])
            case "cancel" if message["id"] in self._timers:
                self._timers.pop(message["id"]).cancel()
            case "answer" if (call := self._asks.pop(message["id"], None)) is not None:
                said = {"value": {"cancel": True}} if message.get("value") is True else {}
                self._send({"type": "answer", "id": call, **said})
            case "ping":
                self._send({"type": "pong", "id": message["id"]})
            case "stop":
                self.exit(0)

    def _load(self) -> None:
        for hook, (seconds, does) in self._system.hooks.items():
            self._register("handler", hook, seconds, does)
        if self._system.has_command:
            self._register("command", "go", 0.01, "command")
        self._send({"type": "loaded"})

    def _register(self, kind: str, name: str, seconds: float, does: str | None) -> None:
        target = len(self._targets) + 1
        self._targets[target] = name, seconds, does
        self._send({"type": "register", "kind": kind, "target": target, "name": name, "spec": {}})

    def _call(self, id: int, name: str, seconds: float, does: str | None, params: Json) -> None:
        self._system.happened(f"hook {name}")
        self._timers[id] = self._loop.call_later(seconds, self._answer, id, does, params)

    def _answer(self, id: int, does: str | None, params: Json) -> None:
        self._timers.pop(id, None)
        answer: Json = {"type": "answer", "id": id}
        match does:
            case "crash":
                return self.exit(1)
            case "fail":
                answer["error"] = "the handler fails"
            case "cancel" if self._loop.random.random() < 0.5:
                answer["value"] = {"cancel": True}
            case "send" | "send_turn" | "name":
                text = self._system.sends(does, self._facts["sessionId"])
                if text is not None:
                    self._tell(id, does, text)
            case "ask":
                self._asks[self._action(id, "confirm", {"title": "Is it?", "message": ""})] = id
                return
            case "command":
                for _ in range(1 + int(params["args"].split()[0]) % 2):
                    self._system.reloads(self._facts["sessionId"])
                    self._action(id, "reload")
        self._send(answer)

    def _tell(self, call: int, does: str, text: str) -> None:
        message = {"customType": "fuzz", "content": text, "display": True}
        name, params = "send_message", {"message": message, "triggerTurn": does == "send_turn"}
        if does == "name":
            name, params = "set_session_name", {"name": text}
        self._send({"type": "tell", "name": name, "params": params, "call": call, "session": self._facts["sessionId"]})

    def _action(self, call: int, name: str, params: Json | None = None) -> int:
        self._count += 1
        session = self._facts["sessionId"]
        self._send(
            {
                "type": "action",
                "id": self._count,
                "name": name,
                "params": params or {},
                "call": call,
                "session": session,
            }
        )
        return self._count
