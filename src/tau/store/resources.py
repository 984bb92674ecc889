"""Finds context files, skills and templates, and defines the order in which sources are searched.

The sources are the project, the user's folders, settings, the command line and extensions. Blocks: call it in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from tau.core.conversation.slash_commands import (
    SKILL_PREFIX,
    ResourceOrigin,
    Scope,
    Skill,
    Template,
    fill_template,
    parse_slash_command,
    skill_block,
    split_arguments,
)
from tau.core.conversation.system_prompt import ContextFile, ListedTool, PromptParts, system_prompt
from tau.records.base import UNSET, Value
from tau.records.replies import SlashCommand, SourceInfo
from tau.store.context import context_files, may_be_planted, project_root, prompt_file, text_or_file
from tau.store.path_lists import PathList
from tau.store.resource_query import NO_PACKAGES, PackageFile, ResourceQuery
from tau.store.skills import ResourceLocation, find_skills, skill_body
from tau.store.templates import find_templates

ExtensionResources = Sequence[
    tuple[str, Sequence[str], Sequence[str]]
]  # of extensions: name, skill paths, template paths
# The order in lists. Which of two resources with the same name is used is decided by _in_order.
LIST_ORDER: dict[Scope, int] = {"project": 0, "user": 1, "temporary": 2}


class FoundResources(Value):
    """The resources of a session."""

    query: ResourceQuery
    parts: PromptParts
    skills: dict[str, Skill]
    templates: dict[str, Template]
    problems: Sequence[str]

    def prompt(self, tools: Sequence[ListedTool]) -> str:
        return system_prompt(tools, self.query.cwd, self.parts)

    def is_command(self, text: str) -> bool:
        called = parse_slash_command(text)
        return called is not None and (self._skill(called[0]) is not None or called[0] in self.templates)

    def expand(self, text: str) -> str:
        """Expand a slash command. Reads the current file of a skill; raises OSError with its name if that fails."""
        called = parse_slash_command(text)
        if called is None:
            return text
        name, rest = called
        if skill := self._skill(name):
            return skill_block(skill, skill_body(skill, _within(self.query)), rest)
        template = self.templates.get(name)
        return text if template is None else fill_template(template.body, split_arguments(rest))

    def _skill(self, name: str) -> Skill | None:
        return self.skills.get(name.removeprefix(SKILL_PREFIX)) if name.startswith(SKILL_PREFIX) else None

    def commands(self) -> list[SlashCommand]:
        """Return the slash commands: templates, then skills."""
        skills = self.skills.values() if self.query.skill_commands else ()
        return [
            *(_row(item.name, "prompt", item) for item in _listed(self.templates.values())),
            *(_row(SKILL_PREFIX + item.name, "skill", item) for item in _listed(skills)),
        ]


def _listed(items: Iterable[Template] | Iterable[Skill]) -> list[Template | Skill]:
    return sorted(items, key=lambda item: LIST_ORDER[item.origin.scope])


def _row(name: str, kind: Literal["prompt", "skill"], item: Template | Skill) -> SlashCommand:
    origin = item.origin
    base = UNSET if origin.base is None else origin.base
    info = SourceInfo(item.path, origin.source, origin.scope, "package" if origin.packaged else "top-level", base)
    return SlashCommand(name, item.description or UNSET, kind, origin.location, item.path, info)


# Search


def find_resources(query: ResourceQuery, offers: ExtensionResources = ()) -> FoundResources:
    requested = query.requested
    packages = query.packages() if query.packages is not None else NO_PACKAGES
    custom, problems = _prompts("SYSTEM.md", query, () if requested.system is None else (requested.system,))
    appended, more = _prompts("APPEND_SYSTEM.md", query, requested.appended)
    problems += [*more, *packages.problems]
    context, more = ([], []) if requested.no_context else _context(query)
    problems += more
    named, more = _settings_places(query, () if requested.no_skills else query.skills)
    problems += more
    skills, more = find_skills(
        _in_order(
            query,
            named,
            [] if requested.no_skills else list(_folders(query, ("skills",), agents=True)),
            _packaged(packages.used("skills"), wanted=not requested.no_skills),
            _named(query, requested.skills, "cli"),
            [place for source, paths, _ in offers for place in _named(query, paths, source)],
        ),
        within=_within(query),
    )
    problems += more
    named, more = _settings_places(query, () if requested.no_templates else query.prompts)
    problems += more
    templates, more = find_templates(
        _in_order(
            query,
            named,
            # In older versions of pi templates were called commands.
            [] if requested.no_templates else list(_folders(query, ("prompts", "commands"), agents=False)),
            _packaged(packages.used("prompts"), wanted=not requested.no_templates),
            _named(query, requested.templates, "cli"),
            [place for source, _, paths in offers for place in _named(query, paths, source)],
        ),
        within=_within(query),
    )
    problems += more
    parts = PromptParts(custom[0] if custom else None, appended, context, skills)
    by_name = ({skill.name: skill for skill in skills}, {template.name: template for template in templates})
    return FoundResources(query, parts, *by_name, problems)


def _within(query: ResourceQuery) -> Path | None:
    """Return the folder that must contain the files of the project; None if there is no such limit."""
    return project_root(Path(query.cwd)) if query.must_stay_inside else None


def _context(query: ResourceQuery) -> tuple[list[ContextFile], list[str]]:
    return context_files(Path(query.cwd), query.agent_dir, query.trusted, confined=query.confined)


def _prompts(name: str, query: ResourceQuery, given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what the command line gives for a part of the system prompt; otherwise the file for it."""
    cwd = Path(query.cwd)
    if not given:
        text, problems = prompt_file(name, cwd, query.agent_dir, query.trusted, query.content)
        return [] if text is None else [text.strip()], problems
    texts = [text_or_file(argument, cwd / query.start) for argument in given]
    return [text for text, _ in texts], [problem for _, problems in texts for problem in problems]


