"""Checks of a request head: who may come in, decided before a byte of the body is read.

Pure. The order matters and is part of the security design: the form of the head, Host, Origin and Sec-Fetch-Site,
method, credential, scope, rate, body. Host and Origin are compared with a fixed list and never with each other: a page
that rebinds its DNS name to 127.0.0.1 controls both. No header makes a request trusted, `X-Forwarded-*` is never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from tau.records.base import Value, replace
from tau.records.host_commands import Scope

Why = Literal["head", "host", "origin", "method", "credential", "scope", "rate", "body", "subprotocol"]

SUBPROTOCOL = "tau.v1"
MAX_HEAD_BYTES = 16 * 1024
MAX_HEAD_FIELDS = 64
MAX_BODY_BYTES = 33 * 1024 * 1024
BODY_TYPES = ("application/json", "application/x-ndjson")  # a form of another site can send neither
METHODS = ("GET", "POST", "DELETE")  # and HEAD, for what needs no credential
TOKEN_PREFIX = "tau_"
# A token of ours where it must not be: in a target or a cookie it reaches logs, histories and other servers.
TOKEN_PATTERN = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43}}(?![A-Za-z0-9_-])")
CREDENTIAL_PARAMETERS = frozenset(
    ("token", "access_token", "auth", "authorization", "api_key", "apikey", "key", "k", "code", "password", "secret")
)
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]{1,512})")
_LENGTH = re.compile(r"[0-9]{1,15}")


class Head(Value):
    """A request head. `path` is inside the app, without the prefix that it is mounted under; names are lower-case."""

    method: str
    path: str
    query: str
    headers: Sequence[tuple[str, str]]
    websocket: bool = False
    own_url: str = ""  # with the address of this machine that the connection has come to

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def one(self, name: str) -> str | None:
        """The value of a header that occurs once; None if it is missing or occurs more than once."""
        found = self.all(name)
        return found[0] if len(found) == 1 else None


class Allowed(Value):
    """The names under which the server is reached: values of `Host`, and of `Origin`.

    With `own_addresses`, each address of this machine is one for the connections that have come to it. `remedy` tells
    the owner of the server how to add a name.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    own_addresses: bool = False
    remedy: str = ""

    def of(self, head: Head) -> Allowed:
        """The names for the connection of a request."""
        if not self.own_addresses or not head.own_url:
            return self
        own = allowed_names([head.own_url])
        return replace(self, hosts=self.hosts | own.hosts, origins=self.origins | own.origins)


class Refusal(Value):
    """Why a request is refused. `text` is for the client and repeats nothing that it has sent."""

    status: int
    why: Why
    text: str
    note: str = ""  # for the log


class RouteRule(Value):
    """Who may use a route: `scope` None is for everyone. `has_body` if it takes one."""

    scope: Scope | None
    has_body: bool = False


OPEN = RouteRule(None)
OPEN_PATHS = ("/", "/healthz", "/favicon.ico")
PROBES = ("/healthz", "/readyz")  # which are asked by the address of a container or a load balancer
STATIC = "/static/"
LOGIN_PATH = "/v1/login"
SOCKET_PATH = "/v1/ws"


def route_rule(method: str, path: str) -> RouteRule:
    """The rule of a route. A path that does not exist needs a credential too: nothing is revealed without one.

    A command is allowed for `watch` here: the channel that runs it knows which commands change something.
    """
    if method in ("GET", "HEAD"):
        return OPEN if _is_open(path) else RouteRule("watch")
    if method == "POST":
        if path == LOGIN_PATH:
            return RouteRule(None, has_body=True)
        if path == "/v1/sessions":
            return RouteRule("admin", has_body=True)
        return RouteRule("watch", has_body=path != "/v1/logout")
    return RouteRule("admin")


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(STATIC)


def base_url(address: str, port: int) -> str:
    """The URL of an IP address."""
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def allowed_names(urls: Sequence[str]) -> Allowed:
    """The hosts and origins of some base URLs. Raises ValueError for a URL that is not http or https."""
    hosts, origins = set(), set()
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError(f"{url} is not the URL of a web server")
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        default = 443 if parts.scheme == "https" else 80
        port = parts.port or default
        forms = {f"{name}:{port}"} | ({name} if port == default else set())
        hosts |= forms
        origins |= {f"{parts.scheme}://{form}" for form in forms}
    return Allowed(frozenset(hosts), frozenset(origins))


def check_form(head: Head) -> Refusal | None:
    """The size of the head."""
    size = len(head.path) + len(head.query) + sum(len(name) + len(value) + 4 for name, value in head.headers)
    if size > MAX_HEAD_BYTES or len(head.headers) > MAX_HEAD_FIELDS:
        return Refusal(431, "head", "The request head is too large.")
    if not head.path.startswith("/"):
        return Refusal(400, "head", "The request target must be a path.")
    return None


