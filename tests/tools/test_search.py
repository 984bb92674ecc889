from __future__ import annotations

import io
import os
import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tau.core.text.rust_regex import python_pattern
from tau.tools.ripgrep import installed, words
from tau.tools.search import BUFFER, LONGEST_LINE, Portions, Query, answer, matching, walk

RG = installed("/")
SEEDS = int(os.environ.get("SEARCH_TREES", "12"))

LIST = Query()
STOPPED = re.compile(rb"(.*): WARNING: stopped searching binary file .* offset (\d+)\)\n")


def found(folder: Path, query: Query) -> bytes:
    out = io.BytesIO()
    answer(query, str(folder), out)
    return out.getvalue()


def lines(folder: Path, pattern: str, **rest: object) -> list[str]:
    text = found(folder, Query(pattern=pattern, **rest)).decode("utf-8", "replace")  # type: ignore[arg-type]
    return text.replace("\0", ":").splitlines()


def files(folder: Path, *, above: bool = False) -> list[str]:
    return list(walk(str(folder), above=above))


def put(folder: Path, *texts: tuple[str, str | bytes]) -> None:
    for name, text in texts:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


# Which files


def test_files_come_in_the_order_of_their_paths_hidden_ones_too(tmp_path: Path) -> None:
    put(tmp_path, ("a.txt", ""), ("a/b", ""), (".h/x", ""), ("b", ""), (".git/config", ""), ("c/.git", "gitdir: x"))
    assert files(tmp_path) == [".h/x", "a/b", "a.txt", "b"]


def test_links_pipes_and_what_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, ("a/x", ""), ("a/b/y", ""))
    (tmp_path / "a/b/loop").symlink_to(tmp_path / "a")
    (tmp_path / "link").symlink_to("a/x")
    os.mkfifo(tmp_path / "pipe")
    assert files(tmp_path) == ["a/b/y", "a/x"]


def test_the_nearest_ignore_file_decides(tmp_path: Path) -> None:
    put(
        tmp_path,
        (".gitignore", "*.log\nbuild/\n"),
        ("a/.gitignore", "!keep.log\n"),
        *((name, "") for name in ("x.log", "a/keep.log", "a/y.log", "a/build/z", "a/b/keep.log", "build")),
    )
    assert files(tmp_path) == [".gitignore", "a/.gitignore", "a/b/keep.log", "a/keep.log", "build"]


def test_ignore_is_stronger_than_gitignore_and_rgignore_than_both(tmp_path: Path) -> None:
    put(tmp_path, (".gitignore", "a\n!b\n"), (".ignore", "!a\nb\nc\n"), ("d/.rgignore", "!c"))
    put(tmp_path, *((name, "") for name in ("a", "b", "c", "d/c")))
    assert files(tmp_path) == [".gitignore", ".ignore", "a", "d/.rgignore", "d/c"]


def test_above_the_folder_only_the_repository_counts(tmp_path: Path) -> None:
    put(tmp_path, (".gitignore", "a"), ("r/.git/info/exclude", "c"), ("r/.gitignore", "b"))
    put(tmp_path, *((f"r/s/{name}", "") for name in "abc"))
    assert files(tmp_path / "r/s", above=True) == ["a"]
    assert files(tmp_path / "r/s", above=False) == ["a", "b", "c"]


def test_a_worktree_is_excluded_by_its_repository(tmp_path: Path) -> None:
    put(
        tmp_path,
        ("main/.git/info/exclude", "secret"),
        ("main/.git/worktrees/w/commondir", "../..\n"),
        ("w/.git", "gitdir: ../main/.git/worktrees/w\n"),
        ("w/secret", ""),
        ("w/x", ""),
    )
    assert files(tmp_path / "w", above=True) == ["x"]


# Which lines


def test_matches_stand_with_the_lines_around_them(tmp_path: Path) -> None:
    put(tmp_path, ("a", "1\n2 x\n3\n4\n5\n6 x\n7 x\n8"))
    assert lines(tmp_path, "x", context=1) == [
        "./a:1-1",
        "./a:2:2 x",
        "./a:3-3",
        "./a:5-5",
        "./a:6:6 x",
        "./a:7:7 x",
        "./a:8-8",
    ]


def test_a_match_over_the_end_of_a_line_does_not_count() -> None:
    pattern = python_pattern(r"a\s+b|[^x]$")
    assert list(matching(pattern, "a\nb\nx\n\na b\n")) == [0, 1, 4]
    assert list(matching(python_pattern("^"), "\n\nx\n")) == [0, 1, 2]
    assert list(matching(python_pattern("$"), "a\nb")) == [0, 1]


