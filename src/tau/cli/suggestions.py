"""Flags that nobody knows: refused, with what may have been meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tau.cli.flags import FLAGS


def refusal(unknown: Sequence[str]) -> str:
    """The sentence for a person who gave these."""
    return "\n".join(f"Unknown option: {_name(word)}.{_meant(word)}" for word in unknown)


def _name(word: str) -> str:
    """Without its value, which may be a secret."""
    return word.partition("=")[0]


def _meant(word: str) -> str:
    names = [f"--{flag.name}" for flag in FLAGS]
    near = get_close_matches("--" + _name(word).strip("-").lower(), names, n=2, cutoff=0.75)
    return f" Did you mean {' or '.join(near)}?" if near else " A message that begins with a dash goes behind --."
