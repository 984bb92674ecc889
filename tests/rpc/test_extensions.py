"""Extensions in the real program: how it begins with them, what they see of it, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.anthropic_server import ModelServer
from support.rpc_agent import Agent
from support.rpc_process import WITHIN, Json, Pipe, calls, command_line, endless, is_gone, of, surroundings, text, texts

TWIN = Path(__file__).parent.parent / "extensions" / "twin"


def written(folder: Path, code: str, name: str = "ext.py") -> Path:
    path = folder / name
    path.write_text(f"import asyncio\n\n\ndef setup(pi):\n{code}")
    return path


def guest(folder: Path, code: str, *answers: Json, args: tuple[str, ...] = (), settings: Json | None = None) -> Agent:
    path = written(folder, code)
    return Agent(folder, *answers, args=["-e", str(path), *args], settings=settings)


# The beginning.


def test_what_an_extension_shows_at_the_start_comes_before_any_response(tmp_path: Path) -> None:
    code = """
    @pi.on("session_start")
    async def begin(event, ctx):
        await asyncio.sleep(0.1)
        ctx.ui.notify(event["reason"] + " " + ctx.mode)
"""
    with guest(tmp_path, code) as agent:
        agent.get("get_state")
        first, second = agent.records
        assert (first["type"], first["message"], second["type"]) == ("extension_ui_request", "startup rpc", "response")


def test_a_dialog_at_the_start_can_be_answered(tmp_path: Path) -> None:
    code = """
    @pi.on("session_start")
    async def begin(event, ctx):
        ctx.ui.notify(str(await ctx.ui.input("Name?")))
"""
    with guest(tmp_path, code) as agent:
        waiting = agent.send("get_state")
        request = agent.until("extension_ui_request")[-1]
        agent.write(b'{"type":"extension_ui_response","id":"%b","value":"Ann"}\n' % request["id"].encode())
        assert agent.response(waiting)["success"]
        assert [event.get("message") for event in agent.events] == [None, "Ann"]


def test_an_abort_is_heard_while_an_extension_hangs_at_the_start(tmp_path: Path) -> None:
    code = """
    @pi.on("session_start")
    async def begin(event, ctx):
        ctx.ui.notify("begun")
        await asyncio.Event().wait()
"""
    with guest(tmp_path, code, settings={"extensionHost": {"observerTimeoutMs": 3_600_000}}) as agent:
        agent.until("extension_ui_request")
        assert agent.ask("abort")["success"]
        assert agent.ask("get_state")["success"]


@pytest.mark.parametrize("hook", ["project_trust", "session_start", "resources_discover"])
def test_an_abort_during_any_start_up_hook_is_answered_and_the_program_continues(tmp_path: Path, hook: str) -> None:
    code = f"""
    @pi.on("{hook}")
    async def begin(event, ctx):
        ctx.ui.notify("begun")
        await asyncio.Event().wait()
