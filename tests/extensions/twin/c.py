"""Calls off whatever can be called off."""

from __future__ import annotations

from tau.extension_api.api import Pi
from tau.extension_api.context import Context, Event


def setup(pi: Pi) -> None:
    def no(event: Event, ctx: Context) -> dict[str, bool]:
        return {"cancel": True}

    for moment in ("session_before_switch", "session_before_fork", "session_before_compact"):
        pi.on(moment, no)
