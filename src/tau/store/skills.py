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

from tau.core.conversation.slash_commands import ResourceOrigin, Skill
from tau.core.text.frontmatter import BadFrontmatter, is_true, parse_page, split_page
from tau.core.text.globs import IgnoreRules
from tau.records.base import Value
from tau.store.path_lists import PathList
from tau.store.safe_read import error_reason, is_file, read_text

SKILL_FILE = "SKILL.md"
IGNORE_FILES = (".gitignore", ".ignore", ".fdignore")
MAX_SKILL_BYTES = 256 * 1024  # bytes of a skill
MAX_SKILLS = 250  # skills
MAX_DEPTH = 8  # levels of folders
MAX_ENTRIES = 5000  # names in all folders of one location
SEARCH_TIMEOUT_S = 5.0  # seconds for one location
MAX_FILE_NAME_CHARACTERS = 128
MAX_FIELDS_BYTES = 80 * 1024  # bytes in which the fields must fit

MAX_NAME_CHARACTERS = 64
MAX_DESCRIPTION_CHARACTERS = 1024


class ResourceLocation(Value):
    """A folder to search, or a file."""

    path: Path
    origin: ResourceOrigin
    entries: PathList = PathList()  # inclusions and exclusions of settings
    expected: bool = False  # it was named explicitly, so it is a problem if it does not exist


def find_skills(places: Sequence[ResourceLocation], within: Path | None = None) -> tuple[list[Skill], list[str]]:
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
            skill = _skill(path, path.name != SKILL_FILE, place.origin, problems, within)
            if skill is None:
                continue
            if (other := by_name.setdefault(skill.name, skill)) is not skill:
                problems.append(f"skill {skill.name!r} of {skill.path} is not used: {other.path} has the same name")
            if len(by_name) >= MAX_SKILLS:
                return list(by_name.values()), [
                    *problems,
                    f"there are more than {MAX_SKILLS} skills: the others are not used",
                ]
        problems += walk.problems
        if place.expected and not os.path.lexists(place.path):
            problems.append(f"skill {place.path}: not found")
    return list(by_name.values()), problems


def find_skill_files(folder: Path) -> list[Path]:
    """Return the files of the skills in a folder, without reading them."""
    return list(_Walk(folder).skills())


def skill_body(skill: Skill, within: Path | None = None) -> str:
    """Return the current text of a skill, without its fields. Raises OSError with its path."""
    try:
        content = read_text(Path(skill.path), MAX_SKILL_BYTES, within if skill.origin.scope == "project" else None)
    except OSError as error:
        raise OSError(error.errno, error_reason(error), skill.path) from None
    if not content.is_complete(MAX_SKILL_BYTES):
        raise OSError(errno.EFBIG, f"it has more than {MAX_SKILL_BYTES} bytes", skill.path)
    return split_page(content.text)[1]


def _skill(path: Path, alone: bool, origin: ResourceOrigin, problems: list[str], within: Path | None) -> Skill | None:
    """Read one skill. `alone`: a Markdown file without its own folder; without fields it is not a skill but a page."""
    try:
        content = read_text(path, MAX_FIELDS_BYTES, within if origin.scope == "project" else None)
        if not content.is_complete(MAX_SKILL_BYTES):
            raise OSError(f"it has more than {MAX_SKILL_BYTES} bytes")
        fields = parse_page(content.text).fields
    except (OSError, BadFrontmatter) as error:
        problems.append(f"skill {path} is not used: {error_reason(error)}")
        return None
    if alone and not fields:
        return None
    name = fields.get("name") or (path.stem if alone else path.parent.name)
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        problems.append(f"skill {path} is not used: it has no description")
        return None
    if not isinstance(name, str) or name.split() != [name]:
        problems.append(f"skill {path} is not used: its name is not a single word")
        return None
    problems += [f"skill {path}: {problem}" for problem in _name_problems(name, description)]
    hidden = is_true(fields.get("disable-model-invocation"))
    return Skill(name, description.strip(), str(path), str(path.parent), hidden, origin)


