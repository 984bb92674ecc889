"""What models, files and commands can do wrong with tools, with the whole program: rows F and H of the catalogue."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import time
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faults.processes import children
from support.in_process_session import inside
from support.rpc_agent import Agent
from support.rpc_process import WITHIN, Json, Pipe, calls, is_gone, of, quick, said, text
from support.search_kit import found
from tau.tools import find, grep
from tau.tools.ripgrep import find_ripgrep

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class Result(NamedTuple):
    text: str
    is_error: bool


def call(tool: str, **arguments: Any) -> Json:
    return {"tool": tool, "arguments": arguments, "id": f"{tool}-{os.urandom(4).hex()}"}


def use(tmp_path: Path, *steps: Json, **how: Any) -> list[Result]:
    """The results of these calls, one after another in one run, after which the agent must answer as ever."""
    with Agent(tmp_path, {"blocks": list(steps)}, {"text": "ok"}, {"text": "alive"}, **how) as agent:
        results = said(agent.prompt("go"), "toolResult")
        assert text(said(agent.prompt("still there?"), "assistant")[0]) == "alive"
    return [Result(text(result), result["isError"]) for result in results]


def bash(*commands: str) -> list[Json]:
    return [call("bash", command=command) for command in commands]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


# Commands.


@pytest.mark.promise("F01")
def test_a_child_that_keeps_the_pipe_does_not_hold_up_the_result_and_ends_with_the_agent(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("sleep 600 & echo $!"), {"text": "ok"}) as agent:
        began = time.monotonic()
        child = int(text(said(agent.prompt("go"), "toolResult")[0]))
        assert time.monotonic() - began < 10
        os.kill(child, 0)
    assert is_gone(child, within=WITHIN)


@pytest.mark.promise("F02")
def test_output_that_is_no_text_is_valid_json_and_nothing_of_it_acts_on_who_shows_it(tmp_path: Path) -> None:
    with Agent(
        tmp_path, calls("head -c 20000 /dev/urandom; printf '\\0\\33]0;title\\7\\33[31m\\233'"), {"text": "ok"}
    ) as agent:
        agent.prompt("go")
        agent.get("bash", command="printf 'a\\0\\33[31mb\\302\\233c'")
        page = agent.cwd / agent.get("export_html")["path"]
        assert of("response", agent.records)[-2]["data"]["output"] == "ab"
    (session,) = (tmp_path / "agent" / "sessions").rglob("*.jsonl")
    for file in (page, session):
        data = file.read_bytes()
        data.decode()
        assert set(data) & {*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20)} == set()


@pytest.mark.promise("F04")
def test_a_command_that_reads_finds_nothing_to_read(tmp_path: Path) -> None:
    assert use(tmp_path, *bash("cat; echo end")) == [Result("end\n", False)]


@pytest.mark.promise("F05")
def test_a_command_that_deletes_its_folder_is_told_so_by_the_next(tmp_path: Path) -> None:
    first, second, third = use(tmp_path, *bash('rmdir "$PWD"', "echo hi"), call("write", path="new.txt", content="x"))
    assert first == Result("(no output)", False)
    assert second.is_error and "Working directory does not exist" in second.text
    assert not third.is_error  # which makes it anew


@pytest.mark.promise("F06")
def test_a_command_that_ignores_being_asked_to_end_is_killed_in_time(tmp_path: Path) -> None:
    def once() -> float:
        began = time.monotonic()
        folder = tmp_path / os.urandom(4).hex()
        stubborn = call("bash", command="trap '' TERM INT HUP; echo on; while :; do sleep 1; done", timeout=3)
        assert use(folder, stubborn) == [Result("on\n\n\nCommand timed out after 3 seconds", True)]
        return time.monotonic() - began

    quick(once, 3 + 2 + 2)  # with the start of the program


@pytest.mark.promise("F16", "F17")
def test_commands_that_no_system_can_run_are_refused_in_words(tmp_path: Path) -> None:
    long, nul = use(tmp_path, *bash(f"true {'x' * 3_000_000}", "echo a\0b"))
    assert long == Result("The command is too long for the system; write it to a file and run that", True)
    assert nul.is_error and "NUL" in nul.text


@LINUX
@pytest.mark.promise("F19")
def test_ten_commands_leave_no_zombie_and_no_descriptor(tmp_path: Path) -> None:
    ten = [calls("(true &) & true") for _ in range(10)]
    with Agent(tmp_path, calls("true"), {"text": "ok"}, *ten, {"text": "ok"}) as agent:
        agent.prompt("warm")
        before = len(os.listdir(f"/proc/{agent.pid}/fd"))
        agent.prompt("go")
        until = time.monotonic() + WITHIN  # a file may just be synced
        while len(os.listdir(f"/proc/{agent.pid}/fd")) > before and time.monotonic() < until:
            agent.get("get_state")
        assert len(os.listdir(f"/proc/{agent.pid}/fd")) <= before
        while "Z" in (states := _states(agent.pid)) and time.monotonic() < until:
            agent.get("get_state")
        assert states and "Z" not in states


def _states(pid: int) -> list[str]:
    """Of its children."""
    found = []
    for child in children(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0])
    return found


@LINUX
@pytest.mark.promise("F25")
def test_a_command_has_its_three_descriptors_and_no_other_of_ours(tmp_path: Path) -> None:
    """Neither the session's file, nor what the client reads from, nor an open connection."""
    extra, other = os.pipe()
    os.set_inheritable(other, True)
    listing = "exec ls -l /proc/self/fd"
    try:
        with Agent(tmp_path, calls(listing), {"text": "ok"}) as agent:
            shown = [text(said(agent.prompt("go"), "toolResult")[0]), agent.get("bash", command=listing)["output"]]
    finally:
        os.close(extra)
        os.close(other)
    for one in shown:
        names = [line.split()[-3] for line in one.splitlines() if " -> " in line]
        assert names == ["0", "1", "2", "3"] and " 3 -> /proc/" in one  # the last is what ls looks with
        assert ".jsonl" not in one and "socket:" not in one


