"""A session that looks like work: tools, a diff, pictures, branches, a compaction, a failure."""

from __future__ import annotations

import base64
import math
import random
import struct
import zlib
from typing import Any

from tau.export import Export, ExportedEntry, OfferedTool
from tau.records import entries as e
from tau.records import messages as m
from tau.records.base import encode

CWD = "/home/ana/tides"
SONNET = "claude-sonnet-4-5"
OPUS = "claude-opus-4-5"


class Telling:
    """Adds entries one after the other; each is a child of the one before unless another parent is named."""

    def __init__(self) -> None:
        self.entries: list[ExportedEntry] = []
        self.leaf: str | None = None
        self.minutes = 9 * 60 + 12

    def place(self) -> tuple[str, str | None, str]:
        self.minutes += 1
        day, minute = divmod(self.minutes, 24 * 60)
        id = f"{(len(self.entries) + 1) * 2654435761 % 2**32:08x}"
        return id, self.leaf, f"2026-03-{17 + day:02d}T{minute // 60:02d}:{minute % 60:02d}:07.412Z"

    def add(self, kind: Any, *values: Any, **named: Any) -> str:
        id, parent, time = self.place()
        self.entries.append(kind(id, parent, time, *values, **named))
        self.leaf = id
        return id

    def says(self, message: m.AnyMessage) -> str:
        return self.add(e.MessageEntry, message)

    def user(self, text: str, *images: m.Image) -> str:
        return self.says(m.User([m.Text(text), *images] if images else text, 0))

    def answer(self, *blocks: Any, model: str = SONNET, stop: Any = "", error: str = "") -> str:
        content = [m.Text(block) if isinstance(block, str) else block for block in blocks]
        calls = any(isinstance(block, m.ToolCall) for block in content)
        size = sum(len(encode(block)) for block in content)
        cached = 8_200 + 620 * len(self.entries)
        usage = m.Usage(
            input=12 + size % 40,
            output=size // 4,
            cache_read=cached,
            cache_write=size // 3,
            total_tokens=cached + size,
            cost=m.UsageCost(total=round(cached * 3e-7 + size * 6e-6, 6)),
        )
        reason = stop or ("toolUse" if calls else "stop")
        failed = {"error_message": error} if error else {}
        return self.says(m.Assistant(content, "anthropic-messages", "anthropic", model, usage, reason, 0, **failed))

    def result(self, call: m.ToolCall, *content: str | m.Image, details: Any = None, error: bool = False) -> str:
        blocks = [m.Text(block) if isinstance(block, str) else block for block in content]
        told = {} if details is None else {"details": details}
        return self.says(m.ToolResult(call.id, call.name, blocks, is_error=error, **told))


def call(id: str, name: str, **arguments: Any) -> m.ToolCall:
    return m.ToolCall(f"toolu_{id}", name, arguments)


def sample() -> Export:
    t = Telling()
    t.add(e.ModelChange, "anthropic", SONNET)
    t.add(e.ThinkingLevelChange, "medium")
    t.add(e.SessionInfo, "High water in the wrong half of the day")
    _finding(t)
    fork = _fixing(t)
    after = t.leaf
    _other_way(t, fork)
    t.leaf = after
    _drawing(t)
    return Export(
        header=e.Header(id="019a7c52-8d1e-7b3a-9f40-3c5e2a7d1b66", timestamp="2026-03-17T09:12:44.108Z", cwd=CWD),
        entries=t.entries,
        leaf=t.leaf,
        version="0.1.0",
        name="High water in the wrong half of the day",
        system_prompt=SYSTEM_PROMPT,
        tools=TOOLS,
    )


def _finding(t: Telling) -> None:
    t.user(
        "`tides brest --date 2026-03-17` prints high water at **04:51**, the harbour board says 17:02. "
        "Other days are fine.\nCan you find out what is special about that day?"
    )
    grep = call("01", "grep", pattern="def high_water", path=f"{CWD}/src", glob="*.py")
    read = call("02", "read", path=f"{CWD}/src/tides/extrema.py", offset=1, limit=40)
    t.answer(
        m.Thinking(
            "04:51 and 17:02 are about twelve hours apart, so both are probably high waters of the same day. "
            "The program should print the *higher* one. Let me look at how it picks.\n\n"
            "On the 17th the two must be almost equal: spring tides."
        ),
        "Twelve hours and eleven minutes apart: that is the *other* high water of the same day. "
        "I'll look at how one is chosen.",
        grep,
        read,
    )
    t.result(grep, "src/tides/extrema.py:14: def high_water(samples: Sequence[Sample]) -> Sample:")
    t.result(read, EXTREMA, details={})
    run = call("03", "bash", command="python -m pytest -q tests/test_extrema.py 2>&1 | tail -n 30", timeout=60)
    t.answer("There are tests for it. Let me see what they say before I change anything.", run)
    t.result(run, PYTEST_FAILS, error=True)


