"""git for work trees: without hooks, fsmonitor, prompts and the user's configuration of the repository's neighbours.

This git obeys the configuration of its folder. `private_repository.py` has the one for files that an agent wrote.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Mapping, Sequence

from tau.concurrency.helper_commands import HelperProgram

SETTINGS = ("gc.auto=0", "core.hooksPath=/dev/null", "core.fsmonitor=false", "advice.detachedHead=false")
OPTIONS = tuple(word for setting in SETTINGS for word in ("-c", setting))
TIMEOUT_S = 600.0
BUSY_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# Another process changes the repository, or a half-written entry of one of its work trees was read.
_BUSY = re.compile(
    r"\.lock': File exists|cannot lock ref|could not lock|Another git process"
    r"|worktrees/.*(?:No such file|Success|for writing)|could not create (?:leading )?director"
    r"|Stale file handle|Resource temporarily unavailable"
)


class GitError(Exception):
    """git failed; the message is its own."""


class GitBusy(GitError):
    """git failed because another process used the repository at the same moment."""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_OPTIONAL_LOCKS": "0", "LANGUAGE": "C"}


async def git(folder: str, *words: str, data: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
    """Run git in a folder and return its output, again for a while if another process is in the way.

    `env` is the whole environment. Raises GitError.
    """
    for pause in BUSY_PAUSES_S:
        try:
            return await _git(folder, words, data, env)
        except GitBusy:
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
    return await _git(folder, words, data, env)


async def _git(folder: str, words: Sequence[str], data: bytes | None, env: Mapping[str, str] | None) -> bytes:
    env = environment(os.environ) if env is None else env
    program = await HelperProgram.start(
        ["git", *OPTIONS, *words], input=data, cwd=folder, env=env, start_new_session=True
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await program.ended()
    except TimeoutError:
        raise GitError(f"git {_shown(words)}: did not end within {TIMEOUT_S:.0f} s") from None
    finally:
        await program.close()
    if program.code:
        problem = program.stderr.decode(errors="replace").strip()[-500:]
        raise (GitBusy if _BUSY.search(problem) else GitError)(f"git {_shown(words)}: {problem}")
    return bytes(program.stdout)


def _shown(words: Sequence[str]) -> str:
    return " ".join(words[:2])


async def resolve(repo: str, base: str | None) -> str:
    """The commit that `base` names. Raises GitError."""
    found = await git(repo, "rev-parse", "--verify", "--end-of-options", f"{base or 'HEAD'}^{{commit}}")
    return found.decode().strip()
