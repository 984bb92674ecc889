"""Change the model, thinking level or name of a session: record the change, save it and notify extensions.

Saved as a default is only what the client chose: never an offline model, and never a thinking level that was lowered
because the model does not support the chosen one (but in older dialects it is, as in pi).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tau.core.models.patterns import select_models
from tau.errors import CommandError
from tau.llm.catalog import OFFLINE_MODELS
from tau.records.base import to_builtins
from tau.records.events import SessionInfoChanged, ThinkingLevelChanged
from tau.records.models import Model, ThinkingLevel
from tau.runtime.history.session_log import one_line

if TYPE_CHECKING:
    from tau.runtime.models.selection import ModelSelection
    from tau.runtime.session.session import Session


async def set_model(session: Session, provider: str, id: str, *, save: bool = True) -> Model:
    """Switch to a model. With `save` it becomes the default of new sessions."""
    before = session.models.current, session.models.level
    model = session.models.set(provider, id)
    await _model_changed(session, *before, "set", save=save)
    return model


async def cycle_model(
    session: Session, *, backward: bool = False, save: bool = True
) -> tuple[Model, ThinkingLevel] | None:
    """Switch to the next model, or the one before. Returns it with its initial thinking level; None if there is one.

    Both are read before the first await: another command may change them while the choice is saved.
    """
    before = session.models.current, session.models.level
    model = session.models.cycle(backward=backward)
    if model is None:
        return None
    level = session.models.level
    await _model_changed(session, *before, "cycle", save=save)
    return model, level


async def _model_changed(
    session: Session, previous: Model | None, level_before: ThinkingLevel, source: str, *, save: bool
) -> None:
    model, level = session.models.current, session.models.level
    assert model is not None
    session.log.set_model(model)
    if level != level_before:
        session.log.set_level(level)
    session.schedule_sync()
    scoped_level = next((one.level for one in session.models.scoped if one.model == model), None)
    changes: dict[str, Any] = {}
    if model not in OFFLINE_MODELS:
        changes = {"defaultProvider": model.provider, "defaultModel": model.id}
    chosen = session.settings.compat.save_lowered_level or (source == "cycle" and level == scoped_level)
    if chosen and level != level_before:
        changes["defaultThinkingLevel"] = level
    if changes and save:
        await session.save_settings(changes)
    if model != previous:
        told = {"model": to_builtins(model), "previousModel": to_builtins(previous), "source": source}
        await session.hooks.tell("model_select", told)
    await _tell_level(session, level_before)


def set_scope(models: ModelSelection, patterns: Sequence[str]) -> list[Model]:
    """Limit `cycle_model` to names or patterns; without any, it cycles through all models. Returns the models."""
    scoped, warnings = select_models(patterns, models.available)
    if warnings and not scoped:
        raise CommandError(" ".join(warnings))
    models.scoped = scoped
    return [match.model for match in scoped]


async def set_level(session: Session, level: ThinkingLevel, *, save: bool = True) -> None:
    """Set the thinking level. With `save` it becomes the default of new sessions, if it is another one."""
    before = session.models.level
    session.models.set_level(level)
    chosen = session.models.level == level or session.settings.compat.save_lowered_level
    await _level_changed(session, before, save=chosen and save)


async def cycle_level(session: Session, *, save: bool = True) -> ThinkingLevel | None:
    before = session.models.level
    level = session.models.cycle_level()
    if level is not None:
        await _level_changed(session, before, save=save)
    return level


async def _level_changed(session: Session, before: ThinkingLevel, *, save: bool) -> None:
    if session.models.level != before:
        session.log.set_level(session.models.level)
        session.schedule_sync()
        if save:
            await session.save_settings({"defaultThinkingLevel": session.models.level})
        await _tell_level(session, before)


async def _tell_level(session: Session, before: ThinkingLevel) -> None:
    level = session.models.level
    if level != before:
        await session.hooks.tell("thinking_level_select", {"level": level, "previousLevel": before})
        await session.emit(ThinkingLevelChanged(level))


async def set_name(session: Session, name: str) -> None:
    name = one_line(name)
    if not name:
        raise CommandError("Session name cannot be empty")
    session.log.set_name(name)
    session.schedule_sync()
    await session.emit(SessionInfoChanged(name))
