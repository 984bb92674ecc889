"""Model selection of one session: available models, current model, thinking level and credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tau.core.checks.secrets import is_secret
from tau.core.models.patterns import AmbiguousModel, ModelMatch, find_exact, find_model, select_models, split_level
from tau.core.models.pricing import price_unknown
from tau.core.models.thinking import clamp, next_level, supported_levels
from tau.errors import CommandError, ModelError, UsageError
from tau.llm.apis import credential_finder, forget_credentials
from tau.llm.catalog import DEFAULT_MODELS, LOCAL_PROVIDERS, OFFLINE_MODELS, SERVERS, Catalog, ProviderConfig
from tau.records.base import UNSET, Value, replace
from tau.records.messages import Assistant
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import Settings
from tau.runtime.models.logins import ProviderLogins, expired_login_error
from tau.store.auth import OAuthLogin
from tau.store.config_values import is_command, missing_variables, not_set, resolve_value
from tau.store.keys import AUTHENTICATED, Keys

HOW_TO_GET_A_MODEL = (
    "Set the API key of a provider, for example ANTHROPIC_API_KEY, and start again. `tau --list-models` lists the "
    "providers and what each needs; `--model demo` needs no key."
)
NO_MODEL = f"No model selected. {HOW_TO_GET_A_MODEL}"


class ModelAccess(Value):
    """Input of a model call: the model with resolved headers, its key, and its environment variables."""

    model: Model
    key: str | None
    environment: Mapping[str, str]


class ModelSelection:
    def __init__(self, catalog: Catalog, keys: Keys) -> None:
        self.catalog = catalog
        self.keys = keys
        self.logins = ProviderLogins(catalog, keys)
        self.scoped: list[ModelMatch] = []
        self.current: Model | None = None
        self.level: ThinkingLevel = "off"
        self.start_level: ThinkingLevel = "off"  # the level to start with, whichever model that will be
        self._returning: ThinkingLevel | None = None  # restored after a model without thinking; None: stays off
        self._renewed: set[str] = set()  # providers whose credentials were refreshed and not accepted since
        self.fixed = False  # the command line names the model: that of an opened session does not replace it
        self.fixed_level = False  # the same for the thinking level: --thinking, or --model NAME:LEVEL

    # Available models.

    @property
    def available(self) -> list[Model]:
        """The models that can be used now. One that is not in the catalog is included only while it is current."""
        providers = [provider for provider in self.catalog.providers if self._open(provider)]
        listed = [model for provider in providers for model in self.catalog.models_of(provider)]
        if self.current is not None and self.current not in listed and self.usable(self.current):
            listed.append(self.current)
        return listed

    def usable(self, model: Model) -> bool:
        """True if the model can be called: there is a key, or it needs none."""
        return model in OFFLINE_MODELS or self._open(model.provider)

    def _open(self, provider: str) -> bool:
        return provider in LOCAL_PROVIDERS or self.keys.has(provider)

    def add_provider(self, name: str, provider: ProviderConfig) -> None:
        """Add a provider that an extension registers, or replace one."""
        self.catalog.replace_provider(name, provider)
        if provider.api_key:
            self.keys.configured[name] = provider.api_key

    def remove_provider(self, name: str) -> None:
        self.catalog.restore(name)
        known = self.catalog.configured.get(name)
        if known is not None and known.api_key:
            self.keys.configured[name] = known.api_key
        else:
            self.keys.configured.pop(name, None)

    # Initial selection.

    def choose(
        self,
        settings: Settings,
        *,
        pattern: str | None = None,
        provider: str | None = None,
        scoped: Sequence[str] = (),
        level: ThinkingLevel | None = None,
    ) -> list[str]:
        """Select the initial model and thinking level, and return warnings for the user. Raises UsageError."""
        warnings: list[str] = []
        if patterns := scoped or settings.enabled_models or ():
            self.scoped, warnings = select_models(patterns, [*self.available, *self._asked_for(patterns)])
        self.fixed = bool(pattern or provider)
        if self.fixed:
            chosen: ModelMatch | None = self._named(pattern, provider, settings.default_provider, warnings)
        else:
            chosen = self._default_model(settings)
        self.current = chosen.model if chosen else None
        self.fixed_level = level is not None or (self.fixed and chosen is not None and chosen.level is not None)
        default_level = settings.default_thinking_level or "medium"
        self.start_level = level or (chosen.level if chosen else None) or default_level
        self.level = clamp(self.start_level, self.current)
        self._returning = default_level if settings.compat.thinking_returns else None
        return warnings

    def find(self, name: str, settings: Settings) -> ModelMatch:
        """Return the model that a name means, as after --model. Raises CommandError, also if it lacks a key."""
        if not name.strip():
            raise CommandError("The name of the model is empty.")
        try:
            found = self._named(name, None, settings.default_provider, [])
        except UsageError as error:
            raise CommandError(str(error)) from None
        if not self.usable(found.model):
            raise CommandError(self.missing_key(found.model))
        return found

    def _asked_for(self, patterns: Sequence[str]) -> list[Model]:
        """Models that the patterns name in full, of servers without a model list: "ollama/qwen3"."""
        named = [name.partition("/") for pattern in patterns for name, _ in split_level(pattern)[-1:]]
        made = [self.catalog.custom_model(server, id) for server, _, id in named if server in SERVERS and id]
        return [model for model in made if model is not None and self.usable(model)]

    def _named(
        self, pattern: str | None, provider: str | None, default_provider: str | None, warnings: list[str]
    ) -> ModelMatch:
        if provider is not None:
            return self._of_provider(pattern, provider, warnings)
        assert pattern is not None
        # Search the usable models first: usually a match there avoids reading the rest of the catalog.
        if match := find_exact(pattern, [*self.available, *OFFLINE_MODELS]):
            return match
        head, slash, rest = pattern.partition("/")
        server = self.catalog.canonical_name(head) if slash else None
        if server in SERVERS and rest:
            return self._of_provider(rest, server, warnings)
        everything = [model for name in self.catalog.providers for model in self.catalog.models_of(name)]
        found = find_model(pattern, [*everything, *OFFLINE_MODELS], usable=self.usable)
        if isinstance(found, AmbiguousModel):
            saved = [model for model in found.models if model.provider == default_provider]
            if not saved and any(map(self.usable, found.models)):
                names = ", ".join(model.provider for model in found.models)
                raise UsageError(f'Model "{pattern}" is offered by {names}. Choose one with --provider.')
            # Without a key for any of them, the maker of the model is meant: its key is what is missing.
            found = ModelMatch((saved or found.models)[0], found.level)
        if found is None and server is not None and rest:
            return self._of_provider(rest, server, warnings)
        if found is None:
            raise self._unknown_model(pattern, [*everything, *OFFLINE_MODELS])
        return found

    def _of_provider(self, pattern: str | None, provider: str, warnings: list[str]) -> ModelMatch:
        name = self.catalog.canonical_name(provider)
        models = [model for model in OFFLINE_MODELS if model.provider.lower() == provider.lower()]
        if name is None and not models:
            raise self._unknown_provider(provider)
        models += self.catalog.models_of(name) if name else []
        if pattern is None:
            default = models[0] if name is None else self.catalog.default(name)
            if default is None:
                raise UsageError(f"{name} has no default model. Choose one with --model.")
            return ModelMatch(default)
        # The model ids of a server must match exactly; elsewhere a part of a name is enough.
        match = find_exact(pattern, models) if name in SERVERS else find_model(pattern, models)
        if isinstance(match, ModelMatch):
            return match
        return self._custom(name, pattern, warnings)

    def _custom(self, provider: str | None, pattern: str, warnings: list[str]) -> ModelMatch:
        id, level = split_level(pattern)[-1]
        model = self.catalog.custom_model(provider, id) if provider else None
        if model is None:
            raise self._unknown_model(f"{provider}/{pattern}" if provider else pattern, OFFLINE_MODELS)
        if provider not in SERVERS:
            warnings.append(f'Model "{id}" not found for provider "{provider}". Using custom model id.')
        return ModelMatch(model, level)

    def _unknown_model(self, name: str, models: Sequence[Model]) -> UsageError:
        from tau.runtime.models.remedies import unknown_model_error

        return UsageError(unknown_model_error(split_level(name)[-1][0], models))

    def _unknown_provider(self, name: str) -> UsageError:
        from tau.runtime.models.remedies import unknown_provider_error

        return UsageError(unknown_provider_error(name, self.catalog.providers))

    def missing_key(self, model: Model) -> str:
        """The error for a model that is not usable."""
        from tau.runtime.models.remedies import missing_key_error

        return missing_key_error(model.provider, self.keys)

    def _default_model(self, settings: Settings) -> ModelMatch | None:
        provider, id = settings.default_provider, settings.default_model
        if self.scoped:
            saved = [match for match in self.scoped if (match.model.provider, match.model.id) == (provider, id)]
            return saved[0] if saved else self.scoped[0]
        ready = self.available
        if id is not None:
            candidates = [*ready, *OFFLINE_MODELS]
            saved_model = next((m for m in candidates if m.id == id and provider in (None, m.provider)), None)
            if saved_model is None and provider in SERVERS and self._open(provider):
                saved_model = self.catalog.custom_model(provider, id)
            if saved_model:
                return ModelMatch(saved_model)
        defaults = [model for model in ready if DEFAULT_MODELS.get(model.provider) == model.id]
        first = defaults[0] if defaults else next(iter(ready), None)
        return ModelMatch(first) if first else None

    # Changes.

    def set(self, provider: str, id: str) -> Model:
        model = next(
            (one for one in [*self.available, *OFFLINE_MODELS] if (one.provider, one.id) == (provider, id)), None
        )
        if model is None and provider in SERVERS and id and self._open(provider):
            model = self.catalog.custom_model(provider, id)
        if model is None:
            raise CommandError(f"Model not found: {provider}/{id}")
        self._switch(model)
        return model

    def cycle(self, *, backward: bool = False) -> Model | None:
        """Switch to the next model, or the one before, and return it; None if there is no other."""
        models = self.scoped or [ModelMatch(model) for model in self.available]
        if len(models) < 2:
            return None
        # A model outside of the scope counts as the first of it, as in every version of pi.
        at = next((i for i, match in enumerate(models) if match.model == self.current), 0)
        match = models[(at + (-1 if backward else 1)) % len(models)]
        self._switch(match.model)
        if match.level:
            self.level = clamp(match.level, match.model)
        return match.model

    def _switch(self, model: Model) -> None:
        level = self._returning if self.thinking_not_supported and self._returning else self.level
        self.current = model
        self.level = clamp(level, model)

    @property
    def thinking_not_supported(self) -> bool:
        return self.current is not None and not self.current.reasoning

    def restore(self, model: tuple[str, str] | None, level: ThinkingLevel | None) -> None:
        """Restore the model of an opened session, if it is still usable, and its thinking level."""
        found = next((one for one in [*self.available, *OFFLINE_MODELS] if (one.provider, one.id) == model), None)
        if found is not None:
            self.current = found
        self.level = clamp(level or self.level, self.current)

    def set_level(self, level: ThinkingLevel) -> None:
        self.level = clamp(level, self.current)
        self._return_to(self.level)

    def _return_to(self, level: ThinkingLevel) -> None:
        if self._returning and not self.thinking_not_supported:
            self._returning = level

    def cycle_level(self) -> ThinkingLevel | None:
        """Switch to the next thinking level and return it; None if the model does not support thinking."""
        level = next_level(self.level, self.current)
        if level is not None:
            self.level = level
            self._return_to(level)
        return level

    @property
    def levels(self) -> list[ThinkingLevel]:
        return supported_levels(self.current)

    # Calls.

    def ready(self) -> Model:
        """Return the model to call. Raises CommandError that states what is missing."""
        if self.current is None:
            raise CommandError(NO_MODEL)
        if not self.usable(self.current) and not self.keys.reload_login(self.current.provider):
            if self.keys.expired_login(self.current.provider) is not None:
                raise CommandError(expired_login_error(self.current.provider))
            raise CommandError(self.missing_key(self.current))
        return self.current

    def takes_time(self, model: Model) -> bool:
        """True if `asked` may block, for example on a command, and must be called outside the event loop."""
        commands = any(map(is_command, (model.headers or {}).values()))
        return commands or self.logins.take_time(model.provider) or credential_finder(model.api) is not None

    def asked(self, model: Model) -> ModelAccess:
        """Resolve what a call of `model` needs: values that are variables or commands are looked up now.

        Raises ModelError if a command provides no key, or an OAuth login cannot be refreshed.
        """
        key, is_token = self.logins.current_key(model.provider)
        environment = self.keys.environment(model.provider)
        if key is None and self.keys.runs_command(model.provider):
            source = self.keys.source(model.provider)
            raise ModelError(
                f"No API key for {model.provider}: the command in {source} did not return one.", transient=False
            )
        if key == AUTHENTICATED and (find_credentials := credential_finder(model.api)) is not None:
            environment = find_credentials(environment)
        headers = self._headers(model, environment)
        configured = self.catalog.configured.get(model.provider)
        if is_token:
            # Every API takes a token in the same header; the place of a key differs between APIs.
            headers["authorization"], key = f"Bearer {key}", None
        elif key is not None and configured is not None and configured.auth_header:
            headers["authorization"] = f"Bearer {key}"
        return ModelAccess(replace(model, headers=headers or UNSET), key, environment)

    def _headers(self, model: Model, environment: Mapping[str, str]) -> dict[str, str]:
        """The headers of the configuration. Raises ModelError for a variable that is not set."""
        found = {}
        for name, text in (model.headers or {}).items():
            unset = missing_variables(text, environment, is_key=is_secret(name))
            if unset and not self.keys.for_all:
                raise ModelError(
                    f"The header {name} of {model.provider} cannot be sent: {not_set(unset)}. Set it, or change the "
                    "header in models.json.",
                    transient=False,
                )
            if not unset and (value := resolve_value(text, environment)) is not None:
                found[name] = value
        return found

    def refresh_credentials(self, model: Model) -> bool:
        """Drop cached credentials after an authentication failure. True if the call should be retried.

        The retry reads the credentials from their command or account again. There is one retry until the server
        accepts a call.
        """
        login = self.keys.login(model.provider)
        if login is not None:
            renewable = self._drop_login(model.provider, login)
        elif self.keys.is_ambient(model.provider):
            renewable = forget_credentials(model.api)
        else:
            renewable = self.keys.drop_command_key(model.provider)
        if not renewable or model.provider in self._renewed:
            self._renewed.discard(model.provider)
            return False
        self._renewed.add(model.provider)
        return True

    def _drop_login(self, provider: str, login: OAuthLogin) -> bool:
        """Treat a token as expired that a server has rejected: clocks may differ, or the token was revoked."""
        if self.keys.reload_login(provider):
            return True
        if provider in self.keys.refreshable:
            self.keys.set_login(provider, replace(login, expires=0))
            return True
        return False

    def accepted(self, model: Model) -> None:
        self._renewed.discard(model.provider)

    def unpriced(self, answer: Assistant) -> bool:
        """True if the cost of this response is unknown."""
        return self.price_unknown(answer.provider, answer.model)

    def price_unknown(self, provider: str, id: str) -> bool:
        known = [*([self.current] if self.current else []), *OFFLINE_MODELS]
        if provider in self.catalog.providers:
            known += self.catalog.models_of(provider)
        model = next((one for one in known if (one.provider, one.id) == (provider, id)), None)
        return provider not in LOCAL_PROVIDERS if model is None else price_unknown(model)
