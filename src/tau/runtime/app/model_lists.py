"""The models that a person chooses from: read again from models.json, limited to a scope, saved as defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tau.core.models.patterns import ModelMatch, find_exact, select_models
from tau.errors import CommandError
from tau.llm.catalog import OFFLINE_MODELS, SERVERS
from tau.records.base import replace
from tau.records.models import Model, ThinkingLevel
from tau.runtime.app.model_choice import reload_models
from tau.store.models import read_models
from tau.store.paths import agent_dir

if TYPE_CHECKING:
    from tau.runtime.session.session import Session


class ModelLists:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def reload(self) -> list[str]:
        """Read models.json again. Returns its problems; a file that is not valid JSON changes nothing."""
        services = self._session.services
        path = (services.agent_dir or agent_dir()) / "models.json"
        content, trouble = await services.machine.in_thread(lambda: read_models(path))
        if trouble is not None:
            return [trouble]
        return reload_models(self._session.models, content, path)

    def is_name(self, text: str) -> bool:
        """True if a text is the whole name of one model, also of one that its server alone knows."""
        models = self._session.models
        provider, slash, _ = text.partition("/")
        if slash and models.catalog.canonical_name(provider) in SERVERS:
            return True
        return find_exact(text, [*models.available, *OFFLINE_MODELS]) is not None

    async def save_default_model(self, model: Model) -> None:
        """Start new sessions with this model. Raises CommandError for one that must be named to be used."""
        if model in OFFLINE_MODELS:
            raise CommandError(f"{model.provider}/{model.id} cannot be the default: it is used only if it is named.")
        session = self._session
        session.settings = replace(session.settings, default_provider=model.provider, default_model=model.id)
        await session.save_settings({"defaultProvider": model.provider, "defaultModel": model.id}, requested=True)

    async def save_default_level(self, level: ThinkingLevel) -> None:
        """Start new sessions with this thinking level."""
        session = self._session
        session.settings = replace(session.settings, default_thinking_level=level)
        await session.save_settings({"defaultThinkingLevel": level}, requested=True)

    def set_scope(self, models: Sequence[ModelMatch]) -> None:
        """Cycle through these models, in this order; without any, through all."""
        self._session.models.scoped = list(models)

    async def save_scope(self) -> None:
        """Cycle through the models of the scope in new sessions too.

        Patterns of the settings that no usable model matches now are kept: their provider may only lack its key.
        """
        session = self._session
        names = [
            f"{match.model.provider}/{match.model.id}{f':{match.level}' if match.level else ''}"
            for match in session.models.scoped
        ]
        available = session.models.available
        if names:
            names += [one for one in session.settings.enabled_models or () if not select_models([one], available)[0]]
        session.settings = replace(session.settings, enabled_models=names)
        await session.save_settings({"enabledModels": names}, requested=True)
