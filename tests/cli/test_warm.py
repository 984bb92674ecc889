"""Warm start: a job in a warm worker cannot be told from a cold start, and whatever is not right leads to one."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import tau
from support.rpc_process import WITHIN, surroundings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm starts need Linux")

PROGRAM = [sys.executable, "-c", "from tau.cli.entry import {0}; {0}()"]
GET_STATE = b'{"id":"q","type":"get_state"}\n'
VARYING = re.compile(
    rb'[0-9a-f]{8}-[0-9a-f-]{27}|"(?:timestamp|durationMs|duration)":[^,}]+|[0-9a-f]{8}(?=")|\d{4}-\d\d-\d\dT[\d:.]+Z'
)


class Place:
    """Folders of one test, and the environment of its starts. Warm ones need `with place.server():`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warm = folder / "warm"
        self.work = folder / "work"
        script = folder / "script.json"
        self.env = {**surroundings(folder), "TAU_WARM_DIR": str(self.warm), "PI_OFFLINE": "1"}
        script.write_text(json.dumps({"answers": [{"text": "hello"}] * 50}))
        self.scripted = ("--model", "scripted", "--script", str(script), "--no-session")
        self.program = PROGRAM

    def argv(self, *args: str, program: str = "pi") -> list[str]:
        return [*(word.format(program) for word in self.program), *args]

    def warm_command(self, action: str) -> subprocess.CompletedProcess[str]:
        argv = self.argv("warm", action, program="tau")
        return subprocess.run(argv, cwd=self.work, env=self.env, capture_output=True, text=True, timeout=WITHIN)

    @property
    def server(self) -> int:
        return int((self.warm / "lock").read_text())

    def jobs(self) -> list[int]:
        """The workers that have a job: all but the youngest child."""
        return children(self.server)[:-1]

    def start(self, *args: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        argv = self.argv(*args)
        return subprocess.Popen(argv, cwd=self.work, env={**self.env, **(env or {})}, **{**pipes, **options})

    def rpc(self, *args: str, **options: Any) -> Rpc:
        return Rpc(self.start("--mode", "rpc", *self.scripted, *args, **options))


class Rpc:
    """A running RPC mode that has answered once, so that its signal handlers are set."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert self.ask(GET_STATE)["success"]

    def ask(self, line: bytes) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()
        for reply in self.process.stdout:
            if b'"response"' in reply:
                return json.loads(reply)
        assert self.process.stderr is not None
        raise AssertionError(self.process.stderr.read())

    def bash(self, command: str) -> str:
        found = self.ask(json.dumps({"type": "bash", "command": command}).encode() + b"\n")
        return str(found["data"]["output"])

    def wait(self) -> int:
        """Wait for its end, without closing its stdin before."""
        self.process.wait(WITHIN)
        return self.end()

    def end(self) -> int:
        self.process.communicate(timeout=WITHIN)
        return self.process.returncode


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_end(pid: int) -> None:
    """Of a process that is not a child of this one."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process], [], [], WITHIN)
    os.close(process)
    assert ended, f"{pid} does not end: {Path(f'/proc/{pid}/status').read_text()}"


def wait_for_state(pid: int, state: str) -> None:
    """A signal takes effect on another processor a moment later."""
    until = time.monotonic() + WITHIN
    while f"State:\t{state}" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < until
        os.sched_yield()


@pytest.fixture
def place() -> Iterator[Place]:
    """In a short path: that of a socket is limited to 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="tau-") as folder:
        yield Place(Path(folder))


@pytest.fixture
def warm(place: Place) -> Iterator[Place]:
    done = place.warm_command("start")
    assert done.returncode == 0, done.stderr
    server = place.server
    yield place
    place.warm_command("stop")
    wait_for_end(server)


def run(place: Place, env: Mapping[str, str], *args: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    argv = place.argv(*args)
    done = subprocess.run(argv, cwd=place.work, env=env, input=stdin, capture_output=True, timeout=WITHIN)
    return done.returncode, VARYING.sub(b"#", done.stdout), VARYING.sub(b"#", done.stderr)


RUNS: dict[str, tuple[Sequence[str], bytes]] = {
    "help": (("--help",), b""),
    "version": (("--version",), b""),
    "a wrong flag": (("--zork", "-p", "hi"), b""),
    "a wrong mode": (("--mode", "zork"), b""),
    "a missing file": (("-p", "@nowhere", "hi"), b""),
    "no prompt": (("-p",), b""),
    "print mode": (("SCRIPTED", "-p", "hi"), b""),
    "print mode with a pipe": (("SCRIPTED", "-p", "hi"), b"from a pipe"),
    "print mode, a failing model": (("--model", "scripted", "--script", "nowhere.json", "-p", "hi"), b""),
    "json mode": (("SCRIPTED", "--mode", "json", "hi"), b""),
    "RPC mode": (("SCRIPTED", "--mode", "rpc"), GET_STATE + b'{"id":"p","type":"prompt","message":"hi"}\nnonsense\n'),
    "RPC mode without input": (("SCRIPTED", "--mode", "rpc"), b""),
}


@pytest.mark.parametrize("name", RUNS)
def test_output_and_exit_code_are_those_of_a_cold_start(warm: Place, name: str) -> None:
    args, stdin = RUNS[name]
    words = [word for given in args for word in (warm.scripted if given == "SCRIPTED" else (given,))]
    cold = run(warm, {**warm.env, "TAU_WARM_DIR": ""}, *words, stdin=stdin)
    assert run(warm, warm.env, *words, stdin=stdin) == cold


def test_a_start_is_warm_while_the_server_runs(warm: Place) -> None:
    agent = warm.rpc()
    assert len(warm.jobs()) == 1
    assert "1 job" in warm.warm_command("status").stdout
    assert agent.end() == 0


ASKED = (
    "pwd; umask; env | grep -v '^_=\\|^SHLVL\\|^PPID' | sort; ulimit -a; nice; ls /proc/$$/fd;"
    " grep -E '^(Sig(Blk|Ign)|NoNew|Groups|Cpus_allowed|Seccomp)' /proc/self/status; cat /proc/self/cgroup"
)


def test_commands_of_a_warm_job_have_the_surroundings_of_the_launcher(warm: Place) -> None:
    """Nothing of the server's, which has another folder, environment and umask."""
    env = {"ONLY_HERE": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}
    found = {}
    socket_file, hidden = warm.warm / "socket", warm.warm / "hidden"
    for name, jobs in (("warm", 1), ("cold", 0)):
        if name == "cold":
            socket_file.rename(hidden)
        agent = warm.rpc(env=env, umask=0o027)
        assert len(warm.jobs()) == jobs
        found[name] = agent.bash(ASKED)
        assert agent.end() == 0
    hidden.rename(socket_file)
    assert "ONLY_HERE=1" in found["warm"] and "0027" in found["warm"]
    assert found["warm"] == found["cold"]


def test_an_inherited_descriptor_keeps_its_number(warm: Place) -> None:
    reader, writer = os.pipe()
    agent = warm.rpc(pass_fds=(writer,))
    (job,) = warm.jobs()
    assert os.readlink(f"/proc/{job}/fd/{writer}") == os.readlink(f"/proc/self/fd/{writer}")
    os.close(writer)
    assert agent.end() == 0
    assert os.read(reader, 1) == b""  # neither the launcher nor the worker holds it any more
    os.close(reader)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_to_the_launcher_stops_the_job(warm: Place, name: str, code: int) -> None:
    agent = warm.rpc()
    (job,) = warm.jobs()
    agent.process.send_signal(getattr(signal, name))
    assert agent.wait() == code
    wait_for_end(job)


def test_a_signal_that_was_ignored_at_the_start_stays_ignored(warm: Place) -> None:
    agent = warm.rpc(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert warm.jobs()
    agent.process.send_signal(signal.SIGHUP)
    assert agent.ask(GET_STATE)["success"]
    assert agent.end() == 0


def test_a_job_stops_and_continues_with_its_launcher(warm: Place) -> None:
    agent = warm.rpc()
    (job,) = warm.jobs()
    agent.process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(agent.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    wait_for_state(job, "T")
    agent.process.send_signal(signal.SIGCONT)
    assert agent.ask(GET_STATE)["success"]
    assert agent.end() == 0


def test_killing_the_launcher_ends_the_job(warm: Place) -> None:
    agent = warm.rpc()
    (job,) = warm.jobs()
    agent.process.kill()
    wait_for_end(job)  # although its stdin is still open
    agent.process.communicate(timeout=WITHIN)


def test_killing_the_worker_kills_the_launcher(warm: Place) -> None:
    agent = warm.rpc()
    (job,) = warm.jobs()
    os.kill(job, signal.SIGKILL)
    assert agent.wait() == -signal.SIGKILL
    assert warm.rpc().end() == 0


def test_killing_the_server_leaves_the_job_its_exit_code_and_no_idle_worker(place: Place) -> None:
    assert place.warm_command("start").returncode == 0
    server = place.server
    agent = place.rpc()
    idle = children(server)[-1]
    os.kill(server, signal.SIGKILL)
    wait_for_end(server)
    wait_for_end(idle)
    assert agent.ask(GET_STATE)["success"]
    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait() in (143, -signal.SIGTERM)  # a shell sees 143 for both


def test_a_stale_socket_leads_to_a_cold_start(place: Place) -> None:
    assert place.warm_command("start").returncode == 0
    server = place.server
    os.kill(server, signal.SIGKILL)
    wait_for_end(server)
    assert (place.warm / "socket").exists()
    assert place.rpc().end() == 0
    assert "not running" in place.warm_command("status").stdout
    assert place.warm_command("start").returncode == 0
    agent = place.rpc()
    assert len(place.jobs()) == 1
    agent.end()
    server = place.server
    assert place.warm_command("stop").stdout == "stopped\n"
    wait_for_end(server)


def test_a_silent_server_leads_to_a_cold_start(place: Place) -> None:
    place.warm.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.warm / "socket"))
        listener.listen()
        assert run(place, place.env, "--version")[0] == 0


def test_twenty_starts_at_once(warm: Place) -> None:
    processes = [warm.start(*warm.scripted, "-p", "hi") for _ in range(20)]
    found = [process.communicate(timeout=WITHIN) for process in processes]
    assert [(process.returncode, *out) for process, out in zip(processes, found, strict=True)] == [
        (0, b"hello\n", b"")
    ] * 20


def test_stop_leaves_no_process(place: Place) -> None:
    assert place.warm_command("start").returncode == 0
    server = place.server
    assert place.rpc().end() == 0
    idle = children(server)
    assert place.warm_command("stop").stdout == "stopped\n"
    for pid in (server, *idle):
        wait_for_end(pid)
    assert not (place.warm / "socket").exists()
    assert place.warm_command("stop").stdout == "not running\n"


def test_stop_lets_a_running_job_finish(place: Place) -> None:
    assert place.warm_command("start").returncode == 0
    server = place.server
    agent = place.rpc()
    assert "1 running job" in place.warm_command("stop").stdout
    assert agent.ask(GET_STATE)["success"]
    assert place.rpc().end() == 0  # cold
    assert agent.end() == 0
    wait_for_end(server)


def test_a_second_start_finds_the_first(warm: Place) -> None:
    server = warm.server
    done = warm.warm_command("start")
    assert (done.returncode, done.stdout) == (0, f"already running (process {server})\n")


def lower_limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))


