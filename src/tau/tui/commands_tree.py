"""/tree, /fork and /transcript: other places of the session. What they need is loaded when they are used."""

from __future__ import annotations

from tau.tui.command import Command
from tau.tui.surface import Surface


async def _tree(surface: Surface, rest: str) -> None:
    from tau.tui.tree_navigation import open_tree

    await open_tree(surface)


async def _fork(surface: Surface, rest: str) -> None:
    from tau.tui.tree_navigation import fork

    await fork(surface)


async def _transcript(surface: Surface, rest: str) -> None:
    await surface.show_transcript()


TREE_COMMANDS = (
    Command("tree", "continue from another entry of the session", _tree),
    Command("fork", "continue from an earlier message in a new session", _fork),
    Command("transcript", "view the whole conversation, expanded", _transcript),
)
