"""What the exit code of the program tells whoever started it.

The same in every mode. Where real pi exits with 1 because the command line is
wrong, tau exits with 2, so that a script can tell its own mistake from a model's.
"""

from __future__ import annotations

ANSWERED, FAILED, USAGE, CUT, DENIED = 0, 1, 2, 3, 4

# Code to meaning, for the help and the documents.
EXITS: dict[int, str] = {
    ANSWERED: "answered, or done as asked",
    FAILED: "the model failed, the run was aborted, or the answer could not be delivered",
    USAGE: "the command line, or a file that it names, is wrong; nothing was run",
    CUT: "the answer was cut off at the limit of its length",
    DENIED: "answered, but --permissions did not let every tool call pass",
    129: "stopped by SIGHUP",
    130: "stopped by SIGINT",
    143: "stopped by SIGTERM",
}
_OF_ANSWERS = {"stop": ANSWERED, "toolUse": ANSWERED, "length": CUT}


def of_answer(stop_reason: str) -> int:
    """What an answer that ended like this means for the exit code."""
    return _OF_ANSWERS.get(stop_reason, FAILED)


def signalled(number: int) -> int:
    return 128 + number
