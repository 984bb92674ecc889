"""Which module speaks which API. Loaded when first asked for: `pi --help` pays for none of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tau.errors import ModelError

APIS = {
    "anthropic-messages": "tau.llm.anthropic",
    "scripted": "tau.llm.scripted",
    "demo": "tau.llm.demo",
}


def api(name: str) -> Any:
    """The module for `name`; it has `request` and `Reader`, or `answer` (see llm/__init__.py)."""
    if name not in APIS:
        raise ModelError(f'The API "{name}" is not supported. Supported: {", ".join(APIS)}.', transient=False)
    return import_module(APIS[name])