"""
    project = tmp_path / "work" / ".pi"
    project.mkdir(parents=True)
    (project / "settings.json").write_text('{"steeringMode": "all"}')
    limits = {"observerTimeoutMs": 3_600_000, "handlerTimeoutMs": 3_600_000}
    with guest(tmp_path, code, settings={"extensionHost": limits}) as agent:
        before = agent.send("get_state")
        agent.until("extension_ui_request")
        aborted, behind = agent.send("abort"), agent.send("get_state")
        assert [agent.response(id)["success"] for id in (before, aborted, behind)] == [True, True, True]
        agent.prompt("go on")
        agent.close()
        assert agent.exit_code() == 0
        assert len(agent.responses) == 4


@pytest.mark.promise("C13", "C14")
@pytest.mark.parametrize(
    "code", ["    raise ValueError('no')\n", "    this is no Python\n", "    import no_such_thing\n"]
)
def test_one_that_was_asked_for_and_cannot_be_loaded_ends_the_program(tmp_path: Path, code: str) -> None:
    path = written(tmp_path, code, "broken.py")
    argv = [*command_line(), "--model", "demo", "-e", str(path)]
    done = subprocess.run(
        argv, input=b'{"type":"get_state"}\n', capture_output=True, timeout=WITHIN, env=surroundings(tmp_path)
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"broken.py" in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.promise("C20", "G14")
def test_one_that_is_found_and_cannot_be_loaded_is_reported_and_the_rest_works(tmp_path: Path) -> None:
    folder = tmp_path / "agent" / "extensions"
    folder.mkdir(parents=True)
    written(folder, "    raise ValueError('no good')\n", "a.py")
    written(folder, "    while True: pass\n", "b.py")
    written(folder, "    pi.on('session_start', lambda event, ctx: ctx.ui.notify('hello'))\n", "c.py")
    with Agent(tmp_path, settings={"extensionHost": {"loadTimeoutMs": 5000}}) as agent:
        assert agent.prompt("go")
        errors = of("extension_error", agent.events)
        assert [(Path(one["extensionPath"]).name, one["event"]) for one in errors] == [
            ("a.py", "load"),
            ("b.py", "load"),
        ]
        assert "no good" in errors[0]["error"]
        assert [one["message"] for one in of("extension_ui_request", agent.events)] == ["hello"]


@pytest.mark.parametrize(
    ("given", "flags", "told"),
    [
        (("--plan", "--style=bold"), "True bold usual", []),
        (("--style", "bold", "--plan", "--other", "x y"), "True bold x y", []),
        (("--plan", "word"), "True plain usual", []),
        (("--style", "--plan"), "True plain usual", ["option --style needs a value; ignored"]),
        (("--plan=yes", "--style="), "None  usual", ["option --plan takes no value; ignored"]),
    ],
)
def test_options_that_tau_does_not_know_are_for_extensions(
    tmp_path: Path, given: tuple[str, ...], flags: str, told: list[str]
) -> None:
    code = """
    pi.register_flag("plan")
    pi.register_flag("style", type=str, default="plain")
    pi.register_flag("other", type=str, default="usual")

    @pi.on("session_start")
    def begin(event, ctx):
        ctx.ui.notify(f"{pi.get_flag('plan')} {pi.get_flag('style')} {pi.get_flag('other')}")
"""
    with guest(tmp_path, code, args=given) as agent:
        assert agent.until("extension_ui_request")[-1]["message"] == flags
        agent.get("get_state")
        assert [line.partition("WARNING: ")[2] for line in agent.stderr.splitlines()] == told


def test_an_option_that_no_extension_knows_either_is_refused(tmp_path: Path) -> None:
    with guest(tmp_path, "    pi.register_flag('plan')\n", args=("--plan", "--nobody")) as agent:
        assert agent.exit_code() == 2
        assert "Unknown option: --nobody." in agent.stderr


def test_commands_of_extensions_are_listed_first(tmp_path: Path) -> None:
    code = "    pi.register_command('hello', lambda args, ctx: None, 'Say hello')\n"
    with guest(tmp_path, code) as agent:
        path = str(tmp_path / "ext.py")
        assert agent.get("get_commands")["commands"][0] == {
            "name": "hello",
            "description": "Say hello",
            "source": "extension",
            "path": path,
            "sourceInfo": {"path": path, "source": "cli", "scope": "temporary", "origin": "top-level"},
        }


def test_commands_say_where_their_extension_was_found(tmp_path: Path) -> None:
    (tmp_path / "agent" / "extensions").mkdir(parents=True)
    found = written(tmp_path / "agent" / "extensions", "    pi.register_command('found', lambda args, ctx: None)\n")
    listed = written(tmp_path, "    pi.register_command('listed', lambda args, ctx: None)\n", "listed.py")
    with Agent(tmp_path, settings={"extensions": [str(listed)]}) as agent:
        commands = agent.get("get_commands")["commands"]
    assert {command["name"]: command["sourceInfo"] for command in commands} == {
        "found": {
            "path": str(found),
            "source": "auto",
            "scope": "user",
            "origin": "top-level",
            "baseDir": str(tmp_path / "agent"),
        },
        "listed": {"path": str(listed), "source": "local", "scope": "user", "origin": "top-level"},
    }


def test_a_message_for_the_user_may_be_a_command_if_the_extension_wants_that(tmp_path: Path) -> None:
    code = """
    @pi.command("note")
    async def note(args, ctx):
        ctx.ui.notify("noted " + args)

    @pi.on("agent_settled")
    def settled(event, ctx):
        if not asked:
            asked.append(1)
            pi.send_user_message("/note this", expand_prompt_templates=True)
            pi.send_user_message("/note that")

    asked = []
