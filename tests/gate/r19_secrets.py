"""R19: no secret of the user's gets to where it does not belong, and what is written down is for the user alone.

A canary is in every place where a key can be: a flag, the environment, auth.json,
models.json, a command, headers, addresses. A server repeats all that it is sent,
in every way in which servers fail, and a command looks at its environment.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from gate.figure import Figure
from gate.portion import portion
from support.rpc_process import Agent
from support.secret_canaries import BAD, Echo, Nest

LONG = "seq 1 100000"  # more than is told, so that there is a file with all of it


def measure(scale: float, seed: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder, Echo() as server:
        nest = Nest(Path(folder), server)
        cases = portion(list(product(nest.providers, BAD)), scale, seed)
        nest.surroundings()
        before = {*nest.folder.rglob("*"), nest.folder / "stderr"}
        with umask(0o022):
            told = everything(nest, server, cases)
        heard = b"".join(server.heard)
        assert any(canary.is_in(heard) for canary in nest.canaries.values()), "no secret was ever sent"
        found = nest.found(stdout=told)
        # What a command of the tester's wrote is as private as that command made it.
        made = {path for path in nest.folder.rglob("*") if path.name != "env.txt"} - before
        loose = [f"{path} {stat.filemode(path.lstat().st_mode)}" for path in made if path.lstat().st_mode & 0o077]
    for line in (*found, *loose):
        print(f"R19: {line}", file=sys.stderr)
    return [
        Figure("R19", "secrets in sessions, exports, logs, output, child processes", len(cases) + 2, len(found), 0),
        Figure("R19", "files that are not 0600, folders that are not 0700", len(made), len(loose), 0),
    ]


def everything(nest: Nest, server: Echo, cases: list[tuple[str, str]]) -> bytes:
    """All that the program does with secrets; what it said meanwhile."""
    args = [*nest.args, "--record", str(nest.folder / "recordings")]
    with Agent(
        nest.folder, settings=nest.settings, models=nest.models, args=args, offline=False, env=nest.env
    ) as agent:
        for provider, way in cases:
            agent.get("set_model", provider=provider, modelId="m1")
            server.script = [way]
            agent.prompt(f"{way} of {provider}")
        server.script = ["tool", "text"]
        agent.prompt("look around")
        agent.get("bash", command=f"env; {LONG}")
        for kind in ("get_state", "get_available_models", "get_messages", "get_session_stats", "export_html"):
            agent.get(kind)
        agent.get("set_steering_mode", mode="all")
        agent.get("clone")
    return json.dumps(agent.records).encode()


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """As people usually have it, whatever the tester has."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
