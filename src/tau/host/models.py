"""The models of one session: which there are, which is on, how hard it thinks."""

from __future__ import annotations

from collections.abc import Sequence

from tau.core.matching import Match, find, scope
from tau.core.thinking import clamp, following, levels
from tau.errors import CommandError, UsageError
from tau.llm.catalog import DEFAULTS, OFFLINE
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import Settings
from tau.store.keys import Keys

HOW_TO_SET_A_KEY = (
    "Set an API key, for example ANTHROPIC_API_KEY, or describe a model in models.json in the agent folder "
    "(~/.pi/agent), then start again. Without any key, --model demo runs the built-in offline model."
)
NO_MODEL = f"No model selected.\n\n{HOW_TO_SET_A_KEY}"


class Models:
    def __init__(self, known: Sequence[Model], keys: Keys) -> None:
        self.known = list(known)
        self.keys = keys
        self.scoped: list[Match] = []
        self.current: Model | None = None
        self.level: ThinkingLevel = "off"
        self.fixed = False  # named on the command line: a session's own model does not replace it

    @property
    def available(self) -> list[Model]:
        """Models that can be used now. An offline one is listed only while it is on."""
        listed = [model for model in self.known if self.keys.has(model.provider)]
        if self.current in OFFLINE:
            listed.append(self.current)
        return listed

    def choose(
        self,
        settings: Settings,
        *,
        pattern: str | None = None,
        provider: str | None = None,
        scoped: Sequence[str] = (),
        level: ThinkingLevel | None = None,
    ) -> list[str]:
        """Pick what the session starts with, and return what a person should be warned of."""
        warnings: list[str] = []
        if patterns := scoped or settings.enabled_models or ():
            self.scoped, unmatched = scope(patterns, self.available)
            warnings += [f'No models match pattern "{one}"' for one in unmatched]
        self.fixed = bool(pattern or provider)
        chosen = self._named(pattern, provider) if self.fixed else self._usual(settings)
        self.current = chosen.model if chosen else None
        wanted = level or (chosen.level if chosen else None) or settings.default_thinking_level or "medium"
        self.level = clamp(wanted, self.current)
        return warnings

    def _named(self, pattern: str | None, provider: str | None) -> Match:
        everything = [*self.known, *OFFLINE]
        if provider and not any(model.provider.lower() == provider.lower() for model in everything):
            raise UsageError(f'Unknown provider "{provider}". Use --list-models to see available providers/models.')
        if pattern is None:
            own = [model for model in everything if model.provider.lower() == (provider or "").lower()]
            usual = next((model for model in own if model.id == DEFAULTS.get(model.provider)), own[0])
            return Match(usual)
        match = find(pattern, everything, provider)
        if match is None:
            name = f"{provider}/{pattern}" if provider else pattern
            raise UsageError(f'Model "{name}" not found. Use --list-models to see available models.')
        return match

    def _usual(self, settings: Settings) -> Match | None:
        provider, id = settings.default_provider, settings.default_model
        ready = self.available
        if self.scoped:
            saved = [match for match in self.scoped if (match.model.provider, match.model.id) == (provider, id)]
            return saved[0] if saved else self.scoped[0]
        if id is not None:
            candidates = [*ready, *OFFLINE]
            saved_model = next((m for m in candidates if m.id == id and provider in (None, m.provider)), None)
            if saved_model:
                return Match(saved_model)
        usual = [model for model in ready if DEFAULTS.get(model.provider) == model.id]
        first = usual[0] if usual else next(iter(ready), None)
        return Match(first) if first else None

    def set(self, provider: str, id: str) -> Model:
        for model in [*self.available, *OFFLINE]:
            if (model.provider, model.id) == (provider, id):
                self._switch(model)
                return model
        raise CommandError(f"Model not found: {provider}/{id}")

    def cycle(self) -> Model | None:
        """The next model; None if there is no other."""
        ring = self.scoped or [Match(model) for model in self.available]
        if len(ring) < 2:
            return None
        at = next((i for i, match in enumerate(ring) if match.model == self.current), -1)
        match = ring[(at + 1) % len(ring)]
        self._switch(match.model)
        if match.level:
            self.level = clamp(match.level, match.model)
        return match.model

    def _switch(self, model: Model) -> None:
        self.current = model
        self.level = clamp(self.level, model)

    def restore(self, model: tuple[str, str] | None, level: ThinkingLevel | None) -> None:
        """Take up the model and the level of a session that is opened, if the model can still be used."""
        found = next((one for one in [*self.available, *OFFLINE] if (one.provider, one.id) == model), None)
        if found is not None:
            self.current = found
        self.level = clamp(level or self.level, self.current)

    def set_level(self, level: ThinkingLevel) -> None:
        self.level = clamp(level, self.current)

    def cycle_level(self) -> ThinkingLevel | None:
        """The next level; None if the model does not think."""
        level = following(self.level, self.current)
        if level is not None:
            self.level = level
        return level

    @property
    def levels(self) -> list[ThinkingLevel]:
        return levels(self.current)

    def ready(self) -> Model:
        """The model to ask, or a sentence on what is missing."""
        if self.current is None:
            raise CommandError(NO_MODEL)
        if self.current not in OFFLINE and not self.keys.has(self.current.provider):
            raise CommandError(f"No API key found for {self.current.provider}.\n\n{HOW_TO_SET_A_KEY}")
        return self.current
