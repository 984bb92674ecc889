"""Finds skills: folders with a SKILL.md, whose fields describe the skill.

A folder with a SKILL.md is one skill and is not searched further. Other folders are searched, including links, and
Markdown files directly in the first one are skills too. Untrusted repositories contain such folders, so the search is
limited in depth, number and time, and ignore patterns that could take long to match are dropped.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tau.core.conversation.slash_commands import Origin, Skill
from tau.core.text.frontmatter import BadFrontmatter, page, says_yes, split
from tau.core.text.globs import Rules
from tau.store.path_lists import Entries
from tau.store.safe_read import is_file, read_text, why

FILE = "SKILL.md"
IGNORE_FILES = (".gitignore", ".ignore", ".fdignore")
LARGEST = 256 * 1024  # bytes of a skill
MOST = 250  # skills
DEEPEST = 8  # levels of folders
ENTRIES = 5000  # names in all folders of one location
PATIENCE = 5.0  # seconds for one location
LONGEST_NAME = 128
HEAD = 80 * 1024  # bytes in which the fields must fit

NAME = 64
DESCRIPTION = 1024


class Place(NamedTuple):
    """A folder to search, or a file."""

    path: Path
    origin: Origin
    entries: Entries = Entries()  # inclusions and exclusions of settings
    expected: bool = False  # it was named explicitly, so it is a problem if it does not exist


def find_skills(places: Sequence[Place], within: Path | None = None) -> tuple[list[Skill], list[str]]:
    """Return the skills and problems. Of several with one name the first is used. `within` is as in find_templates."""
    by_name: dict[str, Skill] = {}
    real_paths: set[str] = set()
    problems: list[str] = []
    for place in places:
        walk = _Walk(place.path)
        for path in walk.skills():
            real = os.path.realpath(path)
            if real in real_paths or not place.entries.allows(path):
                continue
            real_paths.add(real)
            skill = _skill(path, path.name != FILE, place.origin, problems, within)
            if skill is None:
                continue
            if (other := by_name.setdefault(skill.name, skill)) is not skill:
                problems.append(f"skill {skill.name!r} of {skill.path} is not used: {other.path} has the same name")
            if len(by_name) >= MOST:
                return list(by_name.values()), [
                    *problems,
                    f"there are more than {MOST} skills: the others are not used",
                ]
        problems += walk.problems
        if place.expected and not os.path.lexists(place.path):
            problems.append(f"skill {place.path}: not found")
    return list(by_name.values()), problems


def skill_body(skill: Skill, within: Path | None = None) -> str:
    """Return the current text of a skill, without its fields. Raises OSError with its path."""
    try:
        taken = read_text(Path(skill.path), LARGEST, within if skill.origin.scope == "project" else None)
    except OSError as error:
        raise OSError(error.errno, why(error), skill.path) from None
    if not taken.is_whole(LARGEST):
        raise OSError(errno.EFBIG, f"it has more than {LARGEST} bytes", skill.path)
    return split(taken.text)[1]


def _skill(path: Path, alone: bool, origin: Origin, problems: list[str], within: Path | None) -> Skill | None:
    """Read one skill. `alone`: a Markdown file without its own folder; without fields it is not a skill but a page."""
    try:
        taken = read_text(path, HEAD, within if origin.scope == "project" else None)
        if not taken.is_whole(LARGEST):
            raise OSError(f"it has more than {LARGEST} bytes")
        fields = page(taken.text).fields
    except (OSError, BadFrontmatter) as error:
        problems.append(f"skill {path} is not used: {why(error)}")
        return None
    if alone and not fields:
        return None
    name = fields.get("name") or (path.stem if alone else path.parent.name)
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        problems.append(f"skill {path} is not used: it has no description")
        return None
    if not isinstance(name, str) or name.split() != [name]:
        problems.append(f"skill {path} is not used: its name is not one word")
        return None
    problems += [f"skill {path}: {flaw}" for flaw in _flaws(name, description)]
    hidden = says_yes(fields.get("disable-model-invocation"))
    return Skill(name, description.strip(), str(path), str(path.parent), hidden, origin)


def _flaws(name: str, description: str) -> Iterator[str]:
    """Yield problems that do not keep a skill from being used."""
    if len(name) > NAME:
        yield f"its name has more than {NAME} characters"
    if not all(letter in "abcdefghijklmnopqrstuvwxyz0123456789-" for letter in name):
        yield f"its name {name!r} has other characters than a-z, 0-9 and -"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield f"its name {name!r} has a hyphen at an end, or two in a row"
    if len(description) > DESCRIPTION:
        yield f"its description has more than {DESCRIPTION} characters: the model sees the first of them"


class _Walk:
    """Searches one location for skill files."""

    def __init__(self, top: Path) -> None:
        self.problems: list[str] = []
        self._top = top
        self._entries = 0
        self._deadline = time.monotonic() + PATIENCE
        self._folders: set[tuple[int, int]] = set()
        self._rules: list[tuple[Path, Rules]] = []

    def skills(self) -> Iterator[Path]:
        if self._top.is_dir():
            yield from self._folder(self._top, 0)
        elif self._top.suffix == ".md" and os.path.lexists(self._top):
            yield self._top
        if self._exhausted:
            self.problems.append(f"{self._top} has too many files or folders: only those found so far are used")

    @property
    def _exhausted(self) -> bool:
        return self._entries > ENTRIES or time.monotonic() > self._deadline

    def _folder(self, folder: Path, depth: int) -> Iterator[Path]:
        try:
            found = os.stat(folder)
            names = self._names(folder)
        except OSError as error:
            self.problems.append(f"{folder} cannot be read: {why(error)}")
            return
        if (found.st_dev, found.st_ino) in self._folders:
            return  # reached again through a link
        self._folders.add((found.st_dev, found.st_ino))
        kept = len(self._rules)
        self._rules += [(folder, rules) for name in IGNORE_FILES if name in names and (rules := _rules(folder / name))]
        if FILE in names and not self._ignored(folder / FILE, is_folder=False):
            yield folder / FILE
        else:
            yield from self._inside(folder, names, depth)
        del self._rules[kept:]

    def _inside(self, folder: Path, names: list[str], depth: int) -> Iterator[Path]:
        for name in names:
            path = folder / name
            if self._exhausted:
                return
            if name.startswith(".") or name in ("node_modules", FILE) or len(name) > LONGEST_NAME:
                continue
            if path.is_dir():
                if depth < DEEPEST and not self._ignored(path, is_folder=True):
                    yield from self._folder(path, depth + 1)
            elif depth == 0 and name.endswith(".md") and is_file(path) and not self._ignored(path, is_folder=False):
                yield path

    def _names(self, folder: Path) -> list[str]:
        names = []
        with os.scandir(folder) as found:
            for entry in found:
                self._entries += 1
                if self._entries > ENTRIES:
                    break
                names.append(entry.name)
        return sorted(names)

    def _ignored(self, path: Path, is_folder: bool) -> bool:
        """True if a path is ignored: the nearest ignore file with a matching rule decides."""
        for folder, rules in reversed(self._rules):
            answer = rules.ignore(path.relative_to(folder).as_posix(), is_folder)
            if answer is not None:
                return answer
        return False


def _rules(path: Path) -> Rules | None:
    try:
        lines = read_text(path, 16 * 1024).text.splitlines()
    except OSError:
        return None
    return Rules([line for line in lines if _matches_fast(line)][:200])


def _matches_fast(line: str) -> bool:
    """True if a pattern matches every name quickly. A hostile pattern backtracks over all divisions of a name."""
    stars = max(part.count("*") for part in line.replace("**/", "").removesuffix("/**").split("/"))
    return len(line) <= 256 and "{" not in line and stars <= 2 and line.count("**") <= 2
