"""`initialize`: what tau offers, and how a user can give it a key. Nothing else is loaded for it."""

from __future__ import annotations

from typing import Any

from tau import __version__
from tau.acp.requests import Capabilities

PROTOCOL_VERSION = 1  # the only released one; the answer to every other
SETUP = "--setup"


def initialize_result(capabilities: Capabilities) -> dict[str, Any]:
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "tau", "title": "tau", "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
            "auth": {},
        },
        "authMethods": auth_methods(capabilities),
    }


def auth_methods(capabilities: Capabilities) -> list[dict[str, Any]]:
    """The ways to give tau a key that this client can show."""
    methods: list[dict[str, Any]] = [
        {
            "id": "key",
            "name": "API key in the environment or auth.json",
            "description": "Set a variable such as ANTHROPIC_API_KEY, or run `tau login` in a terminal.",
        }
    ]
    setup: dict[str, Any] = {"id": "setup", "name": "Set up a key in the terminal", "description": "Runs `tau login`."}
    if capabilities.terminal_login:
        methods.append({**setup, "type": "terminal", "args": [SETUP]})
    elif capabilities.old_terminal_login:
        command = {"command": "tau", "args": ["acp", SETUP], "label": setup["name"]}
        methods.append({**setup, "_meta": {"terminal-auth": command}})
    return methods
