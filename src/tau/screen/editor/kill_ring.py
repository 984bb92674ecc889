"""The kill ring: texts that were deleted by word or to the end of a line, newest last.

Kills that follow each other directly are one text: forward kills are appended, backward kills go before it.
"""

from __future__ import annotations

MAX_KILLS = 60


class KillRing:
    def __init__(self) -> None:
        self._texts: list[str] = []

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts)

    @property
    def newest(self) -> str:
        return self._texts[-1] if self._texts else ""

    def add(self, text: str, *, backward: bool, join: bool) -> None:
        if join and self._texts:
            newest = self._texts.pop()
            text = text + newest if backward else newest + text
        self._texts.append(text)
        del self._texts[:-MAX_KILLS]

    def rotate(self) -> str:
        """Move the newest text to the old end; return the one that is the newest now."""
        self._texts.insert(0, self._texts.pop())
        return self._texts[-1]

    def __len__(self) -> int:
        return len(self._texts)
