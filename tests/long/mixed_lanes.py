"""The lanes of tests/long/mixed_load.py: load on one front end, with faults, and what was found.

Every lane works on its own for some seconds and returns `Found`. In the first part of its time the process under test
has one life, in which its memory, descriptors and threads are measured at rest; in the last part it is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from long.fleet_kills import final
from long.soak import SETTINGS, Soak, more_at_rest, slope
from long.witness import Figures, Heart, Ledger, descriptors, living, session_files
from support.acp_peer import Failure, Peer, process_peer
from support.dask_cluster import fleet_workers
from support.fleets import FleetRun
from support.host_process import HostProcess, SocketClient
from support.rpc_process import Json, calls, text

T = TypeVar("T")

LIVED = 0.67  # part of the time that the first life has
BETWEEN_RESTS_S = 15.0
GONE_S = 5.0  # after which nothing is left of what was ended
WARM_UP = 0.25  # part of the rests of a life that do not count
PAUSE_S = 0.05  # so that one lane does not take all of the machine
KEPT_FILES = 6
FLEET_TASKS = 12
FLEET_TIMEOUT_S = 300.0
ANSWERS: tuple[Json, ...] = (
    {"blocks": [{"text": [f"word {at} " for at in range(20)]}], "delayMs": 1},
    calls("echo one"),
    {"text": "no", "error": {"message": "529 overloaded", "after": 0}},
    {"text": "done"},
    {"text": "no", "error": {"message": "invalid request", "after": 0}},
    {"blocks": [{"text": ["large " * 2000] * 8}]},
    {"text": "done"},
)


class Found:
    """What came of a lane. Everything is a number or a list of texts, so that a file can hold it."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.prompts = 0
        self.responses = 0
        self.kills = 0
        self.rests = 0
        self.lost: list[str] = []
        self.late: list[str] = []
        self.excused: list[str] = []
        self.left: list[str] = []  # processes
        self.wrong: list[str] = []
        self.slowest: dict[str, float] = {}
        self.grown_kib = 0.0  # in the longest life, over `grown_prompts`
        self.grown_prompts = 0
        self.more_descriptors = 0
        self.more_threads = 0

    def add_ledger(self, ledger: Ledger) -> None:
        self.lost += ledger.lost
        self.late += [f"{one.what} {one.seconds:.1f} s" for one in ledger.late]
        self.excused += [f"{one.what} {one.seconds:.1f} s, {one.lost:.1f} s of it no time" for one in ledger.excused]
        self.wrong += ledger.wrong
        self.slowest = {what: round(seconds, 3) for what, seconds in ledger.slowest.items()}

    def add_rests(self, rests: list[tuple[int, Figures]]) -> None:
        rests = rests[int(len(rests) * WARM_UP) :]
        if len(rests) < 4:
            return
        self.grown_prompts = rests[-1][0] - rests[0][0]
        self.grown_kib = slope([(prompts, figures.memory) for prompts, figures in rests]) * self.grown_prompts
        self.more_descriptors = more_at_rest(rests, lambda figures: len(figures.descriptors))
        self.more_threads = more_at_rest(rests, lambda figures: figures.threads)


def figures_of(pid: int) -> Figures:
    status = Path(f"/proc/{pid}/smaps_rollup").read_text()
    memory = int(status.partition("Anonymous:")[2].split()[0])
    return Figures(memory, descriptors(pid), len(os.listdir(f"/proc/{pid}/task")))


