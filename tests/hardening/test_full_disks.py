"""A disk that is full, without inodes or read-only: real file systems of a few pages, mounted for one program."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.rpc_process import Agent, Json, of, texts
from tau.store.sessions import open_session

UNSHARE = shutil.which("unshare")
NO_SPACE = "No space left on device"
LONG = "x" * 9000  # more than is left in any page
WORDS = "word " * 40_000

# Mounts a small file system for the program that follows, with folders for it.
MOUNT = """
    set -e
    mount -t tmpfs -o "$1" tmpfs "$2"
    mkdir "$2/agent" "$2/work" "$2/tmp"
    cd "$2/work"
    printf 'old text\\n' >old.txt
    test -z "$3" || mount -o "$3" "$2"
    shift 3
    exec "$@"
    """


def _can_mount() -> bool:
    if UNSHARE is None or sys.platform != "linux":
        return False
    command = [UNSHARE, "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not _can_mount(), reason="needs user namespaces, to mount a small file system")


class SmallDisk:
    """An agent whose files are all on a small file system of its own."""

    def __init__(self, agent: Agent, place: Path) -> None:
        self.agent = agent
        self.root = Path(f"/proc/{agent.pid}/root{place}")

    def fill(self) -> None:
        """Write until nothing more fits."""
        handle = os.open(self.root / "fill", os.O_WRONLY | os.O_CREAT, 0o600)
        with suppress(OSError):
            while True:
                os.write(handle, b"\0" * 4096)
        os.close(handle)

    def fill_inodes(self) -> None:
        """Make files until there can be no more."""
        with suppress(OSError):
            for number in range(100_000):
                (self.root / "tmp" / f"fill{number}").touch()

    def free(self) -> None:
        for file in [self.root / "fill", *(self.root / "tmp").glob("fill*")]:
            file.unlink(missing_ok=True)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())


@contextmanager
def small_disk(
    folder: Path, *answers: Json, options: str = "size=512k", then: str = "", args: tuple[str, ...] = ()
) -> Iterator[SmallDisk]:
    place, script = folder / "disk", folder / "mount.sh"
    place.mkdir()
    script.write_text(textwrap.dedent(MOUNT))
    mount = [str(UNSHARE), "-rm", "sh", str(script), options, str(place), then]
    env = {"PI_CODING_AGENT_DIR": str(place / "agent"), "TMPDIR": str(place / "tmp")}
    program = [*mount, sys.executable, "-m", "tau", "--mode", "rpc"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAU_RPC", shlex.join(program))
        with Agent(folder, *answers, args=args, env=env) as agent:
            agent.get("get_state")
            yield SmallDisk(agent, place)


def call(tool: str, **arguments: Any) -> Json:
    return {"blocks": [{"tool": tool, "arguments": arguments, "id": tool}]}


def result(events: list[Json]) -> str:
    (ended,) = of("tool_execution_end", events)
    text: str = ended["result"]["content"][0]["text"]
    return text


ANSWERS = [{"text": "ok"}, {"text": "after"}, {"text": "after that"}]
REFUSED: dict[str, Json] = {
    "prompt": {"message": LONG},
    "clone": {},
    "export_html": {"outputPath": "page.html"},
}
PRINT = call("bash", command="yes | head -c 200000")


def test_on_a_full_disk_everything_that_cannot_be_stored_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    with small_disk(tmp_path, *ANSWERS) as disk:
        agent = disk.agent
        agent.prompt("before")
        before, kept = disk.files(), agent.get("get_messages")
        session = Path(agent.get("get_state")["sessionFile"])
        disk.fill()
        for kind, fields in REFUSED.items():
            refused = agent.ask(kind, **fields)
            assert not refused["success"] and NO_SPACE.lower() in refused["error"].lower(), (kind, refused)
        assert agent.get("get_messages") == kept and of("session_write_failed", agent.events) == []
        # What waits for the next prompt is queued, and that it is not on disk is told.
        agent.get("follow_up", message=LONG)
        (failed,) = of("session_write_failed", agent.events)
        assert failed["error"] == NO_SPACE and agent.get("get_state")["pendingMessageCount"] == 1
        # A command runs; only its output cannot be kept as a whole.
        shown = agent.get("bash", command="yes | head -c 200000")
        assert shown["exitCode"] == 0 and shown["truncated"]
        # What is chosen is used, though it cannot be remembered.
        chosen = agent.ask("set_auto_compaction", enabled=False)
        assert chosen["success"] or NO_SPACE in chosen["error"]
        assert agent.ask("abort")["success"]
        left = [name for name in disk.files() if name not in before and name != "fill"]
        assert all(name.startswith("tmp/pi-bash-") for name in left), left
        disk.free()
        agent.until("session_write_recovered")
        assert texts(agent.prompt("more"), "assistant") == ["after", "after that"]
        for line in (disk.root / session.relative_to(tmp_path / "disk")).read_bytes().splitlines():
            json.loads(line)
        copy = tmp_path / "copy.jsonl"
        shutil.copyfile(disk.root / session.relative_to(tmp_path / "disk"), copy)
    opened = open_session(copy)
    assert opened.problems == []
    entries = map(json.loads, copy.read_text().splitlines())
    roles = [entry["message"]["role"] for entry in entries if entry["type"] == "message"]
    assert roles == ["user", "assistant", "bashExecution", "user", "assistant", "user", "assistant"]


TOOLS = {
    "write a new file": (call("write", path="new.txt", content=LONG), "ENOSPC: no space left on device, write"),
    "replace a file": (call("write", path="old.txt", content=LONG), "ENOSPC: no space left on device, write"),
    "edit a file": (
        call("edit", path="old.txt", edits=[{"oldText": "old", "newText": LONG}]),
        "ENOSPC: no space left on device, write",
    ),
    "print a lot": (PRINT, f"Only a part of the output could be saved ({NO_SPACE}): "),
}


def test_tools_on_a_full_disk_say_so_and_leave_the_old_files(tmp_path: Path) -> None:
    answers = [part for tool in (PRINT, *(tool for tool, _ in TOOLS.values())) for part in (tool, {"text": "done"})]
    with small_disk(tmp_path, *answers, args=("--no-session",)) as disk:
        assert "Full output: " in result(disk.agent.prompt("go"))  # it has chosen a folder for that
        disk.fill()
        for name, (_, text) in TOOLS.items():
            events = disk.agent.prompt("go")
            assert text in result(events), name
            assert texts(events, "assistant")[-1] == "done"
        assert (disk.root / "work" / "old.txt").read_text() == "old text\n"
        assert os.listdir(disk.root / "work") == ["old.txt"]


def test_without_inodes_the_same_holds(tmp_path: Path) -> None:
    done = {"text": "done"}
    answers = [PRINT, done, call("write", path="new.txt", content="x"), done, PRINT, done, {"text": "after"}]
    with small_disk(tmp_path, *answers, options="size=2m,nr_inodes=60", args=("--no-session",)) as disk:
        assert "Full output: " in result(disk.agent.prompt("go"))
        disk.fill_inodes()
        assert "ENOSPC: no space left on device" in result(disk.agent.prompt("go"))
        assert f"The full output could not be saved: {NO_SPACE}" in result(disk.agent.prompt("go"))
        disk.free()
        assert texts(disk.agent.prompt("go"), "assistant") == ["after"]


def test_a_new_session_without_inodes_is_refused_and_begins_when_there_are_some(tmp_path: Path) -> None:
    with small_disk(tmp_path, {"text": "ok"}, options="size=2m,nr_inodes=60") as disk:
        disk.fill_inodes()
        refused = disk.agent.ask("prompt", message="go")
        assert not refused["success"] and NO_SPACE in refused["error"]
        disk.free()
        assert texts(disk.agent.prompt("go"), "assistant") == ["ok"]
        assert len([name for name in disk.files() if name.endswith(".jsonl")]) == 1


def test_on_a_read_only_disk_the_program_starts_and_says_what_it_cannot_do(tmp_path: Path) -> None:
    answers = [call("write", path="old.txt", content="x"), {"text": "done"}]
    with small_disk(tmp_path, *answers, then="remount,ro") as disk:
        agent = disk.agent
        refused = agent.ask("prompt", message="go")
        assert not refused["success"] and "Read-only file system" in refused["error"]
        for kind, fields in (("export_html", {"outputPath": "page.html"}), ("set_session_name", {"name": "x"})):
            answer = agent.ask(kind, **fields)
            assert answer["success"] or "Read-only file system" in answer["error"] or "Nothing" in answer["error"], (
                answer
            )
        assert agent.get("bash", command="echo hi")["output"] == "hi\n"


# Small files that are replaced: the old one stays, and no draft.

STORES = """
    import json, os, resource, signal, sys
    from pathlib import Path

    from tau.store.auth import AuthFile
    from tau.store.files import replace_file
    from tau.store.settings import SettingsFile

    folder = Path(sys.argv[1])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    KEY = {"type": "api_key", "key": "k" * 500}

    def settings():
        file = SettingsFile(folder / "settings.json")
        file.read()
        file.change({"defaultModel": "m" * 500})

    def packages():
        SettingsFile(folder / "settings.json").change_list("packages", lambda before: [*before, "npm:" + "x" * 500])

    WRITES = {
        "auth": lambda: AuthFile(folder / "auth.json").change("new", KEY),
        "logout": lambda: AuthFile(folder / "many.json").change("one", None),
        "settings": settings,
        "packages": packages,
        "any": lambda: replace_file(folder / "any", b"x" * 5000),
        "new": lambda: replace_file(folder / "new", b"x" * 5000),
        "link": lambda: replace_file(folder / "link", b"x" * 5000),
    }
    for name in ("auth", "settings"):
        (folder / f"{name}.json").write_text("{}")
    (folder / "many.json").write_text(json.dumps({name: KEY for name in ("one", "two")}))
    (folder / "any").write_text("old")
    (folder / "target").write_text("old")
    (folder / "link").symlink_to("target")
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, -1))
    for name, write in WRITES.items():
        try:
            write()
            said = "nothing"
        except OSError as error:
            said = error.strerror
        after = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
        print(name, said, "kept" if after == before else sorted(after))
    """


def test_a_small_file_that_cannot_be_replaced_stays_and_no_draft_is_left(tmp_path: Path) -> None:
    code = textwrap.dedent(STORES)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    reason = os.strerror(errno.EFBIG)
    names = ("auth", "logout", "settings", "packages", "any", "new", "link")
    assert (done.stdout.splitlines(), done.stderr) == ([f"{name} {reason} kept" for name in names], "")


# What is kept beside the conversation: a recording, and the whole result of an MCP tool.

BESIDE = """
    import asyncio, logging, os, resource, signal, sys
    from pathlib import Path

    from tau.llm.types import ModelRequest
    from tau.runtime.machine.local import LocalMachine
    from tau.runtime.mcp.outcomes import _write
    from tau.runtime.models.record_replay import Recorder

    folder = Path(sys.argv[1])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    logging.basicConfig(format="%(message)s", stream=sys.stdout)

    class Server:
        async def post(self, request):
            yield b"data: hello"

    async def record():
        recorder = Recorder(Server(), folder / "recorded", {})
        return [chunk async for chunk in recorder.post(ModelRequest("http://127.0.0.1/v1", {}, {"text": "x" * 500}))]

    resource.setrlimit(resource.RLIMIT_FSIZE, (100, -1))
    print(asyncio.run(record()), os.listdir(folder / "recorded"))
    print(_write(LocalMachine(), b"x" * 500))
    """


def test_what_is_kept_beside_the_conversation_is_not_half_kept(tmp_path: Path) -> None:
    words = [sys.executable, "-c", textwrap.dedent(BESIDE), str(tmp_path)]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)
    reason = os.strerror(errno.EFBIG)
    failed, recorded, saved = done.stdout.splitlines()
    assert failed.startswith("an exchange could not be recorded: ") and failed.endswith(f": {reason}")
    assert recorded == "[b'data: hello'] []"
    assert saved == repr(("", reason))
    assert done.stderr == ""
