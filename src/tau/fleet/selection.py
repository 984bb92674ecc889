"""Which tasks of a file a run works on, and in which order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fnmatch import fnmatchcase

from tau.core.fleet.tasks import NamedTask
from tau.records.base import Value


class Selection(Value):
    """`only` are patterns of ids; `seed` shuffles; then `first` takes that many. Together: a random sample."""

    only: Sequence[str] = ()
    seed: int | None = None
    first: int | None = None

    def apply(self, tasks: Sequence[NamedTask]) -> list[NamedTask]:
        chosen = [task for task in tasks if self.matches(task.id)]
        if self.seed is not None:
            random.Random(self.seed).shuffle(chosen)
        return chosen[: self.first]

    def matches(self, id: str) -> bool:
        return not self.only or any(fnmatchcase(id, pattern) for pattern in self.only)
