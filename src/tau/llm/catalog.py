"""The model catalogue: built-in models, local servers, and the additions and changes of the user's models.json.

The data of built-in models is in data/, one file per provider, written by scripts/update_catalog.py. A file is read
when its provider is first used.

A mistake in one provider's entry of models.json disables that entry and is reported; it never affects other models.
"""

# Without `from __future__ import annotations`: msgspec would compile each annotation of what every start decodes.
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from tau.records.base import UNSET, BadRecord, Record, UnsetType, Value, decode, encode, field, replace
from tau.records.models import Model, Price

DEMO = Model("demo", "Offline demo", "demo", "tau", "", input=["text", "image"], context_window=200000, max_tokens=8192)
SCRIPTED = Model(
    "scripted", "Scripted", "scripted", "scripted", "", reasoning=True, input=["text", "image"], context_window=200000
)
# A very small language model: it can chat but not use tools. The port is known once it runs.
LOCAL_MODEL = Model(
    "local",
    "SmolLM2 135M on this machine",
    "openai-completions",
    "tau",
    "http://127.0.0.1",
    context_window=4096,
    max_tokens=1024,
    compat={"supportsStore": False, "maxTokensField": "max_tokens", "supportsTools": False},
)
# They need no key, and are used only if they are named.
OFFLINE_MODELS = (DEMO, SCRIPTED, LOCAL_MODEL)

# Default model by provider. With keys for several providers, the first one wins: makers of models come before
# those who host or resell them.
DEFAULT_MODELS = {
    "anthropic": "claude-opus-4-8",
    "openai": "gpt-6.1-sol",
    "google": "gemini-3.1-pro-preview",
    "xai": "grok-4.7",
    "deepseek": "deepseek-v4-pro",
    "mistral": "devstral-medium-latest",
    "moonshotai": "kimi-k2.6",
    "moonshotai-cn": "kimi-k2.6",
    "kimi-coding": "kimi-for-coding",
    "zai": "glm-5.3",
    "zai-coding-cn": "glm-5.3",
    "minimax": "MiniMax-M2.7",
    "minimax-cn": "MiniMax-M2.7",
    "meta": "muse-spark-1.3",
    "xiaomi": "mimo-v2.6-pro",
    "xiaomi-token-plan-cn": "mimo-v2.6-pro",
    "xiaomi-token-plan-ams": "mimo-v2.6-pro",
    "xiaomi-token-plan-sgp": "mimo-v2.6-pro",
    "qwen-token-plan": "qwen3.7-max",
    "qwen-token-plan-cn": "qwen3.7-max",
    "qwen-token-plan-individual": "qwen3.8-max",
    "ant-ling": "Ring-2.6-1T",
    "groq": "openai/gpt-oss-120b",
    "cerebras": "gpt-oss-120b",
    "fireworks": "accounts/fireworks/models/kimi-k3",
    "together": "moonshotai/Kimi-K3",
    "baseten": "zai-org/GLM-5.2",
    "nvidia": "nvidia/nemotron-3.5-super-vl-120b-a12b",
    "huggingface": "moonshotai/Kimi-K2.6",
    "openrouter": "moonshotai/kimi-k2.6",
    "vercel-ai-gateway": "zai/glm-5.1",
    "opencode": "kimi-k2.6",
    "opencode-go": "kimi-k3",
    "cloudflare-workers-ai": "@cf/moonshotai/kimi-k2.6",
    "cloudflare-ai-gateway": "workers-ai/@cf/moonshotai/kimi-k2.6",
    "azure": "gpt-5.4",
    "google-vertex": "gemini-3.1-pro-preview",
    "amazon-bedrock": "us.anthropic.claude-opus-4-6-v1",
}


class ModelServer(Value):
    """A server with its own list of models: any id is accepted. `variable` may contain its address."""

    base_url: str
    variable: str = ""
    local: bool = True
    compat: Mapping[str, Any] = {}


