"""Extensions in processes of their own: what they are told, what they say, and how they end."""

from __future__ import annotations

import asyncio
import os
import py_compile
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.extension_processes import WITHIN, Found, limits, running, written
from tau.errors import Aborted, ExtensionFailure, ToolError
from tau.records.base import to_builtins
from tau.records.messages import Text
from tau.runtime.abort import AbortSignal
from tau.runtime.extensions.loader import load_function
from tau.runtime.extensions.model_streams import ModelStreams


def test_handlers_see_events_as_dicts_and_as_attributes(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.on("tool_call")
            def plain(event, ctx):
                if event["toolName"] == event.tool_name == "bash" and event.type == "tool_call":
                    return {"block": True, "reason": f"{event.input['command']} {event.nothing}"}
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            assert await lab.bash("ls") == {"block": True, "reason": "ls None"}
            assert lab.errors == []

    asyncio.run(story())


def test_arguments_can_be_changed_where_they_stand(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.on("tool_call")
            async def change(event, ctx):
                event.input["command"] += " -l"
        """,
    )

    async def story() -> None:
        async with running(file, written(tmp_path, file.read_text(), "two")) as lab:
            assert await lab.bash("ls") == {"input": {"command": "ls -l -l"}}

    asyncio.run(story())


CHANGES = [
    "event.input['command'] = 'safe'",
    "event.input = {'command': 'safe'}",
    "event['input'] = {'command': 'safe'}",
]


@pytest.mark.parametrize("answer", ["None", "{}", "{'block': False}", "{'input': None}", "True"])
@pytest.mark.parametrize("change", CHANGES)
def test_changed_arguments_count_whatever_the_handler_returns(tmp_path: Path, change: str, answer: str) -> None:
    file = written(
        tmp_path,
        f"""
        def setup(pi):
            @pi.on("tool_call")
            def sanitize(event, ctx):
                {change}
                return {answer}
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            assert await lab.bash("rm -rf /") == {"input": {"command": "safe"}}

    asyncio.run(story())


def test_arguments_that_are_returned_win_over_those_that_were_changed(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.on("tool_call")
            def change(event, ctx):
                event.input["command"] = "changed"
                return {"input": {"command": "returned"}}

            @pi.on("before_provider_headers")
            def add(event, ctx):
                event.headers["x-added"] = "1"
                return {}
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            assert await lab.bash("ls") == {"input": {"command": "returned"}}
            assert await lab.shown("before_provider_headers", headers={}) == {"headers": {"x-added": "1"}}

    asyncio.run(story())


def test_handlers_run_in_the_order_of_loading_then_of_registration(tmp_path: Path) -> None:
    source = """
        import time

        def setup(pi):
            time.sleep({wait})
            for number in (1, 2):
                def add(event, ctx, said="{name}" + str(number)):
                    return {{"messages": [*event.messages, said]}}

                pi.on("context", add)
        """
    first = written(tmp_path, source.format(wait=0.5, name="a"), "first")
    second = written(tmp_path, source.format(wait=0, name="b"), "second")

    async def story() -> None:
        async with running(first, second) as lab:
            assert await lab.shown("context", messages=[]) == {"messages": ["a1", "a2", "b1", "b2"]}

    asyncio.run(story())


def test_a_handler_can_be_taken_back(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.on("input")
            def once(event, ctx):
                pi.off(once)
                return {"action": "handled"}
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            assert await lab.shown("input", text="a") == {"action": "handled"}
            assert await lab.shown("input", text="b") == {}
            assert not lab.extensions.wants("input")

    asyncio.run(story())


def test_tools_return_text_or_content_and_report_how_far_they_are(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        import asyncio

        def setup(pi):
            async def count(call_id, params, ctx, update):
                for number in range(params["to"]):
                    update(f"{number}")
                    await asyncio.sleep(0)
                return {"content": [{"type": "text", "text": call_id}], "details": {"to": params["to"]}}

            pi.register_tool("count", "Counts.", {"type": "object"}, count, prompt_guidelines=["Count on it."])

            @pi.tool
            def add(a: int, b: int = 1) -> str:
                "Adds two numbers."
                return str(a + b)

            @pi.tool(name="fail")
            async def broken(ctx):
                raise ValueError("it is broken")
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            heard: list[Any] = []
            assert to_builtins(await lab.tool("count", heard, to=2)) == {
                "content": [{"type": "text", "text": "call"}],
                "details": {"to": 2},
            }
            assert [outcome.content[0].text for outcome in heard] == ["0", "1"]
            assert lab.extensions.tools["count"].guidelines == ("Count on it.",)
            add = lab.extensions.tools["add"]
            assert add.description == "Adds two numbers."
            assert add.parameters == {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a"],
            }
            assert to_builtins(await lab.tool("add", a=1, b=2)) == {"content": [{"type": "text", "text": "3"}]}
            with pytest.raises(ToolError, match=r"^it is broken$"):
                await lab.tool("fail")

    asyncio.run(story())


def test_a_tool_gets_the_types_of_its_annotations_whatever_their_names(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        from enum import Enum

        class Colour(Enum):
            RED = "r"

        def setup(pi):
            @pi.tool
            def show(self: Colour, function: tuple[int, str], params: set[int], call_id: int | None, ctx):
                return f"{self.name} {function} {params} {call_id} {type(ctx).__name__}"
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            assert lab.extensions.tools["show"].parameters["properties"]["call_id"] == {
                "anyOf": [{"type": "integer"}, {"type": "null"}]
            }
            outcome = await lab.tool(
                "show", self="r", function=[1, "x"], params=[2], call_id=None, ctx="of the model", unknown=1
            )
            assert outcome.content == [Text("RED (1, 'x') {2} None Context")]
            with pytest.raises(ToolError, match=r"^self: invalid enum value 'g'$"):
                await lab.tool("show", self="g", function=[1, "x"], params=[2], call_id=None)

    asyncio.run(story())


def test_actions_are_sent_or_awaited_and_facts_are_always_the_newest(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.command("try", description="Tries.")
            async def try_it(args, ctx):
                ctx.ui.notify(f"{ctx.session.name} {pi.get_active_tools()}", "info")
                answer = await ctx.ui.select("Which?", ["a", "b"], timeout=400)
                pi.send_message({"customType": "x", "content": answer, "display": True}, trigger_turn=True)
                run = await pi.exec("sh", ["-c", "echo $0; exit 3", "out"])
                pi.append_entry("done", run)
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            lab.answers = {"select": lambda params: params["options"][1]}
            lab.facts["sessionName"] = "new"
            command = lab.extensions.commands["try"]
            assert (command.path, command.description) == (str(file), "Tries.")
            await command.run("")
            await lab.until(lambda: len(lab.acts) == 4)
            message = {"customType": "x", "content": "b", "display": True}
            done = {"stdout": "out\n", "stderr": "", "code": 3, "killed": False}
            assert lab.acts == [
                ("notify", {"message": "new ['read']", "notifyType": "info"}),
                ("select", {"title": "Which?", "options": ["a", "b"], "timeout": 400}),
                ("send_message", {"message": message, "triggerTurn": True}),
                ("append_entry", {"customType": "done", "data": done}),
            ]

    asyncio.run(story())


def test_a_program_has_a_time_limit_and_need_not_exist(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.on("context")
            async def run(event, ctx):
                slow = await pi.exec("sleep", ["3600"], timeout=100)
                missing = await pi.exec("no-such-program-anywhere")
                return {"messages": [[slow.killed, slow.code], [missing.killed, missing.code, bool(missing.stderr)]]}
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            assert await lab.shown("context", messages=[]) == {"messages": [[True, -15], [False, 1, True]]}

    asyncio.run(story())


def test_an_action_that_fails_raises_where_it_is_awaited_and_is_reported_where_it_is_not(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.on("input")
            async def ask(event, ctx):
                pi.set_session_name("x")
                try:
                    await pi.get_commands()
                except Exception as error:
                    return {"action": "transform", "text": str(error)}
        """,
    )

    def refuse(params: dict[str, Any]) -> None:
        raise ExtensionFailure("not now")

    async def story() -> None:
        async with running(file) as lab:
            lab.answers = {"get_commands": refuse, "set_session_name": refuse}
            assert await lab.shown("input", text="a") == {"action": "transform", "text": "not now"}
            assert lab.told == [("set_session_name", "not now")]

    asyncio.run(story())


def test_acting_while_loading_is_refused_with_the_line(tmp_path: Path) -> None:
    file = written(tmp_path, "def setup(pi):\n    pi.set_session_name('x')\n")

    async def story() -> None:
        async with running(file) as lab:
            [(event, error)] = lab.told
            assert event == "load"
            assert "in a handler" in error and error.endswith(f"({file}:2)")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def setup(pi:\n", "{file}:1: "),
        ("import nowhere\n", "No module named 'nowhere' ({file}:1)"),
        ("x = 1\n", "{file} has no function setup(pi)"),
        ("def setup(pi):\n    raise ValueError('no')\n", "no ({file}:2)"),
        ("def setup(pi):\n    pi.on('nothing', print)\n", 'There is no event "nothing".'),
        (
            "def setup(pi):\n    @pi.tool\n    def f(x): return x\n",
            "f cannot be a tool: parameter x has no annotation; annotate it, or describe all parameters with "
            "@pi.tool(parameters=...) ({file}:2)",
        ),
        (
            "import threading\ndef setup(pi):\n    @pi.tool\n    def f(x: threading.Thread): return x\n",
            "f cannot be a tool: parameter x: Thread has no JSON Schema; use a dataclass",
        ),
        (
            "def setup(pi):\n    @pi.tool\n    def f(x: str): yield x\n",
            "f cannot be a tool: it yields; return a list ({file}:2)",
        ),
        (
            "def setup(pi):\n    @pi.tool(name='bad name!')\n    def f(x: str): return x\n",
            "bad name! cannot be a tool: name: 'bad name!' does not match [A-Za-z0-9_-]{{1,64}} ({file}:2)",
        ),
        (
            "def setup(pi):\n    pi.register_tool('f', 'd', {'type': 'string'}, print)\n",
            'f cannot be a tool: parameters: expected a schema with "type": "object" ({file}:2)',
        ),
        ("raise SystemExit(3)\n", "Its process ended with code 3."),
        ("import os; os._exit(4)\n", "Its process ended with code 4."),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n", "Its process was ended by SIGKILL."),
    ],
)
def test_what_cannot_be_loaded_is_reported_and_the_others_load(tmp_path: Path, source: str, said: str) -> None:
    bad = written(tmp_path, source, "bad")
    good = written(tmp_path, "def setup(pi):\n    pi.command('good')(print)\n", "good")

    async def story() -> None:
        async with running(bad, good) as lab:
            assert [(error.extension_path, error.event) for error in lab.errors] == [(str(bad), "load")]
            assert said.format(file=bad) in lab.errors[0].error
            assert list(lab.extensions.commands) == ["good"]
        with pytest.raises(ExtensionFailure, match=f"^Failed to load extension {bad}: "):
            async with running(good, Found(bad, given=True)):
                raise AssertionError("it must not start")

    asyncio.run(story())


@pytest.mark.promise("C20")
def test_loading_has_a_limit(tmp_path: Path) -> None:
    file = written(tmp_path, "import time\ntime.sleep(3600)\n")

    async def story() -> None:
        async with running(file, settings=limits(load_timeout_ms=300)) as lab:
            assert lab.told == [("load", "It was not loaded within 0.3 s.")]

    asyncio.run(story())


def test_a_package_imports_its_own_files_and_never_bytecode_that_lies_beside_them(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("from .part import NAME\n\ndef setup(pi):\n    pi.command(NAME)(print)\n")
    part = package / "part.py"
    part.write_text("NAME = 'evil'\n")
    py_compile.compile(str(part), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    part.write_text("NAME = 'good'\n")

    async def story() -> None:
        async with running(package) as lab:
            assert list(lab.extensions.commands) == ["good"]

    asyncio.run(story())
    assert {file.name for file in package.iterdir()} == {"__init__.py", "part.py", "__pycache__"}


def test_nothing_is_imported_from_the_folder_one_works_in_or_the_one_the_extension_is_in(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken')\n")
    (tmp_path / "asyncio.py").write_text("raise SystemExit('taken')\n")
    file = written(tmp_path, "import json, colorsys\n\ndef setup(pi):\n    pi.command(json.__name__)(print)\n")
    (tmp_path / "colorsys.py").write_text("raise SystemExit('taken')\n")

    async def story() -> None:
        async with running(file, folder=lambda: str(tmp_path)) as lab:
            assert (lab.errors, list(lab.extensions.commands)) == ([], ["json"])

    asyncio.run(story())


def test_the_first_registration_of_a_flag_keeps_its_name_and_commands_get_numbers(tmp_path: Path) -> None:
    source = "def setup(pi):\n    pi.register_command('same', print)\n    pi.register_flag('same')\n"
    first, second = written(tmp_path, source, "first"), written(tmp_path, source, "second")

    async def story() -> None:
        async with running(first, second) as lab:
            commands = {name: command.path for name, command in lab.extensions.commands.items()}
            assert commands == {"same:1": str(first), "same:2": str(second)}
            assert [(error.extension_path, error.error) for error in lab.errors] == [
                (str(second), "flag same: the name is already registered"),
            ]

    asyncio.run(story())


def test_flags_have_the_value_of_the_command_line_or_their_default(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            pi.register_flag("depth", str, "3", "How deep.")
            pi.register_flag("quick")
            pi.command(f"{pi.get_flag('depth')}-{pi.get_flag('quick')}")(print)
        """,
    )

    async def story() -> None:
        async with running(file, flags={"quick": True}) as lab:
            assert list(lab.extensions.commands) == ["3-True"]
            assert lab.extensions.flags["depth"] == {"type": "string", "default": "3", "description": "How deep."}

    asyncio.run(story())


def test_providers_come_and_go(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            pi.register_provider("mine", {"baseUrl": "http://localhost:1", "models": []})
            pi.on("input", lambda event, ctx: pi.unregister_provider("mine"))
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            changed: list[str] = []
            lab.extensions.changed = changed.append
            assert lab.extensions.providers == {"mine": {"baseUrl": "http://localhost:1", "models": []}}
            await lab.shown("input", text="")
            assert (lab.extensions.providers, changed) == ({}, ["provider"])

    asyncio.run(story())


def test_a_provider_that_cannot_be_one_is_reported_once_with_the_file_it_comes_from(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        async def stream(model, context, options):
            yield {}

        def setup(pi):
            pi.register_provider("none", {"models": 5})
            pi.register_provider("silent", {"stream": stream})
            pi.register_provider("mine", {"baseUrl": "http://localhost:1"})
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            assert list(lab.extensions.providers) == ["mine"]
            assert {(error.extension_path, error.event) for error in lab.errors} == {(str(file), "load")}
            assert [error.error.partition(":")[0] for error in lab.errors] == ["provider none", "provider silent"]

    asyncio.run(story())


def test_who_streams_an_answer_waits_for_those_who_read_it(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        said = 0

        async def stream(model, context, options):
            global said
            while said < 5_000:
                said += 1
                yield {"type": "text", "delta": str(said)}

        def setup(pi):
            pi.register_provider("mine", {"models": [{"id": "m"}], "stream": stream})

            @pi.tool
            async def count():
                return str(said)
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            reading = ModelStreams(lab.extensions).stream("mine", {"model": {}, "context": {}, "options": {}})
            first = await anext(reading)
            for _ in range(20):
                assert int((await lab.tool("count")).content[0].text) < 1_000
            pieces = [*first, *[piece async for portion in reading for piece in portion]]
            assert [piece["delta"] for piece in pieces] == [str(number) for number in range(1, 5_001)]

    asyncio.run(story())


def test_extensions_talk_to_each_other(tmp_path: Path) -> None:
    speaks = written(
        tmp_path, "def setup(pi):\n    pi.command('say')(lambda args, ctx: pi.events.emit('news', args))\n"
    )
    hears = written(
        tmp_path, "def setup(pi):\n    pi.events.on('news', lambda data: pi.set_session_name(data))\n", "two"
    )

    async def story() -> None:
        async with running(speaks, hears) as lab:
            await lab.extensions.commands["say"].run("it works")
            await lab.until(lambda: lab.acts)
            assert lab.acts == [("set_session_name", {"name": "it works"})]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("method", "test"),
    [
        ("confirm", 'not ctx.ui.confirm("Run?", "x")'),
        ("select", 'ctx.ui.select("Run?", ["yes", "no"]) == "no"'),
        ("input", 'ctx.ui.input("Run?") in ("", "no")'),
        ("editor", 'ctx.ui.editor("Run?") != "yes"'),
    ],
)
def test_a_guard_that_forgets_to_await_a_dialog_blocks_and_says_what_to_write(
    tmp_path: Path, method: str, test: str
) -> None:
    file = written(
        tmp_path,
        f"""
        def setup(pi):
            @pi.on("tool_call")
            def gate(event, ctx):
                if {test}:
                    return {{"block": True}}
        """,
    )
    call = f"ctx.ui.{method}(...)"
    reason = f"{call} has no answer yet; in an async function, write: await {call}"

    async def story() -> None:
        async with running(file) as lab:
            assert await lab.bash("ls") == {"block": True, "reason": reason}
            assert lab.acts == []

    asyncio.run(story())


def test_a_dialog_can_be_awaited_by_asyncio_in_every_way(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        import asyncio

        def setup(pi):
            @pi.on("tool_call")
            async def gate(event, ctx):
                ui = ctx.ui
                task = asyncio.create_task(ui.select("one", ["a"]))
                both = await asyncio.gather(ui.input("two"), ui.editor("three"))
                late = await asyncio.wait_for(ui.confirm("four"), 60)
                return {"block": True, "reason": f"{await task} {both} {late}"}

            @pi.on("context")
            def returned(event, ctx):
                return ctx.ui.select("five", ["b"])
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            lab.answers = {
                "select": lambda params: {"messages": [params["title"]]} if params["title"] == "five" else "a",
                "input": lambda params: "b",
                "editor": lambda params: None,
                "confirm": lambda params: 1,
            }
            assert await lab.bash("ls") == {"block": True, "reason": "a ['b', None] True"}
            assert await lab.shown("context", messages=[]) == {"messages": ["five"]}
            assert lab.errors == []

    asyncio.run(story())


def test_time_in_a_dialog_does_not_count(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.on("tool_call")
            async def gate(event, ctx):
                if not await ctx.ui.confirm("Sure?"):
                    return {"block": True, "reason": "no"}
        """,
    )

    async def story() -> None:
        async with running(file, settings=limits(handler_timeout_ms=2000, load_timeout_ms=60_000)) as lab:

            async def thinking(path: str, name: str, params: dict[str, Any], patience: Any) -> bool:
                with patience.paused():
                    await asyncio.sleep(2.5)
                return False

            lab.running._children[0]._act = thinking
            assert await lab.bash("ls") == {"block": True, "reason": "no"}
            assert lab.errors == []

    asyncio.run(story())


def test_an_abort_lets_go_of_a_handler_at_once_and_takes_its_dialog_away(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        def setup(pi):
            @pi.on("tool_call")
            async def gate(event, ctx):
                await ctx.ui.confirm("Sure?")
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            left = asyncio.Event()

            async def never() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    left.set()

            lab.answers = {"confirm": lambda params: never()}
            switch = AbortSignal()
            asking = asyncio.create_task(lab.extensions.fire("tool_call", {"input": {}}, switch))
            await lab.until(lambda: lab.acts)
            switch.abort()
            with pytest.raises(Aborted):
                await asking
            async with asyncio.timeout(WITHIN):
                await left.wait()
            lab.answers = {"confirm": lambda params: True}
            assert await lab.bash("ls") == {}
            assert lab.errors == []

    asyncio.run(story())


@pytest.mark.skipif(sys.platform != "linux", reason="needs descriptors for processes")
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_after_the_end_nothing_is_left(tmp_path: Path, end: str) -> None:
    file = written(
        tmp_path,
        """
        import os, subprocess

        def setup(pi):
            child = subprocess.Popen(["sleep", "3600"])
            pi.command(f"{os.getpid()}-{child.pid}")(print)
        """,
    )

    async def story() -> None:
        async with running(file) as lab:
            ends = [os.pidfd_open(int(pid)) for pid in next(iter(lab.extensions.commands)).split("-")]
            if end == "kill":
                lab.running.kill()
            else:
                await lab.running.stop()
            for process in ends:
                assert select.select([process], [], [], WITHIN)[0] == [process]
                os.close(process)

    asyncio.run(story())


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is needed")
def test_extensions_die_with_us(tmp_path: Path) -> None:
    file = written(tmp_path, "import os\n\ndef setup(pi):\n    pi.command(str(os.getpid()))(print)\n")
    script = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from pathlib import Path
from support.extension_processes import running

async def story():
    async with running(Path({str(file)!r})) as lab:
        print(*lab.extensions.commands, flush=True)
        await asyncio.Event().wait()

asyncio.run(story())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as us:
        assert us.stdout is not None
        process = os.pidfd_open(int(us.stdout.readline()))
        us.send_signal(signal.SIGKILL)
    assert select.select([process], [], [], WITHIN)[0] == [process]
    os.close(process)


def test_reloading_takes_the_files_as_they_are_now(tmp_path: Path) -> None:
    file = written(tmp_path, "def setup(pi):\n    pi.command('before')(print)\n")

    async def story() -> None:
        async with running(file) as lab:
            written(tmp_path, "def setup(pi):\n    pi.command('after')(print)\n")
            await lab.reload(file)
            assert list(lab.extensions.commands) == ["after"]

    asyncio.run(story())


def test_a_function_of_this_program_has_the_same_interface() -> None:
    def setup(pi: Any) -> None:
        @pi.on("tool_call")
        async def gate(event: Any, ctx: Any) -> dict[str, Any] | None:
            if await ctx.ui.confirm("Sure?", event.input["command"]):
                return None
            return {"block": True, "reason": "no"}

        @pi.tool
        def twice(text: str, ctx: Any) -> str:
            ctx.ui.notify(text)
            return text * 2

    async def story() -> None:
        async with running() as lab:
            lab.answers = {"confirm": lambda params: params["message"] == "ls"}
            line = await load_function(lab.extensions, setup, "<inline:1>", lab.act, lambda: lab.facts)
            assert await lab.bash("rm") == {"block": True, "reason": "no"}
            assert await lab.bash("ls") == {}
            assert to_builtins(await lab.tool("twice", text="ab")) == {"content": [{"type": "text", "text": "abab"}]}
            await lab.until(lambda: lab.acts[-1] == ("notify", {"message": "ab"}))
            line.clear()
            assert (lab.extensions.handlers, lab.extensions.tools) == ({}, {})

    asyncio.run(story())


# A coroutine that ends with a CancelledError which tau has not requested.
CANCELLED = """
    import asyncio

    async def awaits():
        other = asyncio.create_task(asyncio.sleep(60))
        other.cancel()
        await other

    async def cancels_itself():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
    """
SAID = "Something that it awaited was cancelled."


@pytest.mark.parametrize("how", ["awaits", "cancels_itself"])
def test_a_call_that_ends_cancelled_by_itself_is_answered_with_an_error(tmp_path: Path, how: str) -> None:
    registrations = f"""
    def setup(pi):
        @pi.tool
        async def stuck(): "Get stuck."; await {how}()

        @pi.command("stuck")
        async def command(args, ctx): await {how}()

        @pi.on("tool_call")
        async def gate(event, ctx): await {how}()
    """
    file = written(tmp_path, CANCELLED + registrations)

    async def story() -> None:
        async with asyncio.timeout(WITHIN), running(file) as lab:
            with pytest.raises(ToolError, match=SAID):
                await lab.tool("stuck")
            (command,) = lab.extensions.commands.values()
            with pytest.raises(ExtensionFailure, match=SAID):
                await lab.extensions.ask(command.run(""), None)
            assert await lab.bash("ls") == {"block": True, "reason": SAID}

    asyncio.run(story())


def test_a_setup_that_ends_cancelled_by_itself_is_a_failure_to_load(tmp_path: Path) -> None:
    file = written(tmp_path, CANCELLED + "\n    async def setup(pi): await awaits()\n")

    async def story() -> None:
        async with running(file) as lab:
            ((event, error),) = lab.told
            assert event == "load" and error.startswith(SAID)

    asyncio.run(story())


def test_a_function_of_this_program_that_ends_cancelled_by_itself_fails() -> None:
    async def awaits() -> None:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other

    def setup(pi: Any) -> None:
        pi.on("tool_call", lambda event, ctx: awaits())
        pi.register_tool("stuck", "Get stuck.", {"type": "object"}, lambda id, params: awaits())

    async def story() -> None:
        async with running() as lab:
            await load_function(lab.extensions, setup, "<inline:1>", lab.act, lambda: lab.facts)
            assert await lab.bash("ls") == {"block": True, "reason": SAID}
            with pytest.raises(RuntimeError, match=SAID):
                await lab.tool("stuck")
            with pytest.raises(ExtensionFailure, match=SAID):
                await load_function(lab.extensions, lambda pi: awaits(), "<inline:2>", lab.act, lambda: lab.facts)

    asyncio.run(story())