def _fixing(t: Telling) -> str:
    found = t.answer(
        m.Thinking("The comparison uses >, so the first of two equal samples wins. And heights are rounded first."),
        """Found it. Two things come together:

1. Heights are **rounded to decimetres** before they are compared (`_rounded`), so 6.94 m and 6.88 m are both `6.9`.
2. With equal heights `max` returns the *first*, and the first is the night tide.

| date | night | day | rounded | printed |
|---|--:|--:|--:|---|
| 16 March | 6.71 | 6.83 | 6.7 / 6.8 | day |
| **17 March** | **6.88** | **6.94** | **6.9 / 6.9** | **night** |
| 18 March | 6.97 | 6.91 | 7.0 / 6.9 | night |

The comparison should see what was measured, and only the printing should round:

```python
def high_water(samples: Sequence[Sample]) -> Sample:
    return max(peaks(samples), key=lambda sample: sample.height)
```

Shall I do that? See also the [harbour board's tables](https://example.org/brest/2026).""",
    )
    t.add(e.Label, found, "cause")
    t.user("Yes, please. And a test with the numbers of that day.")
    edit = call(
        "04",
        "edit",
        path=f"{CWD}/src/tides/extrema.py",
        edits=[{"oldText": "key=_rounded", "newText": "key=lambda sample: sample.height"}],
    )
    write = call("05", "write", path=f"{CWD}/tests/test_march.py", content=TEST_FILE)
    t.answer(edit, write)
    t.result(edit, "Successfully replaced 1 block(s) in src/tides/extrema.py.", details={"diff": DIFF})
    t.result(write, f"Successfully wrote {len(TEST_FILE)} bytes to tests/test_march.py")
    again = call("06", "bash", command="python -m pytest -q")
    t.answer(again)
    t.result(again, PYTEST_PASSES)
    return t.answer("All 47 tests pass, the new one among them. `tides brest` now prints **17:02** for that day.")


def _other_way(t: Telling, fork: str) -> None:
    t.leaf = fork
    t.user("Could we keep the rounding and prefer the later of two equal tides instead?")
    t.answer(
        "We could, but it would only hide the mistake: with 6.94 m at night and 6.88 m by day it would print the "
        "lower one. I would not do it."
    )
    t.user("Right. Forget it.")
    t.answer("Forgotten.", model=SONNET)


def _drawing(t: Telling) -> None:
    t.minutes += 26 * 60
    t.add(
        e.BranchSummaryEntry,
        "0",
        "## Goal\nKeep the rounding, prefer the later tide.\n\n## Outcome\n- [x] looked at\n- [ ] done\n\n"
        "Rejected: it prints the *lower* tide whenever the night tide is higher.",
    )
    t.says(m.BashExecution("git switch -c march-17 && git commit -qam 'Compare what was measured'", "", 0))
    t.add(
        e.CompactionEntry,
        "## Goal\nThe right high water for 17 March.\n\n"
        "## Progress\n### Done\n- [x] `high_water` compares measured heights\n- [x] `tests/test_march.py`\n\n"
        "## Next Steps\n1. Draw the day",
        str(t.leaf),
        152_384,
    )
    t.add(e.ModelChange, "anthropic", OPUS)
    t.user(
        "Now draw the curve of that day, so that I can put it into the release notes.\n\nThis is the old one:", PICTURE
    )
    draw = call("07", "bash", command="python scripts/draw.py --date 2026-03-17 --out build/march-17.png")
    t.answer(m.Thinking("A script exists. Run it, look at the picture."), draw, model=OPUS)
    t.result(draw, "reading 1440 samples\n\x1b[32mwrote\x1b[0m build/march-17.png")
    look = call("08", "read", path=f"{CWD}/build/march-17.png")
    weather = call("09", "weather_on_day", place="Brest", date="2026-03-17", fields=["pressure", "wind"])
    t.answer(look, weather, model=OPUS)
    t.result(look, "Read image file [image/png]", CURVE)
    t.result(weather, '{"pressure": 1021, "wind": "NE 3"}')
    t.add(e.CustomMessageEntry, "reminder", "The release is **on Friday**; the notes are due a day before.", True)
    t.answer("Here it is, with", model=OPUS, stop="error", error="overloaded_error: Overloaded (529)")
    t.answer(
        """Here it is. The two high waters are six centimetres apart, at 04:51 and at 17:02:

> High pressure (1021 hPa) holds the water down a little on both.

- [x] curve drawn: `build/march-17.png`
- [ ] release notes""",
        model=OPUS,
    )


