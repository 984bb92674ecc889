"""Forks, clones and copies of a session: new sessions that name the original as their parent.

A copy does not deliver the queued messages of the original, so that they are not delivered twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tau.core.conversation.prompts import prompt_text
from tau.core.conversation.tree import Tree
from tau.errors import CommandError
from tau.records.base import decode, encode, parse_stored
from tau.records.entries import Label
from tau.records.lines import Outline
from tau.runtime.history.session_log import SessionLog


def fork_text(log: SessionLog, entry_id: str) -> str:
    """Return the text of the user message before which a fork ends."""
    return _fork_point(log, entry_id)[1]


def fork(log: SessionLog, entry_id: str) -> SessionLog:
    """Return a new session with everything before a user message. Raises CommandError; so do the others."""
    at, _ = _fork_point(log, entry_id)
    return copy_branch(log, log.tree.path(log.tree.parent(at)))


def clone(log: SessionLog) -> SessionLog:
    """Return a new session with the current branch."""
    return copy_branch(log, log.tree.branch)


def copy_branch(
    log: SessionLog, branch: Sequence[int], cwd: str | None = None, folder: Path | None = None
) -> SessionLog:
    """Return a new session with these entries. Its file is written if there is a message.

    Labels move to the end; the children of a label are attached to its parent.
    """
    whole = log.tree.beginning(branch)
    if whole is not None and not whole.of_kind("label"):
        made = _new(log, cwd or log.header.cwd, folder or log.folder, whole)
    else:
        made = _new(log, cwd or log.header.cwd, folder or log.folder, Tree())
        _copy_entries(log.tree, branch, made)
    return _complete(made, write=bool(made.tree.of_kind("message")))


def copy_whole(log: SessionLog, cwd: str, folder: Path | None) -> SessionLog:
    """Return a new session with every entry on every branch. The original is not used any more."""
    made = _new(log, cwd, folder, log.tree)
    return _complete(made, write=len(made.tree) > 0)


def _new(log: SessionLog, cwd: str, folder: Path | None, tree: Tree) -> SessionLog:
    parent = str(log.path) if log.path is not None else None
    return SessionLog.new(cwd, folder, log.file.trouble, parent=parent, tree=tree, disk=log.file.disk)


def _complete(made: SessionLog, *, write: bool) -> SessionLog:
    if made.pending_queue.undelivered():
        made.pending_queue.clear(())
    if write and made.path is not None:
        made.file.create()
    return made


def _copy_entries(tree: Tree, branch: Sequence[int], made: SessionLog) -> None:
    labels: list[Label] = []
    kept: set[str] = set()
    for at in branch:
        line = tree.line(at)
        if tree.kind(at) == "label" and isinstance(label := tree.entry(at), Label):
            labels.append(label)
            continue
        outline = decode(Outline, line, nesting=None)
        assert isinstance(outline.id, str)  # entries without an id are not in a tree
        if outline.parent_id != made.tree.leaf_id:
            line = encode({**parse_stored(line), "parentId": made.tree.leaf_id})
        made.tree.add(line, outline.id, tree.kind(at))
        kept.add(outline.id)
    for label in labels:
        if label.target_id in kept:
            made.label(label.target_id, label.label or None)


def _fork_point(log: SessionLog, entry_id: str) -> tuple[int, str]:
    at = log.tree.find(entry_id)
    text = prompt_text(log.tree.entry(at)) if at is not None else None
    if at is None or text is None:
        raise CommandError("Invalid entry ID for forking")
    return at, text
