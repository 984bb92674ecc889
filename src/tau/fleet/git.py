"""git for work trees: without hooks, fsmonitor, prompts and the user's configuration of the repository's neighbours.

This git obeys the configuration of its folder. `private_repository.py` has the one for files that an agent wrote.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

SETTINGS = ("gc.auto=0", "core.hooksPath=/dev/null", "core.fsmonitor=false", "advice.detachedHead=false")
OPTIONS = tuple(word for setting in SETTINGS for word in ("-c", setting))
TIMEOUT_S = 600.0


class GitError(Exception):
    """git failed; the message is its own."""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_OPTIONAL_LOCKS": "0"}


async def git(folder: str, *words: str, data: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
    """Run git in a folder and return its output. `env` is the whole environment. Raises GitError."""
    process = await asyncio.create_subprocess_exec(
        "git",
        *OPTIONS,
        *words,
        cwd=folder,
        env=environment(os.environ) if env is None else env,
        stdin=asyncio.subprocess.PIPE if data is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, problem = await process.communicate(data)
    except BaseException:
        if process.returncode is None:
            process.kill()
        raise
    if process.returncode:
        raise GitError(f"git {_shown(words)}: {problem.decode(errors='replace').strip()[-500:]}")
    return output


def _shown(words: Sequence[str]) -> str:
    return " ".join(words[:2])


async def resolve(repo: str, base: str | None) -> str:
    """The commit that `base` names. Raises GitError."""
    found = await git(repo, "rev-parse", "--verify", "--end-of-options", f"{base or 'HEAD'}^{{commit}}")
    return found.decode().strip()