def long_session(count: int, seed: int = 5) -> Export:
    """`count` entries of the usual kinds and sizes, none like the other, with a side branch now and then."""
    chance = random.Random(seed)
    t = Telling()
    while len(t.entries) < count:
        if chance.random() < 0.1 or t.leaf is None:
            t.user(_sentences(chance, 2))
        elif chance.random() < 0.02:
            back = t.leaf
            t.user(_sentences(chance, 1))
            t.answer(_sentences(chance, 3))
            t.leaf = back
        elif chance.random() < 0.15:
            t.answer(_sentences(chance, 4) + "\n\n```python\n" + _code(chance, 8) + "\n```\n\n" + _points(chance))
        else:
            _tool_turn(t, chance)
    entries = t.entries[:count]
    header = e.Header(id="long", timestamp="2026-03-17T09:12:44.108Z", cwd=CWD)
    return Export(header, entries, t.leaf if len(entries) == len(t.entries) else entries[-1].id, "0.1.0", "A long one")


def _tool_turn(t: Telling, chance: random.Random) -> None:
    id, path = f"{len(t.entries)}", f"{CWD}/src/part_{chance.randrange(200)}.py"
    match chance.choice(["bash", "bash", "read", "read", "edit", "write"]):
        case "bash":
            made = call(id, "bash", command=f"grep -rn {_name(chance)} src | head -n {chance.randrange(5, 60)}")
            output = "\n".join(f"src/{_name(chance)}.py:{n}: {_name(chance)}" for n in range(chance.randrange(2, 60)))
            details: Any = {}
        case "read":
            made, output, details = call(id, "read", path=path), _code(chance, chance.randrange(5, 120)), None
        case "write":
            made = call(id, "write", path=path, content=_code(chance, chance.randrange(5, 60)))
            output, details = f"Successfully wrote 400 bytes to {path}", None
        case _:
            made = call(id, "edit", path=path, edits=[{"oldText": _name(chance), "newText": _name(chance)}])
            rows = _code(chance, 12).split("\n")
            signs = "    -+--++  "
            diff = "\n".join(f"{sign}{n + 40} {row}" for n, (sign, row) in enumerate(zip(signs, rows, strict=True)))
            output, details = f"Successfully replaced 1 block(s) in {path}.", {"diff": diff}
    thought = [m.Thinking(_sentences(chance, 3))] if chance.random() < 0.5 else []
    t.answer(*thought, *([_sentences(chance, 1)] if chance.random() < 0.5 else []), made)
    t.result(made, output, details=details)


def _name(chance: random.Random) -> str:
    return "_".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 4)))


def _sentences(chance: random.Random, count: int) -> str:
    words = [[chance.choice(WORDS) for _ in range(chance.randrange(6, 16))] for _ in range(count)]
    return " ".join(f"{' '.join(some).capitalize()} `{_name(chance)}`." for some in words)


def _points(chance: random.Random) -> str:
    return "\n".join(f"- **{_name(chance)}**: {_sentences(chance, 1)}" for _ in range(4))


def _code(chance: random.Random, lines: int) -> str:
    kinds = [
        "def {}({}: int) -> str:",
        "    return {}({!r})  # why",
        "    if {} > 12: {} = None",
        "class {}: pass  # {}",
    ]
    return "\n".join(chance.choice(kinds).format(_name(chance), _name(chance)) for _ in range(lines))


WORDS = ["tide", "water", "height", "sample", "harbour", "moon", "level", "gauge", "chart", "wave", "depth", "anchor"]

EXTREMA = '''"""High and low water of a day."""

from collections.abc import Iterator, Sequence

from tides.samples import Sample


def _rounded(sample: Sample) -> float:
    # the printed tables have decimetres
    return round(sample.height, 1)


def high_water(samples: Sequence[Sample]) -> Sample:
    """The highest water of a day."""
    return max(peaks(samples), key=_rounded)


def low_water(samples: Sequence[Sample]) -> Sample:
    return min(troughs(samples), key=_rounded)


def peaks(samples: Sequence[Sample]) -> Iterator[Sample]:
    for before, here, after in zip(samples, samples[1:], samples[2:]):
        if before.height < here.height >= after.height:
            yield here

[18 more lines in file. Use offset=41 to continue.]'''.replace("\n\n[18", "\n\n\n[18")

