"""How hard a model can think, and the nearest level to one it cannot."""

from __future__ import annotations

from collections.abc import Mapping

from tau.records.models import LEVELS, Model, ThinkingLevel

_USUAL: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high")


def levels(model: Model | None) -> list[ThinkingLevel]:
    """The levels a client may choose. A map in the model's entry adds or hides some."""
    if model is None or not model.reasoning:
        return ["off"]
    mapped = model.thinking_level_map or {}
    offered = [level for level in LEVELS if (mapped[level] is not None if level in mapped else level in _USUAL)]
    return offered or ["off"]


def clamp(level: ThinkingLevel, model: Model | None) -> ThinkingLevel:
    """`level` if the model has it, else the next higher it has, else the next lower."""
    offered = levels(model)
    if level in offered:
        return level
    at = LEVELS.index(level)
    higher = [one for one in offered if LEVELS.index(one) > at]
    return higher[0] if higher else offered[-1]


def following(level: ThinkingLevel, model: Model | None) -> ThinkingLevel | None:
    """The level after this one, round and round; None if there is nothing to choose."""
    offered = levels(model)
    if len(offered) < 2:
        return None
    return offered[(offered.index(clamp(level, model)) + 1) % len(offered)]


def sent(level: ThinkingLevel, model: Model, usual: Mapping[str, str]) -> str | None:
    """How `level` is told to this model: by its own word for it, else by the API's usual one, else not at all."""
    mapped = model.thinking_level_map or {}
    return mapped[level] if level in mapped else usual.get(level)
