"""Build the system prompt from its parts.

It contains no date or time: providers cache a prompt that stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from tau.core.conversation.slash_commands import Skill, escaped


class Listed(Protocol):
    """A tool as the prompt lists it."""

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
    """Optional parts of a prompt, besides tools and the working directory."""

    custom: str | None = None  # replaces tau's own introduction, tools and guidelines
    appended: Sequence[str] = ()
    context: Sequence[ContextFile] = ()
    skills: Sequence[Skill] = ()


INTRODUCTION = (
    "You are a coding agent. You work in the user's project through the tools below: you look at files, "
    "run commands and change code until the task is done, then say briefly what you did."
)
ALWAYS = (
    "Look at what you are about to change, and check your work afterwards where possible.",
    "Keep answers short and plain; refer to files by their paths.",
)
CONTEXT = (
    "Instructions of the user and of this project for every agent; later files are closer to the working directory:"
)
SKILLS = (
    "Skills are instructions for specific tasks, written by people who have done them before. "
    "When a task matches the description of a skill, {how} before you begin. "
    "Paths in a skill are relative to the folder of its file."
)
LONGEST_DESCRIPTION = 1024
NO_PARTS = Parts()


def system_prompt(tools: Sequence[Listed], cwd: str, parts: Parts = NO_PARTS) -> str:
    sections = [
        _standard(tools) if parts.custom is None else parts.custom,
        *parts.appended,
        "\n\n".join(_context(parts.context)),
        "\n".join(_skills(parts.skills, [tool.name for tool in tools])),
        f"Current working directory: {cwd}",
    ]
    return "\n\n".join(section for section in sections if section)


def _standard(tools: Sequence[Listed]) -> str:
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
    """List skills only if the model can read files: with `read`, or if `bash` is the only tool."""
    listed = [skill for skill in skills if not skill.hidden]
    if not listed or not ("read" in tools or list(tools) == ["bash"]):
        return
    how = "read its file with `read`" if "read" in tools else "read its file with `cat`"
    yield SKILLS.format(how=how)
    yield ""
    yield "<available_skills>"
    for skill in listed:
        yield "  <skill>"
        yield f"    <name>{escaped(skill.name)}</name>"
        yield f"    <description>{escaped(skill.description[:LONGEST_DESCRIPTION])}</description>"
        yield f"    <location>{escaped(skill.path)}</location>"
        yield "  </skill>"
    yield "</available_skills>"
