"""RequestGate: all checks of a request head, in order, with the rates of this server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tau.serve.access import Access
from tau.serve.rates import FailedCredentials, RequestRate
from tau.serve.request_checks import (
    Allowed,
    Head,
    Refusal,
    bearer_token,
    check_body,
    check_source,
    proves_later,
    route_rule,
)

Authenticate = Callable[[str], Access | None]
ANYONE = Access("anyone", "watch")  # for routes that need no credential, and WebSockets that prove themselves later


class RequestGate:
    """Decides about request heads. Holds no socket and reads no clock: `now` is given."""

    def __init__(self, allowed: Allowed, authenticate: Authenticate) -> None:
        self.allowed = allowed
        self.refused: Counter[str] = Counter()
        self._authenticate = authenticate
        self._rate = RequestRate()
        self._failed = FailedCredentials()

    def check(self, head: Head, address: str, now: float) -> Access | Refusal:
        """Who sends this request, or why it is refused."""
        decision = self._check(head, address, now)
        if isinstance(decision, Refusal):
            self.refused[decision.why] += 1
        return decision

    def authenticate(self, token: str, address: str, now: float) -> Access | None:
        """The check of a token that is not in a head: in `hello`, or a login code that was found to be wrong."""
        access = self._authenticate(token)
        if access is None:
            self.refused["credential"] += 1
            self._failed.add(address, now)
        return access

    def failed(self, address: str, now: float) -> Refusal:
        """Count a wrong credential."""
        if self._failed.add(address, now):
            return Refusal(401, "credential", "The credential is missing or wrong.")
        return Refusal(429, "rate", "Too many wrong credentials. Wait a minute.")

    def _check(self, head: Head, address: str, now: float) -> Access | Refusal:
        allowed = self.allowed.of(head)
        if (refusal := check_source(head, allowed)) is not None:
            return refusal
        rule = route_rule(head.method, head.path)
        access = ANYONE
        if rule.scope is not None and not proves_later(head, allowed):
            token = bearer_token(head)
            found = self._authenticate(token) if token is not None else None
            if found is None:
                return self.failed(address, now)
            if not found.allows(rule.scope):
                return Refusal(403, "scope", f"This needs the scope {rule.scope}.")
            if not self._rate.allows(found.credential or found.name, now):
                return Refusal(429, "rate", "Too many requests. Wait a second.")
            access = found
        return check_body(head, rule) or access
