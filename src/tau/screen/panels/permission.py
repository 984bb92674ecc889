"""The panel of a permission question: what a tool call would do, and the rows that answer."""

from __future__ import annotations

from collections.abc import Sequence

from tau.records.base import encode
from tau.records.dialogs import Select
from tau.records.permissions import PermissionDetails
from tau.screen.cells import text_width
from tau.screen.lines import Line, Span
from tau.screen.look import Look
from tau.screen.panels import Answer
from tau.screen.panels.choices import ChoicePanel, Question, Row
from tau.screen.panels.layout import INDENT, shortened_lines, wrapped

DENY_AND_SAY_WHY = "Deny, and say why"
NOTE = "!"  # begins a text that is shown instead of a diff (tools/preview.py)
# Arguments of tau's own tools that are shown as command, path or diff.
SHOWN_ARGUMENTS = {
    "bash": ("command",),
    "edit": ("path", "oldText", "newText", "edits"),
    "write": ("path", "content"),
    "read": ("path",),
    "ls": ("path",),
    "find": ("path",),
    "grep": ("path",),
}


def permission_panel(question: Select, details: PermissionDetails) -> ChoicePanel:
    """`question` has the options of docs/permissions.md; the last one denies."""
    *allowing, deny = question.options
    rows = [*(Row(option, Answer(option)) for option in allowing), Row(deny, Answer(deny))]
    rows.append(Row(DENY_AND_SAY_WHY, Answer(deny), asks_why=True))
    return ChoicePanel(
        Question(
            title=f"Allow {details.tool}?",
            body=lambda width: permission_body(details, width),
            rows=rows,
            start=len(allowing),
            cancelled=Answer(deny),
            cancels="Esc denies",
            can_stop_clock=details.can_stop_clock,
        )
    )


def permission_body(details: PermissionDetails, width: int) -> Sequence[Line]:
    lines: list[Line] = []
    for command in details.commands:
        lines += wrapped(command, width, "bold")
    for path in details.paths:
        lines += wrapped(path, width, "bold")
    for name, value in details.arguments.items():
        if name not in SHOWN_ARGUMENTS.get(details.tool, ()) and value not in details.commands:
            lines += wrapped(f"{name}: {value if isinstance(value, str) else encode(value).decode()}", width)
    facts = [f"in {details.cwd}", f"sandbox: {details.sandbox or 'off'}", f"asked by {details.asked_by}"]
    for fact in facts:
        lines += wrapped(fact.replace("\n", " "), width, "muted")
    return [*lines, *diff_lines(details.diff, width)]


def diff_lines(diff: str, width: int) -> list[Line]:
    """The rows of a diff in the format of the edit tool."""
    if not diff:
        return []
    if diff.startswith(NOTE):
        return wrapped(diff, width, "warning")
    from tau.screen.cards.diff import diff_rows

    lines, more = shortened_lines(diff)
    rows = diff_rows("\n".join(lines), Look(max(width - text_width(INDENT), 1), expanded=True))
    return [*((Span(INDENT), *row) for row in rows), *more]
