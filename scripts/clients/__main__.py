"""Test public clients of pi, installed from npm and PyPI, with this tau.

    python scripts/clients                      all of them, with the `pi` beside this Python
    python scripts/clients picable pi-acp       some
    python scripts/clients --pi /path/to/pi     with another pi, for example a release of the real one
    python scripts/clients --dialect 0.73       in this dialect, instead of those that are listed for each
    python scripts/clients --bridge             on sessions of a host: `tau serve`, and `pi --mode rpc --connect`

Needs npm, node and pip. The clients are kept in a cache folder. Each client sends a prompt with a tool call, aborts a
run and runs a shell command, with a model server on loopback and in its own folders. Prints one line per step; the exit
code is 1 if a step failed. A client that prints nothing for SILENCE_S is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from model import serving, settle
from steps import lay_out

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tau" / "clients"
KEYS = re.compile(r"(_API_KEY|_TOKEN|_BASE_URL)$|^(ANTHROPIC|AWS|AZURE|GCLOUD|GOOGLE|OLLAMA|OPENAI|PI|TAU)_")
INSTALL_TIMEOUT_S = 600.0  # for npm and for pip
SILENCE_S = 60.0  # maximum duration of a step
STEPS = ("prompt", "abort", "bash")
ALL_METHODS = (*STEPS, "methods")


class Client(NamedTuple):
    """`dialects` are tried one after the other, the one that it was written for first.

    `run` is the command line: {npm} and {tests} stand for folders of the client, {here} for this folder.
    """

    dialects: tuple[str, ...]
    run: tuple[str, ...]
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    packed: str = ""  # an npm package that is only unpacked, because it cannot be installed with every Node
    source: str = ""  # a package on PyPI whose tests are run; only its source distribution contains them
    steps: tuple[str, ...] = STEPS  # what it reports, in this order


OLD_PI = "@mariozechner/pi-coding-agent"
PI = "@earendil-works/pi-coding-agent"
RPC_CLIENT = ("node", "{here}/with_rpc_client.mjs", "{npm}/packed", "{here}/shim.mjs")
CLIENTS = {
    "RpcClient-0.73.1": Client(("0.73", "default"), RPC_CLIENT, packed=f"{OLD_PI}@0.73.1", steps=ALL_METHODS),
    "RpcClient-0.87.1": Client(("1.5", "default"), RPC_CLIENT, packed=f"{PI}@0.87.1", steps=ALL_METHODS),
    "RpcClient-1.5.2": Client(("1.5", "default"), RPC_CLIENT, packed=f"{PI}@1.5.2", steps=ALL_METHODS),
    "pi-acp": Client(
        ("1.5",),
        ("python", "{here}/with_acp.py", "{npm}/pi-acp/dist/index.js"),
        pip=("agent-client-protocol==0.12.1",),
        npm=("pi-acp@0.0.34",),
    ),
    "pi-py-sdk": Client(("0.73",), ("python", "{here}/with_pi_py_sdk.py"), pip=("pi-py-sdk==0.2.1",)),
    "pi-py-sdk-tests": Client(
        ("0.73",),
        ("python", "-m", "pytest", "-q", "-m", "integration", "--rootdir={tests}", "{tests}/tests/test_integration.py"),
        pip=("pi-py-sdk==0.2.1", "pytest", "pytest-asyncio"),
        source="pi-py-sdk==0.2.1",
    ),
    "pi-agent-python-sdk": Client(("1.5",), ("python", "{here}/with_pi_agent.py"), pip=("pi-agent-python-sdk==0.2.6",)),
    "picable": Client(("0.73",), ("python", "{here}/with_picable.py"), pip=("picable==0.1.0",)),
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python scripts/clients", description="Test public clients of pi with this tau."
    )
    parser.add_argument("client", nargs="*", help=f"one of {', '.join(CLIENTS)}; default: all")
    parser.add_argument("--pi", type=Path, default=Path(sys.executable).parent / "pi", help="the program to test")
    parser.add_argument("--dialect", help="use this dialect for all clients")
    parser.add_argument("--bridge", action="store_true", help="connect the clients to sessions of a host")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the installed clients (%(default)s)")
    chosen = parser.parse_args(argv)
    if unknown := set(chosen.client) - set(CLIENTS):
        parser.error(f"unknown client: {', '.join(sorted(unknown))}; known: {', '.join(CLIENTS)}")
    if not os.access(chosen.pi, os.X_OK):
        parser.error(f"{chosen.pi} is not a program; choose one with --pi")

    failed = False
    for name in chosen.client or CLIENTS:
        client, home = CLIENTS[name], chosen.cache.absolute() / name
        for dialect in [chosen.dialect] if chosen.dialect else client.dialects:
            for step, problem in run_client(client, home, chosen.pi.absolute(), dialect, bridge=chosen.bridge):
                print(f"{name:20} {dialect:8} {step:8} {' '.join(problem.split()) or 'ok'}", flush=True)
                failed = failed or bool(problem)
    return 1 if failed else 0


def run_client(client: Client, home: Path, pi: Path, dialect: str, *, bridge: bool) -> Iterator[tuple[str, str]]:
    """Yield the name of each step and its problem, which is empty if the step succeeded."""
    try:
        install(client, home)
    except (OSError, subprocess.SubprocessError) as error:
        stderr = error.stderr or b"" if isinstance(error, subprocess.CalledProcessError) else b""
        yield "install", f"{error}: {stderr.decode(errors='replace')[-500:]}"
        return
    with tempfile.TemporaryDirectory(prefix="tau-clients-") as scratch, serving() as address:
        folder = Path(scratch)
        settle(folder / "agent", address)
        lay_out(folder / "work")
        words = {"here": HERE, "npm": home / "node_modules", "tests": home / "source"}
        command = [word.format(**words) for word in client.run]
        env = environment(folder, pi, dialect)
        if command[0] == "python":
            command[0] = str(home / "venv" / "bin" / "python")
        with hosted(folder, pi, env) if bridge else nullcontext():
            yield from tests_of(command, folder, env) if client.source else steps_of(command, folder, env, client.steps)


# The `pi` of a client that is connected to a host: only RPC mode is.
BRIDGE = """\
#!/bin/sh
case " $* " in
*" rpc "*) exec {pi} "$@" --connect unix: ;;
*) exec {pi} "$@" ;;
esac
"""


@contextmanager
def hosted(folder: Path, pi: Path, env: dict[str, str]) -> Iterator[None]:
    """Start a host, and put a `pi` on the client's PATH that connects to it."""
    program = folder / "bin" / "pi"
    program.unlink()
    program.write_text(BRIDGE.format(pi=pi))
    program.chmod(0o755)
    command = [str(pi.with_name("tau")), "serve", "--no-tcp"]
    with (folder / "host").open("wb") as stderr:
        host = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd=folder / "work", env=env)
    assert host.stdout is not None
    try:
        if not host.stdout.readline():
            raise OSError(f"tau serve did not start: {(folder / 'host').read_text(errors='replace')}")
        yield
    finally:
        host.terminate()
        host.wait()
        host.stdout.close()