UNSUITABLE: dict[str, dict[str, Any]] = {
    "other limits": {"preexec_fn": lower_limit},
    "another nice value": {"preexec_fn": lambda: os.nice(3)},
    "a variable that Python reads": {"env": {"PYTHONWARNINGS": "ignore"}},
    "a variable that the loader reads": {"env": {"LD_BIND_NOW": "1"}},
    "a closed stream": {"preexec_fn": lambda: os.close(2)},
    "warm starts turned off": {"env": {"TAU_WARM_DIR": ""}},
}


@pytest.mark.parametrize("name", UNSUITABLE)
def test_a_process_that_a_worker_cannot_stand_for_starts_cold(warm: Place, name: str) -> None:
    agent = warm.rpc(**UNSUITABLE[name])
    assert warm.jobs() == []
    assert agent.end() == 0


def test_a_process_that_cannot_gain_privileges_starts_cold(warm: Place) -> None:
    """As in a sandbox: the server is outside it."""
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    warm.program = ["setpriv", "--no-new-privs", *PROGRAM]
    agent = warm.rpc()
    assert warm.jobs() == []
    assert agent.end() == 0


def test_a_key_on_the_command_line_starts_cold(warm: Place) -> None:
    """The program hides it from `ps`, which it could not do for the launcher."""
    agent = warm.rpc("--api-key", "secret")
    assert warm.jobs() == []
    assert agent.end() == 0


