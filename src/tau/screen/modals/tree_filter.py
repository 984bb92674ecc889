"""Which entries the session tree shows: the filters of pi, and the search."""

from __future__ import annotations

from collections.abc import Sequence

from tau.core.conversation.tree_outline import LabelOf, Node, TreeOutline

FILTERS = ("default", "no-tools", "user-only", "labeled-only", "all")
FILTER_ACTIONS = {
    "app.tree.filter.default": "default",
    "app.tree.filter.noTools": "no-tools",
    "app.tree.filter.userOnly": "user-only",
    "app.tree.filter.labeledOnly": "labeled-only",
    "app.tree.filter.all": "all",
}


def shown_entries(outline: TreeOutline, name: str) -> list[bool]:
    nodes, labels = outline.nodes, outline.labels
    if name == "all":
        return [True] * len(nodes)
    if name == "labeled-only":
        return [at in labels for at in range(len(nodes))]
    if name == "user-only":
        return [node.kind == "user" for node in nodes]
    hidden = {"setting", "tool"} if name == "no-tools" else {"setting"}
    shown = [node.kind not in hidden and not node.silent for node in nodes]
    if 0 <= outline.active < len(shown):
        shown[outline.active] = True  # where the conversation is
    return shown


class TreeSearch:
    """Searches texts, labels and kinds; every word must be there. The texts are kept in lower case."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._texts = [f"{node.kind} {node.title} {node.text}".lower() for node in nodes]

    def found(self, query: str, shown: Sequence[bool], labels: dict[int, LabelOf]) -> list[bool]:
        words = query.lower().split()
        found = list(shown)
        for word in words:
            found = [keep and word in text for keep, text in zip(found, self._texts, strict=True)]
        for at, label in labels.items():
            if shown[at] and all(word in self._texts[at] or word in label.text.lower() for word in words):
                found[at] = True
        return found
