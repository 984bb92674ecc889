"""Every public name of tau and every public member has a docstring; docs/sdk.md names all parameters."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import tau
from tau import hooks, sync
from tau.library.opening import Opening
from tau.library.results import Result

PAGE = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text()
CLASSES = {
    **{name: getattr(tau, name) for name in tau.NAMES if inspect.isclass(getattr(tau, name))},
    **{f"sync.{name}": getattr(sync, name) for name in sync.__all__ if inspect.isclass(getattr(sync, name))},
    **{f"hooks.{name}": getattr(hooks, name) for name in hooks.__all__},
}


def undocumented(kind: Any) -> list[str]:
    missing = [] if kind.__doc__ else [kind.__name__]
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        owner = next(one for one in kind.__mro__ if name in vars(one))
        if name.startswith("_") or not owner.__module__.startswith("tau"):
            continue
        if (inspect.isroutine(member) or isinstance(member, property)) and not inspect.getdoc(getattr(kind, name)):
            missing.append(name)
    return missing


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_member_has_a_docstring(name: str) -> None:
    assert undocumented(CLASSES[name]) == []


def test_every_public_name_has_a_docstring() -> None:
    values = {name: getattr(tau, name) for name in tau.NAMES}
    assert [name for name, one in values.items() if inspect.isroutine(one) and not inspect.getdoc(one)] == []


def test_every_option_is_documented() -> None:
    assert [one.name for one in fields(Opening) if one.init and f"`{one.name}" not in PAGE] == []
    source = inspect.getsource(Opening)
    for one in fields(Opening):
        if one.init:
            assert re.search(rf'^    {one.name}: .*\n    """', source, re.MULTILINE), one.name


def test_every_field_of_a_result_is_documented() -> None:
    public = [name for name in vars(Result) if not name.startswith("_")] + [one.name for one in fields(Result)]
    assert [name for name in public if f"`{name}" not in PAGE] == []
