"""LocalMachine: the processes and files of the local computer, for tools.

jobs.py starts and kills commands; this module adds their shell, their environment and the reading of their output.
"""

from __future__ import annotations

import asyncio
import copy
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tau.concurrency.threads import run_in_thread
from tau.core.text.truncate import format_size
from tau.errors import ToolError
from tau.runtime.machine.command import CommandSpec
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.jobs import Job, ProcessLauncher
from tau.store.trusted_files import TrustedFile
from tau.tools import Exit, OpenFolder, OutputCallback, Stream

if TYPE_CHECKING:
    from tau.tools import Files

T = TypeVar("T")

CHUNK_BYTES = 64 * 1024
SILENCE_S = 0.05  # seconds of silence after the shell's exit: then a background process is assumed to hold the pipe
MAX_DRAIN_S = 1.0  # seconds after which that is assumed even if output keeps coming
SPILL_LIMIT = 100 * 1024 * 1024
MAX_THREADS = 16  # at the same time
AGENT_VARIABLES = {"PI_CODING_AGENT": "true", "AI_AGENT": "pi"}


class LocalMachine:
    """Implements tau.tools.Machine.

    `env` is the environment that commands inherit, by default our own; `files` gives tools access to files.
    """

    def __init__(
        self,
        *,
        shell_path: str | None = None,
        prefix: str | None = None,
        env: Mapping[str, str] | None = None,
        spill_limit: int = SPILL_LIMIT,
        processes: ProcessLauncher | None = None,
        files: Files | None = None,
    ) -> None:
        self._processes = processes or ProcessLauncher()
        self.sandbox = self._processes.sandbox
        self.post = self._processes.post
        self.use(shell_path=shell_path, prefix=prefix, env=env, files=files)
        self._spill_limit = spill_limit
        self._threads = asyncio.Semaphore(MAX_THREADS)
        self._jobs: list[set[Job]] = [set()]  # commands that may have processes: our own, then those of each parent

    def use(
        self,
        *,
        shell_path: str | None = None,
        shell_digest: str | None = None,
        prefix: str | None = None,
        env: Mapping[str, str] | None = None,
        files: Files | None = None,
    ) -> None:
        """Change the configuration for subsequent commands; existing sub-machines keep theirs.

        `shell_digest` is the SHA-256 of the shell that was part of the project's trust decision. No other is run.
        """
        self.files: Files = files or LocalFiles()
        self._shell_path = shell_path
        self._trusted_shell = (
            None if shell_path is None or shell_digest is None else TrustedFile(shell_path, shell_digest)
        )
        self._prefix = prefix
        self._env = env

    @property
    def processes(self) -> ProcessLauncher:
        """What starts the commands: in the sandbox, if there is one."""
        return self._processes

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | OpenFolder,
        on_output: OutputCallback,
        timeout: float | None = None,
        separate_streams: bool = False,
    ) -> Exit:
        """As Machine.run. When it is cancelled, `Job.end` kills the command and its descendants; then the rest of the
        output is read. The wait for killed processes is bounded: one may hang in the kernel.
        """
        job, ends = self._start(self._words(command), cwd, separate_streams)
        self._remember(job)
        broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        readers = [_PipeReader(end, stream, on_output, broken) for stream, end in ends.items()]
        timed_out = False
        try:
            first: list[asyncio.Future[Any]] = [job.exited, broken]
            await asyncio.wait(first, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not job.exited.done():
                timed_out = not broken.done()
                await job.end()
            await _read_the_rest(readers)
        except asyncio.CancelledError:
            await job.end()
            for reader in readers:
                reader.take_all()
            raise
        finally:
            for reader in readers:
                reader.close()
        if broken.done():
            raise broken.result()
        return _ending(job.exited.result() if job.exited.done() else -signal.SIGKILL, timed_out)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """As Machine.in_thread. A cancelled caller does not wait for the thread."""
        async with self._threads:
            return await run_in_thread(work, "tau work")

    def spill(self) -> LocalSpill:
        return LocalSpill(self._spill_limit, self.sandbox.output if self.sandbox else None)

    def sub_machine(self, variables: Mapping[str, str | None] | None = None) -> LocalMachine:
        """As Machine.sub_machine. The parent can still kill everything."""
        part = copy.copy(self)
        part._jobs = [set(), *self._jobs]
        if variables:
            found = {**(os.environ if self._env is None else self._env), **variables}
            part._env = {name: value for name, value in found.items() if value is not None}
        return part

    def kill_background(self) -> None:
        for job in self._jobs[0]:
            if job.exited.done():
                job.kill()

    def kill_all(self) -> None:
        """Kill everything, including background processes. Does not wait: meant for the exit of the program."""
        for job in self._jobs[0]:
            job.kill()

    async def release(self) -> None:
        """Release the supervisor after all commands have ended; if no other machine uses it, wait for its end."""
        self._jobs = [set()]
        if (supervisor_thread := self._processes.release()) is not None:
            await asyncio.to_thread(supervisor_thread.join, MAX_DRAIN_S)

    def _words(self, command: str | Sequence[str]) -> list[str]:
        if isinstance(command, str):
            command = [self._shell(), "-c", f"{self._prefix}\n{command}" if self._prefix else command]
        return [_as_argument(word) for word in command]

    def _shell(self) -> str:
        if self._shell_path is None:
            if os.path.exists("/bin/bash"):
                return "/bin/bash"
            import shutil

            return shutil.which("bash") or "sh"
        if not os.path.exists(self._shell_path):
            raise ToolError(f"Custom shell path not found: {self._shell_path}")
        if self._trusted_shell is not None and not self._trusted_shell.is_unchanged():
            raise ToolError(f"The shell {self._shell_path} changed since the project was trusted. Nothing runs in it.")
        return self._shell_path

    def _start(self, words: list[str], cwd: str | OpenFolder, separate_streams: bool) -> tuple[Job, dict[Stream, int]]:
        """Start a command; return its job and our ends of its output pipes."""
        env = {**(os.environ if self._env is None else self._env), **AGENT_VARIABLES}
        if self.sandbox is not None:
            env |= self.sandbox.environment
        pipes = _pipes(2 if separate_streams else 1)
        try:
            folder = self._folder(cwd)
        except ToolError:
            for end in {end for ends in pipes for end in ends}:
                os.close(end)
            raise
        name = os.path.abspath(cwd) if isinstance(cwd, str) else cwd.path
        try:
            job = Job(CommandSpec(words, name, env, pipes[0][1], pipes[-1][1], folder), self._processes)
        except ToolError:
            for read_end, _ in pipes:
                os.close(read_end)
            raise
        streams: tuple[Stream, ...] = ("stdout", "stderr")
        return job, {stream: read_end for stream, (read_end, _) in zip(streams, pipes, strict=False)}

    def _folder(self, cwd: str | OpenFolder) -> int | None:
        """Return a new descriptor of the folder to run in; None if the command is started by path."""
        try:
            if isinstance(cwd, OpenFolder):
                return None if cwd.descriptor is None else os.dup(cwd.descriptor)
            # The sandbox has folders that we cannot see, and must not receive one that it cannot see.
            if self.sandbox is not None:
                return None
            if not os.path.isdir(cwd):
                raise ToolError(f"Working directory does not exist: {cwd}\nCannot execute bash commands.")
            return os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if hasattr(os, "O_PATH") else None
        except OSError as error:  # too many open files, or the folder was removed meanwhile
            raise ToolError(f"Cannot run the command: {error.strerror}") from None

    def _remember(self, job: Job) -> None:
        for jobs in self._jobs:
            jobs.intersection_update({known for known in jobs if known.is_alive()})
            jobs.add(job)


class LocalSpill:
    """A file for the output of one command, readable only by its owner. A full disk raises no error."""

    def __init__(self, limit: int, folder: str | None = None) -> None:
        """`folder` replaces the default temp folder."""
        import tempfile

        self.path = os.path.join(folder or tempfile.gettempdir(), f"pi-bash-{os.urandom(8).hex()}.log")
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._limit = limit
        self._room = limit
        self._open = True
        self.problem = ""

    def write(self, data: bytes) -> None:
        if not self._open:
            return
        try:
            self._put(data[: self._room])
            if len(data) > self._room:
                self._put(f"\n[Only the first {format_size(self._limit)} of the output are kept]\n".encode())
                self.close()
        except OSError as error:  # keep what was written; the command continues
            self.problem = error.strerror or str(error)
            self.close()
        self._room -= len(data)

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._file)

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]


