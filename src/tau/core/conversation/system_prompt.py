"""Build the system prompt from its parts.

It contains no date or time: providers cache a prompt that stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tau.core.conversation.slash_commands import Skill, escape_xml
from tau.records.base import Value


class ListedTool(Protocol):
    """A tool as the prompt lists it."""

    @property
    def name(self) -> str: ...

    @property
    def snippet(self) -> str: ...

    @property
    def guidelines(self) -> tuple[str, ...]: ...


class ContextFile(Value):
    path: str
    text: str


class PromptParts(Value):
    """Optional parts of a prompt, besides tools and the working directory."""

    custom: str | None = None  # replaces tau's own introduction, tools and guidelines
    appended: Sequence[str] = ()
    context: Sequence[ContextFile] = ()
    skills: Sequence[Skill] = ()


INTRODUCTION = (
    "You are a coding agent. You work in the user's project through the tools below: you look at files, "
    "run commands and change code until the task is done, then say briefly what you did."
)
GENERAL_GUIDELINES = (
    "Look at what you are about to change, and check your work afterwards where possible.",
    "Keep answers short and plain; refer to files by their paths.",
)
CONTEXT_INTRO = (
    "Instructions of the user and of this project for every agent; later files are closer to the working directory:"
)
SKILLS_INTRO = (
    "Skills are instructions for specific tasks, written by people who have done them before. "
    "When a task matches the description of a skill, {how} before you begin. "
    "Paths in a skill are relative to the folder of its file."
)
MAX_DESCRIPTION_CHARACTERS = 1024
NO_PARTS = PromptParts()


def system_prompt(tools: Sequence[ListedTool], cwd: str, parts: PromptParts = NO_PARTS) -> str:
    sections = [
        _standard(tools) if parts.custom is None else parts.custom,
        *parts.appended,
        "\n\n".join(_context(parts.context)),
        "\n".join(_skills(parts.skills, [tool.name for tool in tools])),
        f"Current working directory: {cwd}",
    ]
    return "\n\n".join(section for section in sections if section)


def prompt_sections(tools: Sequence[ListedTool], cwd: str, parts: PromptParts = NO_PARTS) -> dict[str, str]:
    """The same prompt in sections with the names and tags of pi, for clients."""
    sections: dict[str, str] = {}
    if parts.custom is None:
        sections = {"tools": "\n".join(_tools(tools)), "rules": "\n".join(_guidelines(tools))}
    sections |= {
        "addendum": "\n\n".join(parts.appended),
        "project_context": "\n\n".join(_context(parts.context)),
        "skills": "\n".join(_skills(parts.skills, [tool.name for tool in tools])),
        "cwd": cwd,
    }
    preamble = INTRODUCTION if parts.custom is None else parts.custom
    tagged = {name: f"<{name}>\n{text}\n</{name}>" for name, text in sections.items() if text}
    return {"preamble": preamble, **tagged}


def _standard(tools: Sequence[ListedTool]) -> str:
    return "\n".join([INTRODUCTION, "", "Available tools:", *_tools(tools), "", "Guidelines:", *_guidelines(tools)])


def _tools(tools: Sequence[ListedTool]) -> list[str]:
    """A line for each tool, but not for those of MCP servers: there may be hundreds, and models get descriptions."""
    listed = [tool for tool in tools if tool.snippet or not tool.name.startswith("mcp__")]
    return [f"- {tool.name}: {tool.snippet}" for tool in listed] or ["(none)"]


def _guidelines(tools: Sequence[ListedTool]) -> list[str]:
    lines = dict.fromkeys([*(line for tool in tools for line in tool.guidelines), *GENERAL_GUIDELINES])
    return [f"- {line}" for line in lines]


def _context(files: Sequence[ContextFile]) -> Iterator[str]:
    if files:
        yield f"# Project Context\n\n{CONTEXT_INTRO}"
    for file in files:
        yield f"## {file.path}\n\n{file.text.strip()}"


def _skills(skills: Sequence[Skill], tools: Sequence[str]) -> Iterator[str]:
    """List skills only if the model can read files: with `read`, or if `bash` is the only tool."""
    listed = [skill for skill in skills if not skill.hidden]
    if not listed or not ("read" in tools or list(tools) == ["bash"]):
        return
    how = "read its file with `read`" if "read" in tools else "read its file with `cat`"
    yield SKILLS_INTRO.format(how=how)
    yield ""
    yield "<available_skills>"
    for skill in listed:
        yield "  <skill>"
        yield f"    <name>{escape_xml(skill.name)}</name>"
        yield f"    <description>{escape_xml(skill.description[:MAX_DESCRIPTION_CHARACTERS])}</description>"
        yield f"    <location>{escape_xml(skill.path)}</location>"
        yield "  </skill>"
    yield "</available_skills>"