PYTEST_FAILS = """..........F.....................                                         [100%]
=================================== FAILURES ===================================
____________________________ test_spring_tide __________________________________

    def test_spring_tide():
>       assert high_water(day("2026-03-17")).time == time(17, 2)
E       AssertionError: assert datetime.time(4, 51) == datetime.time(17, 2)
E        +  where datetime.time(4, 51) = Sample(time=datetime.time(4, 51), height=6.88).time

tests/test_extrema.py:31: AssertionError
=========================== short test summary info ============================
FAILED tests/test_extrema.py::test_spring_tide - AssertionError: assert datet...
1 failed, 31 passed in 0.42s


Command exited with code 1"""

PYTEST_PASSES = """...............................................                          [100%]
47 passed in 0.58s"""

DIFF = """ 11     return round(sample.height, 1)
 12 
 13 
 14 def high_water(samples: Sequence[Sample]) -> Sample:
 15     \"\"\"The highest water of a day.\"\"\"
-16     return max(peaks(samples), key=_rounded)
+16     return max(peaks(samples), key=lambda sample: sample.height)
 17 
 18 
 19 def low_water(samples: Sequence[Sample]) -> Sample:
-20     return min(troughs(samples), key=_rounded)
+20     return min(troughs(samples), key=lambda sample: sample.height)
    ...
+44 
+45 def printed(sample: Sample) -> str:
+46     return f"{sample.time:%H:%M}  {sample.height:.1f} m\""""

TEST_FILE = '''"""17 March 2026: two high waters that differ by six centimetres."""

from datetime import time

import pytest

from tides.extrema import high_water, low_water
from tides.samples import Sample, day


@pytest.mark.parametrize(
    ("date", "expected"),
    [("2026-03-16", time(16, 19)), ("2026-03-17", time(17, 2)), ("2026-03-18", time(5, 34))],
)
def test_the_higher_of_two_tides_is_high_water(date: str, expected: time) -> None:
    assert high_water(day(date)).time == expected


def test_low_water_is_measured_too() -> None:
    night, noon = Sample(time(10, 58), 0.94), Sample(time(23, 12), 0.91)
    assert low_water([Sample(time(0), 3), night, Sample(time(17), 6), noon, Sample(time(23, 59), 2)]) == noon
'''

SYSTEM_PROMPT = """You are a coding agent in a terminal.

Available tools: read, bash, edit, write, grep.

Guidelines:
- Read a file before you change it.
- Show paths clearly.

Current working directory: /home/ana/tides"""

TOOLS = [
    OfferedTool(
        "read",
        "Read a text file or look at an image.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the file"},
                "offset": {"type": "number", "description": "First line, from 1"},
                "limit": {"type": "number", "description": "How many lines"},
            },
            "required": ["path"],
        },
    ),
    OfferedTool(
        "bash",
        "Run a command in a shell.",
        {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    ),
]


def png(width: int, height: int, colour: Any) -> m.Image:
    """A picture from colour(x, y) -> (red, green, blue)."""
    rows = b"".join(b"\0" + b"".join(bytes(colour(x, y)) for x in range(width)) for y in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return m.Image(base64.b64encode(data).decode(), "image/png")


def _sea(width: int, height: int, water: tuple[int, int, int]) -> m.Image:
    def level(x: float) -> float:
        return height * (0.5 - 0.36 * math.sin((x / width * 2 - 0.15) * 2 * math.pi) - 0.02 * (x / width))

    def colour(x: int, y: int) -> tuple[int, ...]:
        share = min(1.0, max(0.0, y - level(x) + 0.5))
        depth = min(1.0, max(0.0, (y - level(x)) / height * 1.6))
        sky = (250, 248, 243) if x % (width // 8) and y % (height // 6) else (233, 229, 219)
        under = tuple(round(part + (255 - part) * 0.75 * depth) for part in water)
        return tuple(round(a + (b - a) * share) for a, b in zip(sky, under, strict=True))

    return png(width, height, colour)


PICTURE = _sea(240, 100, (140, 140, 140))
CURVE = _sea(560, 210, (37, 107, 102))
