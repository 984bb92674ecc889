"""Log lines that cannot be written."""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stderr

from tau.runtime.terminal import LogStream


class FullForAWhile(io.StringIO):
    """Refuses the first line, as a file on a full disk does."""

    refused = False

    def write(self, text: str) -> int:
        if not self.refused:
            self.refused = True
            raise OSError(27, "File too large")
        return super().write(text)


def test_a_line_that_cannot_be_written_is_lost_without_a_traceback() -> None:
    """logging reports its own errors on stderr, with the values of the line: they may be secrets."""
    stream, stderr, logger = FullForAWhile(), io.StringIO(), logging.Logger("test")
    logger.addHandler(LogStream(stream))
    with redirect_stderr(stderr):
        logger.warning("the key is %s", "sk-secret")
        logger.warning("the next line")
    assert (stream.getvalue(), stderr.getvalue()) == ("the next line\n", "")