"""
    with guest(tmp_path, code) as agent:
        agent.prompt("go")
        agent.settled()
        assert [one["message"] for one in agent.events if one.get("method") == "notify"] == ["noted this"]
        asked = [one["message"] for one in of("message_end", agent.events) if one["message"]["role"] == "user"]
        assert [text(one) for one in asked] == ["go", "/note that"]


# Calling off.


def test_what_can_be_called_off_is_called_off(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["-e", str(TWIN / "c.py")]) as agent:
        agent.prompt("first")
        before = agent.get("get_state")["sessionId"]
        assert agent.get("new_session") == {"cancelled": True}
        assert agent.get("switch_session", sessionPath="other.jsonl") == {"cancelled": True}
        entry = agent.get("get_fork_messages")["messages"][0]["entryId"]
        assert agent.get("fork", entryId=entry) == {"text": "first", "cancelled": True}
        assert agent.get("clone") == {"cancelled": True}
        assert agent.get("get_state")["sessionId"] == before


def test_a_compaction_that_is_called_off_is_an_error(tmp_path: Path) -> None:
    long = "so many words " * 200
    settings = {"compaction": {"keepRecentTokens": 1}}
    with Agent(tmp_path, {"text": long}, args=["-e", str(TWIN / "c.py")], settings=settings) as agent:
        agent.prompt(long)
        agent.prompt(long)
        assert agent.ask("compact")["error"] == "Compaction cancelled"


# What they add.


@pytest.mark.process
def test_a_tool_of_an_extension_runs_and_shows_its_progress(tmp_path: Path) -> None:
    code = """
    async def greet(call_id, params, ctx, update):
        update("thinking")
        return f"Hello {params['name']} ({call_id})"

    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    pi.register_tool("greet", "Greet somebody.", schema, greet)
"""
    calling = {"blocks": [{"tool": "greet", "arguments": {"name": "Ann"}, "id": "call_1"}]}
    with guest(tmp_path, code, calling, {"text": "done"}) as agent:
        events = agent.prompt("go")
        assert [text(one["partialResult"]) for one in of("tool_execution_update", events)] == ["thinking"]
        (end,) = of("tool_execution_end", events)
        assert (end["isError"], text(end["result"])) == (False, "Hello Ann (call_1)")


def test_requests_to_the_model_can_be_changed_and_their_answers_watched(tmp_path: Path) -> None:
    code = """
    @pi.on("before_agent_start")
    def start(event, ctx):
        return {"systemPrompt": "Be brief."}

    @pi.on("before_provider_headers")
    def headers(event, ctx):
        return {"headers": {**event["headers"], "x-mine": "1"}}

    @pi.on("before_provider_request")
    def request(event, ctx):
        return {**event["payload"], "metadata": {"user_id": "me"}}

    @pi.on("after_provider_response")
    def response(event, ctx):
        ctx.ui.notify(f"{event['status']} {event['headers'].get('content-type')}")
