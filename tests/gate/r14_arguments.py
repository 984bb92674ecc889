"""R14: a tool call whose arguments are not whole is not run, wherever they were cut.

Calls that models made, each in four spellings, are cut at every byte: the arguments
alone, in an answer that ends as if nothing had happened, and the answer itself.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gate.figure import Figure
from gate.portion import portion
from support.faulty_models import TOUCH, half_commands_run
from support.provider_servers import SPEAKERS, Speaker
from support.recorded_streams import CALLS, Reading
from tau.errors import ModelError
from tau.llm import apis

SPELLINGS: Sequence[dict[str, Any]] = (
    {"separators": (",", ":"), "ensure_ascii": False},
    {"ensure_ascii": False},
    {"ensure_ascii": True},
    {"indent": 2, "ensure_ascii": False},
)
TEXTS = [(call["name"], json.dumps(call["arguments"], **how)) for call in CALLS for how in SPELLINGS]  # 200


def measure(scale: float, seed: int) -> list[Figure]:
    tried = run = 0
    for name, arguments in portion(TEXTS, scale, seed):
        for speaker in SPEAKERS:
            assert runs(speaker, speaker.says(calls=[("c1", name, arguments)])), "not even a whole call is run"
            for portions in cuts(speaker, name, arguments):
                tried += 1
                if runs(speaker, portions):
                    run += 1
                    print(f"R14, {speaker.api}: {portions}", file=sys.stderr)
    asked, also = in_the_program(scale, seed)
    return [
        Figure("R14", "calls with cut arguments that would be run", tried, run, 0),
        Figure("R14", "calls with cut arguments that the program ran", asked, also, 0),
    ]


def cuts(speaker: Speaker, name: str, arguments: str) -> Iterator[list[bytes]]:
    """The answer with less and less of the call, with its end and without it.

    Not without any of it: that is how a call without arguments is told.
    """
    data = arguments.encode()
    for at in range(1, len(data)):
        yield speaker.says(calls=[("c1", name, data[:at].decode("utf-8", "replace"))])
    whole = b"".join(speaker.says(calls=[("c1", name, arguments)])[: -speaker.last])
    for at in range(len(whole) + 1):
        yield [whole[:at]]


def runs(speaker: Speaker, portions: Sequence[bytes]) -> bool:
    """Whether there is a call that may be run, once the stream has ended."""
    try:
        done = Reading(apis.api(speaker.api), speaker.model(), portions).end().done
    except ModelError:
        return False
    return len(done.unreadable) < len(done.message.tool_calls)


def in_the_program(scale: float, seed: int) -> tuple[int, int]:
    """How many cuts were tried, and how many of them were run."""
    tried = run = 0
    for number, speaker in enumerate(SPEAKERS):
        cuts = portion(range(len(TOUCH)), scale, seed + number)
        tried += len(cuts)
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            run += half_commands_run(speaker, cuts, Path(folder))
    return tried, run
