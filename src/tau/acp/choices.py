"""Choices of a session: permission mode, model, thinking level and compaction, as config options and modes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tau.acp.errors import AcpError, failed, invalid_params
from tau.acp.updates import (
    BooleanOption,
    Choice,
    ConfigOption,
    Mode,
    ModeState,
    SelectOption,
    SessionChoices,
)
from tau.errors import CommandError
from tau.records.models import Model
from tau.runtime.app.handle import SessionHandle

MODES = {
    "auto": Mode("auto", "Auto", "Tools run without a question."),
    "ask": Mode("ask", "Ask", "You are asked before a tool does more than read."),
    "rules": Mode("rules", "Rules", "The rules file that tau was started with decides."),
}
LEVELS = {"xhigh": "Extra high"}


class Choices:
    """The choices of one session. They are stored in its file, and not in the user's settings."""

    def __init__(self, handle: SessionHandle, *, boolean_options: bool) -> None:
        self._handle = handle
        self._boolean_options = boolean_options

    @property
    def mode(self) -> str:
        state = self._handle.permissions.state().mode
        return "auto" if state == "off" else state

    def key(self) -> object:
        """Equal as long as the choices are the same."""
        models = self._handle.models
        return self.mode, models.current, models.level, self._handle.settings.compaction.enabled

    def state(self) -> SessionChoices:
        return SessionChoices(self.options(), self.modes())

    def values(self) -> dict[str, str | bool]:
        return {option.id: option.current_value for option in self.options()}

    async def restore(self, values: Mapping[str, Any]) -> None:
        """Set what is still offered. A mode that asks less than the present one is not restored."""
        for id, value in values.items():
            if (id, value) != ("mode", "auto"):
                with suppress(AcpError, CommandError):
                    await self.set(id, value)

    def modes(self) -> ModeState:
        return ModeState(self.mode, [MODES[name] for name in self._offered_modes()])

    def options(self) -> list[ConfigOption]:
        models = self._handle.models
        options: list[ConfigOption] = [
            SelectOption(
                "mode",
                "Permissions",
                "mode",
                self.mode,
                [Choice(name, MODES[name].name, MODES[name].description) for name in self._offered_modes()],
            )
        ]
        current = "" if models.current is None else model_name(models.current)
        options.append(SelectOption("model", "Model", "model", current, self._model_choices()))
        if models.current is not None and len(models.levels) > 1:
            levels = [Choice(level, LEVELS.get(level, level.capitalize())) for level in models.levels]
            options.append(SelectOption("thinking", "Thinking", "thought_level", models.level, levels))
        if self._boolean_options:
            enabled = self._handle.settings.compaction.enabled
            options.append(BooleanOption("compaction", "Automatic compaction", "model_config", enabled))
        return options

    async def set(self, id: str, value: str | bool) -> None:
        """Raises AcpError for an option or a value that is not offered; then nothing has changed."""
        options = {option.id: option for option in self.options()}
        if id not in options:
            raise invalid_params("configId", f"there is no option {id!r}; there are {', '.join(options)}")
        if isinstance(options[id], BooleanOption):
            if not isinstance(value, bool):
                raise invalid_params("value", "expected a boolean")
            await self._handle.set_auto_compaction(value)
            return
        if not isinstance(value, str):
            raise invalid_params("value", "expected a string")
        if id == "mode":
            self.set_mode(value, "value")
        elif id == "model":
            await self._set_model(value)
        else:
            levels = self._handle.models.levels
            level = next((level for level in levels if level == value), None)
            if level is None:
                raise invalid_params("value", f"{value!r} is not one of {', '.join(levels)}")
            await self._handle.set_thinking_level(level, save=False)

    def set_mode(self, mode: str, field: str = "modeId") -> None:
        if mode not in self._offered_modes():
            raise invalid_params(field, f"{mode!r} is not one of {', '.join(self._offered_modes())}")
        if mode == self.mode or mode == "rules":
            return
        permissions = self._handle.permissions
        try:
            if mode == "ask":
                permissions.add("ask")
            else:
                permissions.turn_off()
        except CommandError as error:
            raise failed(str(error)) from None

    async def _set_model(self, value: str) -> None:
        models = self._handle.models
        found = next((model for model in self._models() if model_name(model) == value), None)
        if found is None:
            raise invalid_params("value", f"there is no model {value!r} with a key")
        if found != models.current:
            await self._handle.set_model(found.provider, found.id, save=False)

    def _offered_modes(self) -> list[str]:
        state = self._handle.permissions.state()
        if state.mode == "rules":
            return ["rules"]
        return ["auto", "ask"] if state.mode == "off" or state.can_turn_off else ["ask"]

    def _models(self) -> list[Model]:
        models = self._handle.models
        listed = list(models.available)
        if models.current is not None and models.current not in listed:
            listed.insert(0, models.current)
        return listed

    def _model_choices(self) -> list[Choice]:
        """Those of one provider together, in the order of the providers."""
        models = self._models()
        places = {provider: at for at, provider in enumerate(dict.fromkeys(model.provider for model in models))}
        models.sort(key=lambda model: places[model.provider])
        return [Choice(model_name(model), f"{model.provider}: {model.name or model.id}") for model in models]


def model_name(model: Model) -> str:
    return f"{model.provider}/{model.id}"
