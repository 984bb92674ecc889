"""The table of a report: a row for each task, with what it said, changed and checked below it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from html import escape

from tau.core.fleet.estimate import duration
from tau.fleet.display import dollars
from tau.fleet.folder import FleetFolder
from tau.fleet.report.figures import seconds_of, tokens_of
from tau.records.fleet import Result

# Key for sorting, heading, whether it holds numbers.
COLUMNS = (
    ("id", "Task", False),
    ("outcome", "Outcome", False),
    ("turns", "Turns", True),
    ("tokens", "Tokens", True),
    ("cost", "Cost", True),
    ("seconds", "Time", True),
    ("change", "Change", True),
)
MARKS = {
    "done": "✓",
    "solved": "✓",
    "unsolved": "✗",
    "failed": "!",
    "limited": "◔",
    "stuck": "↻",
    "denied": "⊘",
    "stopped": "■",
}
MAX_TEXT = 4_000
MAX_PATCH = 16_000
MAX_DETAILED = 2_000  # tasks with text and patch in the page; of more, only those that need a look
ROWS_OF_A_BODY = 100
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def text(value: str, limit: int = MAX_TEXT) -> str:
    """For HTML: escaped, without control characters, not too long."""
    clean = CONTROLS.sub("\ufffd", value)
    return escape(clean if len(clean) <= limit else f"{clean[:limit]}\n… {len(clean) - limit:,} more characters")


def table(results: Sequence[Result], folder: FleetFolder) -> list[str]:
    """The rows, in groups whose layout the browser can postpone."""
    few = len(results) <= MAX_DETAILED
    rows = [row(one, folder, detailed=few or one.outcome not in ("done", "solved")) for one in results]
    return [
        f'<tbody role="rowgroup">{"".join(rows[start : start + ROWS_OF_A_BODY])}</tbody>'
        for start in range(0, len(rows), ROWS_OF_A_BODY)
    ]


def row(result: Result, folder: FleetFolder, *, detailed: bool) -> str:
    patch, took = result.patch, seconds_of(result)
    change = f"+{patch.added} \u2212{patch.removed}" if patch is not None else "\u2013"
    keys = {
        "id": result.id,
        "outcome": result.outcome,
        "turns": result.turns,
        "tokens": tokens_of(result),
        "cost": result.cost,
        "seconds": round(took, 3),
        "change": patch.added + patch.removed if patch is not None else 0,
    }
    data = "".join(f' data-{name}="{text(str(value))}"' for name, value in keys.items())
    cells = (
        _task_cell(result, folder, detailed=detailed),
        _cell("Outcome", badge(result.outcome)),
        _cell("Turns", f"{result.turns:,}", number=True),
        _cell("Tokens", f"{tokens_of(result):,}", number=True),
        _cell("Cost", dollars(result.cost) + ("?" if result.cost_unknown else ""), number=True),
        _cell("Time", duration(took) if took >= 10 else f"{took:.1f} s", number=True),
        _cell("Change", change, number=True),
    )
    return f'<tr role="row"{data}>{"".join(cells)}</tr>\n'


def badge(outcome: str) -> str:
    mark = MARKS.get(outcome, "·")
    return f'<span class="badge {escape(outcome)}"><span aria-hidden="true">{mark}</span> {escape(outcome)}</span>'


def _cell(label: str, html: str, *, number: bool = False) -> str:
    kind = ' class="number"' if number else ""
    return f'<td role="cell" data-label="{label}"{kind}>{html}</td>'


def _task_cell(result: Result, folder: FleetFolder, *, detailed: bool) -> str:
    name = text(result.id)
    inner = details(result, folder) if detailed else ""
    shown = f"<details><summary>{name}</summary>{inner}</details>" if inner else name
    return f'<th role="rowheader" scope="row" data-label="Task">{shown}</th>'


def details(result: Result, folder: FleetFolder) -> str:
    parts = [f'<p class="error">{text(result.error)}</p>'] if result.error else []
    if result.text:
        parts.append(f"<h3>Answer</h3><pre>{text(result.text)}</pre>")
    if result.check is not None:
        parts.append(f"<h3>Check ended with {result.check.code}</h3><pre>{text(result.check.tail[-MAX_TEXT:])}</pre>")
    attempt = folder.attempt(result.id, result.attempt)
    if result.patch is not None and (change := _patch(attempt / "patch.diff")):
        parts.append(f"<h3>Change in {_files(result.patch.files)}</h3><pre class='patch'>{change}</pre>")
    facts = [("Attempt", str(result.attempt)), ("Model", result.model), ("Worker", result.worker)]
    facts += [("Base", result.base or ""), *result.labels.items()]
    listed = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts if value)
    link = f"tasks/{result.id}/{result.attempt}/"
    files = f'<p><a href="{escape(link)}">Files of attempt {result.attempt}</a></p>' if os.path.isdir(attempt) else ""
    return "".join([*parts, f"<dl>{listed}</dl>", files])


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _patch(path: object) -> str:
    try:
        with open(str(path), encoding="utf-8", errors="replace") as file:
            found = file.read(MAX_PATCH + 1)
    except OSError:
        return ""
    lines = text(found, MAX_PATCH).splitlines()
    return "\n".join(_coloured(line) for line in lines)


def _coloured(line: str) -> str:
    if line.startswith("+") and not line.startswith("+++"):
        return f"<ins>{line}</ins>"
    if line.startswith("-") and not line.startswith("---"):
        return f"<del>{line}</del>"
    return line
