"""The terminal interface: what is drawn, how soon, and what it costs. Each program has a pseudo terminal of its own.

What is on the screen is told from what is written: the footer of a new session ends with its share of the context,
a key is a letter that stands nowhere else, an answer ends with "Finished.".
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM
from statistics import median, quantiles

from benchmarks import sessions
from benchmarks.job import ALONE, Job, Place, Target, Values
from benchmarks.peers import CHOSEN, Contender, work
from benchmarks.streams import FINISHED
from benchmarks.terminal import COLUMNS, ROWS, TerminalProgram

DRAWN = b"%/2000M"  # the share of the context that is used, in the footer
LETTERS = b"QXZVYJUB"
KEYS = 40
BETWEEN_KEYS = 0.03  # seconds
CLEAR_LINE = b"\x15"  # Ctrl+U
ESCAPE, CTRL_O = b"\x1b", b"\x0f"
CLEARS = re.compile(rb"\x1b\[3J|\x1bc")
FRAME = re.compile(rb"\x1b\[\?2026h.*?\x1b\[\?2026l", re.DOTALL)
MESSAGES = 1_000
PIECES, SLOW_PIECES = 3_000, 200
RESIZES = 20
PASTED = b"a line of text that somebody has copied from a log file\n" * 18_000  # 1 MB
WATCHED = 3.0  # seconds
STALL = 8.0  # seconds
PEER = "0.87.1"
STEP = "21"


@contextmanager
def at_prompt(place: Place, contender: Contender, stream: str, *flags: str) -> Iterator[TerminalProgram]:
    """The program, its prompt drawn, idle."""
    with place.home() as home, opened(contender, home, place.mock.url(stream), flags=flags) as program:
        program.until(DRAWN)
        program.until_idle()
        yield program


def opened(
    contender: Contender, home: Path, url: str, deadline: float = 120.0, flags: Sequence[str] = ()
) -> TerminalProgram:
    contender.prepare(home, url)
    argv = [*contender.argv, *CHOSEN, *(flags or ("--no-session",))]
    return TerminalProgram(argv, work(home), contender.environment(home), deadline)


@contextmanager
def in_long_session(place: Place, contender: Contender, stream: str) -> Iterator[TerminalProgram]:
    """The same with a session of 1,000 messages."""
    made = place.shared("messages.jsonl")
    if not made.exists():
        sessions.make(made, place.folder, MESSAGES + 1)
    copy = Path(shutil.copyfile(made, place.shared(f"messages-{contender.name}.jsonl")))
    with at_prompt(place, contender, stream, "--session", str(copy)) as program:
        yield program


# Starting


def to_prompt(place: Place, contender: Contender) -> Values:
    with place.home() as home, opened(contender, home, place.mock.url("one")) as program:
        start, cpu, written = program.until(DRAWN), program.cpu(), program.written
        program.until_idle()
        return {"start": start * 1e3, "CPU": cpu * 1e3, "memory": program.pss(), "written": written}


# Keys


def typed(program: TerminalProgram, count: int = KEYS) -> Values:
    """Type letters, each when the one before is on the screen."""
    times, cpu, written = [], program.cpu(), 0
    for number in range(count):
        time.sleep(BETWEEN_KEYS)
        program.take(0.0)
        at = number % len(LETTERS)
        before, started = program.written, time.perf_counter()
        letter = LETTERS[at : at + 1]
        program.type(letter)
        program.until(letter, before)
        times.append(time.perf_counter() - started)
        written += program.written - before
        if at == len(LETTERS) - 1:
            program.type(CLEAR_LINE)
            while not program.take(1.0):  # the next letter comes when the line is empty on the screen
                pass
            program.until_quiet(0.1)
    program.watch(BETWEEN_KEYS)
    return {
        "key": median(times) * 1e3,
        "key, p95": quantiles(times, n=20)[-1] * 1e3,
        "CPU per key": (program.cpu() - cpu) / count * 1e6,
        "bytes per key": written / count,
    }


def keys(place: Place, contender: Contender) -> Values:
    with at_prompt(place, contender, "one") as program:
        return typed(program)


def keys_while_streaming(place: Place, contender: Contender) -> Values:
    with at_prompt(place, contender, f"markdown-{PIECES}") as program:
        _first_prompt(program)
        program.send()
        program.until(b"index", program.written)
        found = typed(program, 30)
        return {name: found[name] for name in ("key", "key, p95")}


# Streaming


def _first_prompt(program: TerminalProgram) -> None:
    """With a short answer: what is loaded for it is not counted in what follows."""
    program.until(b"done", program.send())
    program.until_idle()


def _streamed(program: TerminalProgram, pieces: int) -> Values:
    _first_prompt(program)
    cpu, before = program.cpu(), program.written
    program.until(FINISHED.encode(), program.send())
    program.until_quiet()
    output = bytes(program.output[before:])
    return {
        "CPU per piece": (program.cpu() - cpu) / pieces * 1e6,
        "bytes per piece": len(output) / pieces,
        "biggest frame": max((len(frame) for frame in FRAME.findall(output)), default=0),
    }


def streamed(place: Place, contender: Contender) -> Values:
    with at_prompt(place, contender, f"markdown-{PIECES}") as program:
        return _streamed(program, PIECES)


def streamed_slowly(place: Place, contender: Contender) -> Values:
    with at_prompt(place, contender, f"slow-{SLOW_PIECES}") as program:
        return _streamed(program, SLOW_PIECES)


# A long session


def long_session(place: Place, contender: Contender) -> Values:
    empty = {**keys(place, contender), **streamed(place, contender)}
    with in_long_session(place, contender, f"markdown-{PIECES}") as program:
        opened = {"CPU to open": program.cpu() * 1e3, "written to open": program.written, "memory": program.pss()}
        typing = typed(program)
        streaming = _streamed(program, PIECES)
        then = {"memory after 3,000 pieces": program.pss()}
    to_empty = {f"{name}, to empty": {**typing, **streaming}[name] / empty[name] for name in TO_EMPTY}
    return {**opened, **typing, **streaming, **then, **to_empty}


def redrawn(place: Place, contender: Contender) -> Values:
    with in_long_session(place, contender, "one") as program:
        cpu, before = program.cpu(), program.written
        for number in range(RESIZES):
            program.resize(ROWS - number % 3, COLUMNS - 1 - number)
            program.watch(0.15)
        program.until_idle()
        resized = bytes(program.output[before:])
        found = {
            "20 resizes": (program.cpu() - cpu) * 1e3,
            "bytes of 20 resizes": len(resized),
            "clears of 20 resizes": len(CLEARS.findall(resized)),
        }
        before = program.written
        program.type(CTRL_O)
        program.until_idle()
        toggled = bytes(program.output[before:])
        return {**found, "bytes of Ctrl+O": len(toggled), "clears of Ctrl+O": len(CLEARS.findall(toggled))}


# The rest


def pasted(place: Place, contender: Contender) -> Values:
    with at_prompt(place, contender, "one") as program:
        cpu, before, started = program.cpu(), program.written, time.perf_counter()
        program.paste(PASTED)
        program.until(b"[paste #1", before)
        shown = time.perf_counter() - started
        program.until_idle()
        return {
            "marker": shown * 1e3,
            "CPU": (program.cpu() - cpu) * 1e3,
            "written": program.written - before,
        }


def waiting(place: Place, contender: Contender) -> Values:
    """While the model has not said anything yet, and while nothing goes on at all."""
    with at_prompt(place, contender, "silent-60") as program:
        _first_prompt(program)
        idle = _per_second(program, "idle")
        program.until(b"Working", program.send())
        program.watch(1.0)
        return {**_per_second(program, "waiting"), **idle}


def _per_second(program: TerminalProgram, name: str) -> Values:
    cpu, before = program.cpu(), program.written
    program.watch(WATCHED)
    return {
        f"{name}, bytes per second": (program.written - before) / WATCHED,
        f"{name}, CPU %": (program.cpu() - cpu) / WATCHED * 100,
    }


def signalled(place: Place, contender: Contender) -> Values:
    found = {}
    for number in (SIGINT, SIGTERM, SIGHUP):
        with at_prompt(place, contender, "one") as program:
            found[number.name] = float(program.end(number))
    return found


def stopped(place: Place, contender: Contender) -> Values:
    with at_prompt(place, contender, f"markdown-{PIECES}") as program:
        _first_prompt(program)
        program.until(b"buffer", program.send())
        before, started = program.written, time.perf_counter()
        program.type(ESCAPE)
        program.until_any((b"Stopped", b"aborted"), before)
        return {"Esc to said so": (time.perf_counter() - started) * 1e3}


def stalled(place: Place, contender: Contender) -> Values:
    """A terminal that takes nothing for a while."""
    with at_prompt(place, contender, f"markdown-{int(STALL * 1_000)}") as program:
        _first_prompt(program)
        program.until(b"buffer", program.send())
        before = program.pss()
        time.sleep(STALL)
        return {"growth": max(0.0, program.pss() - before)}


TO_EMPTY = ("key", "CPU per key", "CPU per piece")
STREAM_UNITS = {"CPU per piece": "CPU us", "bytes per piece": "bytes", "biggest frame": "bytes"}
KEY_UNITS = {"key": "ms", "key, p95": "ms", "CPU per key": "CPU us", "bytes per key": "bytes"}

JOBS = [
    Job(
        "tty-start",
        "at a terminal: from the start of the process until the prompt is drawn; memory when it rests then",
        to_prompt,
        {"start": "ms", "CPU": "CPU ms", "memory": "MB", "written": "bytes"},
        [
            Target("start", 0.4, PEER, STEP),
            Target("CPU", 0.35, PEER, STEP),
            Target("memory", 30, ALONE, STEP),
            Target("written", 1_600, ALONE, STEP),
        ],
        warm=True,
    ),
    Job(
        "tty-keys",
        "from a key to its letter on the screen, in an empty session",
        keys,
        KEY_UNITS,
        [Target("key", 0.5, PEER, STEP), Target("bytes per key", 60, ALONE, STEP)],
    ),
    Job(
        "tty-keys-streaming",
        "the same while an answer comes in 1,000 pieces a second",
        keys_while_streaming,
        {"key": "ms", "key, p95": "ms"},
        [Target("key", 0.5, PEER, STEP)],
    ),
    Job(
        "tty-stream",
        "3,000 pieces of Markdown on the screen, 1,000 a second",
        streamed,
        STREAM_UNITS,
        [
            Target("CPU per piece", 0.35, PEER, STEP),
            Target("bytes per piece", 45, ALONE, STEP),
            Target("biggest frame", 4_000, ALONE, STEP),
        ],
    ),
    Job(
        "tty-stream-slow",
        "200 pieces of Markdown on the screen, 50 a second",
        streamed_slowly,
        STREAM_UNITS,
        [Target("CPU per piece", 0.35, PEER, STEP), Target("bytes per piece", 150, ALONE, STEP)],
    ),
    Job(
        "tty-long",
        "a session of 1,000 messages: opened, keys, 3,000 pieces of Markdown",
        long_session,
        {
            "CPU to open": "CPU ms",
            "written to open": "bytes",
            "memory": "MB",
            **KEY_UNITS,
            **STREAM_UNITS,
            "memory after 3,000 pieces": "MB",
            **{f"{name}, to empty": "" for name in TO_EMPTY},
        },
        [
            Target("CPU to open", 0.25, PEER, STEP),
            Target("written to open", 60_000, ALONE, STEP),
            Target("memory", 45, ALONE, STEP),
            Target("key", 0.1, PEER, STEP),
            Target("CPU per piece", 0.3, PEER, STEP),
            Target("bytes per piece", 45, ALONE, STEP),
            Target("memory after 3,000 pieces", 50, ALONE, STEP),
            Target("key, to empty", 1.5, ALONE, STEP),
            Target("CPU per piece, to empty", 1.1, ALONE, STEP),
        ],
    ),
    Job(
        "tty-redraw",
        "20 sizes of the terminal and Ctrl+O in a session of 1,000 messages; clears are those of the scrollback",
        redrawn,
        {
            "20 resizes": "CPU ms",
            "bytes of 20 resizes": "bytes",
            "clears of 20 resizes": "",
            "bytes of Ctrl+O": "bytes",
            "clears of Ctrl+O": "",
        },
        [
            Target("20 resizes", 150, ALONE, STEP),
            Target("bytes of 20 resizes", 60_000, ALONE, STEP),
            Target("clears of 20 resizes", 0, ALONE, STEP),
            Target("bytes of Ctrl+O", 20_000, ALONE, STEP),
            Target("clears of Ctrl+O", 0, ALONE, STEP),
        ],
    ),
    Job(
        "tty-paste",
        "1 MB pasted: until its marker is on the screen",
        pasted,
        {"marker": "ms", "CPU": "CPU ms", "written": "bytes"},
        [Target("CPU", 0.5, PEER, STEP), Target("written", 400, ALONE, STEP)],
    ),
    Job(
        "tty-waiting",
        "while nothing happens: waiting for the model, and idle",
        waiting,
        {
            "waiting, bytes per second": "bytes",
            "waiting, CPU %": "",
            "idle, bytes per second": "bytes",
            "idle, CPU %": "",
        },
        [
            Target("waiting, bytes per second", 400, ALONE, STEP),
            Target("waiting, CPU %", 0.5, ALONE, STEP),
            Target("idle, bytes per second", 0, ALONE, STEP),
            Target("idle, CPU %", 0.05, ALONE, STEP),
        ],
    ),
    Job(
        "tty-signals",
        "modes of the terminal that are not set back after a signal (5 s are given)",
        signalled,
        {"SIGINT": "", "SIGTERM": "", "SIGHUP": ""},
        [Target(name, 0, ALONE, STEP) for name in ("SIGINT", "SIGTERM", "SIGHUP")],
        rounds=1,
    ),
    Job(
        "tty-escape",
        "from Esc while an answer comes until the screen says that it was stopped",
        stopped,
        {"Esc to said so": "ms"},
    ),
    Job(
        "tty-stalled",
        "memory that is added while the terminal takes nothing for 8 s and an answer comes",
        stalled,
        {"growth": "MB"},
        [Target("growth", 2, ALONE, STEP)],
        rounds=5,
    ),
]