SERVERS = {
    "ollama": ModelServer("http://127.0.0.1:11434/v1", "OLLAMA_HOST"),
    "llama.cpp": ModelServer("http://127.0.0.1:8080/v1"),
    "lmstudio": ModelServer("http://127.0.0.1:1234/v1"),
    "vllm": ModelServer("http://127.0.0.1:8000/v1"),
    "github-models": ModelServer("https://models.github.ai/inference", local=False, compat={"supportsStore": False}),
}
LOCAL_PROVIDERS = frozenset(name for name, server in SERVERS.items() if server.local)

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


class ModelConfig(Record):
    """A model in models.json; omitted fields come from the provider or a default."""

    id: str
    name: str | None = None
    api: str | None = None
    base_url: str | None = None
    reasoning: bool = False
    input: list[Literal["text", "image"]] = field(default_factory=lambda: ["text"])
    cost: Price = Price()
    context_window: int = 128000
    max_tokens: int = 16384
    headers: dict[str, str] | UnsetType = UNSET
    compat: dict[str, Any] | UnsetType = UNSET
    thinking_level_map: dict[str, str | None] | UnsetType = UNSET


class OAuthClient(Record):
    """The user's own OAuth client at a provider. pi accepts only a name in `oauth`, so the field has another name."""

    client_id: str
    token_url: str
    authorization_url: str | None = None
    device_authorization_url: str | None = None
    revocation_url: str | None = None
    client_secret: str | None = None
    issued_secret: str | None = None  # by the server at registration: sent as it is, never a command or a variable
    secret_in_header: bool = False  # client_secret_basic of RFC 6749, else client_secret_post
    scopes: list[str] = []
    redirect_uri: str = "http://127.0.0.1/callback"
    resource: str | None = None  # the server that the token is for (RFC 8707)
    issuer: str | None = None  # checked against `iss` in the redirect (RFC 9207)


class ProviderConfig(Record):
    base_url: str | None = None
    api_key: str | None = None
    api: str | None = None
    headers: dict[str, str] = {}
    compat: dict[str, Any] | UnsetType = UNSET
    auth_header: bool = False
    models: list[ModelConfig] | None = None
    model_overrides: dict[str, dict[str, Any]] | None = None
    oauth_client: OAuthClient | None = None


class CatalogProblem(Value):
    """A mistake in models.json, and its place: "providers.lab.models[0].id"."""

    place: str
    what: str

    @property
    def text(self) -> str:
        return self.what if self.what.startswith("Provider ") else f"{self.place}: {self.what}"

    @property
    def consequence(self) -> str:
        """What is not used because of this mistake."""
        _, _, inside = self.place.partition(".")
        if not inside:
            return "The file is ignored."
        return "This override is ignored." if ".modelOverrides." in inside else "This provider is ignored."

    @classmethod
    def at(cls, place: str, error: BadRecord) -> "CatalogProblem":
        """`error` may name a place inside of `place`."""
        inside, colon, what = str(error).rpartition(": ")
        return cls(f"{place}.{inside}", what) if colon else cls(place, str(error))


def takes_tools(model: Model) -> bool:
    return bool((model.compat or {}).get("supportsTools", True))


def parse_providers(content: Any) -> tuple[dict[str, ProviderConfig], list[CatalogProblem]]:
    """The providers in a models.json, and the mistakes in the file."""
    if not isinstance(content, dict) or not isinstance(content.get("providers"), dict):
        return {}, [CatalogProblem("providers", "expected object")]
    read, problems = {}, []
    for name, value in content["providers"].items():
        place = f"providers.{name}"
        try:
            config = decode(ProviderConfig, encode(value))
        except BadRecord as error:
            problems.append(CatalogProblem.at(place, error))
        else:
            found = [CatalogProblem(f"{place}{inside}", what) for inside, what in _config_problems(name, config)]
            problems += found
            if not found:
                read[name] = config
    return read, problems


