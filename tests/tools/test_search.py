"""The search that is used where ripgrep is not installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tau.tools import search
from tau.tools.ripgrep import words
from tau.tools.search import BUFFER, LONGEST_LINE, MAX_LINE_CHARACTERS, Query


def run(folder: Path, query: Query) -> bytes:
    ended = subprocess.run(words(query, None), cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout


def lines(folder: Path, pattern: str, **rest: object) -> list[str]:
    text = run(folder, Query(pattern=pattern, **rest)).decode("utf-8", "replace")  # type: ignore[arg-type]
    return text.replace("\0", ":").splitlines()


def files(folder: Path, *, above: bool = False) -> list[str]:
    return os.fsdecode(run(folder, Query(above=above))).split("\0")[:-1]


def put(folder: Path, *texts: tuple[str, str | bytes]) -> None:
    for name, text in texts:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


# Files


def test_files_come_in_the_order_of_their_paths_hidden_ones_too(tmp_path: Path) -> None:
    put(tmp_path, ("a.txt", ""), ("a/b", ""), (".h/x", ""), ("b", ""), (".git/config", ""), ("c/.git", "gitdir: x"))
    assert files(tmp_path) == [".h/x", "a/b", "a.txt", "b"]


def test_links_pipes_and_what_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, ("a/x", ""), ("a/b/y", ""))
    (tmp_path / "a/b/loop").symlink_to(tmp_path / "a")
    (tmp_path / "link").symlink_to("a/x")
    os.mkfifo(tmp_path / "pipe")
    assert files(tmp_path) == ["a/b/y", "a/x"]


def test_a_folder_that_was_replaced_by_a_link_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, ("elsewhere/x", ""))
    (tmp_path / "link").symlink_to("elsewhere")
    monkeypatch.chdir(tmp_path)
    assert search._scan("elsewhere/") == ["x"]
    with pytest.raises(OSError):
        search._scan("link/")


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
    put(tmp_path, (".gitignore", "a"), ("r/.git/info/exclude", "c"), ("r/.gitignore", "b\n/s/t/d\n"))
    put(tmp_path, *((f"r/s/t/{name}", "") for name in "abcd"))
    assert files(tmp_path / "r/s/t", above=True) == ["a"]
    assert files(tmp_path / "r/s/t", above=False) == ["a", "b", "c", "d"]


def test_ignore_files_that_are_pipes_folders_or_no_text_do_no_harm(tmp_path: Path) -> None:
    put(tmp_path, ("a/.gitignore/x", ""), ("b/.gitignore", b"\xff\xfe\ny\n"), ("b/y", ""), ("b/z", ""))
    os.mkfifo(tmp_path / ".gitignore")
    assert files(tmp_path) == ["a/.gitignore/x", "b/.gitignore", "b/z"]


# Lines


def test_matches_stand_with_the_lines_around_them(tmp_path: Path) -> None:
    put(tmp_path, ("a", "1\n2 x\n3\n4\n5\n6 x\n7 x\n8"))
    assert lines(tmp_path, "x", context=1) == [
        *("./a:1-1", "./a:2:2 x", "./a:3-3"),
        *("./a:5-5", "./a:6:6 x", "./a:7:7 x", "./a:8-8"),
    ]


def test_patterns_are_pythons_and_match_within_a_line(tmp_path: Path) -> None:
    put(tmp_path, ("a", "ab\nb\n\nÄb\n"))
    assert lines(tmp_path, r"(?<=a)b") == ["./a:1:ab"]
    assert lines(tmp_path, r"a\s*b$", ignore_case=True) == ["./a:1:ab"]
    assert lines(tmp_path, "äB", ignore_case=True) == ["./a:4:Äb"]
    assert lines(tmp_path, r"a\s+b") == []
    assert lines(tmp_path, "^$") == ["./a:3:"]


def test_a_nul_byte_makes_a_file_binary(tmp_path: Path) -> None:
    put(tmp_path, ("a", b"x\n\0x\n"), ("b", b"x\n" + b"y\n" * BUFFER + b"\0\nx\n"))
    assert lines(tmp_path, "x") == ["./b:1:x"]
    assert lines(tmp_path, "x", target="./a") == ['./a: binary file matches (found "\\0" byte around offset 2)']
    assert [line[:24] for line in lines(tmp_path, "x", target="./b")] == ["./b:1:x", "./b: binary file matches"]


def test_byte_order_marks_tell_the_encoding(tmp_path: Path) -> None:
    put(tmp_path, ("8", b"\xef\xbb\xbfx"), ("16", "xü\n".encode("utf-16")))
    put(tmp_path, ("16be", b"\xfe\xff" + "ax".encode("utf-16-be")))
    assert lines(tmp_path, "^.?x") == ["./16:1:xü", "./16be:1:ax", "./8:1:x"]


def test_long_lines_are_cut_and_can_be_told_from_whole_ones(tmp_path: Path) -> None:
    put(tmp_path, ("a", "x" * LONGEST_LINE + "\n" + "x" * 10**6 + "y"))
    assert [len(line) - len("./a:1:") for line in lines(tmp_path, "x")] == [LONGEST_LINE, LONGEST_LINE + 1]


def test_of_a_line_without_an_end_only_the_beginning_is_searched(tmp_path: Path) -> None:
    put(tmp_path, ("a", "x" * 2 * MAX_LINE_CHARACTERS + "y\nx y\n"))
    assert lines(tmp_path, "y") == ["./a:2:x y"]


# The program


def test_a_bad_pattern_is_an_error_that_names_ripgrep(tmp_path: Path) -> None:
    ended = subprocess.run(words(Query(pattern="[[:alpha:]]("), None), cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "ripgrep is not installed" in ended.stderr and "Warning" not in ended.stderr


def test_nothing_is_imported_from_the_searched_folder(tmp_path: Path) -> None:
    put(
        tmp_path,
        *((f"{name}.py", "raise SystemExit(7)") for name in ("re", "json", "io", "msgspec")),
        ("tau/__init__.py", "!"),
    )
    ended = subprocess.run(words(Query(), None), cwd=tmp_path, capture_output=True, env={"PYTHONPATH": str(tmp_path)})
    assert (ended.returncode, ended.stdout.count(b"\0"), ended.stderr) == (0, 5, b"")