@LINUX
@pytest.mark.promise("F28")
def test_a_command_that_multiplies_without_end_is_ended_and_the_agent_lives(tmp_path: Path) -> None:
    # With an end of its own, at four thousand, in case nobody ends it.
    bomb = "f() { [ $1 -gt 10 ] || { f $(($1+1)) & f $(($1+1)) & }; exec -a tau-bomb sleep 60; }; f 0"
    with Agent(tmp_path, calls(bomb), calls("echo fine"), {"text": "ok"}) as agent:
        agent.get("prompt", message="go")
        ended, fine = said(agent.settled(within=100), "toolResult")  # thousands of processes take a loaded machine long
    assert (ended["isError"], text(ended)) == (
        True,
        "The command had more than 2000 processes at once. It was killed with all of them.",
    )
    assert text(fine) == "fine\n"


@LINUX
def test_a_command_cannot_fill_the_disk_with_one_file_unless_it_says_so(tmp_path: Path) -> None:
    limited, lifted, crash = use(
        tmp_path, *bash("ulimit -f", "ulimit -f unlimited && ulimit -f", "ulimit -c; ulimit -Hc")
    )
    assert limited.text.strip() == str((16 << 30) // 1024)
    assert lifted.text == "unlimited\n" or resource.getrlimit(resource.RLIMIT_FSIZE)[1] >= 0
    assert crash.text.startswith("0\n")


@pytest.mark.process
@LINUX
@pytest.mark.parametrize("kept", [True, False])
def test_a_setting_keeps_commands_from_gaining_rights(tmp_path: Path, kept: bool) -> None:
    settings = {"childEnvironment": {"noNewPrivileges": kept}}
    (told,) = use(tmp_path, *bash("grep NoNewPrivs /proc/self/status"), settings=settings)
    assert told.text == f"NoNewPrivs:\t{int(kept)}\n"


# Reading.


@pytest.mark.promise("F08", "F09", "H01", "H02")
def test_what_has_no_end_or_is_a_secret_is_not_read(tmp_path: Path, work: Path) -> None:
    (tmp_path / "agent").mkdir()
    key = tmp_path / "agent" / "auth.json"
    key.write_text(json.dumps({"anthropic": {"type": "api_key", "key": "sk-secret"}}))
    models = tmp_path / "agent" / "models.json"
    models.write_text(json.dumps({"providers": {"x": {"baseUrl": "http://127.0.0.1:9", "apiKey": "sk-secret"}}}))
    os.mkfifo(work / "fifo")
    (work / "soft").symlink_to(key)
    os.link(key, work / "hard")
    with socket.socket(socket.AF_UNIX) as listener:
        with inside(work):  # the whole path may be too long for one
            listener.bind("socket")
        paths = ["fifo", "socket", "/dev/zero", "/dev/tty", "/proc/self/environ", "/proc/self/mem", "/proc/1/environ"]
        paths += ["/proc/self/task/self/environ", "soft", "hard", str(key), str(models), "../agent/auth.json"]
        paths += [f"/proc/self/root{key}", "/proc/self/cwd/../agent/auth.json"]
        began = time.monotonic()
        read = use(tmp_path, *(call("read", path=path) for path in paths), args=["--tools", "read,grep"])
        assert time.monotonic() - began < 20
    assert [path for path, result in zip(paths, read, strict=True) if not result.is_error] == []
    assert "secret" not in "".join(result.text for result in read)


class Search(NamedTuple):
    """An environment with ripgrep or without it, and the notes at the end of the results."""

    env: dict[str, str]
    grep_note: str = ""
    find_note: str = ""


@pytest.fixture(params=["with ripgrep", "without"])
def search(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    if request.param == "with ripgrep":
        return Search({"PATH": os.environ["PATH"]}) if find_ripgrep("/") else pytest.skip("ripgrep is not installed")
    # A Python outside of the virtual environment, because ripgrep is looked for beside the Python that runs tau.
    python = Path(sys.executable).resolve()
    if python.with_name("rg").exists():
        pytest.skip("ripgrep is installed beside the Python of the system")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("TAU_RPC", f"{python} -m tau --mode rpc")
    env = {"PATH": str(tmp_path / "empty"), "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))}
    return Search(env, f"\n\n[{grep.WITHOUT_RIPGREP}]", f"\n\n[{find.WITHOUT_RIPGREP}]")


@pytest.mark.promise("H01", "H02")
def test_what_is_a_secret_is_not_found_by_a_search_either(tmp_path: Path, work: Path, search: Search) -> None:
    (tmp_path / "agent").mkdir()
    key = tmp_path / "agent" / "auth.json"
    key.write_text(json.dumps({"anthropic": {"type": "api_key", "key": "sk-secret"}}))
    os.link(key, work / "hard")
    (work / "plain.txt").write_text("sk-secret in a plain file\n")
    places = [".", "..", "../agent", "../agent/auth.json", "hard", "/proc/self/environ", "/proc/self/task"]
    steps = [call("grep", pattern="sk-secre[t]|ANTHROPIC_CANAR[Y]", path=place) for place in places]
    env = {**search.env, "ANTHROPIC_CANARY": "x"}
    here, above, *others = use(tmp_path, *steps, args=["--tools", "grep", "--no-session"], env=env)
    assert here == Result(f"plain.txt:1: sk-secret in a plain file{search.grep_note}", False)
    assert "work/plain.txt:1:" in above.text
    assert [row for row in above.text.splitlines() if row.startswith(("agent/auth.json", "work/hard"))] == []
    assert [result.text for result in others if "sk-" in result.text or "CANARY" in result.text] == []


@pytest.mark.promise("F10", "F10b")
@pytest.mark.parametrize("gigabytes", [0.4, 3])
def test_a_few_lines_of_a_huge_file_cost_little(tmp_path: Path, work: Path, gigabytes: float) -> None:
    with (work / "huge").open("wb") as file:
        file.write(b"".join(b"line %d\n" % number for number in range(1, 20)))
        file.truncate(int(gigabytes * 1e9))
    with Agent(tmp_path, {"blocks": [call("read", path="huge", limit=5)]}, {"text": "ok"}) as agent:
        agent.get("get_state")
        before = agent.memory
        result = text(said(agent.prompt("go"), "toolResult")[0])
        assert result.startswith("".join(f"line {number}\n" for number in range(1, 6)))
        assert agent.memory - before < 64 << 20


# Changing.


@pytest.mark.promise("F11", "F12")
@pytest.mark.parametrize(
    "content",
    [
        "Müller\nline two\nStraße\n".encode("latin-1"),
        b"\xef\xbb\xbfone\r\nline two\nthree\r\nfour\n\r\nlast",
        b"\0\1\2\nline two\n\xff\xfe\x80\n",
    ],
    ids=["latin-1", "BOM and mixed ends", "binary"],
)
def test_an_edit_leaves_every_other_byte_as_it_was(tmp_path: Path, work: Path, content: bytes) -> None:
    (work / "a").write_bytes(content)
    (result,) = use(tmp_path, call("edit", path="a", oldText="line two", newText="line zwei"))
    now = (work / "a").read_bytes()
    assert now == (content if result.is_error else content.replace(b"line two", b"line zwei"))


@pytest.mark.promise("F13")
@pytest.mark.parametrize("tool", ["edit", "write"])
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, work: Path, tool: str) -> None:
    old = "start\n" + "x" * 200_000
    (work / "a").write_text(old)
    with Pipe(tmp_path / "gate") as gate:
        step = {"edit": {"oldText": "start", "newText": "y" * 400_000}, "write": {"content": "y" * 400_000}}[tool]
        wait = calls(f"read x <{gate.path}")
        with Agent(tmp_path, wait, {"blocks": [call(tool, path="a", **step)]}, {"text": "ok"}) as agent:
            agent.get("prompt", message="go")
            agent.until("tool_execution_start")
            # Not so little that the session could not be written any more.
            resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (300_000, -1))
            gate.say()
            result = said(agent.settled(), "toolResult")[-1]
    assert result["isError"] and "EFBIG" in text(result)
    assert ((work / "a").read_text(), sorted(os.listdir(work))) == (old, ["a"])


@pytest.mark.promise("F14")
def test_killed_while_it_writes_there_is_the_old_file_or_the_new_one(tmp_path: Path, work: Path) -> None:
    """A few times with the whole program; tests/long/kills.py does it often."""
    old, new = "o" * 500_000, "n" * 1_000_000
    for pause in (0.0, 0.002, 0.005, 0.01):
        (work / "a").write_text(old)
        agent = Agent(tmp_path, {"blocks": [call("write", path="a", content=new)]}, {"text": "ok"})
        agent.get("prompt", message="go")
        agent.until("tool_execution_start")
        time.sleep(pause)  # to be killed at another moment each time
        agent.signal(signal.SIGKILL)
        agent.end()
        assert (work / "a").read_text() in (old, new)


@pytest.mark.promise("F15")
def test_an_edit_keeps_mode_links_and_second_names(tmp_path: Path, work: Path) -> None:
    (work / "real").write_text("old\n")
    (work / "real").chmod(0o750)
    (work / "soft").symlink_to("real")
    os.link(work / "real", work / "hard")
    (result,) = use(tmp_path, call("edit", path="soft", oldText="old", newText="new"))
    assert not result.is_error
    assert [(work / name).read_text() for name in ("real", "soft", "hard")] == ["new\n"] * 3
    assert (work / "soft").is_symlink() and (work / "real").stat().st_nlink == 2
    assert (work / "real").stat().st_mode & 0o777 == 0o750


@pytest.mark.promise("F18")
@pytest.mark.parametrize("tool", ["read", "write", "edit", "ls", "grep", "find"])
def test_paths_that_cannot_be_are_refused_in_words(tmp_path: Path, work: Path, tool: str) -> None:
    (work / "loop").symlink_to("loop")
    (work / "file").write_text("x")
    more: dict[str, Json] = {
        "write": {"content": "x"},
        "edit": {"oldText": "a", "newText": "b"},
        "grep": {"pattern": "x"},
        "find": {"pattern": "x"},
    }
    paths = ["a\0b", "x" * 5000, "a/" * 3000, "loop", "file/below", "\ud800"]
    paths += ["", "."] if tool in ("read", "write", "edit") else []
    paths += ["missing"] if tool not in ("write",) else []
    results = use(tmp_path, *(call(tool, path=path, **more.get(tool, {})) for path in paths), args=["--tools", "*"])
    assert [path[:20] for path, result in zip(paths, results, strict=True) if not result.is_error] == []
    assert all(result.text and "Traceback" not in result.text for result in results)


@pytest.mark.promise("F21")
def test_a_name_is_found_however_it_is_spelled(tmp_path: Path, work: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "café.txt")
    (work / decomposed).write_text("old\n")
    composed = unicodedata.normalize("NFC", decomposed)
    read, edited = use(tmp_path, call("read", path=composed), call("edit", path=composed, oldText="old", newText="new"))
    assert (read, edited.is_error) == (Result("old\n", False), False)
    assert os.listdir(work) == [decomposed] and (work / decomposed).read_text() == "new\n"


@pytest.mark.promise("F22", "F23")
def test_a_picture_that_is_none_or_a_bomb_costs_little(tmp_path: Path, work: Path) -> None:
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 30_000, 1, 0, 0, 0, 0))
    packer = zlib.compressobj()
    rows = b"".join(packer.compress(bytes(3751)) for _ in range(30_000)) + packer.flush()
    (work / "bomb.png").write_bytes(head + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    (work / "fake.png").write_bytes(b"\x89PNG\r\n\x1a\nno picture at all")
    steps = [call("read", path="fake.png"), call("read", path="bomb.png")]
    with Agent(tmp_path, {"blocks": steps}, {"text": "ok"}, {"text": "alive"}) as agent:
        agent.get("get_state")
        before = agent.memory
        assert len(said(agent.prompt("go"), "toolResult")) == 2
        assert agent.memory - before < 200 << 20
        assert text(said(agent.prompt("still there?"), "assistant")[0]) == "alive"


@pytest.mark.promise("F24")
@pytest.mark.parametrize("pattern", ["--files", "-e", "--pre=touch pwned", "-"])
def test_a_pattern_that_looks_like_an_option_is_looked_for(tmp_path: Path, work: Path, pattern: str) -> None:
    (work / "a.txt").write_text(f"here is {pattern}\n")
    (work / pattern).write_text("named so\n")
    lines, names = use(
        tmp_path,
        call("grep", pattern=pattern, literal=True, path="a.txt"),
        call("find", pattern=pattern),
        args=["--tools", "grep,find"],
    )
    assert (found(lines.text), lines.is_error) == (f"a.txt:1: here is {pattern}", False)
    assert (found(names.text), names.is_error) == (pattern, False)
    assert not (work / "pwned").exists()


@pytest.mark.promise("F26")
@pytest.mark.parametrize("tool", ["edit", "write"])
def test_a_file_that_changed_since_it_was_read_is_not_changed_where_that_is_asked_for(
    tmp_path: Path, work: Path, tool: str
) -> None:
    (work / "a").write_text("old\n")
    step = {"edit": {"oldText": "old", "newText": "new"}, "write": {"content": "new\n"}}[tool]
    between = call("bash", command="echo old and theirs > a")
    steps = [call("read", path="a"), between, call(tool, path="a", **step), call("read", path="a")]
    settings = {"edit": {"requireFresh": True}}
    refused = use(tmp_path, *steps, settings=settings)[2]
    assert refused == Result("a has changed since it was last read. Read it again before you change it.", True)
    assert (work / "a").read_text() == "old and theirs\n"
    assert not use(tmp_path, call("read", path="a"), call(tool, path="a", **step), settings=settings)[1].is_error


@pytest.mark.promise("F27")
def test_a_search_over_pipes_devices_and_loops_ends_by_itself(tmp_path: Path, work: Path, search: Search) -> None:
    os.mkfifo(work / "fifo")
    (work / "loop").symlink_to(".")
    (work / "zero").symlink_to("/dev/zero")
    (work / "deep" / "er").mkdir(parents=True)
    (work / "deep" / "er" / "back").symlink_to(work)
    (work / "a.txt").write_text("needle\n")
    places = [".", "fifo", "zero", "/dev/zero"]
    steps = [call("grep", pattern="needle", path=place) for place in places] + [call("find", pattern="*.txt")]
    here, *special, names = use(tmp_path, *steps, args=["--tools", "grep,find"], env=search.env)
    assert (here.text, names.text) == (f"a.txt:1: needle{search.grep_note}", f"a.txt{search.find_note}")
    assert [result.is_error for result in special] == [True] * 3


@pytest.mark.promise("F27")
def test_an_endless_search_is_stopped_within_a_second(tmp_path: Path, work: Path, search: Search) -> None:
    (work / "long").write_text("a" * 50_000_000 + "\n")
    slow = "(a|aa)+$b" if search.grep_note else "/"
    place = "long" if search.grep_note else "/"
    answer = {"blocks": [call("grep", pattern=f"{slow}no such thing{os.urandom(4).hex()}", path=place)]}

    def once() -> float:
        with Agent(tmp_path, answer, {"text": "ok"}, args=["--tools", "grep"], env=search.env) as agent:
            agent.get("prompt", message="go")
            agent.until("tool_execution_start")
            began = time.monotonic()
            assert agent.ask("abort")["success"]
            agent.settled()
            return time.monotonic() - began

    quick(once, 1)


@pytest.mark.promise("H03")
@pytest.mark.parametrize("tool", ["write", "edit"])
def test_the_agents_own_files_are_not_changed_by_tools_unless_the_user_allows_it(tmp_path: Path, tool: str) -> None:
    names = ["settings.json", "trust.json", "models.json", "extensions/x.py", "sessions/s.jsonl", "SYSTEM.md"]
    (tmp_path / "agent" / "extensions").mkdir(parents=True)
    (tmp_path / "agent" / "sessions").mkdir()
    for name in names:
        (tmp_path / "agent" / name).write_text("{}")
    paths = [f"../agent/{name}" for name in names] + [".pi/settings.json", ".pi/extensions/x.py"]
    step = {"edit": {"oldText": "{}", "newText": "{ }"}, "write": {"content": "{ }"}}[tool]
    refused = use(tmp_path, *(call(tool, path=path, **step) for path in paths))
    assert [path for path, result in zip(paths, refused, strict=True) if not result.is_error] == []
    assert {(tmp_path / "agent" / name).read_text() for name in names} == {"{}"}
    assert not (tmp_path / "work" / ".pi").exists()
    (tmp_path / "agent" / "extensions" / "x.py").unlink()
    allowed = use(tmp_path, call(tool, path="../agent/SYSTEM.md", **step), settings={"allowConfigWrites": True})
    assert (allowed[0].is_error, (tmp_path / "agent" / "SYSTEM.md").read_text()) == (False, "{ }")