def _config_problems(name: str, config: ProviderConfig) -> Iterator[tuple[str, str]]:
    if config.oauth_client is not None:
        yield from _oauth_problems(name, config.oauth_client)
    if not config.models:
        nothing = config.base_url is None and config.compat is UNSET and not config.model_overrides
        if nothing and config.oauth_client is None:
            yield "", f'Provider {name}: must specify "baseUrl", "compat", "modelOverrides", or "models".'
        return
    built_in = name in DEFAULT_MODELS or name in SERVERS
    if config.base_url is None and not built_in:
        yield "", f'Provider {name}: "baseUrl" is required when defining custom models.'
        return
    for at, model in enumerate(config.models):
        place = f".models[{at}]"
        if model.api is None and config.api is None and not built_in:
            yield place, f'Provider {name}, model {model.id}: no "api" specified. Set at provider or model level.'
        if model.context_window <= 0 or model.max_tokens <= 0:
            yield place, f"Provider {name}, model {model.id}: contextWindow and maxTokens must be greater than 0."


def _oauth_problems(name: str, client: OAuthClient) -> Iterator[tuple[str, str]]:
    """Tokens must not cross a network unencrypted, and a redirect must come back to this machine."""
    if client.authorization_url is None and client.device_authorization_url is None:
        yield ".oauthClient", f'Provider {name}: oauthClient needs "authorizationUrl" or "deviceAuthorizationUrl".'
    urls = {
        "tokenUrl": client.token_url,
        "authorizationUrl": client.authorization_url,
        "deviceAuthorizationUrl": client.device_authorization_url,
        "revocationUrl": client.revocation_url,
    }
    for field_name, url in urls.items():
        if url is not None and not _is_secure(url):
            yield f".oauthClient.{field_name}", f"Provider {name}: {field_name} must be an https URL."
    redirect = _split(client.redirect_uri)
    if redirect is None or redirect.scheme != "http" or redirect.hostname not in LOOPBACK_HOSTS:
        problem = f"Provider {name}: redirectUri must be an http URL of this machine."
        yield ".oauthClient.redirectUri", problem


def _is_secure(url: str) -> bool:
    parts = _split(url)
    return parts is not None and (
        (parts.scheme == "https" and bool(parts.hostname))
        or (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS)
    )


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else None
    except ValueError:
        return None


class Catalog:
    """All models, including the user's own; those of a provider are read on first access."""

    def __init__(
        self,
        configs: Mapping[str, ProviderConfig] | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        max_level: bool = True,
    ) -> None:
        """Without `max_level` no model has the thinking level `max`."""
        self.configured = dict(configs or {})
        self._replaced: dict[str, ProviderConfig | None] = {}  # the entries before `replace_provider`
        self.problems: list[CatalogProblem] = []
        self._environment = environment or {}
        self._read: dict[str, list[Model]] = {}
        self._max_level = max_level

    def replace_provider(self, name: str, provider: ProviderConfig) -> None:
        """Replace the configuration of a provider; if it lists models, it has no others."""
        self._replaced.setdefault(name, self.configured.get(name))
        self.configured[name] = provider
        self._read.pop(name, None)

    def restore(self, name: str) -> None:
        """Undo `replace_provider`."""
        if name in self._replaced:
            previous = self._replaced.pop(name)
            self._read.pop(name, None)
            if previous is None:
                del self.configured[name]
            else:
                self.configured[name] = previous

    def reconfigure(self, configs: Mapping[str, ProviderConfig]) -> None:
        """Use another content of models.json. Providers that an extension has replaced stay as they are."""
        replaced = {name: self.configured[name] for name in self._replaced}
        self.configured = {**configs, **replaced}
        self._replaced = {name: configs.get(name) for name in replaced}
        self.problems.clear()
        self._read.clear()

    @property
    def providers(self) -> list[str]:
        return list(dict.fromkeys([*DEFAULT_MODELS, *SERVERS, *self.configured]))

    def canonical_name(self, provider: str) -> str | None:
        """The provider's name in the spelling of the catalogue, or None."""
        return next((name for name in self.providers if name.lower() == provider.lower()), None)

    def models_of(self, provider: str) -> list[Model]:
        """The models of a provider: the user's own replace built-in ones with the same id."""
        if provider not in self._read:
            alone = provider in self._replaced and self.configured[provider].models
            built_in = decode(list[Model], _data(provider)) if provider in DEFAULT_MODELS and not alone else []
            models = self._merged(provider, built_in)
            self._read[provider] = models if self._max_level else [*map(_without_max_level, models)]
        return self._read[provider]

    def default(self, provider: str) -> Model | None:
        """The model to use if none is named."""
        models = self.models_of(provider)
        return next(
            (model for model in models if model.id == DEFAULT_MODELS.get(provider)), models[0] if models else None
        )

    def custom_model(self, provider: str, id: str) -> Model | None:
        """An unlisted model with the properties of the provider's default. Its price is unknown."""
        if provider in SERVERS:
            return self._served(provider, id)
        like = self.default(provider)
        return replace(like, id=id, name=id, cost=Price()) if like else None

    def _served(self, provider: str, id: str) -> Model:
        server = SERVERS[provider]
        base_url = _ollama_url(self._environment.get(server.variable, "")) or server.base_url
        model = Model(id, id, "openai-completions", provider, base_url, compat=dict(server.compat) or UNSET)
        return _with_overrides(model, self.configured[provider]) if provider in self.configured else model

    def _merged(self, name: str, built_in: list[Model]) -> list[Model]:
        if name not in self.configured:
            return built_in
        provider = self.configured[name]
        models = {model.id: _with_overrides(model, provider) for model in built_in}
        like = self._served(name, "") if name in SERVERS else models.get(DEFAULT_MODELS.get(name, ""))
        for model in provider.models or ():
            models[model.id] = _custom_model(name, provider, model, like)
        for id, change in (provider.model_overrides or {}).items():
            if id not in models and name not in SERVERS:
                self.problems.append(CatalogProblem(f"providers.{name}.modelOverrides.{id}", "no such model"))
                continue
            old = models.get(id) or self._served(name, id)
            try:
                models[id] = decode(Model, encode(_deep_merge(decode(dict, encode(old)), change)))
            except BadRecord as error:
                self.problems.append(CatalogProblem.at(f"providers.{name}.modelOverrides.{id}", error))
        return list(models.values())


