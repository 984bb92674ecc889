"""Extensions that fail in every way we could think of: the harm is theirs alone, and it is told once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.extension_processes import WITHIN, Lab, limits, running, written
from tau.errors import Aborted, ToolError
from tau.runtime.abort import AbortSignal
from tau.runtime.extensions.loader import load_function

# A gate that does whatever the command of the tool call names.
FAULTS = """
    import asyncio, os, signal, subprocess, sys, threading, time

    async def boom():
        raise ValueError("in a task")

    def thread():
        raise ValueError("in a thread")

    def line():
        "The descriptor that talks to tau."
        descriptor = int(sys.argv[1])
        os.set_blocking(descriptor, True)
        return descriptor

    def setup(pi):
        async def hang(): await asyncio.sleep(3600)
        async def stubborn():
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    pass
        def loop():
            while True: pass
        def sleep(): time.sleep(3600)
        def fail(): raise ValueError("on purpose")
        def leave(): sys.exit(7)
        def drop(): os._exit(8)
        def die(): os.kill(os.getpid(), signal.SIGKILL)
        def leak(): return {"reason": "x" * (4 << 30)}
        def leak_slowly():
            kept = []
            while True: kept.append(bytearray(16 << 20))
        def garbage():
            os.write(line(), b"nonsense\\n")
            time.sleep(3600)
        def flood():
            while True: os.write(line(), b'{"type":"tell","name":"notify","params":{"message":"!"}}\\n' * 100)
        def flood_updates():
            while True: os.write(line(), b'{"type":"pong","id":0}\\n' * 1000)
        def long_line():
            while True: os.write(line(), b"x" * 65536)
        def close():
            os.closerange(0, int(sys.argv[1]) + 1)
            time.sleep(3600)
        def unsayable(): return {"block": object()}
        def task(): asyncio.get_running_loop().create_task(boom())
        def timer(): asyncio.get_running_loop().call_later(0.01, thread)
        def in_thread(): threading.Thread(target=thread).start()
        def talk():
            print("printed")
            os.write(1, b"written to 1\\n")
            sys.__stdout__.write("the old stdout\\n")
            sys.__stdout__.flush()
            subprocess.run("echo from a child; cat", shell=True)
            os.system("echo from a shell")

        faults = dict(locals())

        @pi.on("tool_call")
        async def gate(event, ctx):
            fault = faults.get(event.input["command"])
            answer = fault() if fault else {"input": {"command": "fine"}}
            return await answer if asyncio.iscoroutine(answer) else answer

        @pi.command("do")
        async def do(args, ctx):
            await gate({"command": args}, ctx)
    """

FINE = {"input": {"command": "fine"}}

# What it does, and how that is told to the client.
GATES = {
    "fail": "on purpose",
    "hang": "No answer within 1 s.",
    "leave": "Its process ended with code 7.",
    "drop": "Its process ended with code 8.",
    "die": "Its process was ended by SIGKILL.",
    "leak": "MemoryError",
    "leak_slowly": "MemoryError",
    "unsayable": "Encoding objects of type object is unsupported",
}


@pytest.mark.promise("C16", "C17", "C26")
@pytest.mark.parametrize("fault", GATES)
def test_a_gate_that_fails_blocks_and_is_reported_once_and_works_again(tmp_path: Path, fault: str) -> None:
    file = written(tmp_path, FAULTS)
    settings = limits(
        handler_timeout_ms=1000 if fault == "hang" else 60_000, load_timeout_ms=60_000, memory_limit_mb=512
    )

    async def story() -> None:
        async with running(file, settings=settings) as lab:
            for round in range(1, 4):
                assert (await lab.bash(fault))["block"] is True
                lab.settings = limits(load_timeout_ms=60_000, memory_limit_mb=512)
                assert await lab.bash("nothing") == FINE
                lab.settings = settings
                assert lab.told == [("tool_call", GATES[fault])] * round

    asyncio.run(story())


@pytest.mark.promise("C24")
@pytest.mark.parametrize("fault", ["loop", "sleep", "stubborn"])
def test_what_cannot_be_stopped_is_ended_and_started_again(tmp_path: Path, fault: str) -> None:
    file = written(tmp_path, FAULTS)

    async def story() -> None:
        async with running(file, settings=limits(handler_timeout_ms=500, load_timeout_ms=60_000)) as lab:
            assert (await lab.bash(fault))["block"] is True
            lab.settings = limits(load_timeout_ms=60_000)
            async with asyncio.timeout(WITHIN):
                while (answer := await lab.bash("nothing")) != FINE:
                    assert "block" in answer
            assert lab.told[0] == ("tool_call", "No answer within 0.5 s.")
            # What was asked while it was ended failed as well, and said so.
            assert {error for _, error in lab.told[1:]} <= {"It did not stop what it was asked to stop, and was ended."}

    asyncio.run(story())


@pytest.mark.parametrize("fault", ["hang", "loop", "sleep", "stubborn"])
def test_an_abort_does_not_wait_for_any_of_them(tmp_path: Path, fault: str) -> None:
    file = written(tmp_path, FAULTS)

    async def story() -> None:
        async with running(file) as lab:
            switch = AbortSignal()
            payload = {"input": {"command": fault}}
            asking = asyncio.create_task(lab.extensions.fire("tool_call", payload, switch))
            await asyncio.sleep(0)  # the call is on its way
            switch.abort()
            with pytest.raises(Aborted):
                await asking
            async with asyncio.timeout(WITHIN):
                while await lab.bash("nothing") != FINE:
                    pass

    asyncio.run(story())


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("garbage", "It sent what is no message: "),
        (
            "flood",
            ("It has more than 1000 requests, or 64 MiB of them in progress.", "It sent more than 10000 messages"),
        ),
        ("flood_updates", "It sent more than 10000 messages within a second."),
        ("long_line", "It sent a line of more than 33554432 bytes."),
        ("close", "It closed its line to tau."),
    ],
)
def test_a_line_that_is_abused_ends_the_process_and_not_us(
    tmp_path: Path, fault: str, why: str | tuple[str, ...]
) -> None:
    file = written(tmp_path, FAULTS)

    async def story() -> None:
        async with running(file) as lab:
            for round in range(1, 3):
                assert (await lab.bash(fault))["block"] is True
                assert await lab.bash("nothing") == FINE
                assert len(lab.told) == round and lab.told[-1][1].startswith(why)

    asyncio.run(story())


@pytest.mark.promise("C18", "C19")
@pytest.mark.parametrize(
    ("fault", "why"), [("task", "in a task"), ("timer", "in a thread"), ("in_thread", "in a thread")]
)
def test_what_fails_behind_its_back_is_reported_and_nothing_ends(tmp_path: Path, fault: str, why: str) -> None:
    file = written(tmp_path, FAULTS)

    async def story() -> None:
        async with running(file) as lab:
            for round in range(1, 4):
                await lab.bash(fault)
                await lab.until(lambda round=round: len(lab.errors) == round)
                event, error = lab.told[-1]
                assert (event, error.startswith(f"{why} ({file}:")) == ("task", True)

    asyncio.run(story())


@pytest.mark.promise("C10", "C11", "C12")
def test_nothing_that_is_printed_reaches_our_stdout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, FAULTS)

    async def story() -> None:
        async with running(file) as lab:
            for _ in range(3):
                await lab.bash("talk")
            assert lab.errors == []

    asyncio.run(story())
    said = capfd.readouterr()
    assert said.out == ""
    for words in ("printed", "written to 1", "the old stdout", "from a child", "from a shell"):
        assert said.err.count(words) == 3


def test_after_too_many_ends_it_stays_down_and_what_it_guards_stays_shut(tmp_path: Path) -> None:
    file = written(tmp_path, FAULTS)

    async def story() -> None:
        async with running(file) as lab:
            for _ in range(4):
                assert (await lab.bash("drop"))["block"] is True
            for _ in range(2):
                blocked = await lab.bash("nothing")
                assert blocked["block"] is True
                assert str(file) in blocked["reason"] and "is not restarted again" in blocked["reason"]
            assert lab.extensions.commands == {}
            assert [error for error in lab.told if error[0] == "exit"] == [
                (
                    "exit",
                    "Its process ended with code 8. "
                    "It was restarted 3 times within 10 minutes and is not restarted again.",
                )
            ]

    asyncio.run(story())


def test_an_exit_without_a_pending_call_is_reported_too(tmp_path: Path) -> None:
    source = """
        import asyncio, os

        def setup(pi):
            @pi.on("session_start")
            def start(event, ctx):
                pi.set_session_name(event.reason)
                if event.reason == "startup":
                    asyncio.get_running_loop().call_later(0.01, os._exit, 9)
        """
    file = written(tmp_path, source)

    async def story() -> None:
        async with running(file) as lab:
            await lab.shown("session_start", reason="startup")
            await lab.until(lambda: len(lab.acts) == 2)
            assert lab.acts == [("set_session_name", {"name": "startup"}), ("set_session_name", {"name": "reload"})]
            assert lab.told == [("exit", "Its process ended with code 9.")]

    asyncio.run(story())


def test_one_that_ends_while_it_waits_for_the_others_is_started_again(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = f"""
        import asyncio, os

        def setup(pi):
            pi.on("tool_call", lambda event, ctx: {{"block": True, "reason": str(os.getpid())}})
            if not os.path.exists({str(mark)!r}):
                asyncio.get_running_loop().call_later(0.05, lambda: (open({str(mark)!r}, "w").close(), os._exit(9)))
        """
    waits = f"""
        import asyncio, os

        async def setup(pi):
            while not os.path.exists({str(mark)!r}):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
        """
    dies, slow = written(tmp_path, source, "dies"), written(tmp_path, waits, "slow")

    async def story() -> None:
        async with running(dies, slow) as lab:
            await lab.until(lambda: lab.told)  # it may be loaded before its end is heard of
            assert lab.told == [("exit", "Its process ended with code 9.")]
            assert (await lab.bash("ls"))["reason"].isdigit()

    asyncio.run(story())


def test_what_it_said_before_it_ended_is_done_to_its_end(tmp_path: Path) -> None:
    source = """
        import asyncio, os

        def setup(pi):
            @pi.on("input")
            async def leave(event, ctx):
                pi.append_entry("last words")
                asyncio.get_running_loop().call_later(0.01, os._exit, 9)
                await ctx.ui.confirm("Sure?")
        """
    file = written(tmp_path, source)

    async def story() -> None:
        async with running(file) as lab:
            ended, kept = asyncio.Event(), asyncio.Event()
            asked = asyncio.get_running_loop().create_future()

            async def keep() -> None:
                await ended.wait()
                kept.set()

            async def ask() -> bool:
                try:
                    return await asyncio.Event().wait()
                except asyncio.CancelledError:
                    asked.set_result("taken away")
                    raise

            lab.answers = {"append_entry": lambda params: keep(), "confirm": lambda params: ask()}
            await lab.shown("input", text="")
            async with asyncio.timeout(WITHIN):
                assert await asked == "taken away"
                ended.set()
                await kept.wait()

    asyncio.run(story())


def test_a_tool_that_takes_its_process_with_it_fails_for_the_model_and_is_back(tmp_path: Path) -> None:
    source = """
        import os, time

        def setup(pi):
            @pi.tool
            def leave(): os._exit(3)

            @pi.tool
            def stay() -> str:
                return "here"
        """
    file = written(tmp_path, source)

    async def story() -> None:
        async with running(file) as lab:
            back = asyncio.Event()
            with pytest.raises(ToolError, match=r"^Its process ended with code 3\.$"):
                await lab.tool("leave")
            lab.extensions.changed = lambda kind: back.set() if "stay" in lab.extensions.tools else None
            async with asyncio.timeout(WITHIN):
                await back.wait()
            assert (await lab.tool("stay")).content[0].text == "here"
            assert lab.told == [("exit", "Its process ended with code 3.")]

    asyncio.run(story())


def test_a_slow_synchronous_tool_blocks_nothing_else(tmp_path: Path) -> None:
    source = """
        import threading

        def setup(pi):
            go = threading.Event()

            @pi.tool
            def slow() -> str:
                go.wait()
                return "done"

            pi.on("input", lambda event, ctx: go.set())
        """
    file = written(tmp_path, source)

    async def story() -> None:
        async with running(file) as lab:
            slow = asyncio.create_task(lab.tool("slow"))
            await asyncio.sleep(0)
            await lab.shown("input", text="")
            assert (await slow).content[0].text == "done"

    asyncio.run(story())


def test_one_that_hangs_does_not_hold_up_another(tmp_path: Path) -> None:
    bad, good = written(tmp_path, FAULTS, "bad"), written(tmp_path, FAULTS, "good")

    async def story() -> None:
        async with running(bad, good) as lab:
            first, second = lab.extensions.handlers["tool_call"]
            stuck = asyncio.create_task(_asked(lab, lambda: first.call({"input": {"command": "loop"}})))
            for _ in range(20):
                assert await second.call({"input": {"command": "nothing"}}) == FINE
            stuck.cancel()

    asyncio.run(story())


async def _asked(lab: Lab, work: Callable[[], Any]) -> Any:
    return await lab.extensions.ask(work(), 30)


# One that cannot be started again for a while.

UNWELL = """
    import os

    def setup(pi):
        with open({starts!r}, "a") as file:
            file.write("x")
        if os.path.exists({mark!r}):
            raise ValueError("not now")

        @pi.on("tool_call")
        def guard(event, ctx):
            if event.input["command"] == "drop":
                open({mark!r}, "w").close()
                os._exit(8)

        @pi.on("session_start")
        def start(event, ctx):
            pi.set_session_name(event.reason)
    """


class Unwell:
    """An extension that ends when it sees "drop", and cannot be loaded until it is `cured`."""

    def __init__(self, folder: Path) -> None:
        self._starts, self._mark = folder / "starts", folder / "mark"
        self.file = written(folder, UNWELL.format(starts=str(self._starts), mark=str(self._mark)))

    @property
    def starts(self) -> int:
        return len(self._starts.read_text())

    def cured(self) -> None:
        self._mark.unlink()


@pytest.mark.promise("C18")
def test_one_that_could_not_be_started_again_is_tried_again_when_it_is_needed(tmp_path: Path) -> None:
    unwell = Unwell(tmp_path)

    async def story() -> None:
        async with running(unwell.file) as lab:
            assert (await lab.bash("drop"))["block"] is True
            assert "not now" in (await lab.bash("ls"))["reason"]
            unwell.cured()
            assert await lab.bash("ls") == {}
            (told,) = [error for event, error in lab.told if event == "load"]
            assert told.startswith("It could not be restarted; the restart will be retried: not now (")

    asyncio.run(story())


def test_one_that_could_not_be_started_again_comes_back_without_being_asked(tmp_path: Path) -> None:
    unwell = Unwell(tmp_path)

    async def story() -> None:
        async with running(unwell.file) as lab:
            await lab.bash("drop")
            await lab.until(lambda: "load" in dict(lab.told))
            unwell.cured()
            await lab.until(lambda: lab.acts == [("set_session_name", {"name": "reload"})])
            assert await lab.bash("ls") == {}

    asyncio.run(story())


def test_however_many_need_one_that_cannot_be_started_it_is_tried_once_for_all_of_them(tmp_path: Path) -> None:
    unwell = Unwell(tmp_path)

    async def story() -> None:
        async with running(unwell.file) as lab:
            await lab.bash("drop")
            await lab.until(lambda: "load" in dict(lab.told))
            assert unwell.starts == 2
            blocked = await asyncio.gather(*(lab.bash("ls") for _ in range(50)))
            assert unwell.starts == 3 and all("not now" in one["reason"] for one in blocked)

    asyncio.run(story())


def test_a_reload_restarts_at_once_and_resets_the_restart_limit(tmp_path: Path) -> None:
    unwell = Unwell(tmp_path)

    async def story() -> None:
        async with running(unwell.file) as lab:
            await lab.bash("drop")
            await lab.until(lambda: "load" in dict(lab.told))
            await lab.reload(unwell.file)
            assert "not now" in (await lab.bash("ls"))["reason"]  # what it guarded stays shut
            unwell.cured()
            await lab.reload(unwell.file)
            assert await lab.bash("ls") == {}
            assert unwell.starts == 4

    asyncio.run(story())


# Gates that are registered in session_start.

LATE_GATE = """
    import os

    def setup(pi):
        @pi.on("session_start")
        async def start(event, ctx):
            {start}

            @pi.on("tool_call")
            def gate(event, ctx):
                pi.set_session_name("asked")
                return {{"block": True, "reason": "policy"}}

        @pi.tool
        def crash(): "Crash."; os._exit(9)
    """
POLICY = {"block": True, "reason": "policy"}


@asynccontextmanager
async def late_gate(folder: Path, start: str, **settings: int) -> AsyncIterator[tuple[Lab, Path]]:
    """An extension that has started, and has a gate since. `start` is what its session_start does before."""
    file = written(folder, LATE_GATE.format(start=start))
    async with running(file, settings=limits(load_timeout_ms=60_000, **settings)) as lab:
        await lab.shown("session_start", reason="startup")
        assert await lab.bash("ls") == POLICY
        lab.acts.clear()
        yield lab, file


class Waiting:
    """Answers get_commands when it is let go."""

    def __init__(self, lab: Lab) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        lab.answers["get_commands"] = lambda params: self._answer()

    async def _answer(self) -> list[Any]:
        self.asked.set()
        await self.go.wait()
        return []


@pytest.mark.promise("C18")
@pytest.mark.parametrize("again", ["crash", "reload"])
def test_a_gate_that_is_registered_in_session_start_is_waited_for(tmp_path: Path, again: str) -> None:
    async def story() -> None:
        async with asyncio.timeout(WITHIN), late_gate(tmp_path, "await pi.get_commands()") as (lab, file):
            waiting = Waiting(lab)
            work = asyncio.create_task(lab.reload(file) if again == "reload" else lab.tool("crash"))
            await waiting.asked.wait()
            call = asyncio.create_task(lab.bash("ls"))
            await asyncio.sleep(0)  # the call begins
            waiting.go.set()
            assert await call == POLICY
            assert lab.acts.count(("set_session_name", {"name": "asked"})) == 1
            await asyncio.wait([work])
            assert isinstance(work.exception(), ToolError if again == "crash" else type(None))
            assert await lab.bash("ls") == POLICY

    asyncio.run(story())


def test_a_process_that_ends_in_session_start_leaves_its_gates_shut(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    start = f"if event.reason == 'reload' and not os.path.exists({str(mark)!r}): open({str(mark)!r}, 'w'); os._exit(8)"

    async def story() -> None:
        async with late_gate(tmp_path, start) as (lab, _):
            with pytest.raises(ToolError):
                await lab.tool("crash")
            assert await lab.bash("ls") == POLICY
            assert ("session_start", "Its process ended with code 8.") in lab.told

    asyncio.run(story())


@pytest.mark.parametrize(
    ("start", "why"),
    [
        ("if event.reason == 'reload': raise ValueError('no policy')", "no policy"),
        ("if event.reason == 'reload': await asyncio.Event().wait()", "No answer within 0.3 s."),
    ],
)
def test_a_gate_stays_shut_if_session_start_fails_before_it_is_registered(tmp_path: Path, start: str, why: str) -> None:
    async def story() -> None:
        async with late_gate(tmp_path, f"import asyncio\n            {start}", observer_timeout_ms=300) as (lab, _):
            with pytest.raises(ToolError):
                await lab.tool("crash")
            missing = "It was restarted, but session_start failed and the gate is missing."
            assert missing in (await lab.bash("ls"))["reason"]
            assert ("session_start", why) in lab.told
            await lab.shown("session_start", reason="new")
            assert await lab.bash("ls") == POLICY

    asyncio.run(story())


@pytest.mark.parametrize("again", ["crash", "reload"])
def test_a_gated_call_that_session_start_waits_for_ends_with_the_time_limit(tmp_path: Path, again: str) -> None:
    async def story() -> None:
        start = "if event.reason == 'reload': await pi.get_commands()"
        async with asyncio.timeout(WITHIN), late_gate(tmp_path, start, observer_timeout_ms=300) as (lab, file):
            ended = asyncio.get_running_loop().create_future()

            async def gated(params: Any) -> None:
                ended.set_result(await lab.bash("ls"))

            lab.answers["get_commands"] = gated
            if again == "reload":
                await lab.reload(file)
            else:
                with pytest.raises(ToolError):
                    await lab.tool("crash")
            await ended
            assert ("session_start", "No answer within 0.3 s.") in lab.told

    asyncio.run(story())


def test_a_function_of_this_program_is_asked_once_by_a_call_that_waits_for_a_reload(tmp_path: Path) -> None:
    async def story() -> None:
        async with asyncio.timeout(WITHIN), late_gate(tmp_path, "await pi.get_commands()") as (lab, file):
            asked: list[Any] = []
            file.write_text(file.read_text().replace("True", "False"))  # the new gate lets everything pass
            await load_function(
                lab.extensions,
                lambda pi: pi.on("tool_call", lambda event, ctx: asked.append(event["input"])),
                "<inline:1>",
                lab.act,
                lambda: lab.facts,
            )
            waiting = Waiting(lab)
            work = asyncio.create_task(lab.reload(file))
            await waiting.asked.wait()
            call = asyncio.create_task(lab.bash("ls"))
            await asyncio.sleep(0)  # the call begins
            waiting.go.set()
            assert (await call, asked) == ({}, [{"command": "ls"}])
            await work

    asyncio.run(story())
