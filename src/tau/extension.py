"""The types of an extension, for annotations: its author and the checker see what `pi` and `ctx` can do.

    def setup(pi: Pi) -> None:
        @pi.on("tool_call")
        def protect(event: Event, ctx: Context) -> dict[str, object] | None: ...

`ctx` of a command is a CommandContext. An extension that does without annotations needs none of this; one that has them
loads nothing that its process has not loaded already.
"""

from __future__ import annotations

from tau.extensions.api import Pi
from tau.extensions.context import CommandContext, Context, Event

__all__ = ["CommandContext", "Context", "Event", "Pi"]
