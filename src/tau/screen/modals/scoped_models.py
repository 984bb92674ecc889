"""The models that Ctrl+P cycles through: a list to enable, disable and order them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from tau.records.models import Model
from tau.screen.input_events import Key
from tau.screen.modals import Outcome
from tau.screen.modals.model_list import full_name, price_text
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.panels import PanelView


class Scope(NamedTuple):
    """`models` are the names of all models; `enabled` those of the scope in their order, None for all."""

    models: tuple[str, ...]
    enabled: tuple[str, ...] | None = None

    def has(self, name: str) -> bool:
        return self.enabled is None or name in self.enabled

    @property
    def ordered(self) -> list[str]:
        """The models of the scope, then the others."""
        enabled = self.enabled or ()
        return [*enabled, *(name for name in self.models if name not in enabled)]

    def enable(self, names: Collection[str]) -> Scope:
        """A scope with all models is the same as none."""
        if self.enabled is None:
            return self
        enabled = (*self.enabled, *(name for name in self.models if name in names and name not in self.enabled))
        return self._replace(enabled=None if set(self.models) <= set(enabled) else enabled)

    def disable(self, names: Collection[str]) -> Scope:
        enabled = self.models if self.enabled is None else self.enabled
        return self._replace(enabled=tuple(name for name in enabled if name not in names))

    def toggle(self, names: Collection[str]) -> Scope:
        """Disable models that are all enabled, else enable them."""
        return self.disable(names) if all(map(self.has, names)) else self.enable(names)

    def move(self, name: str, step: int) -> Scope:
        """Move a model within the scope. Nothing happens at the ends, and if all models are enabled."""
        if self.enabled is None or name not in self.enabled:
            return self
        at = self.enabled.index(name)
        to = at + step
        if not 0 <= to < len(self.enabled):
            return self
        enabled = list(self.enabled)
        enabled[at], enabled[to] = enabled[to], enabled[at]
        return self._replace(enabled=tuple(enabled))


class ScopedModels:
    """`change` is called with every new scope; `save` when it is to be kept, with what to call when that is done."""

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
        self._saved = True
        self._list = SearchList(
            "",
            self._rows(),
            handlers={
                "app.models.enableAll": lambda: self._use(self._scope.enable(self._matching())),
                "app.models.clearAll": lambda: self._use(self._scope.disable(self._matching())),
                "app.models.toggleProvider": self._toggle_provider,
                "app.models.reorderUp": lambda: self._move(-1),
                "app.models.reorderDown": lambda: self._move(1),
                "app.models.save": lambda: save(self.show_saved),
            },
            hints=hints,
            enter="Enter switches",
        )
        self._update_title()

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        outcome = self._list.key(key, actions)
        if outcome is not None and outcome.action == "confirm":
            self._use(self._scope.toggle({self._name}))
            return None
        return outcome

    def paste(self, text: str) -> None:
        self._list.paste(text)

    def rows(self, width: int, max_rows: int) -> PanelView:
        return self._list.rows(width, max_rows)

    @property
    def _name(self) -> str:
        return self._scope.ordered[self._list.chosen or 0]

    def _matching(self) -> set[str]:
        """The models that the query matches."""
        names = self._scope.ordered
        return {names[at] for at in self._list.found}

    def _toggle_provider(self) -> None:
        if self._list.chosen is not None:
            provider = self._models[self._name].provider
            self._use(self._scope.toggle({name for name, model in self._models.items() if model.provider == provider}))

    def _move(self, step: int) -> None:
        if self._list.chosen is not None:
            name = self._name
            self._use(self._scope.move(name, step), follow=name)

    def _use(self, scope: Scope, follow: str | None = None) -> None:
        if scope == self._scope:
            return
        self._scope, self._saved = scope, False
        chosen = None if follow is None else scope.ordered.index(follow)
        self._list.replace_rows(self._rows(), chosen, keep_position=follow is None)
        self._update_title()
        self._change(scope)

    def show_saved(self) -> None:
        self._saved = True
        self._update_title()

    def _update_title(self) -> None:
        scope = self._scope
        count = "all" if scope.enabled is None else f"{len(scope.enabled)} of {len(scope.models)}"
        self._list.title = f"Scope: {count}{'' if self._saved else ', not saved'}"

    def _rows(self) -> list[ListRow]:
        return [
            ListRow(
                name,
                price_text(self._models[name]),
                self._models[name].name + name,
                "✓" if self._scope.has(name) else "·",
            )
            for name in self._scope.ordered
        ]
