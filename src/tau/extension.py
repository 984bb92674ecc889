"""Types for annotations in extensions, so that authors and type checkers see what `pi` and `ctx` offer.

    def setup(pi: Pi) -> None:
        @pi.on("tool_call")
        def protect(event: Event, ctx: Context) -> dict[str, object] | None: ...

`ctx` of a command is a CommandContext. `escape_markup` prepares text for lines with tags of theme roles. Extensions
without annotations do not need this module; importing it loads nothing that the extension process has not already
loaded.
"""

from __future__ import annotations

from tau.extension_api.api import Pi
from tau.extension_api.context import CommandContext, Context, Event
from tau.extension_api.terminal_ui import escape_markup

__all__ = ["CommandContext", "Context", "Event", "Pi", "escape_markup"]
