"""How the transcript is shown: everything that changes the rows of a block, besides the block itself."""

from __future__ import annotations

from tau.records.base import Value, replace
from tau.screen.cells import wrap_line
from tau.screen.lines import Line

THINKING_LABEL = "Thinking…"


class Look(Value):
    """`width` 0 means plain text: lines are not wrapped and have no decoration.

    With `hyperlinks`, the address of a link is only in `Span.link`; without, it also follows the text.
    """

    width: int
    expanded: bool = False
    hide_thinking: bool = False
    hyperlinks: bool = False
    thinking_label: str = THINKING_LABEL
    expand_key: str = "Ctrl+O"
    viewer_key: str = "Alt+O"
    cwd: str = ""  # the folder of the session: paths in it are shown relative to it

    @property
    def plain(self) -> bool:
        return self.width == 0

    def narrower(self, columns: int) -> Look:
        """For text that stands `columns` further to the right."""
        return self if self.width == 0 else replace(self, width=max(self.width - columns, 1))


def wrap(line: Line, width: int, indent: str = "") -> list[Line]:
    """The rows of a line; one row if the width is 0."""
    return wrap_line(line, width, indent) if width else [line]
