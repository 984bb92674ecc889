"""Environment of commands: which of our variables they inherit when secrets are filtered.

docs/security.md documents the same list; tests/runtime/test_environment.py compares the two.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence

from tau.core.checks.secrets import MIN_SECRET_LENGTH
from tau.store.keys import Keys

# Words of a variable name. Words are separated by underscores, by other punctuation, or by a change from lower to
# upper case; trailing digits are ignored.
WORDS = frozenset(
    """
    PASS PASSWD PASSWORD PASSPHRASE PASSCODE PW PWD KEY KEYS TOKEN TOKENS SECRET SECRETS CREDENTIAL CREDENTIALS CRED
    CREDS AUTH OAUTH AUTHORIZATION BEARER DSN COOKIE COOKIES PAT JWT PSK WEBHOOK WEBHOOKS
    """.split()
)
ENDINGS = ("PASS", "TOKEN", "TOKENS", "AUTH", "PWD")  # endings of such a word: SSHPASS, GITHUBTOKEN
ANYWHERE = tuple(
    """
    PASSWORD PASSWD PASSPHRASE SECRET CREDENTIAL COOKIE APIKEY ACCESSKEY PRIVATEKEY SSHKEY SIGNINGKEY ENCRYPTIONKEY
    CONNECTION_STRING CONNECTIONSTRING
    """.split()
)

# Names that look like secrets, are not secrets, and are needed by commands.
NOT_SECRET = (
    "PWD",  # the working folder
    "OLDPWD",
    "SSH_AUTH_SOCK",  # the socket of the SSH agent; git and ssh need it, and it contains no key
    "*ASKPASS*",  # the program that asks for a password
    "*BYPASS*",
    "*COMPASS*",
    "*MAX*_TOKENS",  # a limit
)

# In URLs with these schemes, a user name without a password is not a secret.
SSH_SCHEMES = frozenset({"ssh", "git+ssh", "svn+ssh", "sftp", "rsync"})
# A password may contain what should have been encoded; a port and a path are no password.
_ADDRESS = r'(?<![\w+.-])([\w+.-]+)://([^\s/?#"]+|[^\s/?#@":\[]*:(?!\d*[/?#])[^\s"@]*)@'
_BETWEEN_WORDS = r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])"


def filtered_environment(
    environment: Mapping[str, str], keys: Keys, *, more: Sequence[str] = (), passed: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables that a command may inherit.

    Leaves out variables that are named like a secret, contain a known key, or contain a URL with user information.
    `more` are patterns for names of further secrets, `passed` are patterns for names that are always inherited.
    Patterns are case-insensitive.
    """
    of_providers = keys.variables()
    known = [key for key in keys.known_secrets() if len(key) >= MIN_SECRET_LENGTH]

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
    words = [word.upper().rstrip("0123456789") for word in re.split(_BETWEEN_WORDS, name)]
    return any(word in WORDS or word.endswith(ENDINGS) for word in words)


def has_user_in_address(value: str) -> bool:
    """True if a value contains a URL with a password, or with a user that may be a token (https://TOKEN@host)."""
    return any(":" in user or scheme.lower() not in SSH_SCHEMES for scheme, user in re.findall(_ADDRESS, value))


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)