def install(client: Client, home: Path) -> None:
    """Install the packages of a client, unless the cache has these versions."""
    wanted = json.dumps((client.pip, client.npm, client.packed, client.source))
    mark = home / "installed"
    if mark.exists() and mark.read_text() == wanted:
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    if client.npm:
        # Without install scripts: the clients do not need what those would build.
        quietly("npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", "--ignore-scripts", *client.npm)
    if client.packed:
        quietly("npm", "pack", "--pack-destination", str(home), client.packed)
        (archive,) = home.glob("*.tgz")
        (home / "node_modules" / "packed").mkdir(parents=True)
        quietly("tar", "xzf", str(archive), "-C", str(home / "node_modules" / "packed"), "--strip-components=1")
    if client.pip:
        quietly(sys.executable, "-m", "venv", str(home / "venv"))
        pip = (str(home / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input")
        quietly(*pip, "install", *client.pip)
        if client.source:
            quietly(*pip, "download", "--no-deps", "--no-binary", ":all:", "-d", str(home), client.source)
            (archive,) = home.glob("*.tar.gz")
            (home / "source").mkdir()
            quietly("tar", "xzf", str(archive), "-C", str(home / "source"), "--strip-components=1")
    mark.write_text(wanted)


def quietly(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=INSTALL_TIMEOUT_S)


def environment(folder: Path, pi: Path, dialect: str) -> dict[str, str]:
    """The environment of a client: its own folders, this `pi` first on PATH, and no API key of the user."""
    (folder / "bin").mkdir()
    (folder / "home").mkdir()
    (folder / "bin" / "pi").symlink_to(pi)
    kept = {name: value for name, value in os.environ.items() if not KEYS.search(name)}
    return {
        **kept,
        "HOME": str(folder / "home"),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PI_CODING_AGENT_DIR": str(folder / "agent"),
        "PI_DIALECT": dialect,
        "PI_LIVE_LLM": "1",  # tells the tests of pi-py-sdk that there is a model
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def steps_of(
    command: list[str], folder: Path, env: dict[str, str], steps: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the steps that the client reports. A step that it does not report has failed."""
    left = list(steps)
    for line in output_lines(command, folder, env):
        report = json.loads(line)
        left.remove(report["step"])
        yield report["step"], report["problem"]
    for name in left:
        yield name, f"not reached; {last_error_line(folder)}" if name == left[0] else "not reached"


def tests_of(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the summary, the last line that pytest prints."""
    *_, last = [b"pytest printed nothing", *output_lines(command, folder, env)]
    summary = last.decode(errors="replace").strip()
    passed = re.fullmatch(r"\d+ passed in .*", summary)
    yield "tests", "" if passed else summary


def output_lines(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[bytes]:
    """Yield the lines on the client's stdout. At the end, or after SILENCE_S without one, kill its process group."""
    with (folder / "stderr").open("wb") as stderr:
        run = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder / "work",
            env=env,
            start_new_session=True,
        )
    assert run.stdout is not None
    waiting = b""
    until = time.monotonic() + SILENCE_S
    try:
        while select.select([run.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
            portion = os.read(run.stdout.fileno(), 1 << 16)
            if not portion:
                break
            *lines, waiting = (waiting + portion).split(b"\n")
            if lines:
                until = time.monotonic() + SILENCE_S
            yield from lines
    finally:
        with suppress(ProcessLookupError):  # all have ended, as expected
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        run.stdout.close()


def last_error_line(folder: Path) -> str:
    """The last line on stderr; in a traceback, the exception."""
    *_, last = ["nothing on stderr", *(folder / "stderr").read_text(errors="replace").strip().splitlines()]
    return last


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
