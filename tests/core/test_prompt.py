from __future__ import annotations

from dataclasses import dataclass

from tau.core.prompt import ALWAYS, INTRODUCTION, system_prompt


@dataclass(frozen=True)
class Listed:
    name: str
    snippet: str
    guidelines: tuple[str, ...] = ()


def test_the_prompt_has_its_parts_in_order() -> None:
    tools = [Listed("read", "look into a file", ("Be careful.",)), Listed("bash", "run", ("Be careful.", "Be quick."))]
    assert system_prompt(tools, "/home/ana/here") == "\n".join(
        [
            INTRODUCTION,
            "",
            "Available tools:",
            "- read: look into a file",
            "- bash: run",
            "",
            "Guidelines:",
            "- Be careful.",
            "- Be quick.",
            *(f"- {line}" for line in ALWAYS),
            "",
            "Current working directory: /home/ana/here",
        ]
    )


def test_without_tools_the_list_says_so() -> None:
    assert "\nAvailable tools:\n(none)\n" in system_prompt([], "/")
