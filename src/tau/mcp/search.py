"""Tool search: which deferred tools fit a query, ranked with BM25 over names, descriptions and parameters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tau.records.base import Value

K1, B = 1.2, 0.75
DEFAULT_RESULTS, MAX_RESULTS = 5, 10
NAME_WEIGHT = 3  # a word of the name counts as often
SELECT = "select:"
_BETWEEN = re.compile(r"[^a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SearchableTool(Value):
    """A tool that can be found. `server` is the description of its server."""

    name: str
    description: str
    server: str
    parameters: Mapping[str, Any]


def find_tools(query: str, tools: Sequence[SearchableTool], limit: int = DEFAULT_RESULTS) -> list[SearchableTool]:
    """The tools for a query, best first. `select:name,name` selects by exact name."""
    limit = max(1, min(limit, MAX_RESULTS))
    if query.strip().startswith(SELECT):
        wanted = [name.strip() for name in query.strip()[len(SELECT) :].split(",")]
        by_name = {tool.name: tool for tool in tools}
        return [by_name[name] for name in dict.fromkeys(wanted) if name in by_name]
    words = set(_words(query))
    texts = [Counter(_text(tool)) for tool in tools]
    if not words or not texts:
        return []
    lengths = [text.total() for text in texts]
    average = sum(lengths) / len(lengths) or 1.0
    weights = {word: _rarity(sum(word in text for text in texts), len(texts)) for word in words}
    scores = [
        sum(weights[word] * _saturated(text[word], length / average) for word in words if word in text)
        for text, length in zip(texts, lengths, strict=True)
    ]
    ranked = sorted(range(len(tools)), key=lambda at: (-scores[at], at))
    return [tools[at] for at in ranked[:limit] if scores[at] > 0]


def _text(tool: SearchableTool) -> list[str]:
    properties = tool.parameters.get("properties")
    parameters = " ".join(properties) if isinstance(properties, Mapping) else ""
    return _words(tool.name) * NAME_WEIGHT + _words(f"{tool.description} {tool.server} {parameters}")


def _words(text: str) -> list[str]:
    words = [word for word in _BETWEEN.split(_CAMEL.sub(" ", text).lower()) if word and word != "mcp"]
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]


def _rarity(found: int, total: int) -> float:
    return math.log(1 + (total - found + 0.5) / (found + 0.5))


def _saturated(count: int, length: float) -> float:
    return count * (K1 + 1) / (count + K1 * (1 - B + B * length))
