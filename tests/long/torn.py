"""Tear a session at every byte, and destroy it in other ways: every other entry stays, and one can go on.

    python tests/long/torn.py [OFFSETS | all] [--seed SEED]

A session of 200 entries is cut at that many places (or at each), given a tail of
NULs at every line, and loses each of its lines to garbage of several kinds. Each
time it is opened, gets one entry, and is opened again: what was whole must be
there both times, in order, with the new entry behind it; the bytes that were in
the file must be as they were; and what was lost must be told.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.loop_kit import assistant, call, user
from tau.errors import CommandError
from tau.records.messages import Text, ToolResult
from tau.runtime.history.session_log import SessionLog
from tau.store.sessions import OpenedSession, open_session

OFFSETS = 2_000
ENTRIES = 200
PAGE = 4096
GARBAGE = (b"", b"\0" * 40, b"\xff\xfe\xfd", b"{", b"null", b"[" * 5_000, b'{"type":"message"}', b"\\ \" ' {}", b"\r")


class Figures(NamedTuple):
    cuts: int = 0
    nul_tails: int = 0
    destroyed_lines: int = 0
    refused: int = 0


class Lost(Exception):
    """More was lost than what was destroyed."""


class Sound:
    """A session as it should be: its lines with their ends, and the ids of its entries."""

    def __init__(self, folder: Path) -> None:
        path = written(folder)
        found = open_session(path)
        self.data = path.read_bytes()
        self.lines = self.data.splitlines(keepends=True)
        self.ids = [found.tree.id(at) for at in range(len(found.tree))]

    def kept(self, size: int) -> list[str]:
        """The entries whose lines are whole in the first `size` bytes; the newline may be missing."""
        end, kept = len(self.lines[0]), []
        for id, line in zip(self.ids, self.lines[1:], strict=True):
            end += len(line)
            if end - 1 <= size:
                kept.append(id)
        return kept


def written(folder: Path) -> Path:
    """A session with every kind of thing in it, told in one line of descent."""
    log = SessionLog.new("/work", folder, _unexpected)
    log.set_level("high")
    turn = 0
    while len(log.tree) < ENTRIES - 4:
        turn += 1
        log.append_prompt(user(f"question {turn}: what about \u00e9, \U0001f600 and \u2028?"))
        log.append_message([*log.messages][-1])
        log.append_message(assistant("Let me look.", call("bash", command=f"echo {turn}")))
        log.append_message(
            ToolResult(
                "call_bash",
                "bash",
                [Text("a line of output, as long as the lines of most commands are, more or less\n" * turn)],
                {"exitCode": 0},
            )
        )
        log.append_message(assistant("an answer " * (turn % 7)))
    log.set_name("torn")
    log.label(log.tree.id(3), "here")
    log.compact("what happened", log.tree.id(100), 1234, {"readFiles": []})
    log.pending_queue.record("steer", user("later"))
    log.close()
    assert log.path is not None
    return log.path


def _unexpected(error: OSError) -> None:
    raise Lost(f"a write failed: {error}")


def check(where: str, path: Path, data: bytes, kept: list[str], *, torn: bool) -> None:
    """Put `data` there, open it, add one entry, open it again. `torn` says whether there is something to tell."""
    path.write_bytes(data)
    found = open_session(path)
    _compare(where, found, kept, torn)
    log = SessionLog.resumed(found, _unexpected)
    log.append_message(user("one more"))
    log.close()
    added = log.tree.leaf_id
    assert added is not None
    again = open_session(path)
    _compare(f"{where}, then went on", again, [*kept, added], torn)
    if path.read_bytes()[: len(data)] != data:
        raise Lost(f"{where}: what was in the file was changed")


def _compare(where: str, found: OpenedSession, kept: list[str], torn: bool) -> None:
    there = [found.tree.id(at) for at in found.tree.branch]
    if there != kept:
        lost, more = set(kept) - set(there), set(there) - set(kept)
        raise Lost(f"{where}: {lost or 'nothing'} is lost, {more or 'nothing'} is too much")
    if bool(found.problems) != torn:
        raise Lost(f"{where}: told {found.problems}")


def cuts(sound: Sound, offsets: Iterable[int], path: Path) -> tuple[int, int]:
    """How many cuts, and how many of them left no session at all."""
    done = refused = 0
    for size in offsets:
        done += 1
        data = sound.data[:size]
        if size < len(sound.lines[0]) - 1:
            refused += 1
            path.write_bytes(data)
            try:
                open_session(path)
            except CommandError:
                if path.read_bytes() == data:
                    continue
            raise Lost(f"{size} bytes of a header were taken for a session, or changed")
        kept = sound.kept(size)
        whole = len(sound.lines[0]) + sum(len(line) for line in sound.lines[1 : len(kept) + 1])
        check(f"cut at byte {size}", path, data, kept, torn=size > whole)
    return done, refused


def nul_tails(sound: Sound, path: Path) -> int:
    """As a file may be after a power failure: longer than what was written, with nothing there."""
    end = 0
    for number, line in enumerate(sound.lines):
        end += len(line)
        kept = sound.ids[:number]
        check(f"NULs behind line {number + 1}", path, sound.data[:end] + b"\0" * PAGE, kept, torn=True)
        # The line itself was only half written before that.
        if number:
            half = sound.data[: end - len(line) // 2] + b"\0" * (len(line) // 2)
            check(f"NULs in line {number + 1}", path, half, kept[:-1], torn=True)
    return len(sound.lines) * 2 - 1


def destroyed(sound: Sound, path: Path, kinds: Sequence[bytes] = GARBAGE) -> int:
    count = 0
    for number in range(1, len(sound.lines)):
        for garbage in kinds:
            count += 1
            lines = [*sound.lines[:number], garbage + b"\n", *sound.lines[number + 1 :]]
            kept = [*sound.ids[: number - 1], *sound.ids[number:]]
            blank_end = number == len(sound.lines) - 1 and not garbage.strip()
            check(f"{garbage!r:.40} as line {number + 1}", path, b"".join(lines), kept, torn=not blank_end)
    return count


def tear(amount: int | None, seed: int, folder: Path, kinds: Sequence[bytes] = GARBAGE) -> Figures:
    """Cut at so many places, or at every one; raises Lost."""
    sound = Sound(folder / "sound")
    path = folder / "torn.jsonl"
    size = len(sound.data) + 1
    offsets = range(size) if amount is None else random.Random(seed).sample(range(size), min(amount, size))
    done, refused = cuts(sound, offsets, path)
    return Figures(done, nul_tails(sound, path), destroyed(sound, path, kinds), refused)


def main() -> int:
    parser = argparse.ArgumentParser(description="Tear a session and look for what is lost.")
    parser.add_argument("offsets", nargs="?", default=str(OFFSETS), help='how many places to cut at, or "all"')
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    print(f"{given.offsets} offsets, --seed {given.seed}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tau-torn-") as scratch:
        try:
            figures = tear(None if given.offsets == "all" else int(given.offsets), given.seed, Path(scratch))
        except Lost as lost:
            print(lost, file=sys.stderr)
            return 1
    for name, figure in figures._asdict().items():
        print(f"{name.replace('_', ' '):16}{figure:>10,}")
    print(f"{'seconds':16}{time.monotonic() - started:>10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
