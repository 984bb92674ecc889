"""A value that is offered for the argument of a slash command."""

from __future__ import annotations

from collections.abc import Sequence

from tau.records.base import Value


class ArgumentValue(Value):
    """`value` is what is inserted; `label` is shown instead of it, if there is one."""

    value: str
    description: str = ""
    label: str = ""

    def searched(self) -> str:
        """The text that what was typed is compared with."""
        return f"{self.label} {self.value}" if self.label else self.value


Values = Sequence[ArgumentValue]
