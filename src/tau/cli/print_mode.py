"""Print mode: the last answer on stdout, what went wrong on stderr."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from tau.cli.progress import Progress
from tau.core.checks.exit_codes import CUT, FAILED
from tau.core.text.terminal_text import Cleaner, answer
from tau.runtime.app.batch import Open, Prompt, Tally, ask_all, tell_failures
from tau.runtime.app.process import STDOUT_CLOSED, Stop, claim, stdout_is_closed, to_the_end
from tau.runtime.terminal import complain


def serve(open_session: Open, prompts: Sequence[Prompt]) -> NoReturn:
    """Run print mode to its end."""
    lost = stdout_is_closed()
    _, stdout = claim()
    to_the_end(lambda: _serve(open_session, prompts, None if lost else stdout))


async def _serve(open_session: Open, prompts: Sequence[Prompt], stdout: int | None) -> int:
    stop = Stop()
    with Progress() as progress:
        tally = Tally(progress.show)
        session, machine, _ = open_session(tally.pass_on)
        code = await ask_all(stop, session, machine, tally, prompts)
    if not stop.asked:  # else everybody knows why it ended
        tell_failures(tally)
    if session.log.waiting:
        complain(f"Warning: the session file {session.log.path} could not be written.")
    if code == CUT and tally.exceeded is None:
        complain("Warning: the answer was cut off at the limit of its length.")
    return code if written(stdout, tally.texts) else FAILED


def written(handle: int | None, texts: Sequence[str]) -> bool:
    """Whether it was delivered: each text followed by LF, as real pi does. None stands for a stdout that is closed."""
    if handle is None:
        complain(STDOUT_CLOSED)
        return False
    text = "".join(f"{one}\n" for one in texts)
    if os.isatty(handle):
        text = answer(Cleaner().feed(text))  # a model's words must not steer a terminal
    data = memoryview(text.encode("utf-8", "replace"))
    try:
        while data:
            data = data[os.write(handle, data) :]
    except BrokenPipeError:  # who read us has seen enough
        return False
    except OSError as error:
        complain(f"Error: the answer could not be written: {error.strerror}")
        return False
    return True
