"""/settings: every setting that can be changed, from its declaration; where its value comes from; a change of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from tau.errors import CommandError
from tau.records.setting_declarations import SettingDeclaration, setting_declarations, value_text
from tau.runtime.app.settings_control import UNTRUSTED, Origin, Scope, SettingsControl, SettingState
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.modals.preview_list import PreviewList
from tau.screen.modals.search_list import ListRow
from tau.screen.modals.settings_list import SettingsList
from tau.screen.modals.text_field import TextField
from tau.tui.surface import Surface

TITLES: dict[Scope, str] = {"user": "Settings · yours", "project": "Settings · this project's"}
ORIGINS: dict[Origin, str] = {"default": "", "user": "yours", "project": "project", "flag": "command line"}
FOLLOWING = "light/dark"  # the theme that follows the terminal's background


async def run_settings(surface: Surface, rest: str) -> None:
    """Without arguments: the menu. With a name: its value; with a value too: set it."""
    name, _, value = rest.partition(" ")
    control = surface.handle.settings_control
    if not name and surface.looks is not None:
        await SettingsMenu(surface, control).run()
    elif not name:
        states = [state for state in control.states() if state.origin != "default"]
        surface.say("\n".join(map(_line, states)) or "Every setting has its default.")
        surface.say("/settings NAME shows a setting, /settings NAME VALUE changes it.")
    else:
        await _one_setting(surface, control, name, value.strip())


async def _one_setting(surface: Surface, control: SettingsControl, name: str, value: str) -> None:
    place = next((one for one in setting_names() if one.lower() == name.lower()), name)
    control.check(place)
    state = next(state for state in control.states() if state.declaration.place == place)
    if value:
        try:
            parsed = state.declaration.parse(value)
        except ValueError as error:
            raise CommandError(str(error)) from None
        obstacle = await change_setting(surface, control, state.declaration.place, parsed, "user")
        state = next(one for one in control.states() if one.declaration == state.declaration)
        surface.say(f"{_line(state)}{f'. {obstacle}' if obstacle else ''}")
    else:
        surface.say(f"{_line(state)}\n{_sentences(state.declaration)}")


async def change_setting(surface: Surface, control: SettingsControl, place: str, value: Any, scope: Scope) -> str:
    """Save a setting and let the screen follow. Returns what stands against it, or ""."""
    obstacle = await control.change(place, value, scope)
    problem = surface.looks.use_settings(surface.handle.settings) if surface.looks is not None else None
    return obstacle or problem or ""


def _line(state: SettingState) -> str:
    origin = ORIGINS[state.origin] or "default"
    return f"{state.declaration.place}: {value_text(state.value)} ({origin})"


def _sentences(declaration: SettingDeclaration) -> str:
    """The sentences about a setting, without Markdown."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", declaration.about).replace("`", "")
    if declaration.kind == "choice":
        return f"{text} ({', '.join(map(value_text, declaration.choices))})"
    return text


class SettingsMenu:
    """The menu while it is open. Changes are carried out one after another."""

    def __init__(self, surface: Surface, control: SettingsControl) -> None:
        self._surface = surface
        self._control = control
        self._scope: Scope = "user"
        self._states: Sequence[SettingState] = control.states()
        self._wanted: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._list = SettingsList(
            TITLES[self._scope], self._rows(), self._texts(), self._wish_to_change, self._switch_scope
        )

    async def run(self) -> None:
        saving = asyncio.ensure_future(self._save())
        try:
            while (await self._surface.open(self._list)).action == "edit":
                await self._edit()
            await self._wanted.join()
        finally:
            saving.cancel()

    def _rows(self) -> list[ListRow]:
        return [
            ListRow(
                state.declaration.place,
                " · ".join(filter(None, (value_text(state.value), ORIGINS[state.origin]))),
            )
            for state in self._states
        ]

    def _texts(self) -> list[str]:
        return [_sentences(state.declaration) for state in self._states]

    def _switch_scope(self) -> str:
        if self._scope == "user" and not self._control.project_trusted:
            self._list.message = UNTRUSTED
        else:
            self._scope = "project" if self._scope == "user" else "user"
        return TITLES[self._scope]

    def _wish_to_change(self, at: int) -> Outcome | None:
        """A choice changes at once; any other value is typed, or chosen from a list."""
        declaration, value, _ = self._states[at]
        if declaration.kind != "choice":
            return Outcome("edit", at)
        self._wanted.put_nowait((declaration.place, declaration.next_choice(value)))
        return None

    async def _save(self) -> None:
        while True:
            place, value = await self._wanted.get()
            try:
                await self._change(place, value)
            finally:
                self._wanted.task_done()

    async def _change(self, place: str, value: Any) -> None:
        try:
            self._list.message = await change_setting(self._surface, self._control, place, value, self._scope)
        except CommandError as error:
            self._list.message = str(error)
        self._states = self._control.states()
        self._list.list.replace_rows(self._rows(), self._list.list.chosen)
        self._surface.changed()

    async def _edit(self) -> None:
        at = self._list.list.chosen
        if at is None:
            return
        declaration, value, _ = self._states[at]
        if declaration.place == "theme":
            await self._choose_theme(value)
            return
        text = declaration.text_of(value)
        outcome = await self._surface.open(TextField(declaration.place, _sentences(declaration), text))
        if outcome != CANCELLED:
            try:
                await self._change(declaration.place, declaration.parse(outcome.value))
            except ValueError as error:
                self._list.message = str(error)

    async def _choose_theme(self, current: str | None) -> None:
        looks = self._surface.looks
        assert looks is not None
        names = [*looks.theme_names(), FOLLOWING]
        chosen = names.index(current) if current in names else 0
        rows = [ListRow(name, "follows the terminal's background" * (name == FOLLOWING)) for name in names]
        outcome = await self._surface.open(PreviewList("Theme", rows, chosen, lambda at: self._preview(names[at])))
        if outcome == CANCELLED:
            looks.use_settings(self._surface.handle.settings)
        else:
            await self._change("theme", names[outcome.value])

    def _preview(self, name: str) -> None:
        if self._surface.looks is not None and name != FOLLOWING:
            self._surface.looks.preview_theme(name)


def setting_names() -> list[str]:
    return [declaration.place for declaration in setting_declarations()]