"""
    with ModelServer("fine") as server:
        path = written(tmp_path, code)
        args = ["-e", str(path), "--provider", "mock", "--model", "m1"]
        with Agent(tmp_path, models=server.models, args=args, offline=False) as agent:
            events = agent.prompt("go")
        assert texts(events, "assistant") == ["fine"]
        assert [one["message"] for one in of("extension_ui_request", events)] == ["200 text/event-stream"]
        (asked,) = server.asked
        assert asked["metadata"] == {"user_id": "me"}
        assert "Be brief." in str(asked["system"])


def test_a_model_that_an_extension_brings_can_be_chosen(tmp_path: Path) -> None:
    with ModelServer("from afar") as server:
        provider = server.models["providers"]["mock"]
        code = f"    pi.register_provider('mine', {provider!r})\n"
        with guest(tmp_path, code) as agent:
            assert agent.get("set_model", provider="mine", modelId="m1")["id"] == "m1"
            assert texts(agent.prompt("go"), "assistant") == ["from afar"]


# Aborting, and the end.

HANGING = {
    "hook": ("@pi.on('agent_start')\n    async def wait(event, ctx):", "go"),
    "gate": ("@pi.on('tool_call')\n    async def wait(event, ctx):", "go"),
    "input": ("@pi.on('input')\n    async def wait(event, ctx):", "go"),
    "command": ("@pi.command('wait')\n    async def wait(args, ctx):", "/wait"),
    "tool": ("@pi.tool\n    async def wait(ctx):", "tool"),
}


@pytest.mark.promise("C22", "C24")
@pytest.mark.parametrize("where", HANGING)
@pytest.mark.parametrize("how", ["sleeps", "loops"])
def test_an_abort_is_answered_whatever_an_extension_does(tmp_path: Path, where: str, how: str) -> None:
    head, message = HANGING[where]
    hang = "await asyncio.Event().wait()" if how == "sleeps" else "while True: pass"
    code = f"    {head}\n        ctx.ui.notify('begun')\n        await asyncio.sleep(0.05)\n        {hang}\n"
    answers = [{"blocks": [{"tool": "wait", "arguments": {}}]}] if message == "tool" else [calls("echo hi")]
    with guest(tmp_path, code, *answers, {"text": "done"}) as agent:
        agent.send("prompt", message=message)
        agent.until("extension_ui_request")
        assert agent.ask("abort", within=10)["success"]
        assert agent.get("get_state")["isStreaming"] is False


@pytest.mark.promise("C23")
@pytest.mark.parametrize("how", ["signal", "end"])
def test_the_end_is_reported_to_extensions_which_cannot_hold_it_up(tmp_path: Path, how: str) -> None:
    code = f"""
    import os, pathlib

    @pi.on("session_start")
    def begin(event, ctx):
        ctx.ui.notify(str(os.getpid()))

    @pi.on("session_shutdown")
    async def end(event, ctx):
        pathlib.Path({str(tmp_path / "told")!r}).write_text(event["reason"])
        await asyncio.Event().wait()
"""
    with guest(tmp_path, code, endless("busy")) as agent:
        pid = int(agent.until("extension_ui_request")[-1]["message"])
        if how == "signal":
            agent.ask("prompt", message="go")
            os.kill(agent.pid, signal.SIGTERM)
        else:
            agent.close()
        assert agent.exit_code() == (143 if how == "signal" else 0)
        assert (tmp_path / "told").read_text() == "quit"
        assert is_gone(pid, within=WITHIN)


@pytest.mark.process
def test_a_signal_ends_it_while_an_extension_hangs_at_load_and_takes_that_along(tmp_path: Path) -> None:
    pipe = tmp_path / "pid"
    code = f"""
    import os
    with open({str(pipe)!r}, "w") as file:
        file.write(f"{{os.getpid()}}\\n")
    while True:
        pass
"""
    with Pipe(pipe) as told, guest(tmp_path, code, settings={"extensionHost": {"loadTimeoutMs": 3_600_000}}) as agent:
        pid = int(told.line())
        os.kill(agent.pid, signal.SIGTERM)
        assert agent.exit_code() == 143
        assert is_gone(pid, within=WITHIN)


def test_an_extension_ends_the_program_when_nothing_runs(tmp_path: Path) -> None:
    code = """
    @pi.command("bye")
    async def bye(args, ctx):
        ctx.shutdown()
"""
    with guest(tmp_path, code) as agent:
        agent.ask("prompt", message="/bye")
        assert agent.exit_code() == 0


def test_a_command_that_is_piped_in_is_carried_out_before_the_end(tmp_path: Path) -> None:
    code = """
    @pi.command("ask")
    async def ask(args, ctx):
        await asyncio.sleep(0.1)
        pi.send_user_message("from me: " + args)
        await asyncio.sleep(0.1)
        await ctx.wait_for_idle()
        ctx.ui.notify("over")
"""
    with guest(tmp_path, code) as agent:
        agent.write(b'{"type":"prompt","message":"/ask now"}\n')
        agent.close()
        assert agent.exit_code() == 0
        assert texts(agent.events, "user") == ["from me: now"]
        assert agent.events[-1]["message"] == "over"


def test_extensions_can_be_reloaded(tmp_path: Path) -> None:
    code = """
    @pi.on("session_start")
    def begin(event, ctx):
        ctx.ui.notify(event["reason"])

    @pi.command("again")
    async def again(args, ctx):
        await ctx.reload()
