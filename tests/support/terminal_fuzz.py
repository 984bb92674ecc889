"""Random keys, pastes, sizes, focus changes and replies at the whole interface: nothing may break it.

After each round the screen must be what a fresh draw shows, and now and then the program must be left in order.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from support.interface import REDRAW, REDRAW_KEY, RULE, Interface
from support.rpc_process import Json, calls
from support.terminal_keys import key_bytes

LOOKS = 10  # at a screen that should be at rest
ROUND = 1000  # events between two looks at the screen at rest
BURST = 25  # events that are written at once, at most
ESCAPE = b"\x1b[27u"
END_OF_PASTE = b"\x1b[201~"

SETTINGS: Json = {"doubleEscapeAction": "none", "retry": {"maxRetries": 1, "baseDelayMs": 10}, "externalEditor": "true"}
EXTENSION = """
def setup(pi):
    pi.register_shortcut("f9", lambda ctx: ctx.ui.notify("f9 pressed"))

    @pi.command("ext")
    async def ext(args, ctx):
        ctx.ui.set_status("s", args)
        ctx.ui.set_widget("w", [args, "second"])
        ctx.ui.set_widget("b", [args], "belowEditor")
        ctx.ui.notify(str(await ctx.ui.select("Which?", ["one", "two", args], timeout=2000)))
        ctx.ui.notify(str(await ctx.ui.input("Name?", args, timeout=2000)))
