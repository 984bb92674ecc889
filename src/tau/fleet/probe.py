"""Whether commands can be run in the sandbox on this machine. Tried once for each level."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import tau
from tau.errors import TauError

_probes: dict[str, asyncio.Task[str | None]] = {}


async def sandbox_problem(level: str) -> str | None:
    """Why a sandbox level does not work here; None if it does, or if none is wanted."""
    if level == "none":
        return None
    loop = asyncio.get_running_loop()
    if level not in _probes or _probes[level].get_loop() is not loop:
        _probes[level] = loop.create_task(_probe(level))
    return await asyncio.shield(_probes[level])


async def _probe(level: str) -> str | None:
    with tempfile.TemporaryDirectory(prefix="tau-fleet-", ignore_cleanup_errors=True) as made:
        work, agent_dir = Path(made) / "work", Path(made) / "agent"
        work.mkdir()
        agent_dir.mkdir()
        opening = tau.open(
            work,
            model="demo",
            session=False,
            agent_dir=agent_dir,
            sandbox="strict" if level == "strict" else "workspace",
            find_extensions=False,
            context_files=False,
            trust=False,
        )
        try:
            async with opening as agent:
                done = await agent.bash("true", exclude_from_context=True)
        except (TauError, OSError) as error:
            return str(error)
    return None if done.exit_code == 0 else (done.output.strip() or f"a command in it ended with {done.exit_code}")
