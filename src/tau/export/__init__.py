"""HTML export: a session as one self-contained page that loads nothing.

The content comes from models, files and commands and is treated as hostile. It reaches the page only as escaped text,
as Markdown that was sanitized by safe.py, or as the data of an image of a known type. The page's
Content-Security-Policy forbids everything else, so that a single mistake here is not enough.

Pure: values in, bytes out. runtime/history/html_export.py writes them to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tau.records.base import Value
from tau.records.entries import AnyEntry, Header
from tau.records.lines import UnknownEntry

# An entry of an unknown type is its JSON object.
Entry = AnyEntry | dict[str, Any]
ExportedEntry = Entry | UnknownEntry


class OfferedTool(Value):
    """A tool as it is described to the model; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class Export(Value):
    """The content of a page. Entries are in the order of the file; the page first shows the branch that ends at
    `leaf`.

    System prompt and tools are known only while a session is open.
    """

    header: Header
    entries: Sequence[ExportedEntry]
    leaf: str | None
    version: str
    name: str | None = None
    system_prompt: str | None = None
    tools: Sequence[OfferedTool] = ()
