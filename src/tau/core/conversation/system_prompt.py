"""The system prompt, from its parts. No clock in it: a prompt that stays the same is read from the provider's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from tau.core.conversation.slash_commands import Skill, escaped


class Listed(Protocol):
    """What the prompt says about a tool."""

    @property
    def name(self) -> str: ...

    @property
    def snippet(self) -> str: ...

    @property
    def guidelines(self) -> tuple[str, ...]: ...


class ContextFile(NamedTuple):
    path: str
    text: str


class Parts(NamedTuple):
    """What a prompt may be made of, besides tools and a folder."""

    custom: str | None = None  # instead of our own words
    appended: Sequence[str] = ()
    context: Sequence[ContextFile] = ()
    skills: Sequence[Skill] = ()


INTRODUCTION = (
    "You are a coding agent. You work in the user's project through the tools below: you look at files, "
    "run commands and change code until the task is done, then say briefly what you did."
)
ALWAYS = (
    "Look before you change something, and check your work afterwards where that is possible.",
    "Keep answers short and plain; name files by their paths.",
)
CONTEXT = "What the people of this project, and the user, want every agent to know; a later file is the nearer one:"
SKILLS = (
    "For some tasks there are skills: instructions written by people who have done them before. "
    "When a task is what a skill describes, {how} before you begin. "
    "Paths in a skill are relative to the folder that its file is in."
)
LONGEST_DESCRIPTION = 1024
NONE = Parts()


def system_prompt(tools: Sequence[Listed], cwd: str, parts: Parts = NONE) -> str:
    sections = [
        _ours(tools) if parts.custom is None else parts.custom,
        *parts.appended,
        "\n\n".join(_context(parts.context)),
        "\n".join(_skills(parts.skills, [tool.name for tool in tools])),
        f"Current working directory: {cwd}",
    ]
    return "\n\n".join(section for section in sections if section)


def _ours(tools: Sequence[Listed]) -> str:
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
        ]
    )


def _context(files: Sequence[ContextFile]) -> Iterator[str]:
    if files:
        yield f"# Project Context\n\n{CONTEXT}"
    for file in files:
        yield f"## {file.path}\n\n{file.text.strip()}"


def _skills(skills: Sequence[Skill], tools: Sequence[str]) -> Iterator[str]:
    """Only where the model can look into a file: with `read`, or with nothing but `bash`."""
    seen = [skill for skill in skills if not skill.hidden]
    if not seen or not ("read" in tools or list(tools) == ["bash"]):
        return
    how = "read its file with `read`" if "read" in tools else "look at its file with `cat`"
    yield SKILLS.format(how=how)
    yield ""
    yield "<available_skills>"
    for skill in seen:
        yield "  <skill>"
        yield f"    <name>{escaped(skill.name)}</name>"
        yield f"    <description>{escaped(skill.description[:LONGEST_DESCRIPTION])}</description>"
        yield f"    <location>{escaped(skill.path)}</location>"
        yield "  </skill>"
    yield "</available_skills>"
