"""The rows of the model picker: the models of the scope first, then the others; price and context window."""

from __future__ import annotations

from collections.abc import Sequence

from tau.core.models.pricing import price_unknown
from tau.records.base import Value
from tau.records.models import Model
from tau.screen.footer import count_text
from tau.screen.modals.search_list import ListRow


class ModelChoice(Value):
    """What can be chosen. `default` is the provider and id of the saved default; either may be None."""

    available: Sequence[Model]
    scoped: Sequence[Model] = ()
    current: Model | None = None
    default: tuple[str | None, str | None] = (None, None)

    @property
    def models(self) -> list[Model]:
        """The models in the order of the list."""
        scope = {(model.provider, model.id) for model in self.scoped}
        return [*self.scoped, *(model for model in self.available if (model.provider, model.id) not in scope)]

    def fitting(self, text: str) -> list[Model]:
        """The models whose names contain every word of a text."""
        words = text.lower().split()
        return [
            model for model in self.models if all(word in f"{full_name(model)} {model.name}".lower() for word in words)
        ]

    def rows(self) -> list[ListRow]:
        return [self._row(model, scoped=at < len(self.scoped)) for at, model in enumerate(self.models)]

    def _row(self, model: Model, *, scoped: bool) -> ListRow:
        words = [
            price_text(model),
            count_text(model.context_window),
            "default" if self._is_default(model) else "",
            "scoped" if scoped else "",
            model.name if model.name != model.id else "",
        ]
        name = full_name(model)
        current = self.current is not None and full_name(self.current) == name
        return ListRow(name, " · ".join(word for word in words if word), f"{name} {model.name}", "✓" if current else "")

    def _is_default(self, model: Model) -> bool:
        provider, id = self.default
        return model.id == id and provider in (None, model.provider)


def full_name(model: Model) -> str:
    return f"{model.provider}/{model.id}"


def price_text(model: Model) -> str:
    """Dollars per million tokens, in and out."""
    if price_unknown(model):
        return "price unknown"
    if not (model.cost.input or model.cost.output):
        return "free"
    return f"${model.cost.input:g} in, ${model.cost.output:g} out"
