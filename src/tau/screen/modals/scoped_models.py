"""The models that Ctrl+P cycles through: a list to switch them on and off and to order them. It stays open.

A change is in effect at once, for this session; saving makes it the user's setting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from tau.records.models import Model
from tau.screen.input_events import Key
from tau.screen.modals import Outcome
from tau.screen.modals.model_list import full_name, price_text
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.panels import PanelView

TITLE = "Scope"
ENTER = ("tui.select.confirm", "tui.input.submit")


class Scope(NamedTuple):
    """`enabled` is the order of the cycle; None means all models, in the order of `names`."""

    names: tuple[str, ...]
    enabled: tuple[str, ...] | None = None

    @property
    def cycle(self) -> tuple[str, ...]:
        return self.names if self.enabled is None else self.enabled

    @property
    def listed(self) -> tuple[str, ...]:
        """Every model, those of the cycle first."""
        return (*self.cycle, *(name for name in self.names if name not in self.cycle))

    def having(self, cycle: Sequence[str]) -> Scope:
        """The same models with another cycle. One that has all of them is no limit any more."""
        return self._replace(enabled=None if len(cycle) == len(self.names) else tuple(cycle))

    def enable(self, names: Set[str]) -> Scope:
        return self.having([*self.cycle, *(name for name in self.names if name in names and name not in self.cycle)])

    def disable(self, names: Set[str]) -> Scope:
        return self.having([name for name in self.cycle if name not in names])

    def toggle(self, names: Set[str]) -> Scope:
        """Disable the models if all of them are enabled, else enable them."""
        return self.disable(names) if names <= set(self.cycle) else self.enable(names)

    def move(self, name: str, step: int) -> Scope:
        """Move a model within the cycle. Without a limit there is no order to change."""
        if self.enabled is None or name not in self.enabled:
            return self
        order = list(self.enabled)
        at = order.index(name)
        if not 0 <= at + step < len(order):
            return self
        order.insert(at + step, order.pop(at))
        return self._replace(enabled=tuple(order))


class ScopedModels:
    """`change` is called with every new scope; `save` saves it and then calls the function that it is given."""

    def __init__(
        self,
        models: Sequence[Model],
        enabled: Sequence[str] | None,
        change: Callable[[Scope], None],
        save: Callable[[Callable[[], None]], None],
        hints: Sequence[str] = (),
    ) -> None:
        self._models = {full_name(model): model for model in models}
        self._scope = Scope(tuple(self._models), None if enabled is None else tuple(enabled))
        self._change = change
        self._save = save
        self._unsaved = False
        self._list = SearchList(
            "",
            self._rows(),
            handlers={
                **dict.fromkeys(ENTER, lambda: self._set(self._scope.toggle(self._chosen_names()))),
                "app.models.enableAll": lambda: self._set(self._scope.enable(self._found_names())),
                "app.models.clearAll": lambda: self._set(self._scope.disable(self._found_names())),
                "app.models.toggleProvider": lambda: self._set(self._scope.toggle(self._names_of_provider())),
                "app.models.reorderUp": lambda: self._move(-1),
                "app.models.reorderDown": lambda: self._move(1),
                "app.models.save": lambda: self._save(self._on_saved),
            },
            enter="Enter switches",
            hints=hints,
        )

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        return self._list.key(key, actions)

    def paste(self, text: str) -> None:
        self._list.paste(text)

    def rows(self, width: int, max_rows: int) -> PanelView:
        enabled = "all" if self._scope.enabled is None else f"{len(self._scope.enabled)} of {len(self._models)}"
        self._list.title = f"{TITLE}: {enabled}{', not saved' if self._unsaved else ''}"
        return self._list.rows(width, max_rows)

    def _rows(self) -> list[ListRow]:
        return [
            ListRow(name, price_text(self._models[name]), mark="✓" if name in self._scope.cycle else "·")
            for name in self._scope.listed
        ]

    def _chosen_names(self) -> Set[str]:
        return set() if self._list.chosen is None else {self._scope.listed[self._list.chosen]}

    def _found_names(self) -> Set[str]:
        return {self._scope.listed[at] for at in self._list.found}

    def _names_of_provider(self) -> Set[str]:
        providers = {self._models[name].provider for name in self._chosen_names()}
        return {name for name, model in self._models.items() if model.provider in providers}

    def _set(self, scope: Scope) -> None:
        if scope != self._scope:
            self._use(scope)
            self._list.replace_rows(self._rows(), keep_position=True)

    def _move(self, step: int) -> None:
        for name in self._chosen_names():
            scope = self._scope.move(name, step)
            if scope != self._scope:
                self._use(scope)
                self._list.replace_rows(self._rows(), scope.listed.index(name))

    def _use(self, scope: Scope) -> None:
        self._scope = scope
        self._unsaved = True
        self._change(scope)

    def _on_saved(self) -> None:
        self._unsaved = False
