"""The orders of the session picker: threads of forks, or the time of the last change."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.modals.session_search import SessionItem

MAX_DEPTH = 8  # deeper forks are not indented further


def threaded(items: Sequence[SessionItem]) -> list[tuple[SessionItem, int]]:
    """Each session followed by its forks, with its depth; the thread that changed last comes first."""
    by_path = {item.row.path: item for item in items}
    children: dict[str, list[SessionItem]] = {}
    roots: list[SessionItem] = []
    for item in items:
        parent = item.row.parent_session_path
        known = isinstance(parent, str) and parent in by_path and parent != item.row.path
        (children.setdefault(str(parent), []) if known else roots).append(item)
    threads = [_thread(root, children) for root in roots]
    threads.sort(key=lambda thread: max(item.row.modified for item, _ in thread), reverse=True)
    placed = [entry for thread in threads for entry in thread]
    if len(placed) < len(items):  # files that name each other as parents
        seen = {item.row.path for item, _ in placed}
        placed += [(item, 0) for item in items if item.row.path not in seen]
    return placed


def _thread(root: SessionItem, children: dict[str, list[SessionItem]]) -> list[tuple[SessionItem, int]]:
    thread: list[tuple[SessionItem, int]] = []
    waiting = [(root, 0)]
    while waiting:
        item, depth = waiting.pop()
        thread.append((item, depth))
        forks = sorted(children.get(item.row.path, ()), key=lambda fork: fork.row.modified)
        waiting += [(fork, min(depth + 1, MAX_DEPTH)) for fork in forks]
    return thread


def recent(items: Sequence[SessionItem]) -> list[tuple[SessionItem, int]]:
    return [(item, 0) for item in sorted(items, key=lambda item: item.row.modified, reverse=True)]


def age_text(milliseconds: float) -> str:
    """now, 5m, 3h, 2d, 6w, 3y."""
    minutes = int(milliseconds // 60_000)
    for size, unit in ((525_600, "y"), (10_080, "w"), (1_440, "d"), (60, "h"), (1, "m")):
        if minutes >= size:
            return f"{minutes // size}{unit}"
    return "now"
