"""Files for completion and prompts: proposals for `@` and for paths, and the files that a prompt mentions."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from tau.records.base import Value
from tau.screen.completion import Proposal, Query
from tau.screen.fuzzy import fuzzy_rank
from tau.screen.mentions import candidates, mention_of, mentions
from tau.tui.file_index import FileIndex

MAX_PROPOSALS = 50
MAX_ENTRIES = 20_000  # of one folder


class MentionedFile(Value):
    """A file that a prompt names with `@`; `start` and `end` are the place of the mention in the text."""

    start: int
    end: int
    path: str


def mentioned_files(text: str, cwd: str) -> list[MentionedFile]:
    """The mentions of a text that are regular files, with their paths as they are written. Blocks."""
    found = []
    for mention in mentions(text):
        quoted = text[mention.start + 1] == '"'
        for path in [mention.path] if quoted else candidates(mention.path):
            if _is_file(os.path.join(cwd, os.path.expanduser(path))):
                end = mention.end if quoted else mention.start + 1 + len(path)
                found.append(MentionedFile(mention.start, end, path))
                break
    return found


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def file_proposals(query: Query, index: FileIndex) -> Iterator[list[Proposal]]:
    """Yield proposals for `@`, then better ones. Blocks."""
    text = query.text
    if text.startswith(("/", "~", "./", "../")) or text in (".", ".."):
        names = [folder + name for folder, name in _folder_entries(text, index.cwd, fuzzy=True)]
        yield [_mention(name, query) for name in names]
    elif not text:
        yield [_mention(name, query) for name in index.top_level(MAX_PROPOSALS)]
    else:
        for paths in index.search(text, MAX_PROPOSALS):
            yield [_mention(path, query) for path in paths]


def _mention(path: str, query: Query) -> Proposal:
    """A file is followed by a space; a folder is left open, so that what is in it can be completed."""
    folder, _, name = path.rstrip("/").rpartition("/")
    partial = path.endswith("/")
    value = mention_of(path, quoted=query.quoted)
    value = value.removesuffix('"') if partial else f"{value} "
    return Proposal(value, f"{name}/" if partial else name, folder, partial=partial)


def path_proposals(query: Query, cwd: str) -> list[Proposal]:
    """Proposals for Tab: entries of the folder that begin with the last part of the path. Blocks."""
    return [
        _path_proposal(folder + name, name, query) for folder, name in _folder_entries(query.text, cwd, fuzzy=False)
    ]


def _path_proposal(path: str, name: str, query: Query) -> Proposal:
    partial = path.endswith("/")
    if query.quoted or any(character.isspace() for character in path):
        return Proposal(f'"{path}' if partial else f'"{path}"', name, partial=partial)
    return Proposal(path, name, partial=partial)


def _folder_entries(text: str, cwd: str, *, fuzzy: bool) -> list[tuple[str, str]]:
    """The folder as it is written, and the names in it that fit the rest of a path; folders end with a slash."""
    if text in ("~", "..") or text.endswith("/.."):
        return [(text.removesuffix(last := text.rpartition("/")[2]), f"{last}/")]
    written, slash, start = text.rpartition("/")
    written += slash
    names = _names(os.path.join(cwd, os.path.expanduser(written)), hidden=start.startswith("."))
    if fuzzy and start:
        found = fuzzy_rank(start, names, str, MAX_PROPOSALS)
    else:
        found = [name for name in names if name.lower().startswith(start.lower())]
    return [(written, name) for name in found[:MAX_PROPOSALS]]


def _names(folder: str, *, hidden: bool) -> list[str]:
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if hidden or not entry.name.startswith("."):
                    names.append(f"{entry.name}/" if _is_folder(entry) else entry.name)
                if len(names) >= MAX_ENTRIES:
                    break
    except (OSError, ValueError):
        return []
    return sorted(names, key=lambda name: (not name.endswith("/"), name.lower()))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
