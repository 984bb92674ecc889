"""The real program on a disk that fails: strace makes the n-th of its system calls on a file go wrong.

Nothing of the program is replaced, so this is also about what its own disk
(tests/faults/disk.py) takes for granted: which calls it makes, and from where.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from support.rpc_process import Agent, Json, scripted


class Call(NamedTuple):
    """System call `name` fails with `error`: the `first` that is made on the file, or all from that one on."""

    name: str
    first: int
    error: int
    for_good: bool = False

    def __str__(self) -> str:
        return (
            f"{errno.errorcode[self.error]} of {self.name} {self.first}{' and all after it' if self.for_good else ''}"
        )


@cache
def available() -> bool:
    """Whether strace is there, and may do this here."""
    if shutil.which("strace") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/file"
        under = _strace(Path(file), Call("write", 1, errno.ENOSPC))
        done = subprocess.run([*under, "sh", "-c", f"echo x > {file}"], capture_output=True)
        return done.returncode != 0 and Path(file).read_bytes() == b""


def failing_agent(folder: Path, file: Path, call: Call, *answers: Json, **how: Any) -> Agent:
    """An agent for which this call on `file` goes wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    return Agent(folder, offline=False, program=[*_strace(file, call), *scripted(folder, *answers)], **how)


def _strace(file: Path, call: Call) -> list[str]:
    when = f"{call.first}{'+' if call.for_good else ''}"
    fault = f"inject={call.name}:error={errno.errorcode[call.error]}:when={when}"
    # Not traced: what is not asked for here, so that it costs little.
    return ["strace", "-qqq", "-f", "--seccomp-bpf", "-o", "/dev/null", "-P", str(file), "-e", fault]
