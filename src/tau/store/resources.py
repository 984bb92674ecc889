"""Finds context files, skills and templates, and defines the order in which sources are searched.

The sources are the project, the user's folders, settings, the command line and extensions. Blocks: call it in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tau.core.conversation.slash_commands import (
    SKILL,
    Origin,
    Scope,
    Skill,
    Template,
    arguments,
    call,
    filled,
    skill_block,
)
from tau.core.conversation.system_prompt import ContextFile, Listed, Parts, system_prompt
from tau.records.base import UNSET
from tau.records.replies import SlashCommand, SourceInfo
from tau.store.context import context_files, planted, project_root, prompt_file, text_or_file
from tau.store.path_lists import Entries
from tau.store.resource_query import Sought
from tau.store.skills import Place, find_skills, skill_body
from tau.store.templates import find_templates

Offers = Sequence[tuple[str, Sequence[str], Sequence[str]]]  # of extensions: name, skill paths, template paths
# The order in lists. Which of two resources with the same name is used is decided by _in_order.
LISTED: dict[Scope, int] = {"project": 0, "user": 1, "temporary": 2}


class Found(NamedTuple):
    """The resources of a session."""

    sought: Sought
    parts: Parts
    skills: dict[str, Skill]
    templates: dict[str, Template]
    problems: Sequence[str]

    def prompt(self, tools: Sequence[Listed]) -> str:
        return system_prompt(tools, self.sought.cwd, self.parts)

    def knows(self, text: str) -> bool:
        called = call(text)
        return called is not None and (self._skill(called[0]) is not None or called[0] in self.templates)

    def expansion(self, text: str) -> str:
        """Expand a slash command. Reads the current file of a skill; raises OSError with its name if that fails."""
        called = call(text)
        if called is None:
            return text
        name, rest = called
        if skill := self._skill(name):
            return skill_block(skill, skill_body(skill, _within(self.sought)), rest)
        template = self.templates.get(name)
        return text if template is None else filled(template.body, arguments(rest))

    def _skill(self, name: str) -> Skill | None:
        return self.skills.get(name.removeprefix(SKILL)) if name.startswith(SKILL) else None

    def commands(self) -> list[SlashCommand]:
        """Return the slash commands: templates, then skills."""
        skills = self.skills.values() if self.sought.skill_commands else ()
        return [
            *(_row(item.name, "prompt", item) for item in _listed(self.templates.values())),
            *(_row(SKILL + item.name, "skill", item) for item in _listed(skills)),
        ]


def _listed(items: Iterable[Template] | Iterable[Skill]) -> list[Template | Skill]:
    return sorted(items, key=lambda item: LISTED[item.origin.scope])


def _row(name: str, kind: Literal["prompt", "skill"], item: Template | Skill) -> SlashCommand:
    scope, source, base = item.origin
    info = SourceInfo(item.path, source, scope, base_dir=UNSET if base is None else base)
    return SlashCommand(name, item.description or UNSET, kind, item.origin.location, item.path, info)


# Search


def look(sought: Sought, offers: Offers = ()) -> Found:
    requested = sought.requested
    custom, problems = _prompts("SYSTEM.md", sought, () if requested.system is None else (requested.system,))
    appended, more = _prompts("APPEND_SYSTEM.md", sought, requested.appended)
    problems += more
    context, more = ([], []) if requested.no_context else _context(sought)
    problems += more
    skills, more = find_skills(
        _in_order(
            sought,
            [] if requested.no_skills else _settings_places(sought, sought.skills),
            [] if requested.no_skills else list(_folders(sought, ("skills",), agents=True)),
            _named(sought, requested.skills, "cli"),
            [place for source, paths, _ in offers for place in _named(sought, paths, source)],
        ),
        within=_within(sought),
    )
    problems += more
    templates, more = find_templates(
        _in_order(
            sought,
            [] if requested.no_templates else _settings_places(sought, sought.prompts),
            # In older versions of pi templates were called commands.
            [] if requested.no_templates else list(_folders(sought, ("prompts", "commands"), agents=False)),
            _named(sought, requested.templates, "cli"),
            [place for source, _, paths in offers for place in _named(sought, paths, source)],
        ),
        within=_within(sought),
    )
    problems += more
    parts = Parts(custom[0] if custom else None, appended, context, skills)
    by_name = ({skill.name: skill for skill in skills}, {template.name: template for template in templates})
    return Found(sought, parts, *by_name, problems)


def _within(sought: Sought) -> Path | None:
    """Return the folder that must contain the files of the project; None if there is no such limit."""
    return project_root(Path(sought.cwd)) if sought.bound else None


def _context(sought: Sought) -> tuple[list[ContextFile], list[str]]:
    return context_files(Path(sought.cwd), sought.agent_dir, sought.trusted, confined=sought.confined)


def _prompts(name: str, sought: Sought, given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what the command line gives for a part of the system prompt; otherwise the file for it."""
    cwd = Path(sought.cwd)
    if not given:
        text, problems = prompt_file(name, cwd, sought.agent_dir, sought.trusted, sought.content)
        return [] if text is None else [text.strip()], problems
    texts = [text_or_file(argument, cwd) for argument in given]
    return [text for text, _ in texts], [problem for _, problems in texts for problem in problems]


def _in_order(
    sought: Sought, settings: list[Place], folders: list[Place], given: list[Place], offered: list[Place]
) -> list[Place]:
    """Order the sources: the first one with a name wins. An untrusted project cannot override the user's names."""
    if sought.trusted:
        return [*settings, *folders, *given, *offered]
    users = [place for place in folders if place.origin.scope == "user"]
    projects = [place for place in folders if place.origin.scope == "project"]
    return [*settings, *users, *given, *offered, *projects]


def _folders(sought: Sought, names: Sequence[str], agents: bool) -> Iterator[Place]:
    """Yield the default folders, those of the project first."""
    users = {sought.agent_dir / name: sought.agent_dir for name in names}
    if agents:
        users[Path.home() / ".agents" / "skills"] = Path.home() / ".agents"
    entries = Entries(sought.skills if agents else sought.prompts)
    for path, base in _of_project(Path(sought.cwd), names, agents, sought.trusted):
        if path not in users:
            yield Place(path, Origin("project", "auto", str(base)), entries)
    for path, base in users.items():
        yield Place(path, Origin("user", "auto", str(base)), entries)


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
        if outside and (has_git or (not trusted and planted(folder / ".agents"))):
            continue
        yield folder / ".agents" / "skills", folder / ".agents"


def _settings_places(sought: Sought, lines: Sequence[str]) -> list[Place]:
    entries, project = Entries(lines), Path(sought.cwd, ".pi")
    return [
        Place(path, Origin("project", "local", str(project)), entries, expected=True)
        if path.is_relative_to(sought.cwd) and sought.trusted
        else Place(path, Origin("user", "local", str(sought.agent_dir)), entries, expected=True)
        for path in entries.named()
    ]


def _named(sought: Sought, paths: Sequence[str], source: str) -> list[Place]:
    """Return the locations named by the command line or an extension, relative to the working directory."""
    full = (os.path.normpath(os.path.join(sought.cwd, os.path.expanduser(path))) for path in paths)
    return [Place(Path(path), Origin("temporary", source), expected=True) for path in full]
