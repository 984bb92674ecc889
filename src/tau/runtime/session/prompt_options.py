"""The parts of the system prompt, as extensions see and change them before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tau.core.conversation.system_prompt import ContextFile, PromptParts, system_prompt
from tau.records.base import Value, replace
from tau.runtime.resources import Resources
from tau.tools import Tool


class PromptTool(Value):
    """A tool as the prompt lists it."""

    name: str
    snippet: str
    guidelines: tuple[str, ...]


async def prompt_options(resources: Resources, tools: Sequence[Tool]) -> dict[str, Any]:
    """The parts that make the present system prompt."""
    await resources.load()
    found = resources.found
    assert found is not None
    parts = found.parts
    return {
        **({} if parts.custom is None else {"customPrompt": parts.custom}),
        "selectedTools": [tool.name for tool in tools],
        "toolSnippets": {tool.name: tool.snippet for tool in tools if tool.snippet},
        "toolGuidelines": {tool.name: list(tool.guidelines) for tool in tools if tool.guidelines},
        "promptGuidelines": [],
        "appendSystemPrompt": "\n\n".join(parts.appended),
        "sections": {},
        "cwd": found.query.cwd,
        "contextFiles": [{"path": file.path, "content": file.text} for file in parts.context],
        "skills": [
            {
                "name": skill.name,
                "description": skill.description,
                "filePath": skill.path,
                "baseDir": skill.folder,
                "disableModelInvocation": skill.hidden,
            }
            for skill in parts.skills
        ],
    }


def changed_prompt(options: Mapping[str, Any], resources: Resources, tools: Sequence[Tool]) -> str:
    """The system prompt for parts that an extension has changed. Parts with a wrong type count as unchanged."""
    found = resources.found
    assert found is not None
    forced = options.get("forceSystemPrompt")
    if isinstance(forced, str):
        return forced
    sections = _texts(options.get("sections"))
    added = [f"<{name}>\n{text}\n</{name}>" for name, text in sections.items() if text]
    return system_prompt(_tools(options, tools), found.query.cwd, _parts(options, found.parts, added))


def _parts(options: Mapping[str, Any], parts: PromptParts, added: Sequence[str]) -> PromptParts:
    appended = options.get("appendSystemPrompt")
    custom = options.get("customPrompt", parts.custom)
    files = options.get("contextFiles")
    context = [
        ContextFile(str(file.get("path", "")), str(file.get("content", "")))
        for file in (files if isinstance(files, list) else ())
        if isinstance(file, Mapping)
    ]
    skills = options.get("skills")
    kept = {skill.get("name") for skill in skills if isinstance(skill, Mapping)} if isinstance(skills, list) else None
    return replace(
        parts,
        custom=custom if isinstance(custom, str) else None,
        appended=[*([appended] if isinstance(appended, str) and appended else []), *added],
        context=context if isinstance(files, list) else parts.context,
        skills=[skill for skill in parts.skills if kept is None or skill.name in kept],
    )


def _tools(options: Mapping[str, Any], tools: Sequence[Tool]) -> list[PromptTool]:
    known = {tool.name: tool for tool in tools}
    selected = options.get("selectedTools")
    snippets, guidelines = _texts(options.get("toolSnippets")), options.get("toolGuidelines")
    general = tuple(_lines(options.get("promptGuidelines")))
    listed: list[PromptTool] = []
    for name in _lines(selected) if isinstance(selected, list) else known:
        tool = known.get(name)
        own = guidelines.get(name) if isinstance(guidelines, Mapping) else None
        of_tool = tuple(_lines(own)) if own is not None else tool.guidelines if tool is not None else ()
        snippet = snippets.get(name, tool.snippet if tool is not None else "")
        listed.append(PromptTool(name, snippet, (*of_tool, *(general if not listed else ()))))
    return listed


def _texts(given: Any) -> dict[str, str]:
    return {name: text for name, text in given.items() if isinstance(text, str)} if isinstance(given, Mapping) else {}


def _lines(given: Any) -> list[str]:
    return [line for line in given if isinstance(line, str)] if isinstance(given, list) else []