class _PipeReader:
    """Our end of an output pipe. Passes every chunk on at once and buffers nothing, however fast output comes."""

    def __init__(self, end: int, stream: Stream, on_output: OutputCallback, broken: asyncio.Future[Exception]) -> None:
        self._end = end
        self._stream = stream
        self._on_output = on_output
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self.chunks = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(end, False)
        self._loop.add_reader(end, self.take)

    def take(self) -> bool:
        """Read one chunk; return False if there is none."""
        try:
            data = os.read(self._end, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.chunks += 1
        try:
            self._on_output(self._stream, data)
        except Exception as error:  # propagates to the caller of run, which supplied `on_output`
            self.close()
            if not self._broken.done():
                self._broken.set_result(error)
            return False
        return True

    def take_all(self) -> None:
        """Read what is in the pipe now; no more than a pipe can hold, since a process may still be writing."""
        for _ in range(16):
            if self.closed.done() or not self.take():
                return

    def close(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
            self._loop.remove_reader(self._end)
            os.close(self._end)


async def _read_the_rest(readers: Sequence[_PipeReader]) -> None:
    """After the shell exits, read until the pipes are closed, silent for SILENCE_S, or MAX_DRAIN_S have passed."""
    loop = asyncio.get_running_loop()
    until = loop.time() + MAX_DRAIN_S
    while loop.time() < until:
        before = sum(reader.chunks for reader in readers)
        _, still_open = await asyncio.wait([reader.closed for reader in readers], timeout=SILENCE_S)
        if not still_open or sum(reader.chunks for reader in readers) == before:
            return


def _pipes(count: int) -> list[tuple[int, int]]:
    pipes: list[tuple[int, int]] = []
    try:
        while len(pipes) < count:
            pipes.append(os.pipe())
    except OSError as error:  # too many open files
        for ends in pipes:
            os.close(ends[0])
            os.close(ends[1])
        raise ToolError(f"Cannot run the command: {error.strerror}") from None
    return pipes


def _ending(code: int | ToolError, timed_out: bool) -> Exit:
    if isinstance(code, ToolError):
        raise code
    if code >= 0:
        return Exit(code, timed_out=timed_out)
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal has no name
        name = str(-code)
    return Exit(None, name, timed_out)


def _as_argument(command: str) -> str:
    if "\0" in command:
        raise ToolError("A command cannot contain a NUL character; write it as \\0 or use a file")
    try:
        os.fsencode(command)
    except UnicodeEncodeError:
        raise ToolError("A command cannot contain half of a surrogate pair") from None
    return command