def left_over(mark: str, what: str) -> list[str]:
    """Wait until no process has this mark; those that remain."""
    until = time.monotonic() + GONE_S
    while (found := living(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    return [f"{what}: {line[:200]}" for line in found.values()]


def check_files(ledger: Ledger, folder: Path) -> int:
    """Look for the texts that were acknowledged. Returns how many; they are owed no longer."""
    accepted, ledger.accepted = ledger.accepted, []
    said: Counter[str] = Counter()
    for path in session_files(folder):
        for line in path.read_bytes().split(b"\n")[1:-1]:
            entry = json.loads(line)
            if entry["type"] == "message" and entry["message"]["role"] == "user":
                said[text(entry["message"])] += 1
            elif entry.get("customType") == "tau.queued":
                said[text(entry["data"]["message"])] += 0  # it waits, and is there
    ledger.lost += [f"accepted: {one!r}" for one in accepted if one not in said]
    ledger.wrong += [f"said {count} times: {one!r}" for one, count in said.items() if count > 1]
    for path in session_files(folder)[KEPT_FILES:]:
        path.unlink()
    return len(accepted)


# RPC.


def rpc_lane(folder: Path, seconds: float, seed: int) -> Found:
    """Everything that a client can do with one agent, and a fault each second: tests/long/soak.py."""
    found = Found()
    soak = Soak(folder, seed, say=lambda line: None)
    try:
        soak.run(seconds, kills=max(1, round(seconds / 120)))
    except AssertionError as error:
        soak.failed(error, soak.lives[-1])
    found.add_ledger(soak.ledger)
    found.wrong += [f"no JSON: {one!r}" for one in soak.ledger.noise]
    found.acknowledged, found.responses = soak.looked_for, soak.ledger.counts["response"]
    found.prompts, found.kills, found.rests = sum(life.prompts for life in soak.lives), soak.kills, soak.rests
    found.left = soak.left
    found.add_rests(soak.lives[0].rests)
    return found


# The server.


class HostLane:
    """Clients of one host: several sessions, lost connections, repeated commands, and a client that does not read."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.found = Found()
        self._folder = folder
        self._dice = random.Random(seed)
        self._ledger = Ledger()
        self._heart = Heart()
        self._number = 0
        self._mark = f"MIXED_HOST={os.getpid()}"
        self._rests: list[tuple[int, Figures]] = []
        (folder / "agent").mkdir(parents=True, exist_ok=True)
        (folder / "agent" / "settings.json").write_text(json.dumps({"retry": SETTINGS["retry"]}))

    def run(self, seconds: float) -> Found:
        name, _, value = self._mark.partition("=")
        os.environ[name] = value
        began = time.monotonic()
        kill_at = began + seconds * LIVED
        host = self._start()
        rest_at = began + BETWEEN_RESTS_S
        while time.monotonic() < began + seconds:
            kill = time.monotonic() > kill_at
            host = self._round_or_kill(host) if kill else self._round(host)
            if time.monotonic() > rest_at:
                self._rest(host, measured=not kill)
                rest_at = time.monotonic() + BETWEEN_RESTS_S
            time.sleep(PAUSE_S)
        self._rest(host, measured=False)
        if (code := host.stop()) != 143:
            self.found.wrong.append(f"the host ended with {code}")
        if "Traceback" in host.stderr:
            self.found.wrong.append(host.stderr[-2000:])
        self._heart.stop()
        self.found.left += left_over(self._mark, "after the host")
        self.found.add_ledger(self._ledger)
        self.found.add_rests(self._rests)
        return self.found

    def _start(self) -> HostProcess:
        return HostProcess(self._folder, *ANSWERS, args=("--no-tcp", "--idle", "0.2", "--answer-timeout", "1"))

    def _rest(self, host: HostProcess, *, measured: bool) -> None:
        with host.client(client="rest") as client:
            until = time.monotonic() + 30
            while client.get("list_sessions", live=True, all=True)["sessions"]:
                if time.monotonic() > until:
                    self.found.wrong.append("sessions are not released")
                    break
                time.sleep(0.05)
        self.found.rests += 1
        self.found.acknowledged += check_files(self._ledger, self._folder / "agent")
        if measured:
            self._rests.append((self.found.prompts, figures_of(host.process.pid)))

    def _ask(self, client: SocketClient, type: str, **fields: Any) -> Json:
        began = time.monotonic()
        answer = client.ask(type, **fields)
        self._ledger.took(type, time.monotonic() - began, self._heart.lost(began))
        self.found.responses += 1
        if fields.get("message") and answer["success"]:
            self._ledger.accepted.append(fields["message"])
            self.found.prompts += 1
        return answer

    def _next(self, what: str) -> str:
        self._number += 1
        return f"{what} {self._number}"

    def _round(self, host: HostProcess) -> HostProcess:
        try:
            self._play(host)
        except (ConnectionError, AssertionError, TimeoutError) as error:
            self.found.wrong.append(f"a round: {type(error).__name__}: {str(error)[:500]}")
        return host

    def _round_or_kill(self, host: HostProcess) -> HostProcess:
        """A round in which the host may be killed."""
        with ExitStack() as clients:
            opened = clients.enter_context(host.client(client="first"))
            session = self._ask(opened, "open_session")["data"]["session"]
            for _ in range(self._dice.randrange(1, 4)):
                message = self._next("prompt")
                self._ask(opened, "prompt", session=session, message=message, key=message, streamingBehavior="followUp")
            time.sleep(0.05 * self._dice.random())
            host.kill()
            self.found.kills += 1
        self.found.left += left_over(self._mark, "after a kill")
        self.found.acknowledged += check_files(self._ledger, self._folder / "agent")
        began = time.monotonic()
        host = self._start()
        self._ledger.took("start of the host", time.monotonic() - began, self._heart.lost(began), limit=30)
        with host.client(client="first", session=session) as again:
            answer = again.ask("prompt", message=message, key=message, streamingBehavior="followUp")
            if not answer["success"]:
                self.found.wrong.append(f"repeated after a kill: {answer}")
            self._until_idle(again)
            self._ask(again, "clear_queue")
        return host

    def _play(self, host: HostProcess) -> None:
        dice = self._dice
        with ExitStack() as clients:
            first = clients.enter_context(host.client(client="first"))
            permissions = {"permissions": "ask"} if dice.random() < 0.3 else {}
            opened = [self._ask(first, "open_session", **permissions)["data"] for _ in range(3)]
            sessions = [one["session"] for one in opened]
            keys = {session: self._next("prompt") for session in sessions}
            for session, message in keys.items():
                self._ask(first, "prompt", session=session, message=message, key=message)
            slow = clients.enter_context(host.client(session=dice.choice(sessions), client="slow"))
            slow.socket.settimeout(30)
            first.close()  # in the middle of the runs
            for one in opened:
                bound = clients.enter_context(
                    host.client(session=one["session"], after={"stream": one["stream"], "seq": 0}, client="again")
                )
                self._go_on(host, bound, keys[one["session"]])
            if dice.random() < 0.5:
                slow.get("get_state")  # it reads again

    def _go_on(self, host: HostProcess, client: SocketClient, key: str) -> None:
        answer = client.ask("prompt", message=key, key=key)  # it is not run twice
        if not answer["success"]:
            self.found.wrong.append(f"repeated: {answer}")
        for _ in range(self._dice.randrange(4)):
            kind = self._dice.choice(
                ("get_state", "get_messages", "steer", "follow_up", "abort", "bash", "get_entries")
            )
            fields: Json = {"message": self._next(kind)} if kind in ("steer", "follow_up") else {}
            fields |= {"command": "echo two"} if kind == "bash" else {}
            self._ask(client, kind, **fields)
        self._answer_questions(client)
        if self._dice.random() < 0.3:
            self._ask(client, "abort")
        self._until_idle(client)
        self._ask(client, "clear_queue")  # a session with messages that wait is not released

    def _answer_questions(self, client: SocketClient) -> None:
        asked = [one for one in client.records if one["type"] == "extension_ui_request"]
        for record in asked:
            line = {"type": "extension_ui_response", "id": record["id"], "value": record.get("options", [""])[0]}
            client.socket.sendall(json.dumps(line).encode() + b"\n")

    def _until_idle(self, client: SocketClient) -> None:
        began = time.monotonic()
        while client.get("get_state")["isStreaming"]:
            self._answer_questions(client)
            if time.monotonic() - began > 10:
                self._ask(client, "abort")
            if time.monotonic() - began > 60:
                raise AssertionError("a run does not end")
            time.sleep(0.02)


def host_lane(folder: Path, seconds: float, seed: int) -> Found:
    return HostLane(folder, seed).run(seconds)


# ACP.


class AcpLane:
    """An editor with two sessions at once: prompts, cancels, permissions, and a kill with a load in the next life."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.found = Found()
        self._folder = folder
        self._dice = random.Random(seed)
        self._ledger = Ledger()
        self._heart = Heart()
        self._number = 0
        self._mark = f"MIXED_ACP={os.getpid()}"
        self._rests: list[tuple[int, Figures]] = []

    async def run(self, seconds: float) -> Found:
        end = time.monotonic() + seconds
        await self._life(time.monotonic() + seconds * LIVED, kill=True, measured=True)
        while time.monotonic() < end:
            await self._life(min(end, time.monotonic() + 10), kill=time.monotonic() + 10 < end, measured=False)
        self._heart.stop()
        self.found.add_ledger(self._ledger)
        self.found.add_rests(self._rests)
        return self.found

    async def _life(self, until: float, *, kill: bool, measured: bool) -> None:
        name, _, value = self._mark.partition("=")
        settings = {"retry": SETTINGS["retry"]}
        answers = process_peer(
            self._folder, *ANSWERS, args=("--permissions", "ask"), settings=settings, environment={name: value}
        )
        async with answers as (peer, process):
            peer.answers["session/request_permission"] = self._permit
            await peer.initialize()
            rest_at = time.monotonic() + BETWEEN_RESTS_S / 3
            sessions = [await self._new(peer) for _ in range(2)]
            while time.monotonic() < until:
                await asyncio.gather(*(self._prompt(peer, session) for session in sessions))
                if self._dice.random() < 0.1:
                    await self._took("session/close", peer.call("session/close", sessionId=sessions.pop()))
                    sessions.append(await self._new(peer))
                if time.monotonic() > rest_at:
                    for session in sessions:
                        await self._took("session/close", peer.call("session/close", sessionId=session))
                    self._rest(process.pid if measured else None)
                    sessions = [await self._new(peer) for _ in range(2)]
                    rest_at = time.monotonic() + BETWEEN_RESTS_S / 3
                peer.received.clear()
                await asyncio.sleep(PAUSE_S)
            if kill:
                await peer.send(*(peer.prompt_request(session, self._next()) for session in sessions))
                await asyncio.sleep(0.1 * self._dice.random())
                process.send_signal(signal.SIGKILL)
                await process.wait()
                self.found.kills += 1
        self.found.left += await asyncio.to_thread(left_over, self._mark, "after ACP")
        self._rest(None)

    def _rest(self, pid: int | None) -> None:
        self.found.rests += 1
        self.found.acknowledged += check_files(self._ledger, self._folder / "agent")
        if pid is not None:
            self._rests.append((self.found.prompts, figures_of(pid)))

    def _next(self) -> str:
        self._number += 1
        return f"prompt {self._number}"

    async def _new(self, peer: Peer) -> str:
        return await self._took("session/new", peer.new(self._folder / "work"))

    async def _prompt(self, peer: Peer, session: str) -> None:
        message = self._next()
        request = peer.prompt_request(session, message)
        await peer.send(request)
        cancelled = self._dice.random() < 0.2
        if cancelled:
            await asyncio.sleep(0.05 * self._dice.random())
            await peer.notify("session/cancel", sessionId=session)
        with suppress(Failure):  # of the model
            await self._took("a prompt" if not cancelled else "a cancelled prompt", peer.response(request))
        self.found.prompts += 1
        if not cancelled:  # one that is cancelled before it starts is not said
            self._ledger.accepted.append(message)

    async def _took(self, what: str, work: Any) -> Any:
        began = time.monotonic()
        try:
            return await work
        finally:
            self.found.responses += 1
            self._ledger.took(what, time.monotonic() - began, self._heart.lost(began))

    def _permit(self, params: Json) -> Json:
        options = params["options"]
        return {"outcome": {"outcome": "selected", "optionId": self._dice.choice(options)["optionId"]}}


def acp_lane(folder: Path, seconds: float, seed: int) -> Found:
    return asyncio.run(AcpLane(folder, seed).run(seconds))


# A fleet.


def fleet_lane(folder: Path, seconds: float, seed: int) -> Found:
    """Fleets, one after another: a worker or the coordinator is killed in each. Every task has one result."""
    found, dice, end = Found(), random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < end:
        with _fresh(folder / "fleet") as place:
            fleet = FleetRun(place, [calls("echo one"), {"text": "done"}])
            fleet.tasks({"id": f"t{number}", "check": "true"} for number in range(FLEET_TASKS))
            _run_fleet(fleet, dice, found)
        time.sleep(1.0)
    return found


@contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder


def _run_fleet(fleet: FleetRun, dice: random.Random, found: Found) -> None:
    flags = ("--concurrency", "4", "--workers", "2")
    process, until = fleet.start(*flags), time.monotonic() + FLEET_TIMEOUT_S
    wait_until(lambda: (fleet.out.exists() and final(fleet)) or process.poll() is not None, until)
    victims = fleet_workers(fleet.folder)[:1] if dice.random() < 0.7 else [process.pid]
    for victim in victims:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            found.kills += 1
    while process.wait(FLEET_TIMEOUT_S) != 0:
        if time.monotonic() > until:
            found.late.append("a fleet does not end")
            break
        process = fleet.start(*flags)
    found.rests += 1
    try:
        results = fleet.results()
        wrong = [f"{one['id']} ({one['outcome']})" for one in results.values() if one["outcome"] != "solved"]
        found.lost += [f"fleet: no result of t{n}" for n in range(FLEET_TASKS) if f"t{n}" not in results]
        found.wrong += [f"fleet: {one} is not solved" for one in wrong]
        found.acknowledged += len(results)
        found.prompts += len(results)
    except (OSError, AssertionError) as error:
        found.wrong.append(f"fleet: {error}")
    gone = time.monotonic() + GONE_S
    wait_until(lambda: not fleet_workers(fleet.folder), gone)
    found.left += [f"fleet worker {pid}" for pid in fleet_workers(fleet.folder)]


def wait_until(condition: Callable[[], object], until: float) -> None:
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)


LANES: dict[str, Callable[[Path, float, int], Found]] = {
    "rpc": rpc_lane,
    "server": host_lane,
    "acp": acp_lane,
    "fleet": fleet_lane,
}
