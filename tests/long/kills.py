"""Kill the agent while it writes, and fill its disk: the file must be the old one or the new one, whole.

    python tests/long/kills.py 200

A child changes one file again and again with the real tools, until SIGKILL ends
it at a random moment. A file with a second hard link cannot be exchanged, so it
may be half written then; but a copy of its old content must lie beside it.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from tau.errors import ToolError
from tau.runtime.machine.local import LocalMachine
from tau.tools import Tool, ToolContext
from tau.tools.edit import TOOL as EDIT
from tau.tools.write import TOOL as WRITE

MIB = 1024 * 1024
PAGE = "0123456789abcde\n" * 65536
OLD, EDITED, WRITTEN = f"{PAGE * 2}old\n{PAGE * 2}", f"{PAGE * 2}edited\n{PAGE * 2}", f"written\n{PAGE * 8}"
Calls = Iterator[tuple[Tool, dict[str, Any]]]


def writes() -> Calls:
    for content in cycle([WRITTEN, OLD]):
        yield WRITE, {"content": content}


def edits() -> Calls:
    for old, new in cycle([("\nold\n", "\nedited\n"), ("\nedited\n", "\nold\n")]):
        yield EDIT, {"oldText": old, "newText": new}


KINDS: dict[str, Callable[[], Calls]] = {"write": writes, "edit": edits, "write to one of two links": writes}
WHOLE = {text.encode() for text in (OLD, EDITED, WRITTEN)}


async def run(tool: Tool, path: Path, args: dict[str, Any]) -> None:
    await tool.run({"path": path.name, **args}, ToolContext(LocalMachine(), str(path.parent), lambda outcome: None))


async def change(path: Path, calls: Calls, done: int) -> None:
    for tool, args in calls:
        await run(tool, path, args)
        os.write(done, b".")


class HalfAFile(AssertionError):
    """Neither the old content nor the new one."""


def kill_once(folder: Path, kind: str, dice: random.Random) -> bool:
    """Whether the kill came in the middle of a change."""
    path = folder / "file"
    path.write_text(OLD)
    if "links" in kind:
        (folder / "other").hardlink_to(path)
    listening, done = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(change(path, KINDS[kind](), done))
        finally:
            os._exit(1)
    os.close(done)
    assert os.read(listening, 1) == b".", "the child could not change the file"
    time.sleep(dice.random() * (time.monotonic() - started))  # somewhere in the next change, or the one after it
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(listening)

    left = [file.read_bytes() for file in folder.glob(".tau-*")]
    saved = "links" in kind and any(copy in WHOLE for copy in left)
    if not saved and path.read_bytes() not in WHOLE:
        raise HalfAFile(f"half a file after a {kind}")
    return bool(left)


def in_new_folders(work: Callable[[Path], bool], times: int) -> int:
    hits = 0
    for _ in range(times):
        folder = Path(tempfile.mkdtemp(prefix="tau-kills-"))
        try:
            hits += work(folder)
        finally:
            shutil.rmtree(folder)
    return hits


def halves(times: int, dice: random.Random) -> int:
    lost = 0
    for kind in islice(cycle(KINDS), times):
        try:
            in_new_folders(lambda folder, kind=kind: kill_once(folder, kind, dice), 1)  # type: ignore[misc]
        except HalfAFile as error:
            lost += 1
            print(error, file=sys.stderr)
    return lost


# Full disks


def fails(path: Path, tool: Tool, args: dict[str, Any], said: str) -> None:
    """A change that finds no room says so, and there is the old file and nothing beside it."""
    before, names = path.read_bytes(), sorted(os.listdir(path.parent))
    try:
        asyncio.run(run(tool, path, args))
    except ToolError as error:
        assert str(error) == f"{said}, write '{path}'", str(error)
    else:
        raise AssertionError("there was room")
    assert path.read_bytes() == before, "the old file is gone"
    assert sorted(os.listdir(path.parent)) == names, "something was left behind"


def fail_in_every_way(folder: Path, said: str, size: int) -> None:
    for linked in (False, True):
        path = folder / f"file {linked}"
        path.write_text("old\n" * 10_000)
        if linked:
            (folder / "other").unlink(missing_ok=True)
            (folder / "other").hardlink_to(path)
        fails(path, WRITE, {"content": "x" * size}, said)
        fails(path, EDIT, {"oldText": "old\n" * 10_000, "newText": "x" * size}, said)


def limited(folder: Path) -> None:
    """No file of this process may grow beyond 1 MiB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
    fail_in_every_way(folder, "EFBIG: file too large", 2 * MIB)


