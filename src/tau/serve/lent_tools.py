"""Tools that the clients of a live session lend to it.

Only the client that lent a tool gets its calls. A client whose connection is lost has some time to come back: its
requests stay open, and it gets them again when it offers its tools on another channel. A client is recognised by its
credential and by the name in its hello.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tau.records.events import ToolRequest, ToolRequestCancelled
from tau.runtime.session.host_tools import HostTools, ToolLender
from tau.serve.access import Access

Send = Callable[[ToolRequest | ToolRequestCancelled], None]


class LenderIdentity(NamedTuple):
    """What a client that comes back has in common with the one that was lost."""

    name: str
    access: Access


class LentTools:
    """`timeout_s` is the time that a lost client has to come back."""

    def __init__(self, host_tools: Callable[[], HostTools], timeout_s: float) -> None:
        self._host_tools = host_tools
        self._timeout_s = timeout_s
        self._lost: dict[LenderIdentity, ToolLender] = {}

    def lender(self, identity: LenderIdentity, send: Send) -> ToolLender:
        """The lender for a client that offers tools: its own from before, if it has come back in time."""
        lender = self._lost.pop(identity, None)
        if lender is None or lender.gone:
            return self._host_tools().lender(send)
        lender.reconnect(send)
        return lender

    def leave(self, identity: LenderIdentity, lender: ToolLender) -> None:
        """The client of a lender has left."""
        self._lost = {known: other for known, other in self._lost.items() if not other.gone}
        previous = self._lost.pop(identity, None)
        if previous is not None:
            previous.remove()
        lender.disconnect(self._timeout_s)
        if not lender.gone:
            self._lost[identity] = lender