def _in_order(
    query: ResourceQuery,
    settings: list[ResourceLocation],
    folders: list[ResourceLocation],
    packages: list[ResourceLocation],
    given: list[ResourceLocation],
    offered: list[ResourceLocation],
) -> list[ResourceLocation]:
    """Order the sources: the first one with a name wins. An untrusted project cannot override the user's names."""
    if query.trusted:
        return [*settings, *folders, *packages, *given, *offered]
    users = [place for place in folders if place.origin.scope == "user"]
    projects = [place for place in folders if place.origin.scope == "project"]
    return [*settings, *users, *packages, *given, *offered, *projects]


def _folders(query: ResourceQuery, names: Sequence[str], agents: bool) -> Iterator[ResourceLocation]:
    """Yield the default folders, those of the project first."""
    users = {query.agent_dir / name: query.agent_dir for name in names}
    if agents:
        users[Path.home() / ".agents" / "skills"] = Path.home() / ".agents"
    entries = PathList(query.skills if agents else query.prompts)
    for path, base in _of_project(Path(query.cwd), names, agents, query.trusted):
        if path not in users:
            yield ResourceLocation(path, ResourceOrigin("project", "auto", str(base)), entries)
    for path, base in users.items():
        yield ResourceLocation(path, ResourceOrigin("user", "auto", str(base)), entries)


def _of_project(cwd: Path, names: Sequence[str], agents: bool, trusted: bool) -> Iterator[tuple[Path, Path]]:
    """Yield the default folders of a project, each with its base folder."""
    for base in (cwd / ".pi", cwd / ".pi" / "agent"):
        yield from ((base / name, base) for name in names)
    if not agents:
        return
    root = project_root(cwd)
    has_git = os.path.lexists(root / ".git")
    for folder in (cwd, *cwd.parents):
        outside = not folder.is_relative_to(root)
        if outside and (has_git or (not trusted and may_be_planted(folder / ".agents"))):
            continue
        yield folder / ".agents" / "skills", folder / ".agents"


def _settings_places(query: ResourceQuery, lines: Sequence[str]) -> tuple[list[ResourceLocation], list[str]]:
    entries, project = PathList(lines), Path(query.cwd, ".pi")
    paths, problems = entries.paths()
    places = [
        ResourceLocation(path, ResourceOrigin("project", "local", str(project)), entries, expected=True)
        if path.is_relative_to(query.cwd) and query.trusted
        else ResourceLocation(path, ResourceOrigin("user", "local", str(query.agent_dir)), entries, expected=True)
        for path in paths
    ]
    return places, problems


def _packaged(files: Sequence[PackageFile], *, wanted: bool) -> list[ResourceLocation]:
    """Return the files of packages. Those of a package on the command line are used whatever is switched off."""
    return [
        ResourceLocation(one.path, ResourceOrigin(one.scope, one.source, str(one.base), packaged=True))
        for one in files
        if one.used and (wanted or one.scope == "temporary")
    ]


def _named(query: ResourceQuery, paths: Sequence[str], source: str) -> list[ResourceLocation]:
    """Return the locations named by the command line or an extension, relative to the folder of the start."""
    full = (os.path.normpath(os.path.join(query.cwd, query.start, os.path.expanduser(path))) for path in paths)
    return [ResourceLocation(Path(path), ResourceOrigin("temporary", source), expected=True) for path in full]
