"""The footer: two lines about the session, and the statuses of extensions below them.

A narrow screen drops parts in a fixed order; a line is never wrapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tau.records.base import Value
from tau.screen.cells import clip_line, line_width, text_width
from tau.screen.lines import Line, Span
from tau.screen.safe_text import one_line

WARNING_PERCENT = 70
ERROR_PERCENT = 90
MIN_FOLDER = 12  # columns of the folder that are kept before a flag is dropped


class Totals(Value):
    """Tokens and cost of all entries of the session, every branch included."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0


class FooterState(Value):
    """`context_percent` is None when it is not known, as after a compaction. `level` is "" for models that do not
    think. `provider` is "" when there is only one. `flags` are words such as "ask", "sandbox: strict", "offline".
    """

    cwd: str  # with ~ for the home folder
    branch: str = ""
    name: str = ""
    totals: Totals = Totals()
    context_percent: float | None = None
    context_window: int = 0
    auto_compact: bool = False
    provider: str = ""
    model: str = ""
    level: str = ""
    flags: tuple[str, ...] = ()
    statuses: Mapping[str, str] = {}


class Footer:
    """The footer of a session: its rows are made again when the state or the width has changed."""

    def __init__(self) -> None:
        self.state = FooterState("")
        self._made: tuple[FooterState, int, list[Line]] | None = None

    def lines(self, width: int) -> list[Line]:
        if self._made is None or self._made[0] is not self.state or self._made[1] != width:
            self._made = self.state, width, footer_lines(self.state, width)
        return self._made[2]


def footer_lines(state: FooterState, width: int) -> list[Line]:
    lines = [_first(state, width), _second(state, width)]
    if state.statuses:
        texts = [one_line(state.statuses[key]) for key in sorted(state.statuses)]
        lines.append(_clip((Span(" ".join(text for text in texts if text), "dim"),), width))
    return lines


def short_folder(cwd: str, home: str) -> str:
    """A folder with ~ for the home folder."""
    if home and (cwd == home or cwd.startswith(home.rstrip("/") + "/")):
        return "~" + cwd[len(home.rstrip("/")) :]
    return cwd


def count_text(number: int) -> str:
    """900, 1.2k, 12k, 1.2M, 12M."""
    if number < 1000:
        return str(number)
    for size, unit in ((1_000, "k"), (1_000_000, "M")):
        if number < 10 * size - size // 20:
            return f"{number / size:.1f}{unit}"
        if number < 1000 * size - size // 2 or unit == "M":
            return f"{number / size:.0f}{unit}"
    raise AssertionError


def _first(state: FooterState, width: int) -> Line:
    folder = one_line(state.cwd)
    branch = f" ({one_line(state.branch)})" if state.branch else ""
    name = f" • {one_line(state.name)}" if state.name else ""
    flags = [one_line(flag) for flag in state.flags]
    right = " · ".join(flags)
    # The name goes first, then the branch; then the folder gets shorter; then flags are dropped from the right.
    for left in (folder + branch + name, folder + branch, folder):
        if line := _both((Span(left, "dim"),), (Span(right, "warning"),) if right else (), width):
            return line
    while flags and text_width(" · ".join(flags)) + MIN_FOLDER + 1 > width:
        flags.pop()
    right = " · ".join(flags)
    room = width - text_width(right) - 2 if right else width
    left = _end_of(folder, room)
    return _both((Span(left, "dim"),), (Span(right, "warning"),) if right else (), width) or _clip(
        (Span(left, "dim"),), width
    )


def _end_of(path: str, room: int) -> str:
    """The end of a path: whole names if possible."""
    if text_width(path) <= room:
        return path
    parts = path.split("/")
    while len(parts) > 1:
        parts.pop(0)
        if text_width(shown := "…/" + "/".join(parts)) <= room:
            return shown
    return path[-max(room, 1) :] if room < 3 else "…" + path[-(room - 1) :]


# The parts of the second line, in the order in which a narrow screen drops them.
_DROPPED = ("provider", "write", "read", "input", "output", "auto", "cost", "level", "model")


def _second(state: FooterState, width: int) -> Line:
    parts = _parts(state)
    for count in range(len(_DROPPED) + 1):
        kept = {name: line for name, line in parts.items() if name not in _DROPPED[:count]}
        left = _joined([kept[name] for name in ("input", "output", "read", "write", "cost") if name in kept])
        context = kept["context"] + kept.get("auto", ())
        left = _joined([left, context] if left else [context])
        model = kept.get("provider", ()) + kept.get("model", ()) + kept.get("level", ())
        if line := _both(left, model, width):
            return line
    return _clip(parts["context"], width)


def _parts(state: FooterState) -> dict[str, Line]:
    totals = state.totals
    texts = {
        "input": f"↑{count_text(totals.input)}" if totals.input else "",
        "output": f"↓{count_text(totals.output)}" if totals.output else "",
        "read": f"R{count_text(totals.cache_read)}" if totals.cache_read else "",
        "write": f"W{count_text(totals.cache_write)}" if totals.cache_write else "",
        "cost": f"${totals.cost:.3f}" if totals.cost else "",
        "auto": " (auto)" if state.auto_compact else "",
        "provider": f"({one_line(state.provider)}) " if state.provider else "",
        "model": one_line(state.model) or "no model",
        "level": f" • {'thinking off' if state.level == 'off' else one_line(state.level)}" if state.level else "",
    }
    parts: dict[str, Line] = {name: (Span(text, "dim"),) for name, text in texts.items() if text}
    parts["context"] = (_context(state),)
    return parts


def _context(state: FooterState) -> Span:
    percent, window = state.context_percent, count_text(state.context_window)
    if percent is None:
        return Span(f"?/{window}", "dim")
    style = "error" if percent > ERROR_PERCENT else "warning" if percent > WARNING_PERCENT else "dim"
    return Span(f"{percent:.1f}%/{window}", style)


def _joined(parts: Sequence[Line]) -> Line:
    line: Line = ()
    for part in parts:
        line = (*line, Span(" ", "dim"), *part) if line else part
    return line


def _both(left: Line, right: Line, width: int) -> Line | None:
    """Text at the left and at the right, or None if it does not fit. With width 0, everything fits."""
    if width == 0:
        return (*left, Span("  "), *right) if right else left
    spare = width - line_width(left) - line_width(right)
    if spare < (2 if right else 0):
        return None
    return (*left, Span(" " * spare), *right) if right else left


def _clip(line: Line, width: int) -> Line:
    return clip_line(line, width) if width else line
