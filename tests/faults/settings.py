"""Files beside the sessions with something wrong in them: settings, models, keys, trust.

Whatever is in them, the program starts, and leaves them as they are.
"""

from __future__ import annotations

import json
from typing import Any

from faults.mutations import IN_BYTES, Random, retyped

SAMPLES: dict[str, Any] = {
    "settings.json": {
        "defaultProvider": "anthropic",
        "defaultModel": "claude-opus-4-5",
        "defaultThinkingLevel": "high",
        "steeringMode": "all",
        "retry": {"enabled": True, "maxRetries": 2, "baseDelayMs": 100},
        "compaction": {"enabled": True, "reserveTokens": 100, "keepRecentTokens": 10},
        "enabledModels": ["a/*"],
        "extensions": [],
        "skills": ["nowhere"],
        "sessionDir": None,
        "httpIdleTimeoutMs": 1000,
    },
    "models.json": {
        "providers": {
            "lab": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "api": "openai-completions",
                "apiKey": "LAB_KEY",
                "headers": {"x-a": "b"},
                "models": [{"id": "m", "name": "M", "input": ["text"], "cost": {"input": 1}, "contextWindow": 1000}],
                "modelOverrides": {"m": {"name": "N"}},
            }
        }
    },
    "auth.json": {"anthropic": {"type": "api_key", "key": "no secret"}, "lab": {"type": "oauth", "access": "x"}},
    "trust.json": {"somewhere": {"trusted": True, "hash": "00"}},
}
HOPELESS = [b"", b"\0" * 50, b"null", b"5", b"[]", b'"x"', b"{", b"\xff\xfe", b"[" * 5_000, b"{} {}", b"\xef\xbb\xbf{}"]


def mutated_file(name: str, chance: Random) -> bytes:
    if chance.random() < 0.2:
        return chance.choice(HOPELESS)
    value = json.loads(json.dumps(SAMPLES[name]))
    for _ in range(chance.choice([1, 1, 2, 4])):
        retyped(value, chance)
    data = json.dumps(value).encode()
    return chance.choice(IN_BYTES)(data, chance) if chance.random() < 0.2 else data
