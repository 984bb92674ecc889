"""Submodule links in the index of a git repository, read without running git.

The configuration of a hostile repository can make git run programs, so the index is parsed here: versions 2, 3 and 4,
sparse and split, with SHA-1 and SHA-256. Fails closed: an index that cannot be parsed is an error, and for an
ambiguous file the result has more paths rather than fewer.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple

MAX_BYTES = 256 << 20
_IFMT, _GITLINK = 0o170000, 0o160000
_EXTENDED, _NAME_MASK = 0x4000, 0x0FFF
_STAT_BYTES, _MODE_AT = 40, 24
_HASH_BYTES = (20, 32)  # SHA-1 and SHA-256: the file does not state which


class BadIndex(Exception):
    """The index cannot be parsed."""


_Entry = tuple[int, bytes]  # mode and name


class _Parsed(NamedTuple):
    entries: list[_Entry]
    base: str | None  # file name of the shared index that this one modifies
    replaced: list[int]  # positions in the shared index; their new entries come first here and have no names


def submodule_links(gitdir: str) -> list[str]:
    """Return the paths of submodules, relative to the work tree.

    Raises BadIndex, and OSError if the file cannot be read.
    """
    data = _content(os.path.join(gitdir, "index"))
    if data is None:
        return []
    found: dict[str, None] = {}
    for parsed in _parse_all(data):
        names = [name for mode, name in parsed.entries if _is_link(mode) and name]
        if parsed.base is not None:
            names += _inherited(parsed, _content(os.path.join(gitdir, parsed.base)))
        found |= dict.fromkeys(map(os.fsdecode, names))
    return list(found)


def _inherited(parsed: _Parsed, base: bytes | None) -> Iterator[bytes]:
    """Yield links of the shared index, and links whose new entry takes its name from there."""
    if base is None:
        return
    unnamed = [mode for mode, name in parsed.entries if not name]
    for shared in _parse_all(base):
        yield from (name for mode, name in shared.entries if _is_link(mode))
        for mode, position in zip(unnamed, parsed.replaced, strict=False):
            if _is_link(mode) and position < len(shared.entries):
                yield shared.entries[position][1]


def _is_link(mode: int) -> bool:
    return mode & _IFMT == _GITLINK


def _content(path: str) -> bytes | None:
    """Read a whole index file; None if it does not exist."""
    try:
        data = read_regular_file(path, MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if data is None or len(data) > MAX_BYTES:
        raise BadIndex("it is not a regular file, or too large")
    return data


def read_regular_file(path: str, max_bytes: int) -> bytes | None:
    """Read the beginning of a file; None if it is not a regular file. Does not block on a FIFO or a device."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        with os.fdopen(os.dup(file), "rb") as opened:
            return opened.read(max_bytes)
    finally:
        os.close(file)


def _parse_all(data: bytes) -> list[_Parsed]:
    """Parse with every hash size that fits. The right one always fits: it parses the file to its last byte."""
    found = []
    for hash_bytes in _HASH_BYTES:
        try:
            found.append(_parse(data, hash_bytes))
        except (struct.error, IndexError, ValueError):
            continue
    if not found:
        raise BadIndex("it is damaged, or its version is not supported")
    return found


def _parse(data: bytes, hash_bytes: int) -> _Parsed:
    """Parse with one hash size. Raises struct.error, IndexError or ValueError for malformed data."""
    signature, version, count = struct.unpack_from(">4sII", data, 0)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index")
    end = len(data) - hash_bytes
    entries, at = _entries(data, version, count, end, hash_bytes)
    base, replaced = None, list[int]()
    while at < end:
        name, size = struct.unpack_from(">4sI", data, at)
        at += 8
        if name == b"link":
            shared = data[at : at + hash_bytes].hex()
            base = f"sharedindex.{shared}" if shared.strip("0") else None
            if size > hash_bytes:
                _, behind = _bits(data, at + hash_bytes, count=1 << 32, skip=True)  # the deleted entries
                replaced, _ = _bits(data, behind, count=len(entries))
        at += size
    if at != end:
        raise ValueError("does not end where it should")
    return _Parsed(entries, base, replaced)


def _entries(data: bytes, version: int, count: int, end: int, hash_bytes: int) -> tuple[list[_Entry], int]:
    found: list[_Entry] = []
    at, previous = 12, b""
    fixed = _STAT_BYTES + hash_bytes
    fields = struct.Struct(f">{_MODE_AT}xI{fixed - _MODE_AT - 4}xH").unpack_from
    for _ in range(count):
        mode, flags = fields(data, at)
        name_at = at + fixed + (4 if flags & _EXTENDED else 2)
        prefix_length = 0
        if version == 4:  # the name shares a prefix with the previous one
            removed, name_at = _varint(data, name_at)
            prefix_length = len(previous) - removed
            if prefix_length < 0:
                raise ValueError("a name with an invalid prefix length")
        length = flags & _NAME_MASK
        name_end = data.index(b"\0", name_at) if length == _NAME_MASK else name_at + length - prefix_length
        if not name_at <= name_end < end or data[name_end]:
            raise ValueError("a name without an end")
        name = previous[:prefix_length] + data[name_at:name_end]
        if b"\0" in name:
            raise ValueError("a name with a NUL")
        found.append((mode, name))
        previous = name
        # Up to version 3, entries are padded to a multiple of eight bytes with at least one NUL after the name.
        at = name_end + 1 if version == 4 else at + ((name_end - at) // 8 + 1) * 8
    if at > end:
        raise ValueError("too short")
    return found, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number in git's offset encoding; return it and the position after it."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1 << 7) | (byte & 0x7F)
        if value > MAX_BYTES:
            raise ValueError("a number out of range")
    return value, at + 1


def _bits(data: bytes, at: int, count: int, *, skip: bool = False) -> tuple[list[int], int]:
    """Return the first `count` positions that are set in an EWAH bitmap, and the position after the bitmap."""
    size, words = struct.unpack_from(">II", data, at)
    at += 8
    end = at + 8 * words
    found: list[int] = []
    position = 0
    while at < end and not skip and len(found) < count:
        (head,) = struct.unpack_from(">Q", data, at)
        at += 8
        run, literals = head >> 1 & 0xFFFFFFFF, head >> 33
        if head & 1:
            found += range(position, min(position + 64 * run, size, position + count))
        position += 64 * run
        for _ in range(literals):
            (word,) = struct.unpack_from(">Q", data, at)
            at += 8
            found += [position + bit for bit in range(64) if word >> bit & 1]
            position += 64
            if len(found) >= count:
                break
    return found[:count], end + 4
