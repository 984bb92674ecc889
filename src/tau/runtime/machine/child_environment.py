"""Which variables of our environment commands inherit when secrets are filtered.

docs/security.md has the same list for people; tests/host/test_environment.py compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from tau.core.checks.secrets import SHORTEST
from tau.store.keys import Keys

# Parts of a name between underscores, other signs, or a small and a capital letter; digits at their end do not count.
WORDS = frozenset(
    {
        *("PASS", "PASSWD", "PASSWORD", "PASSPHRASE", "PASSCODE", "PW", "PWD", "KEY", "KEYS", "TOKEN", "TOKENS"),
        *("SECRET", "SECRETS", "CREDENTIAL", "CREDENTIALS", "CRED", "CREDS", "AUTH", "OAUTH", "AUTHORIZATION"),
        *("BEARER", "DSN", "COOKIE", "COOKIES", "PAT", "JWT", "PSK", "WEBHOOK", "WEBHOOKS"),
    }
)
ENDINGS = ("PASS", "TOKEN", "TOKENS", "AUTH", "PWD")  # of such a part: SSHPASS, GITHUBTOKEN
ANYWHERE = (
    *("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "CREDENTIAL", "COOKIE", "APIKEY", "ACCESSKEY", "PRIVATEKEY"),
    *("SSHKEY", "SIGNINGKEY", "ENCRYPTIONKEY", "CONNECTION_STRING", "CONNECTIONSTRING"),
)

# What looks like one of these, is none, and is needed by commands.
NOT_SECRET = (
    *("PWD", "OLDPWD"),  # the working folder
    "SSH_AUTH_SOCK",  # where the agent of ssh listens; git and ssh need it, and it holds no key
    "*ASKPASS*",  # the program that asks for a password
    *("*BYPASS*", "*COMPASS*"),
    "*MAX*_TOKENS",  # a limit
)

SSH_SCHEMES = frozenset({"ssh", "git+ssh", "svn+ssh", "sftp", "rsync"})  # a user without a password is no secret there
_ADDRESS = re.compile(r'([A-Za-z][\w+.-]*)://([^\s/?#"]+)@')
_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")


def filtered_environment(
    environment: Mapping[str, str], keys: Keys, *, more: Sequence[str] = (), passed: Sequence[str] = ()
) -> dict[str, str]:
    """What a command may inherit: no variable that is named like a secret, or that has a key or a user in an address.

    `more` are patterns of other names that are secrets, `passed` of names that are passed on in any case. Upper and
    lower case are the same.
    """
    of_providers = keys.variables()
    known = [key for key in keys.known() if len(key) >= SHORTEST]

    def has_secret(name: str, value: str) -> bool:
        if _fits(name, passed):
            return False
        if name in of_providers or _fits(name, more) or is_named_like_a_secret(name):
            return True
        return any(key in value for key in known) or has_user_in_address(value)

    return {name: value for name, value in environment.items() if not has_secret(name, value)}


def is_named_like_a_secret(name: str) -> bool:
    if _fits(name, NOT_SECRET):
        return False
    capitals = name.upper()
    if any(part in capitals for part in ANYWHERE):
        return True
    words = [word.upper().rstrip("0123456789") for word in _BETWEEN_WORDS.split(name)]
    return any(word in WORDS or word.endswith(ENDINGS) for word in words)


def has_user_in_address(value: str) -> bool:
    """Whether a value has an address with a password, or with a user that may be a token (https://TOKEN@host)."""
    return any(":" in user or scheme.lower() not in SSH_SCHEMES for scheme, user in _ADDRESS.findall(value))


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)
