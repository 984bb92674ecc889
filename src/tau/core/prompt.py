"""The system prompt, from its parts. No clock in it: a prompt that stays the same is read from the provider's cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Listed(Protocol):
    """What the prompt says about a tool."""

    @property
    def name(self) -> str: ...

    @property
    def snippet(self) -> str: ...

    @property
    def guidelines(self) -> tuple[str, ...]: ...


INTRODUCTION = (
    "You are a coding agent. You work in the user's project through the tools below: you look at files, "
    "run commands and change code until the task is done, then say briefly what you did."
)
ALWAYS = (
    "Look before you change something, and check your work afterwards where that is possible.",
    "Keep answers short and plain; name files by their paths.",
)


def system_prompt(tools: Sequence[Listed], cwd: str) -> str:
    listed = [f"- {tool.name}: {tool.snippet}" for tool in tools] or ["(none)"]
    guidelines = dict.fromkeys([*(line for tool in tools for line in tool.guidelines), *ALWAYS])
    return "\n".join(
        [
            INTRODUCTION,
            "",
            "Available tools:",
            *listed,
            "",
            "Guidelines:",
            *(f"- {line}" for line in guidelines),
            "",
            f"Current working directory: {cwd}",
        ]
    )
