from __future__ import annotations

import os
from pathlib import Path

import pytest

from tau.core.conversation.system_prompt import ContextFile
from tau.store.context import MAX_FILE_BYTES, MAX_TOTAL_BYTES, NAMES, context_files, prompt_file, text_or_file


class Tree:
    """A project in a folder of its own, and the user's folder beside it."""

    def __init__(self, top: Path) -> None:
        self.top = top.resolve()
        self.agent = self.top / "agent"
        self.cwd = self.top / "repo" / "src"
        for folder in (self.agent, self.cwd, self.top / "repo" / ".git"):
            folder.mkdir(parents=True)

    def write(self, name: str, text: str) -> str:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def found(self, *, trusted: bool = False) -> tuple[list[str], list[str]]:
        """The texts, and what is wrong, with short paths. Nothing above the tree counts."""
        files, problems = context_files(self.cwd, self.agent, trusted)
        ours = [file for file in files if file.path.startswith(str(self.top))]
        return [file.text for file in ours], [problem.replace(f"{self.top}/", "") for problem in problems]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_users_file_is_first_and_the_nearest_is_last(tree: Tree) -> None:
    for name in ("repo/src/AGENTS.md", "repo/AGENTS.md", "AGENTS.md", "agent/AGENTS.md"):
        tree.write(name, name)
    assert tree.found() == (["agent/AGENTS.md", "AGENTS.md", "repo/AGENTS.md", "repo/src/AGENTS.md"], [])


def test_a_file_is_reported_by_its_whole_path(tree: Tree) -> None:
    path = tree.write("repo/src/CLAUDE.md", "\ufeffBe brief.\n")
    assert context_files(tree.cwd, tree.agent, False)[0][-1] == ContextFile(path, "Be brief.\n")


def test_in_one_folder_the_first_name_counts(tree: Tree) -> None:
    for name in reversed(NAMES):
        tree.write(f"repo/src/{name}", name)
        assert tree.found() == ([name], [])


def test_the_same_file_and_the_same_text_are_reported_once(tree: Tree) -> None:
    tree.write("repo/src/AGENTS.md", "one")
    (tree.top / "repo" / "AGENTS.md").symlink_to("src/AGENTS.md")
    tree.write("AGENTS.md", "one")
    assert tree.found() == (["one"], [])


def test_a_blank_file_says_nothing_and_still_counts(tree: Tree) -> None:
    tree.write("repo/src/AGENTS.md", " \n")
    tree.write("repo/src/CLAUDE.md", "not this")
    assert tree.found() == ([], [])


def test_what_cannot_be_read_is_reported_and_the_next_name_counts(tree: Tree) -> None:
    os.mkfifo(tree.cwd / "AGENTS.md")
    (tree.cwd / "AGENTS.override.md").mkdir()
    (tree.cwd / "CLAUDE.md").symlink_to("CLAUDE.md")
    tree.write("repo/src/CLAUDE.MD", "this")
    texts, problems = tree.found()
    assert texts == ["this"]
    assert problems == [
        "repo/src/AGENTS.override.md cannot be read: it is a folder",
        "repo/src/AGENTS.md cannot be read: it is not a regular file",
        "repo/src/CLAUDE.md cannot be read: Too many levels of symbolic links",
    ]


def test_a_file_without_end_is_cut(tree: Tree) -> None:
    tree.write("repo/src/AGENTS.md", "x" * 10_000_000)
    texts, problems = tree.found()
    assert texts == ["x" * MAX_FILE_BYTES + f"\n\n[{10_000_000 - MAX_FILE_BYTES} more bytes of this file are left out]"]
    assert problems == [f"repo/src/AGENTS.md has 10000000 bytes: only the first {MAX_FILE_BYTES} are used"]


def test_of_too_much_the_nearest_is_kept(tree: Tree) -> None:
    for depth in range(8):
        tree.cwd = tree.cwd / str(depth)
        tree.cwd.mkdir()
        (tree.cwd / "AGENTS.md").write_text(str(depth) * MAX_FILE_BYTES)
    texts, problems = tree.found()
    assert [(text[0], len(text)) for text in texts] == [(str(depth), MAX_FILE_BYTES) for depth in range(4, 8)]
    assert sum(map(len, texts)) == MAX_TOTAL_BYTES and len(problems) == 4


def test_a_link_out_of_a_project_is_followed_only_with_trust(tree: Tree) -> None:
    tree.write("home/.ssh/id_rsa", "secret")
    (tree.cwd / "AGENTS.md").symlink_to("../../home/.ssh/id_rsa")
    tree.write("repo/src/CLAUDE.md", "harmless")
    link = "repo/src/AGENTS.md is a link that leads out of the project, which is not trusted: not read"
    assert tree.found() == (["harmless"], [link])
    assert tree.found(trusted=True) == (["secret"], [])


def test_above_the_project_links_are_the_users_own(tree: Tree) -> None:
    tree.write("dotfiles/agents.md", "mine")
    (tree.top / "AGENTS.md").symlink_to("dotfiles/agents.md")
    assert tree.found() == (["mine"], [])


def test_the_system_prompt_of_a_project_needs_trust(tree: Tree) -> None:
    tree.write("repo/src/.pi/SYSTEM.md", "theirs")
    assert prompt_file("SYSTEM.md", tree.cwd, tree.agent, False) == (None, [])
    tree.write("agent/SYSTEM.md", "mine")
    assert prompt_file("SYSTEM.md", tree.cwd, tree.agent, False) == ("mine", [])
    assert prompt_file("SYSTEM.md", tree.cwd, tree.agent, True) == ("theirs", [])


@pytest.mark.parametrize("given", ["plain words", "x" * 10_000, "", ".", "a\0b", "no/such/file.md"])
def test_what_names_no_file_is_a_text(given: str, tree: Tree) -> None:
    assert text_or_file(given, tree.cwd) == (given, [])


def test_what_names_a_file_is_what_it_says(tree: Tree) -> None:
    path = tree.write("repo/src/prompt.txt", "Be a pirate.")
    assert text_or_file("prompt.txt", tree.cwd) == text_or_file(path, tree.cwd) == ("Be a pirate.", [])