def check_names(head: Head, allowed: Allowed) -> Refusal | None:
    """Host, unless it is a probe, Origin and Sec-Fetch-Site."""
    if head.path not in PROBES:
        host = head.one("host")
        if host is None:
            return Refusal(400, "host", "The request needs one Host header.")
        if host.lower() not in allowed.hosts:
            return Refusal(403, "host", f"This server is not known under this Host. {allowed.remedy}".rstrip())
    other_site = Refusal(403, "origin", f"Requests of other sites are refused. {allowed.remedy}".rstrip())
    origins = head.all("origin")
    if len(origins) > 1:
        return Refusal(400, "origin", "The request has more than one Origin header.")
    if origins and origins[0] not in allowed.origins:
        return other_site
    for site in head.all("sec-fetch-site"):
        if site not in ("same-origin", "none") and not _opens_the_page(head):
            return other_site
    return None


def _opens_the_page(head: Head) -> bool:
    """True for a link on another site that opens the page as a document of its own, not in a frame."""
    return (
        head.method == "GET"
        and head.path == "/"
        and not head.websocket
        and head.all("sec-fetch-mode") == ["navigate"]
        and head.all("sec-fetch-dest") == ["document"]
    )


def check_method(head: Head) -> Refusal | None:
    if head.method not in METHODS and not (head.method == "HEAD" and _is_open(head.path)):
        return Refusal(405, "method", "This method is not supported.")
    if head.websocket and (head.method != "GET" or head.path != SOCKET_PATH):
        return Refusal(404, "method", f"WebSockets are at {SOCKET_PATH}.")
    return None


def misplaced_credential(head: Head) -> Refusal | None:
    """A credential in the target or a cookie is refused, even beside a correct header: it is no secret any more."""
    names = {name.lower() for name, _ in parse_qsl(head.query, keep_blank_values=True)}
    place = ""
    if names & CREDENTIAL_PARAMETERS or TOKEN_PATTERN.search(unquote(head.query)):
        place = "the query"
    elif TOKEN_PATTERN.search(unquote(head.path)):
        place = "the path"
    elif any(TOKEN_PATTERN.search(unquote(cookie)) for cookie in head.all("cookie")):
        place = "a cookie"
    if not place:
        return None
    return Refusal(
        401,
        "credential",
        "A credential belongs in the Authorization header only.",
        f"a credential was sent in {place}; it should be revoked",
    )


def bearer_token(head: Head) -> str | None:
    """The token in the Authorization header, if there is exactly one header with one token."""
    found = _BEARER.fullmatch(head.one("authorization") or "")
    return found[1] if found else None


def proves_later(head: Head, allowed: Allowed) -> bool:
    """True for a WebSocket of our own page: browsers cannot set headers for it, so its token is in `hello`."""
    return head.websocket and not head.all("authorization") and head.one("origin") in allowed.origins


def check_body(head: Head, rule: RouteRule) -> Refusal | None:
    """The declared size and type of the body, and the subprotocol of a WebSocket."""
    if head.websocket:
        offered = [name.strip() for value in head.all("sec-websocket-protocol") for name in value.split(",")]
        if SUBPROTOCOL in offered:
            return None
        return Refusal(400, "subprotocol", f"The subprotocol {SUBPROTOCOL} is required.")
    declared = head.one("content-length")
    if declared is not None and (not _LENGTH.fullmatch(declared) or int(declared) > MAX_BODY_BYTES):
        return Refusal(413, "body", f"The body is larger than {MAX_BODY_BYTES} bytes.")
    has_body = bool(head.all("transfer-encoding")) or declared not in (None, "0")
    if head.all("content-encoding"):
        return Refusal(415, "body", "The body must not be compressed.")
    if not rule.has_body:
        return Refusal(413, "body", "This request takes no body.") if has_body else None
    if media_type(head.one("content-type")) not in BODY_TYPES:
        return Refusal(415, "body", "The body must be application/json or application/x-ndjson.")
    return None


def media_type(value: str | None) -> str:
    """A Content-Type or a part of Accept without its parameters."""
    return (value or "").partition(";")[0].strip().lower()


def check_source(head: Head, allowed: Allowed) -> Refusal | None:
    """Everything that comes before the credential."""
    checks: list[Callable[[], Refusal | None]] = [
        lambda: check_form(head),
        lambda: check_names(head, allowed),
        lambda: check_method(head),
        lambda: misplaced_credential(head),
    ]
    return next((refusal for check in checks if (refusal := check()) is not None), None)