def test_context_and_numbers_go_on_from_one_buffer_to_the_next(tmp_path: Path) -> None:
    put(tmp_path, ("a", "".join(f"{number:07}\n" for number in range(1, 3 * BUFFER // 8))))
    edge = BUFFER // 8
    assert lines(tmp_path, f"{edge:07}|{edge + 1:07}$", context=1) == [
        f"./a:{edge - 1}-{edge - 1:07}",
        f"./a:{edge}:{edge:07}",
        f"./a:{edge + 1}:{edge + 1:07}",
        f"./a:{edge + 2}-{edge + 2:07}",
    ]


def test_a_nul_byte_makes_a_file_binary(tmp_path: Path) -> None:
    put(tmp_path, ("a", b"x\n\0x\n"), ("b", b"x\n" + b"y\n" * BUFFER + b"\0\nx\n"))
    assert lines(tmp_path, "x") == ["./b:1:x"]
    named = lines(tmp_path, "x", target="./a")
    assert named == ['./a: binary file matches (found "\\0" byte around offset 2)']


def test_byte_order_marks_tell_the_encoding(tmp_path: Path) -> None:
    put(
        tmp_path,
        ("8", b"\xef\xbb\xbfx"),
        ("16", "xü\n".encode("utf-16")),
        ("16be", b"\xfe\xff" + "ax".encode("utf-16-be")),
    )
    assert lines(tmp_path, "^.?x") == ["./16:1:xü", "./16be:1:ax", "./8:1:x"]


def test_long_lines_are_cut_and_can_be_told_from_whole_ones(tmp_path: Path) -> None:
    put(tmp_path, ("a", "x" * LONGEST_LINE + "\n" + "x" * 10**6 + "y"))
    assert [len(line) - len("./a:1:") for line in lines(tmp_path, "x")] == [LONGEST_LINE, LONGEST_LINE + 1]


def test_portions_are_whole_lines() -> None:
    data = b"".join(b"%d\n" % number for number in range(50_000)) + b"z" * (3 * BUFFER) + b"\nlast"
    portions = list(Portions(io.BytesIO(data), skip_binary=True))
    assert b"".join(portions) == data
    assert {portion[-1:] for portion in portions[:-1]} == {b"\n"}


# The program


def test_a_bad_pattern_is_said_on_stderr(tmp_path: Path) -> None:
    ended = subprocess.run(words(Query(pattern="("), None), cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "regex parse error: unclosed group\n")


def test_nothing_is_imported_from_the_searched_folder(tmp_path: Path) -> None:
    put(
        tmp_path,
        *((f"{name}.py", "raise SystemExit(7)") for name in ("re", "json", "io", "msgspec")),
        ("tau/__init__.py", "!"),
    )
    ended = subprocess.run(words(LIST, None), cwd=tmp_path, capture_output=True, env={"PYTHONPATH": str(tmp_path)})
    assert (ended.returncode, ended.stdout.count(b"\0"), ended.stderr) == (0, 5, b"")


# As ripgrep


@pytest.mark.skipif(RG is None, reason="there is no ripgrep here")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_ripgrep_finds_the_same(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    folder = Tree(tmp_path, chance).make()
    for query in Queries(chance).some(25):
        query = replace(query, above=bool(chance.randrange(2)) and _is_in_repository(folder))
        ended = subprocess.run(words(query, RG), cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)
        assert ended.stderr == b"", query
        assert _sorted(ended.stdout, query) == _sorted(found(folder, query), query), query


def _is_in_repository(folder: Path) -> bool:
    return any((above / mark).exists() for above in (folder, *folder.parents) for mark in (".git", ".jj"))


def _sorted(output: bytes, query: Query) -> list[bytes]:
    """By files: ripgrep takes them as they come. How it ends a line that was too long is its own affair."""
    if query.pattern is None:
        return sorted(output.split(b"\0"))
    binary = {path for path, nul in STOPPED.findall(output) if int(nul) < BUFFER}
    rows = [row[: row.find(b"\0") + LONGEST_LINE] for row in STOPPED.sub(b"", output).split(b"\n")]
    return sorted((row for row in rows if _path(row) not in binary), key=_path)


def _path(row: bytes) -> bytes:
    return row.partition(b"\0")[0]


class Tree:
    """Folders with everything in them that makes a difference to a search."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root = root
        self._chance = chance

    def make(self) -> Path:
        """Returns a folder of it."""
        folders = [self._root / "t"]
        folders[0].mkdir()
        for _ in range(self._chance.randint(2, 12)):
            folder = self._chance.choice(folders) / self._name()
            if not folder.exists():
                folder.mkdir()
                folders.append(folder)
        for folder in folders:
            self._fill(folder)
        return self._chance.choice(folders)

    def _name(self) -> str:
        return self._chance.choice(
            ["a", "b", "ab", "a.b", "a.log", "build", ".c", "A", "é", "a b", "-a", "!a", "#a", "[a]"]
        )

    def _fill(self, folder: Path) -> None:
        chance = self._chance
        for _ in range(chance.randint(0, 6)):
            path = folder / self._name()
            if path.exists() or path.is_symlink():
                continue
            match chance.randrange(12):
                case 0:
                    path.symlink_to(chance.choice([".", "..", "nowhere", "a"]))
                case 1:
                    os.mkfifo(path)
                case _:
                    path.write_bytes(self._content())
        for name in (".gitignore", ".ignore", ".rgignore"):
            if not chance.randrange(4):
                (folder / name).write_bytes(self._rules())
        match chance.randrange(12):
            case 0 | 1:
                (folder / ".git/info").mkdir(parents=True)
                (folder / ".git/info/exclude").write_bytes(self._rules())
            case 2:
                (folder / ".git").write_text("gitdir: nowhere\n")
            case 3:
                (folder / ".jj").mkdir()

    def _rules(self) -> bytes:
        return b"\n".join(self._rule() for _ in range(self._chance.randint(0, 4))) + self._chance.choice([b"", b"\n"])

    def _rule(self) -> bytes:
        chance = self._chance
        if not chance.randrange(20):
            return chance.choice(
                [b"# a", b"", b"a  ", b"a\\ ", b"\\#a", b"\\!a", b"[", b"{a", b"\xff", b"a\r", b"\xef\xbb\xbfa"]
            )
        parts = [
            "a",
            "b",
            "*",
            "**",
            "?",
            "*.log",
            "[a-b]",
            "[!a]",
            "{a,b}",
            "a*",
            ".c",
            "A",
            "é",
            "ab",
            "build",
            "a.b",
        ]
        glob = "/".join(chance.choice(parts) for _ in range(chance.choice([1, 1, 1, 2, 3])))
        return (
            f"{chance.choice(['', '', '!'])}{chance.choice(['', '', '/'])}{glob}{chance.choice(['', '', '/'])}".encode()
        )

    def _content(self) -> bytes:
        chance = self._chance
        pieces = ["a", "b", "foo", "Foo", " ", "é", "x" * 30, "\t", "1", ".", "-"]
        text = "".join(
            "".join(chance.choice(pieces) for _ in range(chance.randint(0, 6)))
            + chance.choice(["\n", "\n", "\n", "\r\n", "\r"])
            for _ in range(chance.choice([0, 1, 5, 30]))
        ) + chance.choice(["", "foo"])
        match chance.randrange(14):
            case 0:
                return text.encode("utf-16")
            case 1:
                return b"\xef\xbb\xbf" + text.encode()
            case 2:
                return text.encode() + b"\0" + text.encode()
            case 3:
                return text.encode() + b"y" * chance.randint(2000, 2100) + b"\n" + text.encode()
            case 4:
                return (
                    text.encode()
                    + (b"z" * 99 + b"\n") * chance.randint(650, 1500)
                    + text.encode()
                    + b"\0\n"
                    + text.encode()
                )
            case 5:
                return text.encode() + (b"z" * 99 + b"\n") * chance.randint(650, 1500) + text.encode()
            case 6:
                return text.encode("latin-1")
        return text.encode()


class Queries:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def some(self, count: int) -> Iterator[Query]:
        chance = self._chance
        for _ in range(count):
            if not chance.randrange(3):
                yield Query(names=self._names())
                continue
            yield Query(
                pattern=chance.choice(
                    ["foo", "a.b", "^a", "b$", r"\bfoo\b", "(?i)FOO", r"\s", "é", "", "x{20,}", "[^a]o"]
                ),
                literal=not chance.randrange(4),
                ignore_case=not chance.randrange(4),
                context=chance.choice([0, 0, 1, 3]),
                names=self._names(),
            )

    def _names(self) -> str | None:
        return self._chance.choice([None, None, "*.log", "!a*", "{a,b}", "[!a]*", "A"])
