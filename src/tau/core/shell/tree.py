"""Parses a bash line into a syntax tree; the only module that uses tree-sitter.

The library is loaded when the first line is parsed. Its tree is copied into plain nodes. Offsets are byte offsets, so
the source is kept with one character per byte. tree-sitter takes quadratic time and memory for some hostile inputs,
so the size of a line, the number of operators in it, the depth of its tree and how often it is read are limited.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language
    from tree_sitter import Node as TreeNode

MAX_BYTES = 64 * 1024
MAX_OPERATORS = 1000
MAX_DEPTH = 60
MAX_NODES = 10_000
READ_AT_ONCE = 512  # bytes
MAX_READS = 50  # of each part on average; the parser reads a valid line two to eight times
_OPERATORS = "|(<{"
# In a quoted string, the grammar includes the blanks before such a node in the node.
_PADDED = frozenset(
    ("expansion", "${", "simple_expansion", "$", "command_substitution", "$(", "arithmetic_expansion", "$((")
)


class CannotParse(ValueError):
    """The line cannot be parsed: too large, too deep, invalid, or the parser is not installed."""


class Node:
    __slots__ = ("children", "end", "kind", "start")

    def __init__(self, kind: str, start: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.children: list[Node] = []


def bytewise(text: str) -> str:
    """Return the text with one character per byte of its UTF-8 encoding, to match the offsets of nodes."""
    try:
        return text.encode().decode("latin-1")
    except UnicodeEncodeError:
        raise CannotParse("it is not valid Unicode") from None


def unicode(source: str) -> str:
    """The inverse of bytewise, for a part of its result."""
    return source.encode("latin-1").decode(errors="replace")


def parse(source: str) -> Node:
    """Return the root of the tree of `source`, which is bytewise. Raises CannotParse."""
    if len(source) > MAX_BYTES:
        raise CannotParse(f"it is longer than {MAX_BYTES} bytes")
    if sum(map(source.count, _OPERATORS)) > MAX_OPERATORS:
        raise CannotParse(f"it has more than {MAX_OPERATORS} operators")
    try:
        top = _parsed(source.encode("latin-1"))
    except ImportError:
        raise CannotParse("the parser (tree-sitter) cannot be loaded") from None
    if top.has_error:
        raise CannotParse("its syntax is not understood")
    if top.descendant_count > MAX_NODES:
        raise CannotParse("it has too many parts")
    root = Node(top.type, 0, len(source))
    waiting = [(top, root, 0)]
    while waiting:
        found, node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise CannotParse("it is nested too deeply")
        for child in found.children:
            if child.is_missing:
                raise CannotParse("its syntax is not understood")
            start = child.start_byte
            while child.type in _PADDED and source[start : start + 1] in (" ", "\t", "\n"):
                start += 1
            copy = Node(child.type, start, child.end_byte)
            node.children.append(copy)
            if child.child_count:
                waiting.append((child, copy, depth + 1))
    return root


def _parsed(source: bytes) -> TreeNode:
    """Raises CannotParse if the parser goes back to earlier parts again and again. It cannot be stopped otherwise."""
    import tree_sitter

    left = MAX_READS * (len(source) // READ_AT_ONCE + 2)

    def read(at: int, _: object) -> bytes:
        nonlocal left
        left -= 1
        return source[at : at + READ_AT_ONCE] if left > 0 else b""

    top = tree_sitter.Parser(_language()).parse(read).root_node
    if left <= 0:
        raise CannotParse("it takes too long to parse")
    return top


@cache
def _language() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())