"""
    with guest(tmp_path, code) as agent:
        agent.ask("prompt", message="/again")
        told = agent.until(lambda event: event.get("message") == "reload")
        assert [event["message"] for event in told] == ["startup", "reload"]
        assert agent.ask("prompt", message="/again")["success"]
        agent.until(lambda event: event.get("message") == "reload")
        assert of("extension_error", agent.events) == []


def test_a_reload_that_is_asked_for_during_another_is_carried_out_after_it(tmp_path: Path) -> None:
    code = f"""
    @pi.on("session_start")
    async def begin(event, ctx):
        ctx.ui.notify(event["reason"])
        while event["reason"] == "reload" and not os.path.exists({str(tmp_path / "go")!r}):
            await asyncio.sleep(0.01)

    @pi.command("again")
    async def again(args, ctx):
        await ctx.reload()
        ctx.ui.notify("asked")
"""
    with guest(tmp_path, "    import os\n" + code) as agent:
        agent.ask("prompt", message="/again")
        agent.until(lambda event: event.get("message") == "reload")
        agent.ask("prompt", message="/again")
        agent.until(lambda event: event.get("message") == "asked")
        (tmp_path / "go").touch()
        agent.until(lambda event: event.get("message") == "reload")
        assert of("extension_error", agent.events) == []


def test_an_abort_during_a_reload_does_not_make_it_fail(tmp_path: Path) -> None:
    code = """
    @pi.on("resources_discover")
    async def discover(event, ctx):
        ctx.ui.notify(event["reason"])
        if event["reason"] == "reload":
            await asyncio.Event().wait()

    @pi.command("again")
    async def again(args, ctx):
        await ctx.reload()
"""
    with guest(tmp_path, code, settings={"extensionHost": {"handlerTimeoutMs": 3_600_000}}) as agent:
        for _ in range(2):
            agent.ask("prompt", message="/again")
            agent.until(lambda event: event.get("message") == "reload")
            assert agent.ask("abort")["success"]
        assert of("extension_error", agent.events) == []


@pytest.mark.parametrize("words", [["--model", "mine/m1"], ["--provider", "mine"], ["--model", "m1:high"], []])
def test_a_model_that_an_extension_brings_can_be_asked_for_at_the_start(tmp_path: Path, words: list[str]) -> None:
    with ModelServer("from afar") as server:
        provider = server.models["providers"]["mock"]
        path = written(tmp_path, f"    pi.register_provider('mine', {provider!r})\n")
        settings = {"defaultProvider": "mine", "defaultModel": "m1"} if not words else None
        with Agent(tmp_path, args=["-e", str(path), *words], settings=settings, offline=False) as agent:
            assert texts(agent.prompt("go"), "assistant") == ["from afar"]
            assert agent.stderr == ""


def test_a_session_goes_on_with_the_model_that_an_extension_brings(tmp_path: Path) -> None:
    with ModelServer("from afar") as server:
        provider = server.models["providers"]["mock"]
        path = written(tmp_path, f"    pi.register_provider('mine', {provider!r})\n")
        models = {"providers": {"other": provider}}
        with Agent(tmp_path, args=["-e", str(path), "--model", "mine/m1"], models=models, offline=False) as agent:
            agent.prompt("go")
        args = ["-e", str(path), "--continue"]
        with Agent(tmp_path, args=args, settings={"defaultProvider": "other"}, models=models, offline=False) as agent:
            assert agent.get("get_state")["model"]["provider"] == "mine"


@pytest.mark.parametrize("words", [["--model", "nobody/has-it"], ["--provider", "nobody"]])
def test_an_unknown_model_ends_the_program_after_loading_extensions(tmp_path: Path, words: list[str]) -> None:
    path = written(tmp_path, "    pass\n")
    argv = [*command_line(), "-e", str(path), *words]
    done = subprocess.run(
        argv, input=b'{"type":"get_state"}\n', capture_output=True, timeout=WITHIN, env=surroundings(tmp_path)
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Error: ") and b"nobody" in done.stderr


@pytest.mark.process
def test_what_an_extension_has_queued_outlives_the_process(tmp_path: Path) -> None:
    code = """
    @pi.on("agent_start")
    def begin(event, ctx):
        pi.send_message({"customType": "note", "content": "do not forget", "display": True}, deliver_as="followUp")
