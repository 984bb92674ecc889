from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from support.rpc_process import quick
from support.search_kit import lines_of, search_outcome, without_note
from tau.errors import ToolError
from tau.records.base import UNSET
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext
from tau.tools import grep as grep_tool
from tau.tools.grep import TOOL as GREP
from tau.tools.grep import MatchCollector, search
from tau.tools.ripgrep import find_ripgrep


def grep(cwd: Path, rg: str | None, pattern: str, **args: Any) -> Outcome:
    return search_outcome(grep_tool, cwd, rg, {"pattern": pattern, **args})


def rows(cwd: Path, rg: str | None, pattern: str, **args: Any) -> list[str]:
    return lines_of(grep(cwd, rg, pattern, **args))


def failure(cwd: Path, rg: str | None, pattern: str, **args: Any) -> str:
    with pytest.raises(ToolError) as failed:
        grep(cwd, rg, pattern, **args)
    return str(failed.value)


def put(folder: Path, texts: dict[str, str | bytes]) -> Path:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return put(
        tmp_path,
        {
            "a.txt": "alpha\nbeta\ngamma\n",
            "sub/b.py": "def f():\n    return 1\n",
            "sub/-c.py": "-e x\nreturn 2",
            ".hidden": "alpha 2\n",
            ".git/config": "alpha\n",
            "out/d.py": "return 3\n",
            ".gitignore": "out/\n",
        },
    )


def test_matches_come_with_their_files_and_lines(project: Path, rg: str | None) -> None:
    assert grep(project, rg, "alpha") == Outcome([Text(".hidden:1: alpha 2\na.txt:1: alpha")], UNSET)


def test_the_lines_around_a_match_and_the_empty_one_after_the_last_newline(project: Path, rg: str | None) -> None:
    assert rows(project, rg, "RETURN", ignoreCase=True, glob="*.py", context=1) == [
        "sub/-c.py-1- -e x",
        "sub/-c.py:2: return 2",
        "sub/b.py-1- def f():",
        "sub/b.py:2:     return 1",
        "sub/b.py-3- ",
    ]


def test_a_line_near_two_matches_is_shown_once(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, {"a": "1\n2 x\n3\n4 x\n5\n6\n"})
    assert rows(tmp_path, rg, "x", context=1) == ["a-1- 1", "a:2: 2 x", "a-3- 3", "a:4: 4 x", "a-5- 5"]


def test_nothing_found_is_said(project: Path, rg: str | None) -> None:
    assert grep(project, rg, "zzzz") == Outcome([Text("No matches found")], UNSET)
    assert grep(project, rg, "a.t", literal=True) == Outcome([Text("No matches found")], UNSET)


@pytest.mark.promise("F24")
@pytest.mark.parametrize("pattern", ["-e", "-e x", "--files", "-"])
def test_a_pattern_that_begins_with_a_dash_is_a_pattern(pattern: str, project: Path, rg: str | None) -> None:
    found = rows(project, rg, pattern, path="sub")
    assert found == (["No matches found"] if pattern == "--files" else ["-c.py:1: -e x"])


def test_one_file_can_be_searched_even_an_ignored_one(project: Path, rg: str | None) -> None:
    assert rows(project, rg, "return", path="out/d.py") == ["d.py:1: return 3"]
    assert rows(project, rg, "return", path="sub/-c.py", glob="*.txt") == ["-c.py:2: return 2"]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["a.py", "s/b.py", "s/t/c.py"]),
        ("!*.py", ["s/d.ts", "é.ts"]),
        ("s/*.py", ["s/b.py"]),
        ("/*.py", ["a.py"]),
        ("**/*.{ts,rs}", ["s/d.ts", "é.ts"]),
        ("s/**", ["s/b.py", "s/d.ts", "s/t/c.py"]),
        ("s/", ["s/b.py", "s/d.ts", "s/t/c.py"]),
        ("!s/**", ["a.py", "é.ts"]),
        ("?.ts", ["s/d.ts", "é.ts"]),
        ("[!b].py", ["a.py", "s/t/c.py"]),
        ("{s/b,s/t/c}.py", ["s/b.py", "s/t/c.py"]),
        ("*", ["a.py", "s/b.py", "s/d.ts", "s/t/c.py", "é.ts"]),
        ("", ["a.py", "s/b.py", "s/d.ts", "s/t/c.py", "é.ts"]),
    ],
)
def test_a_glob_chooses_files_and_brings_no_ignored_ones_back(
    glob: str, found: list[str], tmp_path: Path, rg: str | None
) -> None:
    names = ("a.py", "s/b.py", "s/t/c.py", "s/d.ts", "é.ts", "ignored.py", "s/ignored.ts")
    put(tmp_path, {**dict.fromkeys(names, "x"), ".gitignore": "ignored.*"})
    assert rows(tmp_path, rg, "x", glob=glob) == [f"{path}:1: x" for path in found]


