"""The `format` keyword of JSON schemas, for the arguments of tools.

Formats that are not listed here are not checked, as the JSON schema standard allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TIME = r"(?a)(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))"
_DURATION_TIME = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DURATION = rf"(?a)P(?:(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:{_DURATION_TIME})?|{_DURATION_TIME}|\d+W)"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_MAILBOX = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}"
_URI = r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
# Addresses of the web have a host; other schemes may have anything.
_URL = r"(?i:(?:https?|wss?|ftp)://[^\s/?#]+(?:[/?#]\S*)?|(?!(?:https?|wss?|ftp):)[a-z][a-z0-9+.-]*:.*)"
MAX_HOSTNAME_CHARACTERS = 253


def matches_format(name: object, text: str) -> bool:
    """True if the text has the format, or the format is not known."""
    check = FORMATS.get(name) if isinstance(name, str) else None
    return check is None or check(text)


def _pattern(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


def _is_date(text: str) -> bool:
    if re.fullmatch(r"(?a)\d{4}-\d\d-\d\d", text) is None:
        return False
    year, month, day = map(int, text.split("-"))
    if month == 2:
        return 1 <= day <= (29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28)
    return 1 <= month <= 12 and 1 <= day <= (30 if month in (4, 6, 9, 11) else 31)


def _is_time(text: str) -> bool:
    found = re.fullmatch(_TIME, text)
    if found is None:
        return False
    hour, minute, second, zone_hour, zone_minute = (int(found[at] or 0) for at in (1, 2, 3, 5, 6))
    if hour > 23 or minute > 59 or second > 60 or zone_hour > 23 or zone_minute > 59:
        return False
    offset = (zone_hour * 60 + zone_minute) * (-1 if found[4] == "-" else 1)
    return second < 60 or (hour * 60 + minute - offset) % 1440 == 1439  # leap seconds end a day


def _is_date_time(text: str) -> bool:
    day, separator, time = text[:10], text[10:11], text[11:]
    return separator in ("T", "t") and _is_date(day) and _is_time(time)


def _is_hostname(text: str) -> bool:
    return len(text) <= MAX_HOSTNAME_CHARACTERS and all(re.fullmatch(_LABEL, part) for part in text.split("."))


def _is_email(text: str) -> bool:
    mailbox, _, host = text.rpartition("@")
    dotted = not (mailbox.startswith(".") or mailbox.endswith(".") or ".." in mailbox)
    return dotted and re.fullmatch(_MAILBOX, mailbox) is not None and _is_hostname(host)


def _is_ipv4(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(re.fullmatch(r"(?a)0|[1-9]\d{0,2}", part) and int(part) < 256 for part in parts)


def _is_ipv6(text: str) -> bool:
    before, last = text.rpartition(":")[::2]
    if "." in last:  # the last two groups may be an IPv4 address
        if not _is_ipv4(last):
            return False
        text = f"{before}:0:0"
    halves = text.split("::")
    groups = [half.split(":") if half else [] for half in halves]
    count = sum(map(len, groups))
    complete = count == 8 if len(halves) == 1 else len(halves) == 2 and count < 8
    return complete and all(re.fullmatch(r"[0-9A-Fa-f]{1,4}", group) for half in groups for group in half)


def _is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "time": _is_time,
    "duration": _pattern(_DURATION),
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "json-pointer": _pattern(r"(?:/(?:[^~/]|~[01])*)*"),
    "regex": _is_regex,
    "uri": _pattern(_URI),
    "url": _pattern(_URL),
    "uuid": _pattern(_UUID),
}
