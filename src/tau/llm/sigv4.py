"""AWS Signature Version 4 for requests. No I/O, no clock.

The path is signed as it is sent, URL-encoded once more, as every service except S3 requires; so it must be sent
exactly as it is in the URL.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
# Headers that proxies may change or add.
NOT_SIGNED = {"accept", "accept-encoding", "authorization", "connection", "user-agent"}


class Credentials(NamedTuple):
    key_id: str
    secret: str
    token: str = ""


def signed(
    url: str, headers: Mapping[str, str], body: bytes, credentials: Credentials, *, region: str, service: str, now: int
) -> dict[str, str]:
    """`headers` of a POST with those that sign it. `now` is in milliseconds since 1970."""
    stamp = timestamp(now)
    parts = urlsplit(url)
    sent = {**{name.lower(): value for name, value in headers.items()}, "x-amz-date": stamp}
    if credentials.token:
        sent["x-amz-security-token"] = credentials.token
    host = parts.netloc.rpartition("@")[2]
    if parts.port == {"https": 443, "http": 80}.get(parts.scheme):
        host = host.rpartition(":")[0]
    signing = {name: " ".join(value.split()) for name, value in sent.items() if name not in NOT_SIGNED}
    signing["host"] = host.lower()
    names = ";".join(sorted(signing))
    canonical = "\n".join(
        [
            "POST",
            quote(parts.path or "/", safe="/~"),
            "&".join(sorted(parts.query.split("&"))) if parts.query else "",
            *(f"{name}:{signing[name]}" for name in sorted(signing)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    string_to_sign = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, string_to_sign.encode(), "sha256").hex()
    proof = f"{ALGORITHM} Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**sent, "authorization": proof}


def timestamp(now: int) -> str:
    """The time in the format of AWS, such as 20260131T235959Z."""
    days, rest = divmod(now // 1000, 86400)
    year, month, day = _date(days)
    return f"{year:04}{month:02}{day:02}T{rest // 3600:02}{rest // 60 % 60:02}{rest % 60:02}Z"


def _date(days: int) -> tuple[int, int, int]:
    """The calendar date that is `days` after 1 January 1970.

    Counts years that start in March, so that the leap day is the last day of its year; 400 such years always have the
    same number of days.
    """
    days += 719468  # from 1 March of the year 0
    era, day = divmod(days, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    return era * 400 + year + (month > 9), month + 3 if month < 10 else month - 9, day + 1