def test_a_limit_says_how_to_see_more(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, {"a": "x\n" * 5})
    said = "a:1: x\na:2: x\n\n[2 matches limit reached. Use limit=4 for more, or refine pattern]"
    assert grep(tmp_path, rg, "x", limit=2) == Outcome([Text(said)], {"matchLimitReached": 2})
    assert grep(tmp_path, rg, "x", limit=5).details is UNSET


def test_at_the_limit_the_last_match_keeps_the_lines_around_it(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, {"a": "x\nx\n3\n4\nx\n"})
    assert rows(tmp_path, rg, "x", limit=1, context=2)[:4] == ["a:1: x", "a-2- x", "a-3- 3", ""]
    assert rows(tmp_path, rg, "x", limit=2, context=1)[:4] == ["a:1: x", "a:2: x", "a-3- 3", ""]


def test_long_lines_are_cut(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, {"a": "x" * 500 + "\n" + "é" * 501 + "x\n" + "y" * 10**6 + "x\r\n"})
    cut = "... [truncated]"
    said = f"a:1: {'x' * 500}\na:2: {'é' * 500}{cut}\na:3: {'y' * 500}{cut}"
    notice = "\n\n[Some lines truncated to 500 chars. Use read tool to see full lines]"
    assert grep(tmp_path, rg, "x") == Outcome([Text(said + notice)], {"linesTruncated": True})


def test_all_notices_stand_in_one_bracket(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, {"a": ("x" * 600 + "\n") * 200})
    outcome = grep(tmp_path, rg, "x", limit=150)
    [block] = outcome.content
    assert isinstance(block, Text)
    assert block.text.split("\n\n")[1] == (
        "[150 matches limit reached. Use limit=300 for more, or refine pattern. 50.0KB limit reached."
        " Some lines truncated to 500 chars. Use read tool to see full lines]"
    )
    assert list(outcome.details) == ["matchLimitReached", "truncation", "linesTruncated"]


def test_carriage_returns_do_not_shift_lines_and_are_not_shown(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, {"a": "1\r2\r\n\r\nx\ry\r\n"})
    assert rows(tmp_path, rg, "x") == ["a:3: xy"]


def test_binary_files_are_passed_over_but_said_when_named(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, {"a": b"x\nx\n\0x\n", "b": b"x \xff"})
    assert rows(tmp_path, rg, "x") == ["b:1: x \ufffd"]
    assert rows(tmp_path, rg, "x", path="a") == ["a: binary file matches"]


def test_loops_pipes_and_odd_names_are_no_trouble(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, {"a/two\nlines": "x", "a/b:1: c": "x", os.fsdecode(b"a/\xff"): "x"})
    (tmp_path / "a/loop").symlink_to("..")
    os.mkfifo(tmp_path / "a/pipe")
    assert rows(tmp_path, rg, "x", path="a") == ["b:1: c:1: x", "two", "lines:1: x", "\ufffd:1: x"]
    assert failure(tmp_path, rg, "x", path="a/pipe") == f"{tmp_path}/a/pipe is neither a file nor a folder"


def test_a_configuration_of_ripgrep_does_not_count(tmp_path: Path) -> None:
    rg = find_ripgrep("/")
    put(tmp_path, {"a": "X", "rc": "--ignore-case\n--max-count=0\n"})

    async def main() -> Outcome:
        machine = LocalMachine(env={**os.environ, "RIPGREP_CONFIG_PATH": str(tmp_path / "rc")})
        return await GREP.run({"pattern": "X"}, ToolContext(machine, str(tmp_path), lambda outcome: None))

    assert without_note(asyncio.run(main()), grep_tool, rg) == Outcome([Text("a:1: X")], UNSET)