def test_filtered_secrets_start_cold(warm: Place) -> None:
    """A command could read them from the environment of the launcher, which cannot hide it."""
    settings = warm.folder / "agent" / "settings.json"
    settings.write_text(json.dumps({"childEnvironment": {"filterSecrets": True}}))
    agent = warm.rpc()
    assert warm.jobs() == []
    assert agent.end() == 0


def test_a_terminal_starts_cold(warm: Place) -> None:
    ours, theirs = pty.openpty()
    process = warm.start("--mode", "rpc", *warm.scripted, stdin=theirs)
    os.write(ours, GET_STATE)
    assert process.stdout is not None and b"response" in process.stdout.readline()
    assert warm.jobs() == []
    process.terminate()
    process.communicate(timeout=WITHIN)
    os.close(ours)
    os.close(theirs)


def test_a_changed_installation_starts_cold_and_ends_the_server(place: Place) -> None:
    package = shutil.copytree(Path(tau.__file__).parent, place.folder / "lib" / "tau")
    place.env["PYTHONPATH"] = str(place.folder / "lib")
    assert place.warm_command("start").returncode == 0
    server = place.server
    agent = place.rpc()
    assert len(place.jobs()) == 1
    agent.end()
    file = package / "__init__.py"
    file.write_text(file.read_text().replace('__version__ = "', '__version__ = "9.'))
    code, out, _ = run(place, place.env, "--version")
    assert (code, out) == (0, b"0.87.1\n")
    wait_for_end(server)
    assert "not running" in place.warm_command("status").stdout


