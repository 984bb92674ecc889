"""Access: who a client is and what it may do."""

from __future__ import annotations

from tau.records.base import Value
from tau.serve.request_checks import Scope


class Access(Value):
    """The proven identity of a client. `credential` is the id of its token or login, for revocation."""

    name: str
    scope: Scope
    credential: str | None = None
