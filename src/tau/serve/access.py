"""Access: who a client is and what it may do."""

from __future__ import annotations

from tau.records.base import Value
from tau.records.host_commands import Scope

RANK: dict[Scope, int] = {"watch": 0, "drive": 1, "admin": 2}


class Access(Value):
    """The proven identity of a client. `credential` is the id of its token or login, for revocation."""

    name: str
    scope: Scope
    credential: str | None = None

    def allows(self, scope: Scope) -> bool:
        return RANK[self.scope] >= RANK[scope]


LOCAL_USER = Access("local", "admin")