"""
    with guest(tmp_path, code, endless("busy")) as agent:
        agent.ask("prompt", message="go")
        agent.until(lambda event: event.get("followUp") == ["do not forget"])
        file = agent.get("get_state")["sessionFile"]
        os.kill(agent.pid, signal.SIGKILL)
        agent.exit_code()
    with Agent(tmp_path, args=["--session", file]) as agent:
        assert agent.get("get_state")["pendingMessageCount"] == 1


SLEEPS = "await asyncio.sleep(3600)"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("raise ValueError('no way there')", "no way there"),
        ("return {'operations': {}}", "operations: not supported here"),
        (SLEEPS, "No answer within 0.5 s."),
    ],
)
def test_a_command_is_not_run_when_an_extension_that_might_run_it_elsewhere_fails(
    tmp_path: Path, answer: str, why: str
) -> None:
    code = f"""
    @pi.on("user_bash")
    async def elsewhere(event, ctx):
        {answer}
"""
    settings = {"extensionHost": {"handlerTimeoutMs": 500}} if answer == SLEEPS else None
    with guest(tmp_path, code, settings=settings) as agent:
        response = agent.ask("bash", command="touch ran")
        assert not response["success"] and why in response["error"]
        assert not (agent.cwd / "ran").exists()


# Loading anew.

AGAIN = """
    @pi.command("again")
    async def again(args, ctx):
        await ctx.reload()

    @pi.on("session_start")
    def begin(event, ctx):
        ctx.ui.notify(event["reason"])
"""


def reloaded(agent: Agent) -> None:
    agent.ask("prompt", message="/again")
    agent.until(lambda event: event.get("message") == "reload")


def test_a_reload_of_extensions_reads_settings_and_trust_again(tmp_path: Path) -> None:
    with guest(tmp_path, AGAIN) as agent:
        agent.settings_file.write_text('{"followUpMode": "all"}')
        project = agent.cwd / ".pi"
        (project / "extensions").mkdir(parents=True)
        (project / "settings.json").write_text('{"steeringMode": "all"}')
        written(project / "extensions", "    pi.register_command('hello', print)\n")
        reloaded(agent)
        state = agent.get("get_state")
        assert (state["steeringMode"], state["followUpMode"]) == ("one-at-a-time", "all")
        assert "This project is not trusted" in agent.stderr
        env = surroundings(tmp_path)
        subprocess.run(
            [sys.executable, "-m", "tau", "trust", agent.cwd], env=env, check=True, stdout=subprocess.DEVNULL
        )
        reloaded(agent)
        assert agent.get("get_state")["steeringMode"] == "all"
        names = [command["name"] for command in agent.get("get_commands")["commands"]]
        assert names == ["again", "hello"]


def test_a_reload_holds_calls_until_session_start_has_registered_the_gate(tmp_path: Path) -> None:
    code = """
    @pi.command("again")
    async def again(args, ctx):
        await ctx.reload()

    @pi.on("session_start")
    async def begin(event, ctx):
        if event["reason"] == "reload":
            await ctx.ui.input("Policy?")

        @pi.on("tool_call")
        def gate(event, ctx):
            return {"block": True, "reason": "policy"}
"""
    with guest(tmp_path, code, calls("touch ran"), {"text": "done"}) as agent:
        agent.ask("prompt", message="/again")
        request = agent.until("extension_ui_request")[-1]
        agent.send("prompt", message="go")
        agent.until(lambda event: event["type"] == "message_end" and event["message"]["role"] == "assistant")
        agent.write(b'{"type":"extension_ui_response","id":"%b","value":"strict"}\n' % request["id"].encode())
        (end,) = of("tool_execution_end", agent.until("agent_end"))
        assert (end["isError"], text(end["result"])) == (True, "policy")
        assert not (agent.cwd / "ran").exists()


def test_a_gate_that_cannot_be_reloaded_stays_closed(tmp_path: Path) -> None:
    gate = """
    @pi.on("tool_call")
    def gate(event, ctx):
        return None