def test_what_cannot_be_searched_is_said(project: Path, rg: str | None) -> None:
    assert failure(project, rg, "x", path="nope") == f"Path not found: {project}/nope"
    assert failure(project, rg, "x", glob="[") == "The glob '[' cannot be read: there is a [ without its ]"
    newline = "The pattern contains a newline, but grep searches line by line"
    assert failure(project, rg, "a\nb", literal=True) == failure(project, rg, r"a\nb") == newline


def test_a_pattern_that_cannot_be_compiled_is_an_error(project: Path, rg: str | None) -> None:
    if rg:
        assert "regex parse error" in failure(project, rg, "a(")
    else:
        assert failure(project, rg, "a(") == (
            "The pattern is not valid: missing ), unterminated subpattern at position 1."
            " ripgrep is not installed, so the pattern must be a Python regular expression"
        )


def test_a_search_stops_when_there_is_enough(tmp_path: Path, rg: str | None) -> None:
    with open(tmp_path / "a", "wb") as file:
        file.write(b"x\n" * 1000)
        for _ in range(200):
            file.write(b"y" * 1_000_000 + b"\n")
    started = time.monotonic()
    assert len(rows(tmp_path, rg, "x|(y+y+)+z")) == 102  # 100 matches and the limit's notice
    assert time.monotonic() - started < 30  # to the end it takes for ever


def test_a_pattern_that_takes_for_ever_can_be_cancelled_and_leaves_no_process(tmp_path: Path) -> None:
    put(tmp_path, {"a": "y" * 100})
    words = f"{tmp_path.name}|(y|yy|yyy)+z"  # the name, to find the process by

    def processes() -> list[bytes]:
        found = (Path(path, "cmdline") for path in os.scandir("/proc") if path.name.isdigit())
        return [line for path in found if words.encode() in (line := _content(path)) and b"tau.tools.search" in line]

    async def main() -> None:
        context = ToolContext(LocalMachine(), str(tmp_path), lambda outcome: None)
        task = asyncio.create_task(search({"pattern": words}, context, None))
        while not processes():
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)

    asyncio.run(main())
    assert processes() == []


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process is gone
        return b""


# Without a search


def test_output_can_come_byte_by_byte() -> None:
    found = MatchCollector(10, 1, lambda path: True)
    output = b"./a\x001-x\n./a\x002:y\n./b\nc\x003:z\n./d: binary file matches (found, offset 9)\n"
    for at in range(len(output)):
        assert found.take(output[at : at + 1])
    assert [(path, list(file.format_rows(path.decode()))) for path, file in found.files.items()] == [
        (b"./a", ["./a-1- x", "./a:2: y"]),
        (b"./b\nc", ["./b\nc:3: z"]),
        (b"./d", ["./d: binary file matches"]),
    ]


def test_megabytes_of_unexpected_output_do_not_block() -> None:
    portion = b"".join(b"./page.html:1: some text that stands there %d\n" % number for number in range(1000))

    def take() -> float:
        found, began = MatchCollector(10, 0, lambda path: True), time.monotonic()
        for _ in range(50):
            found.take(portion)
        found.take(b"end\n./a\x001:x\n")
        assert not found.more
        return time.monotonic() - began

    quick(take, 2)


def test_a_huge_limit_does_not_fill_the_memory() -> None:
    found = MatchCollector(10**9, 0, lambda path: True)
    portion = b"".join(b"./a\x00%d:%s\n" % (number, b"x" * 500) for number in range(100))
    taken = 0
    while found.take(portion):
        taken += 1
    assert taken < 100


# Ripgrep itself


def test_ripgrep_is_not_taken_from_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "bin"
    for folder in (project, elsewhere):
        folder.mkdir()
        (folder / "rg").touch(mode=0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f".:{project}:{elsewhere}")
    assert find_ripgrep(str(project)) == str(elsewhere / "rg")
    monkeypatch.setenv("HOME", str(project / "home"))
    assert find_ripgrep(str(project)) == str(project / "rg")


def test_else_it_is_the_one_beside_our_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    beside = Path(sysconfig.get_path("scripts")) / "rg"
    assert find_ripgrep(str(tmp_path)) == (str(beside) if beside.exists() else None)


def test_ripgrep_is_found_also_after_no_file_could_be_opened_for_once() -> None:
    """In a process of its own, in which nothing was looked for before."""
    script = (
        "import os, resource; from tau.tools.ripgrep import find_ripgrep;"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE); used = len(os.listdir('/proc/self/fd')) - 1;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard)); first = find_ripgrep('/');"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)); print(first == find_ripgrep('/'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