"""
MARKDOWN = ["Some *text* ", "and `code`.\n\n", "- a\n- b\n", "\n| a | b |\n|-|-|\n| 1 | 2 |"]
SCRIPT: list[Json] = [
    {"blocks": [{"thinking": "Let me see."}, {"text": MARKDOWN}]},
    calls("echo one; seq 30", "echo two"),
    {"blocks": [{"text": [f"word{number} " for number in range(300)]}], "delayMs": 1},
    {"blocks": [], "error": {"message": "529 overloaded"}},
    {"blocks": [{"tool": "write", "arguments": {"path": "new", "content": "x\n" * 40}}]},
    {"text": "漢字 and 👍 and é and " + "long" * 100},
    {"blocks": [{"tool": "read", "arguments": {"path": "new"}}, {"text": "```python\nx = 1\n```"}]},
] * 40  # fmt: skip

KEYS = [
    *["up", "down", "left", "right", "home", "end", "pageUp", "pageDown", "backspace", "delete", "tab", "shift+tab"],
    *["enter", "enter", "enter", "shift+enter", "alt+enter", "alt+up", "ctrl+left", "alt+b", "alt+f", "alt+d", "alt+y"],
    *[f"ctrl+{letter}" for letter in "abefgklnopqrstuvwxyz"],
    *["ctrl+-", "ctrl+]", "insert", "space", "alt+backspace", "alt+o", "?"],
]
RARE_KEYS = ["ctrl+c", "ctrl+d", "ctrl+j"]
# Without zero-width characters, which pyte takes for the end of what it draws.
CHARACTERS = [*"abcdeo 1234/!@#.,:;'\"-_éß漢字👍[]()", "e\u0301"]
COMMANDS = ["ext a", "fork", "model", "name n", "new", "session", "hotkeys", "resume", "help", "redraw", "thinking"]
COMMANDS += ["tree", "settings", "permissions", "transcript", "compact", "clone", "copy", "nothing", "scoped-models"]
REPLIES = [
    b"\x1b[I",
    b"\x1b[O",
    b"\x1b[?0u",
    b"\x1b[?62;22c",
    b"\x1b]11;rgb:ff/ff/ff\x1b\\",
    b"\x1b[?2026;2$y",
    b"\x1b[?997;1n",
]
REPLIES += [b"\x1b[<0;3;4M", b"\x1b[1;1R", b"\x1b[24~", b"\x1b[20~"]
REPLIES += [b"\xff", b"\x9b", b"\x00", b"\x1b", b"\x1b[", b"\x1bO"]


class Findings(NamedTuple):
    events: int
    starts: int


def fuzz_at_once(folder: Path, events: int, seed: int, processes: int) -> Findings:
    """Several programs, side by side, share the events."""
    with ThreadPoolExecutor(processes) as pool:
        jobs = [
            pool.submit(fuzz, folder / f"{number}", events // processes, seed + number) for number in range(processes)
        ]
        found = [job.result() for job in jobs]
    return Findings(sum(one.events for one in found), sum(one.starts for one in found))


def fuzz(folder: Path, events: int, seed: int) -> Findings:
    """Raises AssertionError with the seed at the first finding."""
    source = random.Random(seed)
    done = starts = 0
    while done < events:
        place = folder / str(starts)
        starts += 1
        try:
            done += _play(place, source, events - done)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, start {starts}, after {done} events: {error}") from error
    return Findings(done, starts)


def _play(folder: Path, source: random.Random, limit: int) -> int:
    """One program, until an event ends it or all are done. Returns the number of events."""
    folder.mkdir(parents=True)
    (folder / "ext.py").write_text(EXTENSION)
    arguments = ["-e", str(folder / "ext.py"), *(["--permissions", "ask"] if source.random() < 0.5 else [])]
    count = 0
    with Interface(folder, *arguments, script=SCRIPT, settings=SETTINGS, keys=REDRAW, answers="xterm") as tau:
        tau.start()
        while count < limit:
            for _ in range(ROUND // BURST):
                count += _burst(tau, source)
            if tau.process.poll() is not None:
                break
            _look(tau)
        if tau.process.poll() is None:
            for key in (ESCAPE, ESCAPE, ESCAPE, b"\x03"):  # a list and its search may be open
                tau.type(key)
                _watch(tau, 0.6)
            tau.type(b"/quit\r")
        code = tau.wait_end()
        assert code == 0, f"exit code {code}:\n" + "\n".join([*tau.history()[-60:], *tau.screen()])
        assert (tau.modes(), tau.settings_now()) == (set(), tau.settings), tau.modes()
        assert b"Traceback" not in tau.raw(), tau.raw()[tau.raw().index(b"Traceback") :][:3000].decode(errors="replace")
    return count


def _burst(tau: Interface, source: random.Random) -> int:
    count = source.randint(1, BURST * 2)
    rows, columns = source.randint(1, 50), source.randint(1, 140)
    if source.random() < 0.2 and not _is_busy(tau):
        _resize(tau, rows, columns)
    data = b"".join(_event(source) for _ in range(count))
    if tau.process.poll() is None:
        tau.type(data)
    tau.screen()
    return count


def _event(source: random.Random) -> bytes:
    chance = source.random()
    if chance < 0.45:
        return source.choice(CHARACTERS).encode()
    if chance < 0.85:
        return key_bytes(source.choice(KEYS))
    if chance < 0.88:
        return ESCAPE
    if chance < 0.92:
        text = "".join(source.choice([*CHARACTERS, "\r", "\t"]) for _ in range(source.choice([1, 20, 400, 3000])))
        return b"\x1b[200~" + text.encode() + END_OF_PASTE
    if chance < 0.94:
        return b"\x15" + f"/{source.choice(COMMANDS)}\r".encode()  # after Ctrl+U
    if chance < 0.997:
        return source.choice(REPLIES)
    return key_bytes(source.choice(RARE_KEYS))


def _look(tau: Interface) -> None:
    """At rest, the screen is what a fresh draw of the same view shows."""
    tau.type(b"\x1b\\" + END_OF_PASTE)  # the end of whatever is unfinished
    _rest(tau)
    if tau.process.poll() is None:
        _resize(tau, 24, 80)
        _watch(tau, 0.5)
    for _ in range(LOOKS):
        if tau.process.poll() is not None:
            return
        if _is_busy(tau) or tau.take_output(
            0.4
        ):  # a terminal of a few cells had no room to say so, or a run began late
            _rest(tau)
            if tau.process.poll() is None:
                tau.type(REDRAW_KEY)  # the size changed while frames were on their way
            _watch_quiet(tau, 0.3)
            continue
        try:
            if sum(RULE in row for row in tau.screen()) == 2:
                tau.assert_redraw_changes_nothing()
            return
        except AssertionError:
            if not _is_busy(tau):
                raise
    raise AssertionError("it never stayed at rest:\n" + "\n".join(tau.screen()))


def _rest(tau: Interface) -> None:
    """Press Escape until nothing runs and nothing is asked; each time when all that was typed is handled."""
    for _ in range(100):
        if tau.process.poll() is not None:
            return
        tau.wait(lambda _: (not tau.unread() and _is_waiting(tau.process.pid)) or tau.process.poll() is not None)
        _watch(tau, 0.1 if _is_busy(tau) else 0.4)
        if not _is_busy(tau):
            return
        tau.type(ESCAPE)
        _watch(tau, 0.55)  # a second Escape sooner would be for the run
    raise AssertionError("it never came to rest:\n" + "\n".join(tau.screen()))


def _is_waiting(pid: int) -> bool:
    """True if a process has nothing to do, several times in a row: on a busy machine it may wait for its turn."""
    for _ in range(5):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it ended, or the system has no such files
            return True
        if state not in "SZ":
            return False
        time.sleep(0.005)
    return True


def _resize(tau: Interface, rows: int, columns: int) -> None:
    """Not while a frame for the old size is on its way: a terminal that gets it too late shows parts of it twice."""
    tau.wait(lambda _: not tau.unread() or tau.process.poll() is not None)
    _watch_quiet(tau, 0.1)
    tau.resize(rows, columns)


def _watch(tau: Interface, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tau.screen()
        time.sleep(0.01)


def _watch_quiet(tau: Interface, seconds: float) -> None:
    """Until nothing was written for so long, or for half a second: something may run that shows its time."""
    end = time.monotonic() + 5 * seconds
    while tau.take_output(seconds) and time.monotonic() < end:
        pass


def _is_busy(tau: Interface) -> bool:
    shown = "\n".join(tau.screen()[-20:])
    return any(
        word in shown
        for word in (
            "Working",
            "Esc denies",
            "Esc cancels",
            "Tab answers",
            "Elapsed",
            "Summaris",
            "Steering:",
            "Follow-up:",
        )
    )