"""
    folder = tmp_path / "agent" / "extensions"
    folder.mkdir(parents=True)
    written(folder, gate, "gate.py")
    with guest(tmp_path, AGAIN, calls("echo hi"), {"text": "ok"}, calls("echo hi"), {"text": "ok"}) as agent:
        assert [end["isError"] for end in of("tool_execution_end", agent.prompt("go"))] == [False]
        written(folder, "    raise ValueError('half done')\n", "gate.py")
        reloaded(agent)
        (end,) = of("tool_execution_end", agent.prompt("go"))
        assert end["isError"] and "half done" in text(end["result"])
        assert [error["event"] for error in of("extension_error", agent.events)] == ["load", "tool_call"]


def test_calls_wait_at_a_gate_during_a_reload(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    gate = f"""
    import os
    if os.path.exists({str(pipe)!r}):
        open({str(pipe)!r}).read()

    @pi.on("tool_call")
    def gate(event, ctx):
        return {{"block": True, "reason": "shut"}}
"""
    folder = tmp_path / "agent" / "extensions"
    folder.mkdir(parents=True)
    written(folder, gate, "gate.py")
    with guest(tmp_path, AGAIN, calls("echo hi"), {"text": "ok"}) as agent:
        agent.get("get_state")
        os.mkfifo(pipe)
        agent.ask("prompt", message="/again")
        with pipe.open("w"):  # it is being loaded now
            agent.send("prompt", message="go")
            agent.until("tool_execution_start")
        (end,) = of("tool_execution_end", agent.settled())
        assert text(end["result"]) == "shut"


def test_the_extensions_that_are_there_stay_when_one_that_was_named_is_gone(tmp_path: Path) -> None:
    with guest(tmp_path, AGAIN) as agent:
        agent.get("get_state")
        (tmp_path / "ext.py").unlink()
        agent.ask("prompt", message="/again")
        error = agent.until("extension_error")[-1]
        assert (error["extensionPath"], error["event"]) == ("<runtime>", "reload")
        assert agent.get("get_commands")["commands"][0]["name"] == "again"


# Handlers that are only told.


@pytest.mark.promise("C15", "C21")
@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("raise ValueError('on purpose')", "on purpose"),
        ("await asyncio.Event().wait()", "No answer within 0.5 s."),
        ("while True: pass", "No answer within 0.5 s."),
    ],
    ids=["raises", "hangs", "loops"],
)
def test_a_run_goes_on_whatever_becomes_of_those_who_are_only_told(tmp_path: Path, does: str, why: str) -> None:
    code = f"""
    @pi.on("turn_start")
    async def told(event, ctx):
        {does}
"""
    patience = 60_000 if "raise" in does else 500
    settings = {"extensionHost": {"observerTimeoutMs": patience, "loadTimeoutMs": 60_000}}
    with guest(tmp_path, code, calls("echo done"), {"text": "ok"}, settings=settings) as agent:
        events = agent.prompt("go")
        assert (texts(events, "toolResult"), texts(events, "assistant")) == (["done\n"], ["", "ok"])
        first, *_ = of("extension_error", agent.events)
        assert (first["event"], why in first["error"]) == ("turn_start", True)
        assert texts(agent.prompt("again"), "assistant") == ["ok"]


# Sessions that were left.


def test_a_message_sent_in_a_session_that_was_left_does_not_start_a_run_in_the_next(tmp_path: Path) -> None:
    """The event loop of the extension is blocked, so it does not know yet of the new session when it sends."""
    blocked, go_on = tmp_path / "blocked", tmp_path / "go_on"
    code = f"""
    import asyncio, os

    @pi.command("later", description="Send a message when a file appears")
    async def later(args, ctx):
        open({str(blocked)!r}, "w").close()
        while not os.path.exists({str(go_on)!r}):
            await asyncio.sleep(0.01)
        pi.send_message({{"customType": "note", "content": "late", "display": True}}, trigger_turn=True)

    @pi.command("again", description="Send a message now")
    async def again(args, ctx):
        pi.send_message({{"customType": "note", "content": "in time", "display": True}}, trigger_turn=True)
"""
    with guest(tmp_path, code) as agent:
        agent.get("prompt", message="/later")
        deadline = time.monotonic() + WITHIN
        while not blocked.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        agent.get("new_session")
        go_on.touch()
        error = agent.until("extension_error")[-1]
        assert error["event"] == "command"
        assert error["error"].startswith("This pi or ctx belongs to a session that has been left")
        assert agent.get("get_state")["messageCount"] == 0
        agent.send("prompt", message="/again")
        agent.until("agent_settled")
        assert [message["role"] for message in agent.get("get_messages")["messages"]] == ["custom", "assistant"]
