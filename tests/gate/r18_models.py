"""R18: however a model server fails, and whichever API it speaks, what comes of it is right.

Twenty-seven kinds of faults, each a test of its own, with all APIs; and those that
can be told from outside, in the real program.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from gate.figure import Figure
from gate.portion import portion
from llm import test_faults
from support.faulty_models import FAULTS, wrong_endings
from support.provider_servers import SPEAKERS


class Case(NamedTuple):
    test: Callable[..., None]
    given: dict[str, Any]


def cases() -> Iterator[Case]:
    """The tests E01 to E27 with everything they are tried with."""
    for name, test in inspect.getmembers(test_faults, inspect.isfunction):
        if name.startswith("test_E"):
            marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
            names = [mark.args[0] for mark in marks]
            for values in product(*(mark.args[1] for mark in marks)):
                yield Case(test, dict(zip(names, values, strict=True)))


def measure(scale: float, seed: int) -> list[Figure]:
    tried = portion(list(cases()), scale, seed)
    wrong = sum(not _holds(case) for case in tried)
    asked = portion([(speaker, name) for speaker in SPEAKERS for name in FAULTS], scale, seed)
    found: list[str] = []
    for speaker in SPEAKERS:
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            if names := [name for one, name in asked if one is speaker]:
                found += wrong_endings(speaker, names, Path(folder))
    for line in found:
        print(f"R18, {line}", file=sys.stderr)
    return [
        Figure("R18", "faults of model servers with a wrong end", len(tried), wrong, 0),
        Figure("R18", "the same in the program", len(asked), len(found), 0),
    ]


def _holds(case: Case) -> bool:
    try:
        case.test(**case.given)
    except Exception as error:
        print(f"R18, {case.test.__name__} {case.given}: {error!r}", file=sys.stderr)
        return False
    return True
