"""The `details` of tool results."""

from __future__ import annotations

from typing import Literal

from tau.records.base import Record


class Truncation(Record):
    """How a text was truncated. Byte counts are of its UTF-8 form; the totals are those of the whole text."""

    content: str
    truncated: bool
    truncated_by: Literal["lines", "bytes"] | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool
    first_line_exceeds_limit: bool
    max_lines: int
    max_bytes: int
