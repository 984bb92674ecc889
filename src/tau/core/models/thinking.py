"""Thinking levels of a model, and the nearest supported level."""

from __future__ import annotations

from collections.abc import Mapping

from tau.records.models import THINKING_LEVELS, Model, ThinkingLevel

_DEFAULT_LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high")


def supported_levels(model: Model | None) -> list[ThinkingLevel]:
    """The levels that a client may choose. The model's `thinking_level_map` adds or hides levels."""
    if model is None or not model.reasoning:
        return ["off"]
    mapped = model.thinking_level_map or {}
    offered = [
        level
        for level in THINKING_LEVELS
        if (mapped[level] is not None if level in mapped else level in _DEFAULT_LEVELS)
    ]
    return offered or ["off"]


def clamp(level: ThinkingLevel, model: Model | None) -> ThinkingLevel:
    """`level` if the model supports it, else the next higher level, else the next lower one."""
    offered = supported_levels(model)
    if level in offered:
        return level
    at = THINKING_LEVELS.index(level)
    higher = [other for other in offered if THINKING_LEVELS.index(other) > at]
    return higher[0] if higher else offered[-1]


def next_level(level: ThinkingLevel, model: Model | None) -> ThinkingLevel | None:
    """The next level, wrapping around; None if there is only one."""
    offered = supported_levels(model)
    if len(offered) < 2:
        return None
    return offered[(offered.index(clamp(level, model)) + 1) % len(offered)]


def level_value(level: ThinkingLevel, model: Model, defaults: Mapping[str, str]) -> str | None:
    """The value of `level` in a request: from the model's map, else the default of the API, else None."""
    mapped = model.thinking_level_map or {}
    return mapped[level] if level in mapped else defaults.get(level)
