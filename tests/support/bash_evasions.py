"""Lines that try to get past a deny rule, and what a real bash does with them.

tests/core/bash_evasions.json and bash_evasions_by_class.json: `rule` is the denied command, `runs` that the line really
runs it on a machine that has the programs in `needs`. What `rm` and `curl` do here is to
remove or empty the file `victim`; `git push` fills the repository remote.git.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CORE = Path(__file__).parents[1] / "core"
BY_CLASS: list[dict[str, Any]] = json.loads((CORE / "bash_evasions_by_class.json").read_text())
EVASIONS: list[dict[str, Any]] = json.loads((CORE / "bash_evasions.json").read_text()) + BY_CLASS
CONTENT = "keep\n"
LIMIT_S = 60


# For root: only the folder and /tmp can be written, so that no line can harm the machine. A glob may match more than
# was thought of: `xxd /bin/r?` writes over /bin/rm where there is a /bin/rg.
CONFINED = """
mount --bind /tmp /tmp && mount --bind "$0" "$0" || exit 1
for place in / /usr /etc /var /home /root /opt /srv /boot; do
    ! mountpoint -q "$place" || mount -o remount,bind,ro "$place" || exit 1
done
cd "$0" && exec bash -c "$1"
"""


def why_not_here() -> str:
    """Why the lines cannot be run on this machine; empty if they can."""
    if sys.platform != "linux" or shutil.which("bash") is None:
        return "the lines are for bash and the programs of Linux"
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(command("exit 7", Path(folder)), capture_output=True).returncode != 7:
            return "as root, the lines are run only where `unshare --mount` can protect the machine from them"
    return ""


def command(line: str, folder: Path) -> list[str]:
    if os.geteuid() != 0:
        return ["bash", "-c", line]
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", CONFINED, str(folder), line]


def representative(cases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first line of each class, for each denied command and each set of programs that lines need."""
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for case in cases:
        first.setdefault((case["class"], case["rule"], *case.get("needs", [])), case)
    return list(first.values())


def harmless_lines(cases: Iterable[dict[str, Any]], folder: Path) -> list[str]:
    """The lines that are said to run what is denied, and do not do so in a real bash without rules."""
    possible = [case for case in cases if case.get("runs") and is_possible(case)]
    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(lambda case: ran_what_is_denied(case[1], folder / str(case[0])), enumerate(possible)))
    harmless = [case for case, denied in zip(possible, ran, strict=True) if not denied]
    # Lines with a process in the background are slow on a busy machine: these get another try, alone.
    return [
        case["line"]
        for number, case in enumerate(harmless)
        if not ran_what_is_denied(case, folder / f"again{number}", patience_s=10)
    ]


def prepare(folder: Path, rule: str) -> None:
    folder.mkdir()
    (folder / "victim").write_text(CONTENT)
    if rule != "git push":
        return
    for arguments in (
        ["init", "-q", "-b", "main", "."],
        ["-c", "user.name=a", "-c", "user.email=b@c", "commit", "-q", "--allow-empty", "-m", "x"],
        ["init", "-q", "--bare", "remote.git"],
        ["remote", "add", "origin", "./remote.git"],
        ["config", "push.default", "current"],
        ["config", "push.autoSetupRemote", "true"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, env=environment(folder), check=True, capture_output=True)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "BASH", "PYTHON"))}
    return {**kept, "HOME": str(folder), "TERM": "dumb", "GIT_CONFIG_NOSYSTEM": "1"}


def ran_what_is_denied(case: dict[str, Any], folder: Path, patience_s: float = 0) -> bool:
    """Run a line in a real bash, in a new folder. `patience_s` is for what it leaves in the background."""
    prepare(folder, case["rule"])
    process = subprocess.Popen(
        command(case["line"], folder),
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    until = time.monotonic() + patience_s
    while not has_happened(case["rule"], folder):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def has_happened(rule: str, folder: Path) -> bool:
    if rule == "git push":
        return (folder / "remote.git" / "refs" / "heads" / "main").exists()
    victim = folder / "victim"
    try:
        return victim.read_text() != CONTENT
    except FileNotFoundError:
        return True


def is_possible(case: dict[str, Any]) -> bool:
    needs = case.get("needs", [])
    return all(os.geteuid() == 0 if name == "root" else shutil.which(name) is not None for name in needs)