def _without_max_level(model: Model) -> Model:
    levels = model.thinking_level_map
    if not levels or "max" not in levels:
        return model
    return replace(model, thinking_level_map={name: value for name, value in levels.items() if name != "max"} or UNSET)


def _data(provider: str) -> bytes:
    data = pkgutil.get_data("tau.llm", f"data/{provider}.json")
    assert data is not None
    return data


def _ollama_url(address: str) -> str:
    """The URL that OLLAMA_HOST means: all but the port may be missing, and it may be a listen address."""
    if not address:
        return ""
    scheme, found, rest = address.rpartition("://")
    host, colon, port = rest.rstrip("/").removesuffix("/v1").rpartition(":")
    if not colon or not port.isdigit():
        host, port = rest.rstrip("/").removesuffix("/v1"), "" if found else "11434"
    host = "127.0.0.1" if host in ("", "0.0.0.0") else host
    return f"{scheme or 'http'}://{host}{':' if port else ''}{port}/v1"


def _with_overrides(model: Model, provider: ProviderConfig) -> Model:
    changes: dict[str, Any] = {}
    if provider.base_url is not None:
        changes["base_url"] = provider.base_url
    if provider.headers:
        changes["headers"] = {**(model.headers or {}), **provider.headers}
    if provider.compat is not UNSET:
        changes["compat"] = {**(model.compat or {}), **provider.compat}
    return replace(model, **changes) if changes else model


def _custom_model(name: str, provider: ProviderConfig, config: ModelConfig, base: Model | None) -> Model:
    headers = {**provider.headers, **(config.headers or {})}
    compat = {**(provider.compat or {}), **(config.compat or {})}
    return Model(
        config.id,
        config.name or config.id,
        config.api or provider.api or (base.api if base else ""),
        name,
        config.base_url or provider.base_url or (base.base_url if base else ""),
        config.reasoning,
        config.input,
        config.cost,
        config.context_window,
        config.max_tokens,
        headers or UNSET,
        compat or UNSET,
        config.thinking_level_map,
    )


def _deep_merge(value: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    merged = dict(value)
    for key, new in change.items():
        old = merged.get(key)
        merged[key] = _deep_merge(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return merged
