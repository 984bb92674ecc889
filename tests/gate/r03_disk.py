"""R3: the n-th call to the disk fails, for n = 1, 2, 3, … What was accepted is not lost, or somebody was told.

In this process every kind of fault at every call (the log on a disk of ours), and
in the real program the session file's own system calls, where strace may do that.
"""

from __future__ import annotations

import errno
import json
import random
import sys
import tempfile
from collections.abc import Callable
from itertools import cycle, islice, product
from pathlib import Path

from faults.disk import ERRORS, Fault, Faults
from faults.injected import Call, available, failing_agent
from gate.figure import Figure
from gate.lots import failures
from long.session_kills import Lost, Promises
from support.loop_kit import assistant, call, user
from support.rpc_process import Agent, Json, calls, of
from tau.errors import CommandError
from tau.records.messages import Text, ToolResult
from tau.runtime.history.session_log import SessionLog
from tau.store.sessions import open_session

MOST = 50
RUNS = 14  # of four entries each
DONE: Json = {"text": "done"}
FAULTS = [
    Fault(first, count, error, short)
    for first, count, error, short in product(range(1, MOST + 1), (1, 2, 10), ERRORS, (None, 0, -1))
]
CALLS = [
    *(Call("write", first, ERRORS[first % len(ERRORS)]) for first in range(1, MOST + 1)),
    *(Call("write", first, errno.ENOSPC, for_good=True) for first in range(1, MOST + 1, 5)),
    # A thread of its own each time, so the first of each is as good as any.
    *(Call("fsync", 1, error, for_good=for_good) for error in (errno.EIO, errno.ENOSPC) for for_good in (False, True)),
    *(Call("openat", first, error) for first in (1, 2) for error in (errno.EIO, errno.EROFS, errno.EDQUOT)),
]


def measure(scale: float, seed: int) -> list[Figure]:
    dice = random.Random(seed)
    chosen = _portion(FAULTS, scale, dice)
    figures = [Figure("R3", "silent losses, the n-th call of the log failing", len(chosen), _in_process(chosen), 0)]
    if not available():
        print("R3: strace is not here, or may not trace: the real program was not tried", file=sys.stderr)
        return figures
    injected = _portion(CALLS, scale, dice)

    def one(number: int, amount: int, folder: Path) -> None:
        program_meets(injected[number], folder)

    lost = failures(len(injected), 1, one)
    return [*figures, Figure("R3", "silent losses, the n-th system call failing", len(injected), lost, 0)]


def _portion(cases: list[Fault] | list[Call], scale: float, dice: random.Random) -> list:  # type: ignore[type-arg]
    return dice.sample(cases, max(1, round(len(cases) * min(1.0, scale))))


# The log, in this process.


def _in_process(faults: list[Fault]) -> int:
    lost = 0
    for fault in faults:
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            try:
                log_meets(fault, Path(folder))
            except (Lost, AssertionError) as error:
                print(f"{fault}: {error}", file=sys.stderr)
                lost += 1
    return lost


def log_meets(fault: Fault, folder: Path) -> None:
    """Everything a log does, on a disk that fails once; then it is opened again."""
    disk = Faults(*fault, opening=True)
    told: list[OSError] = []
    log = SessionLog.new("/somewhere", folder, told.append, disk=disk)
    for at, act in enumerate(islice(cycle(_acts(log, told)), 60)):
        before = len(told)
        act(at)
        if at % 5 == 4 or len(told) > before:
            _look(log, told)
        if at % 4 == 3:
            _sync(log, told)
        if not log.unwritten:
            told.clear()  # that trouble is over; of the next one somebody has to be told again
    if not disk.met:
        raise Lost(f"only {disk.calls} calls were made")
    while log.unwritten:  # room again
        _sync(log, told)
    log.close()
    _open_again(log)


