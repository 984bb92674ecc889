"""Finds prompt templates: Markdown files that the slash command /name expands to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tau.core.conversation.slash_commands import Template
from tau.core.text.frontmatter import BadFrontmatter, parse_page
from tau.store.safe_read import error_reason, is_file, leads_out, read_text
from tau.store.skills import ResourceLocation

MAX_TEMPLATE_BYTES = 256 * 1024  # bytes of a template
MAX_TEMPLATES = 500  # templates, and names in a folder
MAX_DESCRIPTION_CHARACTERS = 60  # characters of a first line that serves as description


def find_templates(places: Sequence[ResourceLocation], within: Path | None) -> tuple[list[Template], list[str]]:
    """Return the templates and problems. Of several templates with one name the first is used.

    `within` is a project that is not trusted, or that sandboxed commands write to: its templates must not be links to
    files elsewhere, or /review could send the user's private key to a model.
    """
    by_name: dict[str, Template] = {}
    real_paths: set[str] = set()
    problems: list[str] = []
    for place in places:
        for path in _files(place, problems):
            real = os.path.realpath(path)
            if real in real_paths or not place.entries.allows(path):
                continue
            if within is not None and place.origin.scope == "project" and leads_out(path, within):
                problems.append(f"{path} is a link that leads out of the project: not used")
                continue
            real_paths.add(real)
            template = _template(path, place, problems, within if place.origin.scope == "project" else None)
            if template is None:
                continue
            if (other := by_name.setdefault(template.name, template)) is not template:
                problems.append(f"template /{template.name} of {path} is not used: {other.path} has the same name")
            if len(by_name) >= MAX_TEMPLATES:
                return list(by_name.values()), [
                    *problems,
                    f"there are more than {MAX_TEMPLATES} templates: others are not used",
                ]
    return list(by_name.values()), problems


def _files(place: ResourceLocation, problems: list[str]) -> Iterator[Path]:
    try:
        with os.scandir(place.path) as found:
            names = sorted(entry.name for entry in islice(found, 2 * MAX_TEMPLATES))
    except NotADirectoryError:
        yield place.path
        return
    except OSError as error:
        if place.expected or not isinstance(error, FileNotFoundError):
            problems.append(f"{place.path} cannot be read: {error_reason(error)}")
        return
    yield from (place.path / name for name in names if name.endswith(".md") and is_file(place.path / name))


def _template(path: Path, place: ResourceLocation, problems: list[str], within: Path | None) -> Template | None:
    try:
        content = read_text(path, MAX_TEMPLATE_BYTES, within)
        if not content.is_complete(MAX_TEMPLATE_BYTES):
            raise OSError(f"it has more than {MAX_TEMPLATE_BYTES} bytes")
        fields, body = parse_page(content.text)
    except (OSError, BadFrontmatter) as error:
        problems.append(f"template {path} is not used: {error_reason(error)}")
        return None
    description, hint = fields.get("description"), fields.get("argument-hint")
    if not isinstance(description, str) or not description.strip():
        description = _first_line(body)
    name = path.name.removesuffix(".md")
    return Template(name, description.strip(), hint if isinstance(hint, str) else "", body, str(path), place.origin)


def _first_line(body: str) -> str:
    line = next((line.strip() for line in body.splitlines() if line.strip()), "")
    return line if len(line) <= MAX_DESCRIPTION_CHARACTERS else f"{line[:MAX_DESCRIPTION_CHARACTERS]}..."
