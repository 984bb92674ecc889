"""A wrong argument raises a UsageError that begins with the name of the parameter, in the words of the library."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import tau
from support.library_agent import HANGS, opened, play, says
from tau.cli.flags import FLAGS
from tau.library.arguments import OPEN
from tau.library.opening import Opening
from tau.library.wording import in_python

PARAMETERS = [option.name for option in fields(Opening) if option.init]
WRONG: dict[str, list[Any]] = {
    "scoped_models": ["claude", [1]],
    "thinking": ["huge", 3],
    "tools": ["read", [1]],
    "keys": [{"openai": 1}, [("openai", "k")]],
    "skills": ["folder", [1]],
    "templates": ["folder", None],
    "extensions": ["gate.py", [1]],
    "hooks": [{"tool_cal": print}, {"tool_call": 1}, {"tool_call": [1]}],
    "dialogs": [{"ask": print}, {"confirm": True}],
    "sandbox": ["off", True],
    "budget": [
        {"max_turns": 1},
        tau.Budget(max_turns="3"),  # type: ignore[arg-type]
        tau.Budget(max_turns=True),
        tau.Budget(max_tokens=1.5),  # type: ignore[arg-type]
        tau.Budget(max_turns=0),
        tau.Budget(time_limit=-1),
    ],
    "env": [{"A": 1}],
    "settings": ["retry"],
}


def test_every_parameter_of_open_is_checked() -> None:
    assert list(OPEN) == PARAMETERS


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_value_of_a_wrong_type_names_its_parameter(name: str) -> None:
    for value in [object(), *WRONG.get(name, ())]:
        with pytest.raises(tau.UsageError, match=rf"^{name}: "):
            tau.open(**{name: value})


def test_a_wrong_literal_names_the_values() -> None:
    with pytest.raises(tau.UsageError, match=r"^thinking: expected one of 'off', .*'max', or None but got 'huge'$"):
        tau.open(thinking="huge")  # type: ignore[arg-type]


def test_a_value_that_may_be_secret_is_not_shown() -> None:
    with pytest.raises(tau.UsageError) as raised:
        tau.open(api_key=b"sk-secret")  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"foo": 1}, "tau.open has no parameter 'foo'"),
        ({"modle": "x"}, "tau.open has no parameter 'modle'. Did you mean model or models?"),
        ({"hooks": {"tool_cal": print}}, "hooks: there is no hook 'tool_cal'. Did you mean tool_call or tool_result?"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(tau.UsageError) as raised:
        tau.open(**arguments)
    assert str(raised.value).startswith(message.partition(" Did")[0])


HOOK = "expected a function with the parameters (event) or (event, ctx) but got"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"permission": lambda tool: True},
            "permission: expected a function with the parameters (tool, input) but got (tool)",
        ),
        ({"permission": lambda: True}, "permission: expected a function with the parameters (tool, input) but got ()"),
        ({"hooks": {"tool_call": lambda: True}}, f"hooks: tool_call: {HOOK} ()"),
        ({"hooks": {"tool_call": [print, lambda a, b, c: None]}}, f"hooks: tool_call: {HOOK} (a, b, c)"),
        ({"hooks": {"tool_call": lambda event, *, ctx: None}}, f"hooks: tool_call: {HOOK} (event, ctx)"),
    ],
)
def test_a_function_with_other_parameters_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(tau.UsageError) as raised:
        tau.open(**arguments)
    assert str(raised.value) == message


def test_a_function_is_accepted_if_it_can_be_called() -> None:
    tau.open(permission=lambda tool, input, why="": True, hooks={"tool_call": lambda event: None})
    tau.open(permission=lambda *given: True, hooks={"tool_call": [lambda event, ctx: None, lambda *given: None]})
    tau.open(permission=dict.get, hooks={"tool_call": [print, dict, max]})  # without a signature, or with any arguments


def test_a_second_positional_argument_is_refused() -> None:
    with pytest.raises(tau.UsageError, match="one positional argument, cwd"):
        tau.open(".", "claude")  # type: ignore[call-arg]


def refused(folder: Path, **options: Any) -> str:
    async def story() -> str:
        with pytest.raises(tau.TauError) as raised:
            async with opened(folder, **options) as agent:
                await agent.prompt("hi")
        return str(raised.value)

    return play(story())


def test_a_prompt_in_place_of_a_folder_is_explained(tmp_path: Path) -> None:
    assert "a prompt is for `agent.prompt`" in refused(tmp_path, cwd="list the files")


@pytest.mark.parametrize(
    "options",
    [
        {"script": None, "model": "nosuchmodel"},
        {"script": None, "provider": "nosuchprovider"},
        {"script": None},
        {"script": None, "model": "scripted"},
        {"script": "missing.json"},
        {"script": None, "api_key": "k"},
        {"record": "a", "replay": "b"},
        {"replay": "missing"},
        {"permissions": "missing.json"},
        {"extensions": ["missing.py"]},
        {"session_id": "-"},
        {"session": "nosuch"},
        {"fork_of": "nosuch"},
    ],
)
def test_errors_name_parameters_not_flags(tmp_path: Path, options: dict[str, Any]) -> None:
    text = refused(tmp_path, **{"session": True, **options})
    assert not re.search(r"(?<!`tau )(?<!`pi )--[a-z]", text), text


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"session": "a.jsonl", "resume": True}, "session or resume"),
        ({"session": "01a1d", "session_id": "x"}, "session or session_id"),
        ({"session": True, "resume": True, "fork_of": "x"}, "resume or fork_of"),
    ],
)
def test_two_choices_of_a_session_are_refused(tmp_path: Path, options: dict[str, Any], names: str) -> None:
    assert refused(tmp_path, **options) == f"Give {names}, but not both: each chooses a session."


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("model", {"script": None, "model": "nosuchmodel"}),
        ("provider", {"script": None, "provider": "nosuchprovider"}),
        ("session", {"session": "nosuch"}),
        ("fork_of", {"session": True, "fork_of": "nosuch"}),
        ("replay", {"replay": "missing"}),
        ("permissions", {"permissions": "missing.json"}),
        ("extensions", {"extensions": ["missing.py"]}),
        ("settings", {"settings": {"nosuch": 1}}),
        ("tools", {"tools": ["nosuch"]}),
    ],
)
def test_a_value_that_does_not_exist_names_its_parameter(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    assert refused(tmp_path, **options).startswith(f"{name}: ")


def test_every_flag_has_a_name_in_the_library() -> None:
    for flag in FLAGS:
        assert "--" not in in_python(f"Use --{flag.name} for this.").replace("`tau --list-models`", "")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("--session-dir: there is no such folder", "session_dir: there is no such folder"),
        ("Without any key, --provider ollama asks a server", 'Without any key, provider="ollama" asks a server'),
        ("--replay /folder: there is no such folder.", "replay: /folder: there is no such folder."),
        ("--model scripted needs --script FILE", 'model="scripted" needs script'),
        ("Close it there, or start with --fork.", "Close it there, or start with fork_of."),
        ("Use --list-models to see available models.", "Run `tau --list-models` to see available models."),
        ("`--model demo` needs no key; `--record` records", '`model="demo"` needs no key; `record` records'),
        ("a -- b, fsmonitor--daemon, `pi --help`", "a -- b, fsmonitor--daemon, `pi --help`"),
    ],
)
def test_flags_become_parameters(message: str, expected: str) -> None:
    assert in_python(message) == expected


def test_a_second_prompt_is_refused_in_the_words_of_the_library(tmp_path: Path) -> None:
    async def story() -> list[str]:
        async with opened(tmp_path, HANGS) as agent:
            run = agent.prompt("one").start()
            async for _ in run:
                break
            with pytest.raises(tau.CommandError) as prompted:
                await agent.prompt("two")
            with pytest.raises(tau.CommandError) as sent:
                await agent.send_user_message("three")
            await agent.abort()
            return [str(prompted.value), str(sent.value)]

    first, second = play(story())
    assert "while_busy ('steer' or 'follow_up')" in first
    assert "deliver_as ('steer' or 'follow_up')" in second


def test_the_error_of_a_result_is_in_the_words_of_the_library(tmp_path: Path) -> None:
    async def story() -> str | None:
        fails = {"text": "x", "error": {"message": "401 Not recorded. Record it again with --record.", "after": 0}}
        async with opened(tmp_path, fails) as agent:
            return (await agent.prompt("hi")).error

    assert play(story()) == "401 Not recorded. Record it again with record."


def test_arguments_of_methods_are_checked(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, says("ok")) as agent:
            with pytest.raises(tau.UsageError, match=r"^text: expected a string but got int"):
                agent.prompt(1)  # type: ignore[call-overload]
            with pytest.raises(tau.UsageError, match=r"^images: expected a list of `tau.Image`s but got str$"):
                agent.prompt("look", "a.png")  # type: ignore[call-overload]
            with pytest.raises(tau.UsageError, match=r"^images\[1\]: expected a `tau.Image` but got str$"):
                agent.prompt("look", [tau.Image("", "image/png"), "a.png"])  # type: ignore[list-item]
            with pytest.raises(tau.UsageError, match=r"^while_busy: expected one of 'steer', 'follow_up'"):
                agent.prompt("hi", while_busy="followUp")  # type: ignore[call-overload]
            with pytest.raises(tau.UsageError, match=r"^text: "):
                await agent.steer(None)  # type: ignore[arg-type]
            with pytest.raises(tau.UsageError, match=r"^level: "):
                await agent.set_thinking("huge")  # type: ignore[arg-type]
            with pytest.raises(tau.UsageError, match=r"^mode: "):
                await agent.set_steering_mode("some")  # type: ignore[arg-type]
            with pytest.raises(tau.UsageError, match=r"^output_schema: "):
                agent.prompt("hi", output_schema=print)  # type: ignore[call-overload]

    play(story())


def test_warnings_do_not_go_to_stderr_but_to_logging(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text("{")
    program = "import tau.sync\nwith tau.sync.open(model='demo', session=False) as agent:\n    print(agent.warnings)"
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60)
    assert "settings.json" in done.stdout and done.stderr == ""

    async def story() -> list[str]:
        async with opened(tmp_path) as agent:
            return agent.warnings

    with caplog.at_level(logging.WARNING, "tau"):
        assert play(story())
    assert "settings.json" in caplog.text
