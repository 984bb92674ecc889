"""What a test process works with: the models, and how their levels of thinking are related."""

from __future__ import annotations

from long.protocol_rules import Json

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
PROVIDER = "lab"
PRICE = {"input": 3, "output": 15, "cacheRead": 1, "cacheWrite": 4}
MODELS: tuple[Json, ...] = (
    {"id": "large", "reasoning": True, "contextWindow": 100_000, "input": ["text", "image"], "cost": PRICE},
    {"id": "plain", "reasoning": False, "contextWindow": 40_000, "input": ["text", "image"], "cost": PRICE},
    {
        "id": "deep",
        "reasoning": True,
        "contextWindow": 100_000,
        "input": ["text", "image"],
        "cost": PRICE,
        "thinkingLevelMap": {"minimal": None, "xhigh": "xhigh"},
    },
)
MODELS_FILE: Json = {
    "providers": {
        PROVIDER: {"baseUrl": "http://127.0.0.1:9", "apiKey": "none", "api": "scripted", "models": list(MODELS)}
    }
}
IDS = tuple(model["id"] for model in MODELS)


def levels(model: str) -> list[str]:
    """The levels of thinking that a model has."""
    found = next(one for one in MODELS if one["id"] == model)
    if not found["reasoning"]:
        return ["off"]
    mapped = found.get("thinkingLevelMap", {})
    usual = LEVELS[:5]
    return [level for level in LEVELS if (mapped[level] is not None if level in mapped else level in usual)]


def clamp(level: str, model: str) -> str:
    """A level that the model does not have becomes the next higher one, or its highest."""
    offered = levels(model)
    higher = [one for one in offered if LEVELS.index(one) >= LEVELS.index(level)]
    return (higher or offered[-1:])[0]


def window(model: str) -> int:
    return int(next(one for one in MODELS if one["id"] == model)["contextWindow"])
