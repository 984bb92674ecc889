"""Error message for unknown flags, with suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tau.cli.flags import FLAGS


def unknown_flags_error(unknown: Sequence[str]) -> str:
    """One line for each unknown flag."""
    return "\n".join(f"Unknown option: {_name(word)}.{_suggestion(word)}" for word in unknown)


def _name(word: str) -> str:
    """The flag without its value, which may be a secret."""
    return word.partition("=")[0]


def _suggestion(word: str) -> str:
    names = [f"--{flag.name}" for flag in FLAGS]
    similar = get_close_matches("--" + _name(word).strip("-").lower(), names, n=2, cutoff=0.75)
    return f" Did you mean {' or '.join(similar)}?" if similar else " Put a message that starts with a dash after --."
