"""What is loaded at moments when somebody waits, and which of it is meant to be: tests/support/loaded_modules.json.

    PYTHONPATH=tests python -m support.loaded_modules --write     make what is loaded now what is meant to be
    PYTHONPATH=tests python -m support.loaded_modules             show it

Taken from `-X importtime` of the real program, by name and not by time. What a
bare Python loads is left out. Modules of tau and of Python are listed one by one,
libraries as a whole: a newer release of one may well have another file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from support.model_server import serving
from support.rpc_process import WITHIN, surroundings

FILE = Path(__file__).with_suffix(".json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
WATCHED = [sys.executable, "-X", "importtime", "-c"]
PI = "from tau.cli.entry import pi; pi()"
# Of Jython and of Windows: copy.py and platform.py of some versions try to import them.
ABSENT = {"org", "_wmi"}
LINE = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)
GET_STATE = b'{"id":"q","type":"get_state"}\n'

Loaded = dict[str, list[str]]


def importing(folder: Path) -> str:
    return _to_the_end(folder, "import tau")


def helping(folder: Path) -> str:
    return _to_the_end(folder, PI, "--help")


def starting(folder: Path) -> str:
    """RPC mode, to the response of get_state and no further.

    Both streams are one pipe: so what was loaded before the response is told from what is loaded soon after it, when
    nobody waits.
    """
    env, argv = surroundings(folder), [*WATCHED, PI, "--mode", "rpc"]
    both: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(argv, cwd=folder / "work", env=env, stdin=subprocess.PIPE, **both) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(GET_STATE)
        process.stdin.flush()
        told: list[bytes] = []
        for line in process.stdout:
            if line.startswith(b"{"):
                break
            told.append(line)
        process.kill()
    assert json.loads(line)["success"], line
    return b"".join(told).decode()


def prompting(folder: Path) -> str:
    """Print mode, with an answer that comes over HTTP."""
    with serving({}) as (url, _):
        model = {"id": "m", "name": "M", "contextWindow": 1000, "maxTokens": 100}
        provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "none", "models": [model]}
        asked = ("--provider", "here", "--model", "m", "--no-session", "-p", "hi")
        return _to_the_end(folder, PI, *asked, models={"providers": {"here": provider}})


MOMENTS: dict[str, Callable[[Path], str]] = {
    "import tau": importing,
    "pi --help": helping,
    "RPC mode, to get_state": starting,
    "print mode, one prompt": prompting,
}


def _to_the_end(folder: Path, code: str, *argv: str, models: Any = None) -> str:
    env = surroundings(folder, models=models)
    done = subprocess.run(
        [*WATCHED, code, *argv],
        cwd=folder / "work",
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


def loaded(moment: str, folder: Path) -> Loaded:
    """By origin: tau, libraries, python."""
    bare = LINE.findall(_to_the_end(folder / "bare", "pass"))
    return by_origin(set(LINE.findall(MOMENTS[moment](folder / "moment"))) - set(bare))


def by_origin(names: Iterable[str]) -> Loaded:
    found: dict[str, set[str]] = {"tau": set(), "libraries": set(), "python": set()}
    for name in names:
        package = name.partition(".")[0]
        if package in ABSENT:
            continue
        if package == "tau":
            found["tau"].add(name)
        elif package in sys.stdlib_module_names:
            found["python"].add(name)
        else:
            found["libraries"].add(package)
    return {origin: sorted(modules) for origin, modules in found.items()}


def differences(moment: str, found: Loaded) -> tuple[list[str], list[str]]:
    """What is loaded and not written down, and what is written down and not loaded.

    Python's own modules count only under the Python they were written down with: each version is built differently.
    """
    written = json.loads(FILE.read_text())
    counted = [origin for origin in found if origin != "python" or written["python"] == PYTHON]
    now = {name for origin in counted for name in found[origin]}
    then = {name for origin in counted for name in written["moments"][moment][origin]}
    return sorted(now - then), sorted(then - now)


def main(argv: list[str]) -> None:
    found = {}
    for moment in MOMENTS:
        with tempfile.TemporaryDirectory() as folder:
            found[moment] = loaded(moment, Path(folder))
        print(moment + ":", ", ".join(f"{len(modules)} of {origin}" for origin, modules in found[moment].items()))
    if "--write" in argv:
        FILE.write_text(json.dumps({"python": PYTHON, "moments": found}, indent=2) + "\n")
    else:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
