"""Bytes and JSON values with something wrong in them. What is made depends on the dice alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

Random = random.Random
Mutation = Callable[[bytes, Random], bytes]

CRUMBS: list[bytes] = [
    *(b"\0", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xf4\x90\x80\x80", b"\r", b" "),
    *(bytes([sign]) for sign in b'"\\{}[],:-.0e'),
    *(b"1e999", b"NaN", b"null", b"true", b"//", b"/**/", b'"type":"abort",', b'"id":0,'),
    *(b"\\ud800", b"\\udc00", b"\\u0000", b"\\u2028", b"\\u00", b"\\x"),
]

# What may stand where something else should: of every kind, and at the edges of each.
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 1e308, 2**53, 2**63, 2**64, 10**30),
    *("", "x", "\0", "\ud800", "\u2028", "a" * 3_000, "2026-13-45T99:99:99Z", "user", "assistant", "message"),
    *([], {}, [1, [2, [None]]], [None], [{}], ["a"] * 300, {"type": "text"}, {"type": "image"}, {"a": {"b": [1]}}),
]


def flipped(data: bytes, chance: Random) -> bytes:
    at, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def crumbled(data: bytes, chance: Random) -> bytes:
    """Something small put in, or in the place of a byte."""
    at = chance.randrange(len(data))
    return data[:at] + chance.choice(CRUMBS) + data[at + chance.randrange(2) :]


def truncated(data: bytes, chance: Random) -> bytes:
    start, end = _slice(data, chance)
    return chance.choice([data[:start], data[end:], data[:start] + data[end:]])


def doubled(data: bytes, chance: Random) -> bytes:
    start, end = _slice(data, chance)
    return data[:end] + data[start:end] * chance.choice([1, 1, 1, 2, 30]) + data[end:]


IN_BYTES: list[Mutation] = [flipped, crumbled, truncated, doubled]


def _slice(data: bytes, chance: Random) -> tuple[int, int]:
    start = chance.randrange(len(data))
    return start, min(len(data), start + 1 + int(chance.expovariate(1 / 20)))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everywhere in a JSON value that something stands, as the place and its key there."""
    open_ones = [(value, _pairs(value))]  # and not by recursion: values are nested deeper than that goes
    while open_ones:
        place, pairs = open_ones[-1]
        for key, item in pairs:
            yield place, key
            if isinstance(item, dict | list):
                open_ones.append((item, _pairs(item)))
                break
        else:
            open_ones.pop()


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(list(value.items() if isinstance(value, dict) else enumerate(value)))


def retyped(value: Any, chance: Random) -> None:
    """In a JSON object: something replaced by another thing, taken away, put elsewhere, or said much deeper."""
    place, key = chance.choice(list(places(value)) or [(value, None)])
    match chance.randrange(8):
        case _ if key is None:
            value["x"] = chance.choice(VALUES)
        case 0:
            del place[key]
        case 1:
            place[key] = deep(place[key], chance.choice([5, 60, 300]))
        case 2 if isinstance(place, dict):
            place[chance.choice([*place, "id", "type", "role", "content", ""])] = place.pop(key)
        case 3:
            other, there = chance.choice(list(places(value)))
            place[key] = other[there] if other is not place and not _within(other[there], place) else None
        case _:
            place[key] = chance.choice(VALUES)


def deep(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def _within(value: Any, sought: Any) -> bool:
    """Whether `sought` is somewhere in it: then it cannot be put in there."""
    return value is sought or (
        isinstance(value, dict | list)
        and any(_within(item, sought) for item in (value.values() if isinstance(value, dict) else value))
    )
