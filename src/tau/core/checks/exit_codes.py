"""Exit codes of the program.

Where real pi exits with 1 because the command line is wrong, tau exits with 2, so that a script can distinguish its
own mistake from a failure of the model. JSON mode tells of an answer in its records and exits as pi does, unless the
command line asks for something that pi does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tau.records.events import Limit

ANSWERED, FAILED, USAGE, TRUNCATED, DENIED, STUCK = 0, 1, 2, 3, 4, 5

# Code to meaning, for --help and the documentation.
EXIT_CODES: dict[int, str] = {
    ANSWERED: "success",
    FAILED: "the model failed, the run was aborted, or the answer could not be delivered",
    USAGE: "the command line, or a file that it names, is wrong; nothing was run",
    TRUNCATED: "the answer was cut off at its length limit, or a limit such as --max-turns was reached",
    DENIED: "answered, but --permissions did not let every tool call pass",
    STUCK: "the model repeated tool calls that failed, and was stopped",
    129: "stopped by SIGHUP",
    130: "stopped by SIGINT",
    143: "stopped by SIGTERM",
}
# The same in JSON mode without one of OWN_FLAGS, as pi has it.
JSON_CODES: dict[int, str] = {
    **{code: str(code) for code in EXIT_CODES},
    FAILED: "0 if there is an answer, also one that failed or was aborted; else 1",
    TRUNCATED: "0",
    DENIED: "",
    STUCK: "0",
}
OWN_FLAGS = ("result", "max-turns", "max-tokens", "max-cost", "time-limit", "output-schema", "permissions")
_BY_STOP_REASON = {"stop": ANSWERED, "toolUse": ANSWERED, "length": TRUNCATED}


def exit_code_of_answer(stop_reason: str) -> int:
    """The exit code for an answer with this stop reason."""
    return _BY_STOP_REASON.get(stop_reason, FAILED)


def exit_code_of_limit(limit: Limit) -> int:
    """The exit code for a prompt that this limit has ended."""
    return STUCK if limit == "stuck" else TRUNCATED


def exit_code_of_signal(number: int) -> int:
    return 128 + number