def _name_problems(name: str, description: str) -> Iterator[str]:
    """Yield problems that do not keep a skill from being used."""
    if len(name) > MAX_NAME_CHARACTERS:
        yield f"its name has more than {MAX_NAME_CHARACTERS} characters"
    if not all(character in "abcdefghijklmnopqrstuvwxyz0123456789-" for character in name):
        yield f"its name {name!r} has other characters than a-z, 0-9 and -"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield f"its name {name!r} has a hyphen at an end, or two in a row"
    if len(description) > MAX_DESCRIPTION_CHARACTERS:
        yield f"its description has more than {MAX_DESCRIPTION_CHARACTERS} characters: the model sees the first of them"


class _Walk:
    """Searches one location for skill files."""

    def __init__(self, top: Path) -> None:
        self.problems: list[str] = []
        self._top = top
        self._entries = 0
        self._deadline = time.monotonic() + SEARCH_TIMEOUT_S
        self._folders: set[tuple[int, int]] = set()
        self._rules: list[tuple[Path, IgnoreRules]] = []

    def skills(self) -> Iterator[Path]:
        if os.path.isdir(self._top):
            yield from self._folder(self._top, 0)
        elif self._top.suffix == ".md" and os.path.lexists(self._top):
            yield self._top
        if self._exhausted:
            self.problems.append(f"{self._top} has too many files or folders: only those found so far are used")

    @property
    def _exhausted(self) -> bool:
        return self._entries > MAX_ENTRIES or time.monotonic() > self._deadline

    def _folder(self, folder: Path, depth: int) -> Iterator[Path]:
        try:
            found = os.stat(folder)
            names = self._names(folder)
        except OSError as error:
            self.problems.append(f"{folder} cannot be read: {error_reason(error)}")
            return
        if (found.st_dev, found.st_ino) in self._folders:
            return  # reached again through a link
        self._folders.add((found.st_dev, found.st_ino))
        rule_count = len(self._rules)
        self._rules += [(folder, rules) for name in IGNORE_FILES if name in names and (rules := _rules(folder / name))]
        if SKILL_FILE in names and not self._ignored(folder / SKILL_FILE, is_folder=False):
            yield folder / SKILL_FILE
        else:
            yield from self._inside(folder, names, depth)
        del self._rules[rule_count:]

    def _inside(self, folder: Path, names: list[str], depth: int) -> Iterator[Path]:
        for name in names:
            path = folder / name
            if self._exhausted:
                return
            if name.startswith(".") or name in ("node_modules", SKILL_FILE) or len(name) > MAX_FILE_NAME_CHARACTERS:
                continue
            if os.path.isdir(path):  # Path.is_dir raises if it may not look, or if a link names something impossible
                if depth < MAX_DEPTH and not self._ignored(path, is_folder=True):
                    yield from self._folder(path, depth + 1)
            elif depth == 0 and name.endswith(".md") and is_file(path) and not self._ignored(path, is_folder=False):
                yield path

    def _names(self, folder: Path) -> list[str]:
        names = []
        with os.scandir(folder) as found:
            for entry in found:
                self._entries += 1
                if self._entries > MAX_ENTRIES:
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


def _rules(path: Path) -> IgnoreRules | None:
    try:
        lines = read_text(path, 16 * 1024).text.splitlines()
    except OSError:
        return None
    return IgnoreRules([line for line in lines if _matches_fast(line)][:200])


def _matches_fast(line: str) -> bool:
    """True if a pattern matches every name quickly. A hostile pattern backtracks over all divisions of a name."""
    stars = max(part.count("*") for part in line.replace("**/", "").removesuffix("/**").split("/"))
    return len(line) <= 256 and "{" not in line and stars <= 2 and line.count("**") <= 2
