from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is nothing like it elsewhere")

# Root reads everything. So whoever looks, and whoever is looked at, is nobody in particular.
LOOK = """
import ctypes, os, sys
from tau.runtime.machine import hardening

if os.geteuid() == 0:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(hardening.PR_SET_DUMPABLE, 1, 0, 0, 0)  # which a change of users takes away

def seen():
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    ctypes.CDLL(None).prctl(hardening.PR_SET_DUMPABLE, 1, 0, 0, 0)  # a fork has what its parent had, a command has not
    for name in ("environ", "mem"):
        try:
            open(f"/proc/{os.getppid()}/{name}", "rb").close()
        except PermissionError:
            os._exit(0)
    os._exit(1)

before = seen()
hardening.hide_memory()
print(before, seen(), os.readlink("/proc/self/fd/0") != "")
"""


def test_what_we_know_is_not_read_from_our_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.stdout, done.stderr) == ("1 0 True\n", "")


@pytest.mark.parametrize(
    ("argv", "secret", "left"),
    [
        (["--api-key", "sk-1"], "sk-1", ["--api-key", "****"]),
        (["--api-key=sk-1", "x"], "sk-1", ["--api-key=****", "x"]),
        (["ask-1", "sk-12", "sk-1"], "sk-1", ["ask-1", "sk-12", "****"]),
        (["--api-key", "ключ"], "ключ", ["--api-key", "*" * 8]),
        (["--api-key", ""], "", ["--api-key", ""]),
    ],
)
def test_only_the_secret_itself_is_taken_from_the_command_line(argv: list[str], secret: str, left: list[str]) -> None:
    code = (
        "import os, sys; from tau.runtime.machine.hardening import hide_argument; hide_argument(os.environ['SECRET']); "
    )
    code += "sys.stdout.write(open('/proc/self/cmdline').read())"
    env = {"SECRET": secret, "PYTHONPATH": ":".join(sys.path), "PYTHONUTF8": "1"}
    shown = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, env=env, check=True)
    assert shown.stdout.split("\0")[3:-1] == left
