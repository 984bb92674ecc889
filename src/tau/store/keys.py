"""API keys: from the command line, auth.json, the environment, or models.json, in this order.

What a file says may be a key, a variable or a command (see values.py). Commands
in auth.json are run once, and once more when a server no longer takes what they said;
those in models.json each time a key is wanted.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tau.store.auth import AuthFile
from tau.store.config_values import is_command, missing, value, variables

# Stands for a key where the environment has other credentials, which the API's own module reads.
AUTHENTICATED = "<authenticated>"

VARIABLES = {
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
# Not keys but tokens, which go into another header.
BEARER = {"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN"}

# Of other kinds of credentials.
SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN")

# Variables that together are as good as a key.
AMBIENT = {
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
        self.headers: list[str] = []  # what models.json has for headers, which may be keys by another name
        file = AuthFile(auth_file)
        self._saved = {name: entry for name, entry in file.read().items() if _is_key(entry)}
        self.problems = file.problems
        self._told: dict[str, str] = {}  # what commands of auth.json have said

    def give(self, provider: str, key: str) -> None:
        """A key from the command line: for this process only, before all others."""
        self._given[provider] = key

    def give_all(self, key: str) -> None:
        """The same for every provider: where nobody will look at it."""
        self._for_all = key

    def has(self, provider: str) -> bool:
        """Whether there is a key, without running anything to get it."""
        source, text = self._found(provider)
        if not text or is_command(text) or source == "--api-key":
            return bool(text)
        return value(text, self.environment(provider)) is not None

    def takes_time(self, provider: str) -> bool:
        """Whether `get` runs a command, and so is to be called off the event loop."""
        source, text = self._found(provider)
        return source != "--api-key" and is_command(text or "")

    def get(self, provider: str) -> str | None:
        """The key."""
        if (key := self._get(provider)) and key != AUTHENTICATED:
            self._used.add(key)
        return key

    def known(self) -> set[str]:
        """Every key that we have seen so far, from wherever: what no log may show. Runs nothing."""
        found = {self._environment.get(name) for name in self.variables()}
        found |= {self._for_all, *self._given.values(), *self._used}
        found |= {value(text, self._environment) for text in self._written() if not is_command(text)}
        return {key for key in found if key}

    def variables(self) -> set[str]:
        """Variables that keys come from, or may come from."""
        usual = {name for names in (*VARIABLES.values(), SECRET_VARIABLES) for name in names}
        return usual.union(*map(variables, self._written()))

    def _written(self) -> list[str]:
        """What files say."""
        own = [text for provider in self._saved for text in self._own(provider).values()]
        return [*(entry["key"] for entry in self._saved.values()), *own, *self.configured.values(), *self.headers]

    def _get(self, provider: str) -> str | None:
        source, text = self._found(provider)
        if text is None:
            return None
        if source == "--api-key":
            return text
        if source != "auth.json" or not is_command(text):
            return value(text, self.environment(provider))
        if provider not in self._told and (said := value(text, self._environment)) is not None:
            self._told[provider] = said
        return self._told.get(provider)

    def forget(self, provider: str) -> bool:
        """If a command has said the key, ask it again the next time. False if none has."""
        return self._told.pop(provider, None) is not None

    def ambient(self, provider: str) -> bool:
        """Whether the key only stands for credentials that the environment leads to."""
        return self._found(provider)[1] == AUTHENTICATED

    def source(self, provider: str) -> str | None:
        """Where the key comes from, for people: a file, a flag, or the name of a variable."""
        return self._found(provider)[0]

    def missing(self, provider: str) -> list[str]:
        """Variables that the key is said to be in, and that are not set."""
        return missing(self._found(provider)[1] or "", self.environment(provider))

    def is_token(self, provider: str) -> bool:
        """Whether what `get` returns goes as a bearer token where the API has another place for keys."""
        return self.source(provider) in BEARER

    def environment(self, provider: str) -> Mapping[str, str]:
        """The variables for a provider: auth.json may have some for it alone."""
        own = self._own(provider)
        return ChainMap(own, dict(self._environment)) if own else self._environment

    def _own(self, provider: str) -> dict[str, str]:
        own = self._saved.get(provider, {}).get("env")
        return {name: text for name, text in own.items() if isinstance(text, str)} if isinstance(own, dict) else {}

    def _found(self, provider: str) -> tuple[str | None, str | None]:
        """Where it was found, and what is written there."""
        if self._for_all is not None:
            return "--api-key", self._for_all
        if provider in self._given:
            return "--api-key", self._given[provider]
        if provider in self._saved:
            return "auth.json", self._saved[provider]["key"]
        for name in VARIABLES.get(provider, ()):
            if self._environment.get(name):
                return name, f"${name}"
        for names in AMBIENT.get(provider, ()):
            if all(self._environment.get(name) for name in names) and self._signed_in(provider):
                return " and ".join(names), AUTHENTICATED
        if provider in self.configured:
            return "models.json", self.configured[provider]
        return None, None

    def _signed_in(self, provider: str) -> bool:
        """Google's variables say where to ask; who asks is in a file, or in a token."""
        if provider != "google-vertex" or self._environment.get("GOOGLE_OAUTH_ACCESS_TOKEN"):
            return True
        named = self._environment.get("GOOGLE_APPLICATION_CREDENTIALS")
        usual = Path(self._environment.get("HOME", "")) / ".config" / "gcloud" / "application_default_credentials.json"
        return (Path(named) if named else usual).is_file()


def _is_key(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "api_key" and isinstance(entry.get("key"), str)