def full(folder: Path) -> None:
    """A disk of 1 MiB, in a mount namespace of this process."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
    fail_in_every_way(folder, "ENOSPC: no space left on device", 2 * MIB)
    (folder / "filler").write_bytes(b"x" * (1024 - 200) * 1024)
    fail_in_every_way(folder, "ENOSPC: no space left on device", 190 * 1024)


def full_at_random(folder: Path, times: int, seed: int) -> int:
    """How often neither the old file nor the new was there, on a disk that is full at a random point of a change."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], check=True)
    dice, lost, failed = random.Random(seed), 0, 0
    for number in range(times):
        path = folder / f"file {number}"
        path.write_text("old\n" * 10_000)
        if number % 3 == 2:
            (folder / f"other {number}").hardlink_to(path)
        size = dice.randrange(1, 2 * MIB)
        room = dice.randrange(0, 2 * size)
        (folder / "filler").write_bytes(b"x" * max(0, free(folder) - room))
        tool, args = dice.choice(
            [(WRITE, {"content": "x" * size}), (EDIT, {"oldText": "old\n" * 10_000, "newText": "x" * size})]
        )
        wanted = path.read_bytes()
        try:
            asyncio.run(run(tool, path, args))
            wanted = b"x" * size
        except ToolError as error:
            assert "ENOSPC" in str(error), str(error)
            failed += 1
        lost += path.read_bytes() != wanted
        for file in folder.iterdir():
            file.unlink()
    assert times < 10 or 0 < failed < times, "the disk was always full, or never"
    return lost


def free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_bsize


NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def can_mount() -> bool:
    return (
        bool(shutil.which("unshare")) and not subprocess.run([*NAMESPACE, "true"], stderr=subprocess.DEVNULL).returncode
    )


def in_another_process(name: str, folder: Path, *wrapped: str) -> bool:
    return subprocess.run([*wrapped, sys.executable, __file__, name, str(folder)]).returncode == 0


def killed_at_random(times: int, seed: int) -> int:
    """How often half a file was left. In a process without threads, for it forks."""
    argv = [sys.executable, __file__, "kills", str(times), str(seed)]
    return int(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout)


def lost_on_full_disks(folder: Path, times: int, seed: int) -> int:
    """`full_at_random` in a process that may mount."""
    argv = [*NAMESPACE, sys.executable, __file__, "random", str(folder), str(times), str(seed)]
    return int(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    match sys.argv[1:]:
        case ["limited" | "full" as name, folder]:
            {"limited": limited, "full": full}[name](Path(folder))
            return
        case ["kills", amount, seed]:
            print(halves(int(amount), random.Random(int(seed))))
            return
        case ["random", folder, amount, seed]:
            print(full_at_random(Path(folder), int(amount), int(seed)))
            return
        case [amount]:
            times = int(amount)
        case _:
            times = 200

    dice = random.Random()
    for kind in KINDS:
        share = -(-times // len(KINDS))
        hits = in_new_folders(lambda folder, kind=kind: kill_once(folder, kind, dice), share)  # type: ignore[misc]
        print(f"{kind}: {share} kills, {hits} of them in the middle of a change; never half a file")

    assert in_new_folders(lambda folder: in_another_process("limited", folder), 1), "failed with a limited file size"
    print("limited file size: the old file stays")
    if can_mount():
        assert in_new_folders(lambda folder: in_another_process("full", folder, *NAMESPACE), 1), "failed on a full disk"
        print("full disk: the old file stays")
    else:
        print("full disk: not tried, for no disk can be mounted here")


if __name__ == "__main__":
    main()
