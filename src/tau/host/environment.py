"""What commands inherit of our environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from tau.core.secrets import SHORTEST
from tau.store.keys import Keys

# Names of variables, in capitals.
SECRETS = (
    *("*_KEY", "API_KEY", "*APIKEY*", "*ACCESS_KEY*", "*PRIVATE_KEY*", "*_TOKEN", "TOKEN", "*AUTHTOKEN*", "*COOKIE*"),
    *("*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PWD", "*_PAT", "*_AUTH", "*CREDENTIALS*"),
)
_PASSWORD_IN_ADDRESS = re.compile(r"\w://[^\s/@:]*:[^\s/@]+@")


def without_secrets(environment: Mapping[str, str], keys: Keys) -> dict[str, str]:
    """What a command may inherit: no variable that is named like a secret, or that has a key or a password in it."""
    of_providers = keys.variables()
    known = [key for key in keys.known() if len(key) >= SHORTEST]

    def has_secret(name: str, value: str) -> bool:
        named = name in of_providers or any(fnmatchcase(name.upper(), pattern) for pattern in SECRETS)
        return named or any(key in value for key in known) or _PASSWORD_IN_ADDRESS.search(value) is not None

    return {name: value for name, value in environment.items() if not has_secret(name, value)}
