"""WING: a session as one HTML page that needs nothing and asks for nothing.

What was said comes from models, files and commands, so it is taken to be
hostile: it reaches the page only as escaped text, as Markdown that went through
safe.py, or as the data of an image whose type is known. The page forbids itself
everything else (its Content-Security-Policy), so a mistake here is not enough.

Pure: values in, bytes out. host/export.py puts them into a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tau.records.entries import AnyEntry, Header
from tau.records.lines import OtherEntry

# An entry of a type that we do not know is the JSON object that it was.
Entry = AnyEntry | dict[str, Any]
Given = Entry | OtherEntry


@dataclass(frozen=True)
class OfferedTool:
    """A tool as the model is told of it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Export:
    """What goes into a page. Entries stand in the order of the file; the branch that ends at `leaf` is shown first.

    System prompt and tools are known only while a session is open.
    """

    header: Header
    entries: Sequence[Given]
    leaf: str | None
    version: str
    name: str | None = None
    system_prompt: str | None = None
    tools: Sequence[OfferedTool] = ()