def test_another_user_is_refused(place: Place) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be another user")
    assert place.warm_command("start").returncode == 0
    server = place.server
    place.folder.chmod(0o755)
    place.warm.chmod(0o711)  # else it could not even connect
    (place.warm / "socket").chmod(0o666)
    code = f"""\
import os, socket
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({str(place.warm / "socket")!r})
    print(connection.recv(5)[:1] != b"r")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WITHIN)
    assert done.stdout == "True\n", done.stderr
    place.warm.chmod(0o700)
    place.warm_command("stop")
    wait_for_end(server)


def test_only_the_user_can_reach_the_server(warm: Place) -> None:
    assert warm.warm.stat().st_mode & 0o777 == 0o700
    assert (warm.warm / "socket").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_others_can_enter_is_refused(place: Place) -> None:
    place.warm.mkdir(mode=0o755)
    done = place.warm_command("start")
    assert done.returncode == 1 and "accessible to you alone" in done.stderr
    with socket.socket(socket.AF_UNIX) as listener:  # of an attacker: the launcher does not connect
        listener.bind(str(place.warm / "socket"))
        listener.listen()
        assert run(place, place.env, "--version")[0] == 0
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_folder_behind_a_link_is_not_used(place: Place) -> None:
    private = place.folder / "private"
    private.mkdir(mode=0o700)
    place.warm.symlink_to(private)  # who can make the link can change it
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(private / "socket"))
        listener.listen()
        assert run(place, place.env, "--version")[0] == 0
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_server_of_another_user_is_told_nothing(place: Place) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be another user")
    place.warm.mkdir(mode=0o700)
    code = f"""\
import os, socket
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind({str(place.warm / "socket")!r})
    os.setuid(65534)
    listener.listen()
    print("listens", flush=True)
    print(listener.accept()[0].recv(100))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "listens\n"
        assert run(place, place.env, "--version")[0] == 0
        assert other.stdout.readline() == "b''\n"


def test_a_wrong_action_is_refused(place: Place) -> None:
    done = place.warm_command("now")
    assert (done.returncode, done.stderr) == (2, "Error: usage: tau warm start|status|stop\n")
