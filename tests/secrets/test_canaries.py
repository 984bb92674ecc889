"""No secret of the user gets to where it does not belong, whatever a server does with it: all bytes are searched."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli_process import PI
from support.rpc_process import Agent, texts
from support.secret_canaries import BAD, Echo, Nest
from tau.runtime.terminal import LogFormatter
from tau.store.keys import Keys

APIS = ["anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai"]


class Overheard(Agent):
    """An agent whose every byte is kept."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self.lines: list[bytes] = []
        super().__init__(*args, **named)

    def _note(self, lines: Iterable[bytes]) -> None:
        kept = list(lines)
        self.lines += kept
        super()._note(kept)


@pytest.fixture
def server() -> Iterator[Echo]:
    with Echo() as server:
        yield server


def opened(nest: Nest, *args: str) -> Overheard:
    more = [*nest.args, *args]
    return Overheard(nest.folder, settings=nest.settings, models=nest.models, args=more, offline=False, env=nest.env)


def run(nest: Nest, *args: str, script: list[str] | None = None) -> subprocess.CompletedProcess[bytes]:
    command = script or [*PI, *nest.args]
    return subprocess.run(
        [*command, *args],
        cwd=nest.folder / "work",
        env=nest.surroundings(),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.mark.promise("G12", "F07")
@pytest.mark.parametrize("api", APIS)
def test_nothing_that_a_server_repeats_gets_out_of_rpc_mode(tmp_path: Path, server: Echo, api: str) -> None:
    nest = Nest(tmp_path, server, api)
    with opened(nest, "--record", str(tmp_path / "recordings")) as agent:
        for provider in nest.providers:
            agent.get("set_model", provider=provider, modelId="m1")
            for way in BAD:
                server.script = [way]
                agent.prompt(f"{way} of {provider}")
        agent.get("get_state")
        agent.get("get_available_models")
        agent.get("cycle_model")
        agent.get("get_messages")
        agent.get("get_session_stats")
        agent.get("export_html")
        errors = [
            message["errorMessage"] for message in agent.get("get_messages")["messages"] if "errorMessage" in message
        ]
    assert len(errors) >= len(BAD) * len(nest.providers)
    assert nest.found(stdout=b"\n".join(agent.lines)) == []
    assert all(len(error.encode()) <= 4096 for error in errors)
    # They were sent, and so could have been told; where an address has a password, two APIs have no place for it.
    sent = b"".join(server.heard)
    unsent = {name for name, canary in nest.canaries.items() if not canary.is_in(sent)}
    assert unsent - ({"password", "query"} if api.startswith("openai") else set()) == {"othervariable", "database"}


@pytest.mark.promise("G12")
@pytest.mark.parametrize("mode", [("--mode", "json"), ("-p",)], ids=["json", "print"])
@pytest.mark.parametrize("way", ["401", "page", "sse", "redirect"])
def test_nothing_that_a_server_repeats_gets_out_of_the_other_modes(
    tmp_path: Path, server: Echo, mode: tuple[str, ...], way: str
) -> None:
    nest = Nest(tmp_path, server)
    server.script = ["529", way]
    done = run(nest, *mode, "--record", str(tmp_path / "recordings"), "go")
    assert (done.returncode, len(server.heard)) == (0 if "json" in mode else 1, 2)  # as pi
    assert b"Traceback" not in done.stderr
    assert nest.found(stdout=done.stdout, stderr=done.stderr) == []
    assert nest.canaries["flag"].is_in(server.heard[0])


@pytest.mark.promise("F07")
def test_commands_inherit_no_secret_where_that_is_asked_for(tmp_path: Path, server: Echo) -> None:
    nest = Nest(tmp_path, server)
    server.script = ["tool", "text"]
    with opened(nest) as agent:
        told = texts(agent.prompt("look around"), "toolResult")[0]
        agent.get("bash", command="env")
    assert nest.found(stdout=b"\n".join(agent.lines)) == []
    assert "PI_CODING_AGENT=true" in told and "\nHOME=" in told and (tmp_path / "work" / "env.txt").stat().st_size


@pytest.mark.parametrize("name", ["MY_PRECIOUS", "MY_HEADER", "ACME_API_KEY", "HARMLESS", "DATABASE_URL"])
def test_without_the_setting_commands_inherit_all(tmp_path: Path, server: Echo, name: str) -> None:
    nest = Nest(tmp_path, server, childEnvironment={})
    server.script = ["tool", "text"]
    with opened(nest) as agent:
        assert f"{name}={nest.env[name]}\n" in texts(agent.prompt("look around"), "toolResult")[0]


@pytest.mark.parametrize("command", [["--list-models"], ["doctor"]])
def test_what_is_reported_for_the_configuration_has_no_secret_in_it(
    tmp_path: Path, server: Echo, command: list[str]
) -> None:
    nest = Nest(tmp_path, server)
    nest.models["providers"]["ollama"] = {**nest.models["providers"]["address"]}
    done = run(nest, script=[*PI[:2], "from tau.cli.main import tau; tau()", *command])
    assert b"ollama" in done.stdout, done.stderr
    assert nest.found(stdout=done.stdout, stderr=done.stderr) == []


@pytest.mark.parametrize(
    "broken", ["{", '{"providers": {"x": {"apiKey": KEY, "baseUrl": 5, "headers": KEY}}}', "[KEY]"]
)
@pytest.mark.parametrize("file", ["models.json", "auth.json"])
def test_a_broken_file_of_keys_is_reported_without_what_is_in_it(
    tmp_path: Path, server: Echo, file: str, broken: str
) -> None:
    nest = Nest(tmp_path, server)
    env, core = nest.surroundings(), nest.canaries["literal"].core
    (tmp_path / "agent" / file).write_text(broken.replace("KEY", f'"{core}"') + f" {core}" * (broken == "{"))
    argv = [*PI, "--model", "demo", "-p", "hi"]
    done = subprocess.run(argv, cwd=tmp_path / "work", env=env, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.stdout
    assert nest.found(stdout=done.stdout, stderr=done.stderr) == []
    assert file.encode() in done.stderr or (file, broken[:4]) == ("auth.json", '{"pr')


def test_a_key_on_the_command_line_is_not_in_the_list_of_processes_for_long(tmp_path: Path, server: Echo) -> None:
    nest = Nest(tmp_path, server)
    with opened(nest) as agent:
        agent.get("get_state")
        assert not nest.canaries["flag"].is_in(Path(f"/proc/{agent.pid}/cmdline").read_bytes())
        assert b"--api-key\0*****" in Path(f"/proc/{agent.pid}/cmdline").read_bytes()


def test_a_slip_on_the_command_line_is_reported_without_the_key(tmp_path: Path, server: Echo) -> None:
    nest = Nest(tmp_path, server)
    for words in ([f"--api-kye={nest.value('flag')}"], ["--api-key", nest.value("flag")], ["--api-key"]):
        done = run(nest, *words, "-p", "hi", script=[*PI])
        assert done.returncode and nest.found(stdout=done.stdout, stderr=done.stderr) == []


def test_no_log_shows_a_key_not_even_in_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text('{"x": {"type": "api_key", "key": "sk-saved-0123"}}')
    keys = Keys(tmp_path / "auth.json", {"OPENAI_API_KEY": "sk-variable-0123", "FROM_HERE": "sk-named-0123"})
    keys.set_key("y", "sk-given-0123")
    keys.configured = {"z": "$FROM_HERE", "command": "!echo sk-told-0123"}
    assert keys.get("command") == "sk-told-0123"
    try:
        raise ValueError("sk-saved-0123 sk-variable-0123 sk-named-0123")
    except ValueError:
        record = logging.LogRecord("tau", logging.ERROR, "", 1, "%s", ("sk-given-0123 sk-told-0123",), sys.exc_info())
    shown = LogFormatter(keys.known_secrets, "tau: %(message)s").format(record)
    assert shown.startswith("tau: *** ***\n  Traceback") and shown.endswith("ValueError: *** *** ***")
    assert "0123" not in shown


def test_the_search_finds_what_is_there(tmp_path: Path, server: Echo) -> None:
    """Whatever a user says is kept: a search that saw nothing in the other tests is known to be able to see."""
    nest = Nest(tmp_path, server)
    with opened(nest, "--record", str(tmp_path / "recordings")) as agent:
        agent.prompt(f"my key is {nest.value('literal')}")
        agent.get("export_html")
    places = {found.partition(" in ")[2].partition("/")[0] for found in nest.found(stdout=b"\n".join(agent.lines))}
    assert places == {"stdout", "agent", "recordings", "work"}
