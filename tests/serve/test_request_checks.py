"""Who may come in: request heads and the answer to each."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau.records.base import replace
from tau.serve.access import Access
from tau.serve.rates import BURST, FAILURE_WINDOW_S, MAX_FAILURES, MAX_TRACKED, FailedCredentials, RequestRate
from tau.serve.request_checks import MAX_BODY_BYTES, Head, Refusal, allowed_names
from tau.serve.request_gate import ANYONE, RequestGate

GOOD = {scope: f"tau_{scope[0] * 43}" for scope in ("watch", "drive", "admin")}
ALLOWED = allowed_names(["http://127.0.0.1:7717", "http://localhost:7717", "http://[::1]:7717", "https://tau.example"])
HOSTS = ("127.0.0.1:7717", "localhost:7717", "LocalHost:7717", "[::1]:7717", "tau.example", "tau.example:443")
BAD_HOSTS = (
    *("evil.example", "evil.example:7717", "127.0.0.1", "localhost", "127.0.0.1:7718", "127.0.0.1:80", "0.0.0.0:7717"),
    *(
        "[::1]",
        "::1:7717",
        "127.0.0.1:7717.",
        "127.0.0.1.:7717",
        "localhost.:7717",
        "localhost:07717",
        "2130706433:7717",
    ),
    *("127.1:7717", "127.0.0.1:7717@evil.example", "evil.example/127.0.0.1:7717", "tau.example:7717", "tau.example:80"),
    *("tau.example.evil.example", "eviltau.example", "", " ", "127.0.0.1:7717, evil.example", "127.0.0.1:7717 "),
)
ORIGINS = ("http://127.0.0.1:7717", "http://localhost:7717", "http://[::1]:7717", "https://tau.example")
BAD_ORIGINS = (
    *(
        "null",
        "http://evil.example",
        "https://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:7718",
        "file://",
        "",
    ),
    *(
        "http://127.0.0.1:8000",
        "https://127.0.0.1:7717",
        "http://127.0.0.1:7717/",
        "http://127.0.0.1:7717.evil.example",
    ),
    *("http://evil.example:7717", "http://tau.example", "https://tau.example:7717", "chrome-extension://abcdef"),
    *("HTTP://127.0.0.1:7717", "http://127.0.0.1:7717 http://evil.example", "*", "vscode-webview://x", "http://[::1]"),
)
SITES = {"same-origin": 200, "none": 200, "same-site": 403, "cross-site": 403, "": 403, "Same-Origin": 403, "x": 403}
LEAKS = ("token", "access_token", "Token", "auth", "api_key", "key", "k", "code", "password", "secret", "authorization")


def gate() -> RequestGate:
    tokens = {token: Access(scope, scope, f"token:{scope}") for scope, token in GOOD.items()}  # type: ignore[arg-type]
    return RequestGate(ALLOWED, tokens.get)


def head(
    method: str = "GET",
    target: str = "/v1/sessions",
    *extra: tuple[str, str],
    host: str | None = "127.0.0.1:7717",
    token: str | None = GOOD["admin"],
    ws: bool = False,
) -> Head:
    path, _, query = target.partition("?")
    fields = [("host", host)] if host is not None else []
    fields += [("authorization", f"Bearer {token}")] if token is not None else []
    fields += [("sec-websocket-protocol", "tau.v1")] if ws else []
    fields += [("content-type", "application/json")] if method == "POST" else []
    return Head(method, path, query, [*fields, *extra], ws)


def status(wanted: Head) -> int:
    decision = gate().check(wanted, "peer", 0.0)
    return decision.status if isinstance(decision, Refusal) else 200


PATHS = (
    "/v1/sessions",
    "/v1/sessions/abc",
    "/v1/sessions/abc/events",
    "/metrics",
    "/readyz",
    "/v1/openapi.json",
    "/nowhere",
)
TABLE: list[tuple[Head, int]] = [
    # Host
    *((head(host=host), 200) for host in HOSTS),
    *((head(host=host), 403) for host in BAD_HOSTS),
    *(
        (head(target=path, host=host, token=None), wanted)
        for host in ("evil.example", "x:7717", "10.1.2.3:8080")
        for path, wanted in (("/", 403), ("/healthz", 200), ("/readyz", 401))
    ),
    *((head("POST", "/v1/login", host=host, token=None), 403) for host in BAD_HOSTS[:5]),
    *((head(target="/v1/ws", host=host, ws=True), 403) for host in BAD_HOSTS[:5]),
    *((head(target="/readyz", host=host), 200) for host in BAD_HOSTS[:5]),
    *((head(target="/healthz", host=None, token=token), 200) for token in (None, GOOD["watch"])),
    (head("GET", "/healthz", ("origin", "http://evil.example"), host="evil.example", token=None), 403),
    (head(host=None), 400),
    (head("GET", "/v1/sessions", ("host", "127.0.0.1:7717")), 400),
    (head("GET", "/v1/sessions", ("host", "evil.example")), 400),
    (head("GET", "/", ("x-forwarded-host", "127.0.0.1:7717"), host="evil.example"), 403),
    (head(target="http://127.0.0.1:7717/v1/sessions"), 400),
    (head(target="*"), 400),
    # Origin
    *((head("GET", "/v1/sessions", ("origin", origin)), 200) for origin in ORIGINS),
    *((head("GET", "/v1/sessions", ("origin", origin)), 403) for origin in BAD_ORIGINS),
    *((head("POST", "/v1/sessions/a/commands", ("origin", origin)), 403) for origin in BAD_ORIGINS),
    *((head("POST", "/v1/login", ("origin", origin), token=None), 403) for origin in BAD_ORIGINS),
    *((head("GET", "/v1/ws", ("origin", origin), ws=True), 403) for origin in BAD_ORIGINS),
    *((head("GET", "/v1/ws", ("origin", origin), ws=True, token=None), 403) for origin in BAD_ORIGINS),
    *((head("GET", "/v1/ws", ("origin", origin), ws=True, token=None), 200) for origin in ORIGINS),
    # The origin of a rebound name equals its Host, and neither is in the list.
    *(
        (head("GET", path, ("origin", f"http://{host}"), host=host), 403)
        for host in BAD_HOSTS[:3]
        for path in PATHS[:3]
    ),
    (head("GET", "/v1/sessions", ("origin", ORIGINS[0]), ("origin", ORIGINS[0])), 400),
    # Sec-Fetch-Site
    *((head("GET", "/v1/sessions", ("sec-fetch-site", site)), wanted) for site, wanted in SITES.items()),
    *(
        (head("GET", "/static/page.css", ("sec-fetch-site", site), token=None), wanted)
        for site, wanted in SITES.items()
    ),
    *((head("POST", "/v1/login", ("sec-fetch-site", site), token=None), wanted) for site, wanted in SITES.items()),
    *(
        (
            head("GET", path, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)),
            wanted,
        )
        for path, mode, dest, wanted in [
            ("/", "navigate", "document", 200),
            ("/", "navigate", "iframe", 403),
            ("/", "navigate", "embed", 403),
            ("/", "no-cors", "image", 403),
            ("/", "cors", "empty", 403),
            ("/v1/sessions", "navigate", "document", 403),
            ("/healthz", "navigate", "document", 403),
        ]
    ),
    (
        head(
            "POST",
            "/",
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ),
        403,
    ),
    # Method
    *(
        (head(method, path), 405)
        for method in ("OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "get", "X")
        for path in PATHS[:3]
    ),
    (head("OPTIONS", "/v1/sessions", ("origin", ORIGINS[0]), ("access-control-request-method", "POST")), 405),
    *((head(target=path, ws=True), 404) for path in ("/", "/v1/sessions", "/v1/wss", "/v1/ws/")),
    # Credential
    *((head(target=path, token=token), 200) for path in PATHS for token in GOOD.values()),
    *((head(target=path, token=None), 401) for path in PATHS),
    *((head(target=path, token="tau_" + "x" * 43), 401) for path in PATHS),
    *((head(target=path, token=None), 200) for path in ("/", "/healthz", "/static/page.css", "/favicon.ico")),
    *(
        (head(target=path, token=None), 401)
        for path in ("/static", "/healthz/", "//", "/index.html", "/v1/login", "/V1/sessions")
    ),
    *(
        (head("POST", path, token=None), 401)
        for path in ("/v1/sessions", "/v1/sessions/a/commands", "/v1/logout", "/", "/healthz")
    ),
    (head("DELETE", "/v1/sessions/a", token=None), 401),
    (head("HEAD", "/v1/sessions"), 405),
    (head("HEAD", "/v1/sessions/a/events"), 405),
    (head("HEAD", "/healthz", token=None), 200),
    (head("POST", "/v1/login", token=None), 200),
    *(
        (head("GET", "/v1/sessions", ("authorization", value), token=None), 401)
        for value in (
            *(
                "",
                "Bearer",
                "Bearer ",
                f"Basic {GOOD['admin']}",
                GOOD["admin"],
                f"Bearer {GOOD['admin']} x",
                f"Token {GOOD['admin']}",
            ),
            *(
                f"Bearer {GOOD['admin']},",
                f"Bearer {GOOD['admin'][:-1]}",
                f"Bearer {GOOD['admin']}a",
                f"BEARER {GOOD['admin']}",
            ),
            *(
                f"Bearer {GOOD['admin'].upper()}",
                "Bearer \x00",
                "Bearer é",
                "Bearer " + "a" * 600,
                f"Bearer\t{GOOD['admin']}",
            ),
        )
    ),
    (head("GET", "/v1/sessions", ("authorization", f"bearer {GOOD['watch']}"), token=None), 200),
    (head("GET", "/v1/sessions", ("authorization", f"Bearer {GOOD['watch']}")), 401),  # twice
    (head("GET", "/v1/sessions", ("proxy-authorization", f"Bearer {GOOD['watch']}"), token=None), 401),
    (head("GET", "/v1/ws", ws=True, token=None), 401),  # a program proves itself in the head
    (head("GET", "/v1/ws", ("origin", ORIGINS[0]), ws=True, token="wrong"), 401),
    # A credential where it does not belong
    *(
        (head(target=f"{path}?{name}=abc", token=token), 401)
        for name, path, token in product(LEAKS, ("/v1/sessions", "/"), (None, GOOD["admin"]))
    ),
    (head("GET", f"/v1/ws?token={GOOD['admin']}", ("origin", ORIGINS[0]), ws=True, token=None), 401),
    (head(target=f"/v1/sessions?x={GOOD['admin']}"), 401),
    (head(target="/v1/sessions?x=%74" + GOOD["admin"][1:]), 401),
    (head(target=f"/v1/sessions/{GOOD['admin']}"), 401),
    (head("GET", "/v1/sessions", ("cookie", f"a=b; tau={GOOD['admin']}"), token=None), 401),
    (head("GET", "/v1/sessions", ("cookie", f"a=b; tau={GOOD['admin']}")), 401),
    (head("GET", "/v1/sessions", ("cookie", "theme=dark; token=of-another-server")), 200),
    (head(target="/v1/sessions?all&cursor=x&limit=5"), 200),
    (head(target="/v1/sessions/a/events?after=Qm3:17&dialect=1.5"), 200),
    # Scope
    *((head("POST", "/v1/sessions", token=GOOD[scope]), 200 if scope == "admin" else 403) for scope in GOOD),
    *((head("DELETE", "/v1/sessions/a", token=GOOD[scope]), 200 if scope == "admin" else 403) for scope in GOOD),
    *((head("POST", "/v1/sessions/a/commands", token=GOOD[scope]), 200) for scope in GOOD),
    # Body
    *(
        (head("POST", path, ("content-type", kind)), 415)
        for path in ("/v1/sessions/a/commands", "/v1/login")
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "",
            "application/jsonx",
        )
    ),
    *(
        (
            Head(
                "POST",
                "/v1/sessions/a/commands",
                "",
                [("host", HOSTS[0]), ("authorization", f"Bearer {GOOD['drive']}"), *kind],
            ),
            wanted,
        )
        for kind, wanted in [
            ([], 415),
            ([("content-type", "text/plain")], 415),
            ([("content-type", "application/json")], 200),
            ([("content-type", "application/json; charset=utf-8")], 200),
            ([("content-type", "Application/X-NDJSON")], 200),
            ([("content-type", "application/json"), ("content-encoding", "gzip")], 415),
            ([("content-type", "application/json"), ("content-length", str(MAX_BODY_BYTES))], 200),
            ([("content-type", "application/json"), ("content-length", str(MAX_BODY_BYTES + 1))], 413),
            ([("content-type", "application/json"), ("content-length", "1e3")], 413),
            ([("content-type", "application/json"), ("content-length", "-1")], 413),
            ([("content-type", "application/json"), ("content-length", "9" * 30)], 413),
            ([("content-type", "application/json"), ("transfer-encoding", "chunked")], 200),
        ]
    ),
    (head("GET", "/v1/sessions", ("content-length", "5")), 413),
    (head("GET", "/", ("transfer-encoding", "chunked"), token=None), 413),
    (head("DELETE", "/v1/sessions/a", ("content-length", "0")), 200),
    # Subprotocol
    (Head("GET", "/v1/ws", "", [("host", HOSTS[0]), ("authorization", f"Bearer {GOOD['drive']}")], True), 400),
    (
        Head(
            "GET", "/v1/ws", "", [("host", HOSTS[0]), ("origin", ORIGINS[0]), ("sec-websocket-protocol", "chat")], True
        ),
        400,
    ),
    (
        Head(
            "GET",
            "/v1/ws",
            "",
            [("host", HOSTS[0]), ("origin", ORIGINS[0]), ("sec-websocket-protocol", "x, tau.v1")],
            True,
        ),
        200,
    ),
    # Size of the head
    (head("GET", "/v1/sessions", *[("x", "y")] * 62), 200),
    (head("GET", "/v1/sessions", *[("x", "y")] * 63), 431),
    (head("GET", "/v1/sessions", ("x", "y" * 16 * 1024)), 431),
    (head(target="/" + "a" * 17_000), 431),
]


def test_the_table_is_large_enough() -> None:
    assert len(TABLE) >= 300


@pytest.mark.promise("N01", "N02", "N03")
def test_each_head_gets_its_answer() -> None:
    assert [(one, found, wanted) for one, wanted in TABLE if (found := status(one)) != wanted] == []


LAN = replace(ALLOWED, own_addresses=True, remedy="Use a flag.")
OWN = "http://192.168.1.5:7717"


@pytest.mark.promise("N02")
@pytest.mark.parametrize(
    ("host", "origin", "own", "wanted"),
    [
        ("192.168.1.5:7717", None, OWN, 200),
        ("192.168.1.5:7717", OWN, OWN, 200),
        ("[fe80::1]:7717", "http://[fe80::1]:7717", "http://[fe80::1]:7717", 200),
        ("192.168.1.5", "http://192.168.1.5", "http://192.168.1.5:80", 200),
        ("127.0.0.1:7717", None, "http://127.0.0.1:7717", 200),
        ("192.168.1.6:7717", None, OWN, 403),  # not the one that the connection has come to
        ("192.168.1.5:7718", None, OWN, 403),
        ("evil.example:7717", "http://evil.example:7717", OWN, 403),  # a name that was rebound to this machine
        ("192.168.1.5:7717", "http://evil.example", OWN, 403),
        ("192.168.1.5:7717", "http://6.6.6.6:7717", OWN, 403),
        ("192.168.1.5:7717", "https://192.168.1.5:7717", OWN, 403),
        ("192.168.1.5:7717", None, "", 403),
    ],
)
def test_a_server_for_a_lan_is_known_under_the_address_that_a_connection_has_come_to(
    host: str, origin: str | None, own: str, wanted: int
) -> None:
    for socket in (False, True):
        one = head("GET", "/v1/ws" if socket else "/v1/sessions", *([("origin", origin)] if origin else []), ws=socket)
        one = replace(one, own_url=own, headers=[("host", host), *one.headers[1:]])
        lan = RequestGate(LAN, {GOOD["admin"]: Access("a", "admin")}.get).check(one, "peer", 0.0)
        assert _status(lan) == wanted
        if isinstance(lan, Refusal):
            assert lan.text.endswith("Use a flag.")
        elsewhere = gate().check(one, "peer", 0.0)
        assert _status(elsewhere) == (200 if host == "127.0.0.1:7717" else 403)


def test_the_order_of_the_checks_is_fixed() -> None:
    """A head with everything wrong learns only the first thing; each repair shows the next."""
    evil, origin = ("origin", "http://evil.example"), ("origin", ORIGINS[0])
    steps = [
        (Head("PUT", "/v1/sessions", "token=x", [("host", "evil.example"), evil]), "host"),
        (Head("PUT", "/v1/sessions", "token=x", [("host", HOSTS[0]), evil]), "origin"),
        (Head("PUT", "/v1/sessions", "token=x", [("host", HOSTS[0]), origin]), "method"),
        (Head("POST", "/v1/sessions", "token=x", [("host", HOSTS[0]), origin]), "credential"),
        (Head("POST", "/v1/sessions", "", [("host", HOSTS[0]), ("authorization", f"Bearer {GOOD['drive']}")]), "scope"),
        (Head("POST", "/v1/sessions", "", [("host", HOSTS[0]), ("authorization", f"Bearer {GOOD['admin']}")]), "body"),
    ]
    found = [gate().check(step, "peer", 0.0) for step, _ in steps]
    assert [one.why for one in found if isinstance(one, Refusal)] == [why for _, why in steps]


def test_a_refusal_repeats_nothing_of_the_request() -> None:
    for one, _ in TABLE:
        decision = gate().check(one, "peer", 0.0)
        if isinstance(decision, Refusal):
            assert "evil" not in decision.text + decision.note
            assert "tau_" not in decision.text + decision.note


def test_wrong_credentials_are_slowed_down_and_right_ones_are_not() -> None:
    one, wrong = gate(), head(token="wrong")
    answers = [one.check(wrong, "a", 0.0) for _ in range(MAX_FAILURES + 1)]
    assert [answer.status for answer in answers if isinstance(answer, Refusal)] == [401] * MAX_FAILURES + [429]
    assert isinstance(one.check(head(), "a", 0.0), Access)
    assert _status(one.check(wrong, "b", 0.0)) == 401
    assert _status(one.check(wrong, "a", FAILURE_WINDOW_S)) == 401


def test_a_credential_has_a_rate() -> None:
    one = gate()
    allowed = [_status(one.check(head(), "a", 0.0)) for _ in range(int(BURST) + 1)]
    assert allowed == [200] * int(BURST) + [429]
    assert [_status(one.check(head(), "a", 1.0)) for _ in range(51)] == [200] * 50 + [429]
    assert _status(one.check(head(token=GOOD["watch"]), "a", 1.0)) == 200
    assert one.refused["rate"] == 2


def test_memory_for_rates_is_bounded() -> None:
    rate, failed = RequestRate(), FailedCredentials()
    for number in range(MAX_TRACKED + 100):
        rate.allows(str(number), 0.0)
        failed.add(str(number), 0.0)
    assert len(rate._buckets) == len(failed._failures) == MAX_TRACKED


def _status(decision: Access | Refusal) -> int:
    return decision.status if isinstance(decision, Refusal) else 200


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:7717", "http://", "http://user@x", "http://x:99999"])
def test_an_address_that_is_not_a_web_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        allowed_names([url])


NAMES = st.sampled_from(
    ["host", "origin", "authorization", "cookie", "sec-fetch-site", "sec-websocket-protocol", "content-type", "x"]
)
VALUES = st.one_of(
    st.sampled_from([*HOSTS, *BAD_HOSTS, *ORIGINS, *BAD_ORIGINS, "Bearer x", "tau.v1", "application/json"]),
    st.text(max_size=40),
)


@settings(max_examples=300, deadline=None)
@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "HEAD", "OPTIONS", ""]),
    path=st.one_of(st.sampled_from([*PATHS, "/", "/v1/ws", "/v1/login"]), st.text(max_size=30)),
    query=st.text(max_size=30),
    headers=st.lists(st.tuples(NAMES, VALUES), max_size=8),
    websocket=st.booleans(),
)
def test_no_head_without_a_credential_gets_in(
    method: str, path: str, query: str, headers: list[tuple[str, str]], websocket: bool
) -> None:
    decision = gate().check(Head(method, path, query, headers, websocket), "peer", 0.0)
    if decision is ANYONE:
        host = [value.lower() for name, value in headers if name == "host"]
        assert path == "/healthz" or (len(host) == 1 and host[0] in ALLOWED.hosts)
        assert all(value in ALLOWED.origins for name, value in headers if name == "origin")
        assert path in ("/", "/healthz", "/favicon.ico", "/v1/login", "/v1/ws") or path.startswith("/static/")
    else:
        assert isinstance(decision, Refusal)
