"""Print mode: the last answer on stdout, errors on stderr."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from tau.cli.progress import Progress
from tau.core.checks.exit_codes import FAILED, TRUNCATED
from tau.core.text.terminal_text import Cleaner, strip_controls
from tau.runtime.app.batch import Open, Prompt, RunSummary, run_prompts, tell_failures
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import STDOUT_CLOSED, StopSignal, claim_stdio, run_and_exit, stdout_is_closed
from tau.runtime.terminal import complain


def serve(open_session: Open, prompts: Sequence[Prompt]) -> NoReturn:
    """Run print mode to its end."""
    lost = stdout_is_closed()
    _, stdout = claim_stdio()
    run_and_exit(lambda: _serve(open_session, prompts, None if lost else stdout))


async def _serve(open_session: Open, prompts: Sequence[Prompt], stdout: int | None) -> int:
    stop = StopSignal()
    with Progress() as progress:
        summary = RunSummary(progress.show)
        handle = open_session(summary.pass_on)
        code = await run_prompts(stop, handle, summary, prompts)
    if not stop.asked:  # else the reason is known
        tell_failures(summary, lambda why: _readable(why, handle))
    if handle.log.unwritten:
        complain(f"Warning: the session file {handle.log.path} could not be written.")
    if code == TRUNCATED and summary.exceeded is None:
        complain("Warning: the answer was cut off at its length limit.")
    return code if write_texts(stdout, summary.texts) else FAILED


def _readable(why: str, handle: SessionHandle) -> str:
    from tau.runtime.models.readable_errors import readable_error

    return readable_error(why, handle.models)


def write_texts(handle: int | None, texts: Sequence[str]) -> bool:
    """Write each text followed by LF, as real pi does. False if it failed. None stands for a closed stdout."""
    if handle is None:
        complain(STDOUT_CLOSED)
        return False
    text = "".join(f"{part}\n" for part in texts)
    if os.isatty(handle):
        text = strip_controls(Cleaner().feed(text))  # model output must not control the terminal
    data = memoryview(text.encode("utf-8", "replace"))
    try:
        while data:
            data = data[os.write(handle, data) :]
    except BrokenPipeError:  # the reader closed the pipe
        return False
    except OSError as error:
        complain(f"Error: the answer could not be written: {error.strerror}")
        return False
    return True
