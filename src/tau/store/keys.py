"""API keys: from the command line, auth.json, the environment, or models.json, in this order.

A value in a file may be a key, a variable or a command (see config_values.py). A command in auth.json runs once, and
again after a server has rejected its key; a command in models.json runs each time a key is needed.

The access token of an OAuth login in auth.json is used while it is valid. runtime/login refreshes the logins of
providers with an OAuth client of the user (`refreshable`); an expired login that only pi can refresh is used only to
say so, if there is no other key.
"""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tau.errors import UsageError
from tau.store.auth import AuthFile, OAuthLogin
from tau.store.config_values import is_command, looks_like_a_variable, missing_variables, resolve_value, variables_in

# Placeholder for a key where the environment has other credentials, which the API's own module reads.
AUTHENTICATED = "<authenticated>"
# The source of a token of an OAuth login, for display.
LOGIN = "auth.json (OAuth login)"

KEY_VARIABLES = {
    "amazon-bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "ant-ling": ("ANT_LING_API_KEY",),
    "anthropic": ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "baseten": ("BASETEN_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cloudflare-ai-gateway": ("CLOUDFLARE_API_KEY",),
    "cloudflare-workers-ai": ("CLOUDFLARE_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "github-models": ("GITHUB_TOKEN", "GH_TOKEN"),
    "google": ("GEMINI_API_KEY",),
    "google-vertex": ("GOOGLE_CLOUD_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "kimi-coding": ("KIMI_API_KEY",),
    "llama.cpp": ("LLAMA_API_KEY",),
    "meta": ("META_API_KEY",),
    "minimax": ("MINIMAX_API_KEY",),
    "minimax-cn": ("MINIMAX_CN_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOT_API_KEY",),
    "moonshotai-cn": ("MOONSHOT_API_KEY",),
    "nvidia": ("NVIDIA_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "opencode": ("OPENCODE_API_KEY",),
    "opencode-go": ("OPENCODE_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "qwen-token-plan": ("QWEN_TOKEN_PLAN_API_KEY",),
    "qwen-token-plan-cn": ("QWEN_TOKEN_PLAN_CN_API_KEY",),
    "qwen-token-plan-individual": ("QWEN_TOKEN_PLAN_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "vercel-ai-gateway": ("AI_GATEWAY_API_KEY",),
    "vllm": ("VLLM_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "xiaomi": ("XIAOMI_API_KEY",),
    "xiaomi-token-plan-ams": ("XIAOMI_TOKEN_PLAN_AMS_API_KEY",),
    "xiaomi-token-plan-cn": ("XIAOMI_TOKEN_PLAN_CN_API_KEY",),
    "xiaomi-token-plan-sgp": ("XIAOMI_TOKEN_PLAN_SGP_API_KEY",),
    "zai": ("ZAI_API_KEY",),
    "zai-coding-cn": ("ZAI_CODING_CN_API_KEY",),
}
# Values of these sources are used as they are: they are not names of variables, nor commands.
LITERAL_SOURCES = ("--api-key", LOGIN)
# These are tokens, which are sent in another header than keys.
BEARER_VARIABLES = {"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN"}

# Variables of other kinds of credentials that contain secrets.
SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN")

# Groups of variables that replace a key if all of a group are set.
AMBIENT_VARIABLES = {
    "amazon-bedrock": (
        ("AWS_PROFILE",),
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
        ("AWS_WEB_IDENTITY_TOKEN_FILE",),
        ("AWS_BEDROCK_SKIP_AUTH",),
    ),
    "google-vertex": (
        ("GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_PROJECT"),
        ("GOOGLE_CLOUD_LOCATION", "GCLOUD_PROJECT"),
    ),
}


class Keys:
    def __init__(self, auth_file: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._used: set[str] = set()
        self._given: dict[str, str] = {}
        self._for_all: str | None = None
        self.configured: dict[str, str] = {}
        self.headers: list[
            str
        ] = []  # other values in models.json that may be secrets: headers, secrets of OAuth clients
        self.refreshable: frozenset[str] = frozenset()  # providers whose logins tau can refresh
        self.auth_file = auth_file
        self.reload()

    def reload(self) -> None:
        """Read auth.json, at the start and when a key was stored or removed. Blocks."""
        file = AuthFile(self.auth_file)
        entries = file.read()
        self._saved = {name: entry for name, entry in entries.items() if _is_key(entry)}
        self._logins = _logins(entries)
        self.problems = file.problems
        self._command_keys: dict[str, str] = {}  # keys that commands of auth.json have printed

    def set_key(self, provider: str, key: str) -> None:
        """Set a key from the command line: it precedes all others, for this process only. Raises UsageError."""
        if looks_like_a_variable(key):
            raise UsageError(f'The API key for {provider} is "{key}", which is the name of a variable: give its value.')
        self._given[provider] = key

    def set_key_for_all(self, key: str) -> None:
        """Set one key for every provider, for a run in which no server checks keys."""
        self._for_all = key

    @property
    def for_all(self) -> bool:
        """True if one key stands for all: no server checks keys."""
        return self._for_all is not None

    def has(self, provider: str) -> bool:
        """True if there is a key. Runs no command to find out."""
        source, text = self._found(provider)
        if source == LOGIN:
            return provider in self.refreshable or self.expired_login(provider) is None
        if not text or source in LITERAL_SOURCES or is_command(text):
            return bool(text)
        return resolve_value(text, self.environment(provider), is_key=True) is not None

    def runs_command(self, provider: str) -> bool:
        """True if `get` runs a command and must be called in a thread."""
        source, text = self._found(provider)
        return source not in LITERAL_SOURCES and is_command(text or "")

    def get(self, provider: str) -> str | None:
        """Return the key; None if there is none."""
        if (key := self._get(provider)) and key != AUTHENTICATED:
            self._used.add(key)
        return key

    def known_secrets(self) -> set[str]:
        """Return every key seen so far, from any source: no log may show them. Runs no command."""
        found = {self._environment.get(name) for name in self.variables()}
        found |= {self._for_all, *self._given.values(), *self._used}
        found |= {token for login in self._logins.values() for token in (login.access, login.refresh)}
        found |= {
            resolve_value(text, self._environment, is_key=True) for text in self._written() if not is_command(text)
        }
        return {key for key in found if key}

    def variables(self) -> set[str]:
        """Return the names of all variables that keys come from, or may come from."""
        known = {name for names in (*KEY_VARIABLES.values(), SECRET_VARIABLES) for name in names}
        return known.union(*map(variables_in, self._written()))

    def _written(self) -> list[str]:
        """Return all values in files."""
        own = [text for provider in self._saved for text in self._own(provider).values()]
        return [*(entry["key"] for entry in self._saved.values()), *own, *self.configured.values(), *self.headers]

    def _get(self, provider: str) -> str | None:
        source, text = self._found(provider)
        if text is None:
            return None
        if source in LITERAL_SOURCES:
            return text
        if source != "auth.json" or not is_command(text):
            return resolve_value(text, self.environment(provider), is_key=True)
        if provider not in self._command_keys and (key := resolve_value(text, self._environment)) is not None:
            self._command_keys[provider] = key
        return self._command_keys.get(provider)

    def drop_command_key(self, provider: str) -> bool:
        """Drop a key that a command has printed, so that the command runs again. False if there is no such key."""
        return self._command_keys.pop(provider, None) is not None

    def is_ambient(self, provider: str) -> bool:
        """True if the key is a placeholder for credentials in the environment."""
        return self._found(provider)[1] == AUTHENTICATED

    def source(self, provider: str) -> str | None:
        """Return where the key comes from, for display: a file, a flag, or the name of a variable."""
        return self._found(provider)[0]

    def missing(self, provider: str) -> list[str]:
        """Return the variables that the key refers to and that are not set."""
        source, text = self._found(provider)
        literal = source in LITERAL_SOURCES
        return [] if literal else missing_variables(text or "", self.environment(provider), is_key=True)

    def is_token(self, provider: str) -> bool:
        """True if `get` returns a bearer token, for APIs that send keys in another header."""
        return self.source(provider) in (*BEARER_VARIABLES, LOGIN)

    # OAuth logins.

    def login(self, provider: str) -> OAuthLogin | None:
        """Return the login whose token `get` returns, valid or expired; None if the key has another source."""
        return self._logins.get(provider) if self.source(provider) == LOGIN else None

    def expired_login(self, provider: str) -> OAuthLogin | None:
        """Return the login whose token `get` returns, if it has expired."""
        login = self.login(provider)
        return None if login is None or login.valid(time.time() * 1000) else login

    def set_login(self, provider: str, login: OAuthLogin, key: str = "") -> None:
        """Use a refreshed login from now on. `key`: what is sent instead of the token, if that is another text."""
        self._used |= {token for token in (login.access, login.refresh, key) if token}
        self._logins[provider] = login

    def reload_login(self, provider: str) -> bool:
        """Read a login again that another program may have refreshed. True if the token has changed."""
        known, login = self._logins.get(provider), _logins(AuthFile(self.auth_file).read()).get(provider)
        if login is None or (known is not None and login.access == known.access):
            return False
        self.set_login(provider, login)
        return True

    def environment(self, provider: str) -> Mapping[str, str]:
        """Return the environment for a provider; auth.json may add variables for it alone."""
        own = self._own(provider)
        return ChainMap(own, dict(self._environment)) if own else self._environment

    def _own(self, provider: str) -> dict[str, str]:
        own = self._saved.get(provider, {}).get("env")
        return {name: text for name, text in own.items() if isinstance(text, str)} if isinstance(own, dict) else {}

    def _found(self, provider: str) -> tuple[str | None, str | None]:
        """Return the source of the key and the value written there."""
        if self._for_all is not None:
            return "--api-key", self._for_all
        if provider in self._given:
            return "--api-key", self._given[provider]
        if provider in self._saved:
            return "auth.json", self._saved[provider]["key"]
        login = self._logins.get(provider)
        if login is not None and (provider in self.refreshable or login.valid(time.time() * 1000)):
            return LOGIN, login.access
        source, text = self._found_outside(provider)
        if login is not None and (text is None or missing_variables(text, self._environment, is_key=True)):
            return LOGIN, login.access
        return source, text

    def _found_outside(self, provider: str) -> tuple[str | None, str | None]:
        """The same for the environment and models.json."""
        for name in KEY_VARIABLES.get(provider, ()):
            if self._environment.get(name):
                return name, f"${name}"
        for names in AMBIENT_VARIABLES.get(provider, ()):
            if all(self._environment.get(name) for name in names) and self._signed_in(provider):
                return " and ".join(names), AUTHENTICATED
        if provider in self.configured:
            return "models.json", self.configured[provider]
        return None, None

    def _signed_in(self, provider: str) -> bool:
        """True if credentials exist: Google's variables name only project and location, not the account."""
        if provider != "google-vertex" or self._environment.get("GOOGLE_OAUTH_ACCESS_TOKEN"):
            return True
        named = self._environment.get("GOOGLE_APPLICATION_CREDENTIALS")
        default = (
            Path(self._environment.get("HOME", "")) / ".config" / "gcloud" / "application_default_credentials.json"
        )
        return os.path.isfile(named or default)


def _is_key(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "api_key" and isinstance(entry.get("key"), str)


def _logins(entries: Mapping[str, Any]) -> dict[str, OAuthLogin]:
    found = {name: OAuthLogin.of(entry) for name, entry in entries.items()}
    return {name: login for name, login in found.items() if login is not None}