def _acts(log: SessionLog, told: list[OSError]) -> list[Callable[[int], None]]:
    """What can be said and set. Only a prompt may be refused; then it is asked again."""

    def ask(at: int) -> None:
        message = user(f"question {at} \u00e9")
        while True:
            try:
                log.append_prompt(message)
                break
            except CommandError as error:
                told.append(OSError(str(error)))
        log.append_message(message)

    return [
        ask,
        lambda at: log.append_message(assistant("Let me look.", call("bash", command=f"echo {at}"))),
        lambda at: log.append_message(ToolResult("call_bash", "bash", [Text("line\n" * at)], {"exitCode": 0})),
        lambda at: log.append_message(assistant("an answer")),
        lambda at: log.set_name(f"name {at}"),
        lambda at: log.pending_queue.record("steer", user(f"steer {at}")),
        lambda at: log.set_level("high" if at % 2 else "low"),
    ]


def _sync(log: SessionLog, told: list[OSError]) -> None:
    try:
        log.flush()
        if (work := log.file.syncing()) is not None:
            work()
    except OSError as error:
        told.append(error)


def _look(log: SessionLog, told: list[OSError]) -> None:
    """The file has what the log has, but for what waits, of which somebody was told."""
    known = [log.tree.id(at) for at in range(len(log.tree))]
    there = _ids(log.path) if log.path is not None and log.path.exists() else []
    if missing := [id for id in known if id not in there]:
        if log.unwritten and not told:
            raise Lost(f"{len(missing)} entries wait, and nobody was told")
        # One that waits may be there all the same, if nothing but its newline is missing.
        if len(missing) > log.unwritten or missing != known[-len(missing) :]:
            raise Lost(f"{len(missing)} entries are not there, and {log.unwritten} wait")


def _ids(path: Path) -> list[str]:
    found = []
    for line in path.read_bytes().splitlines()[1:]:
        try:
            found.append(json.loads(line)["id"])
        except ValueError:
            continue  # half a line that could not be taken back
    return found


def _open_again(log: SessionLog) -> None:
    assert log.path is not None
    known = [log.tree.id(at) for at in range(len(log.tree))]
    found = open_session(log.path)
    there = [found.tree.id(at) for at in found.tree.branch]
    if there != known:
        raise Lost(f"{set(known) - set(there)} lost, {set(there) - set(known)} too much, when opened again")


# The program, by its system calls.


def program_meets(fault: Call, folder: Path) -> None:
    """Some runs with tools; then the session is opened again, without faults, and everything told is there."""
    session = folder / "session.jsonl"
    promises, asked = Promises(), dict[str, tuple[str, str]]()
    turn = {"blocks": [{"text": ["some ", "thing"]}, *calls("echo one")["blocks"]]}
    with failing_agent(folder, session, fault, *[turn, DONE] * RUNS, args=["--session", str(session)]) as agent:
        refused = sum(_run(agent, number, asked) for number in range(RUNS))
        told = of("session_write_failed", agent.events)
        agent.close()
        if agent.exit_code() != 0:
            raise Lost(f"{fault}: ended with {agent.process.returncode}\n{agent.transcript()}")
        promises.hear(agent, asked)
    if fault.for_good:
        if not told and not refused:
            raise Lost(f"{fault}: nobody was told")
        return
    if refused > 1:
        raise Lost(f"{fault}: {refused} prompts were refused")
    with Agent(folder, args=["--session", str(session)]) as agent:
        try:
            promises.check(agent.get("get_entries")["entries"])
        except Lost as lost:
            raise Lost(f"{fault}, told {len(told)} times: {lost}") from None
        if damage := of("session_damaged", agent.events):
            raise Lost(f"{fault}: {damage}")


def _run(agent: Agent, number: int, asked: dict[str, tuple[str, str]]) -> bool:
    """One prompt, to its end. True if it was refused, which is an honest answer."""
    text = f"prompt {number}"
    id = agent.send("prompt", message=text)
    asked[id] = ("prompt", text)
    response: Json = agent.response(id)
    if not response["success"]:
        if "cannot be written" not in response["error"]:
            raise Lost(f"refused for another reason: {response['error']}")
        return True
    agent.settled()
    return False
