"""Slash commands that choose models and thinking levels. A choice is for this session; Ctrl+S saves it as default."""

from __future__ import annotations

from collections.abc import Callable

from tau.core.models.patterns import ModelMatch
from tau.core.models.thinking import supported_levels
from tau.errors import CommandError
from tau.records.models import ThinkingLevel
from tau.runtime.app.handle import SessionHandle
from tau.screen.modals.model_list import ModelChoice, full_name
from tau.screen.modals.search_list import ListRow, SearchList
from tau.tui.command import Command
from tau.tui.surface import Surface

SAVE_MODEL = "app.models.save"
SAVE_LEVEL = "app.thinking.save"
NO_MODELS = "No model can be used yet. /login stores an API key; /model demo needs none."


async def _model(surface: Surface, rest: str) -> None:
    handle = surface.handle
    for problem in await handle.model_lists.reload():
        surface.say(problem, "warning")
    choice = ModelChoice(
        handle.models.available,
        [match.model for match in handle.models.scoped],
        handle.models.current,
        (handle.settings.default_provider, handle.settings.default_model),
    )
    if rest:
        fits = [] if handle.model_lists.is_name(rest) else choice.fitting(rest)
        if len(fits) > 1:
            await _pick(surface, choice, rest)
            return
        await handle.choose_model(full_name(fits[0]) if fits else rest, save=False)
    elif len(choice.models) > 1:
        await _pick(surface, choice, "")
        return
    surface.say(_current_text(handle) if handle.models.current or choice.models else NO_MODELS)


async def _pick(surface: Surface, choice: ModelChoice, query: str) -> None:
    models, rows = choice.models, choice.rows()
    current = next((at for at, row in enumerate(rows) if row.mark), 0)
    hints = save_hint(surface, SAVE_MODEL)
    picker = SearchList("Model", rows, chosen=current, query=query, own_actions=[SAVE_MODEL], hints=hints)
    outcome = await surface.open(picker)
    if outcome.action == "cancel":
        return
    model = models[outcome.value]
    await surface.handle.set_model(model.provider, model.id, save=False)
    if outcome.action == SAVE_MODEL:
        await surface.handle.model_lists.save_default_model(model)
        surface.say(f"Default model: {full_name(model)}")
        return
    surface.say(_current_text(surface.handle))


def _current_text(handle: SessionHandle) -> str:
    model = handle.models.current
    return f"{full_name(model)}, thinking {handle.models.level}" if model else "No model is selected."


async def _thinking(surface: Surface, rest: str) -> None:
    handle = surface.handle
    levels = _levels(handle)
    save = False
    if not rest:
        if len(levels) < 2:
            surface.say("This model does not support thinking.")
            return
        outcome = await surface.open(_level_list(surface, levels))
        if outcome.action == "cancel":
            return
        rest, save = levels[outcome.value], outcome.action == SAVE_LEVEL
    match = next((level for level in levels if level == rest.lower()), None)
    if match is None:
        raise CommandError(f"Unknown thinking level: {rest}. The model supports {', '.join(levels) or 'none'}.")
    level = await handle.set_thinking_level(match, save=False)
    if save:
        await handle.model_lists.save_default_level(level)
    surface.say(f"Default thinking level: {level}" if save else f"Thinking: {level}")


def _level_list(surface: Surface, levels: list[ThinkingLevel]) -> SearchList:
    handle = surface.handle
    current, default = handle.models.level, handle.settings.default_thinking_level or "medium"
    rows = [
        ListRow(level, "default" if level == default else "", mark="✓" if level == current else "") for level in levels
    ]
    at = levels.index(current) if current in levels else 0
    hints = save_hint(surface, SAVE_LEVEL)
    return SearchList("Thinking level", rows, chosen=at, own_actions=[SAVE_LEVEL], hints=hints)


SCOPE_HINTS = (
    ("app.models.save", "saves"),
    ("app.models.enableAll", "all"),
    ("app.models.clearAll", "none"),
    ("app.models.toggleProvider", "provider"),
    ("app.models.reorderUp", "moves up"),
    ("app.models.reorderDown", "moves down"),
)


async def _scoped_models(surface: Surface, rest: str) -> None:
    from tau.screen.modals.scoped_models import Scope, ScopedModels

    handle = surface.handle
    models, matches = handle.models.available, handle.models.scoped
    known = {full_name(model): ModelMatch(model) for model in models} | {full_name(one.model): one for one in matches}

    def change(scope: Scope) -> None:
        handle.model_lists.set_scope([known[name] for name in scope.enabled or ()])

    def save(saved: Callable[[], None]) -> None:
        surface.start(_save_scope(surface, saved))

    enabled = [full_name(one.model) for one in matches] or None
    hints = [f"{key} {about}" for action, about in SCOPE_HINTS if (key := surface.key_label(action))]
    await surface.open(ScopedModels([one.model for one in known.values()], enabled, change, save, hints))


async def _save_scope(surface: Surface, saved: Callable[[], None]) -> None:
    await surface.handle.model_lists.save_scope()
    saved()
    surface.changed()


def save_hint(surface: Surface, action: str) -> list[str]:
    key = surface.key_label(action)
    return [f"{key} makes it the default"] if key else []


def _model_names(handle: SessionHandle) -> list[str]:
    return [full_name(model) for model in handle.models.available]


def _levels(handle: SessionHandle) -> list[ThinkingLevel]:
    return list(supported_levels(handle.models.current)) if handle.models.current else []


MODEL_COMMANDS = (
    Command("model", "choose the model", _model, "[provider/model]", _model_names),
    Command("scoped-models", "choose the models that Ctrl+P cycles through", _scoped_models),
    Command("thinking", "choose the thinking level", _thinking, "[level]", _levels),
)
