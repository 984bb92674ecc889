"""How to install an optional part of tau."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """The command that installs an extra. It names no package index, because tau is installed from a clone."""
    return f"pip install '.[{extra}]' in a clone of tau"
