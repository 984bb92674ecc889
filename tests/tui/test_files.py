"""Files for `@` and Tab: the index, proposals, and the files that a prompt mentions."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tau.screen.completion import CompletionList, Proposal, Query, query_at
from tau.screen.editor import Editor
from tau.tui.argument_value import ArgumentValue
from tau.tui.completions import CommandEntry, Completions, Values
from tau.tui.file_index import FileIndex, list_files
from tau.tui.files import file_proposals, mentioned_files, path_proposals

TREE = [
    *("README.md", "src/main.py", "src/editor/buffer.py", "src/editor/view.py", "docs/my notes.md"),
    *("docs/shot.png", ".hidden", ".github/ci.yml", "ignored/x.py", "große.txt", "İstanbul.txt"),
]


@pytest.fixture
def project(tmp_path: Path) -> str:
    for name in TREE:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / ".gitignore").write_text("ignored/\n")
    return str(tmp_path)


def listed(cwd: str) -> FileIndex:
    index = FileIndex(cwd)
    index.refresh()
    assert index.wait(30)
    return index


def query(before: str, *, forced: bool = False) -> Query:
    found = query_at(before, first_line=True, forced=forced)
    assert found
    return found


def found(index: FileIndex, text: str) -> list[str]:
    *_, last = index.search(text, 50)
    return last


def values(proposals: Sequence[Proposal]) -> list[str]:
    return [proposal.value for proposal in proposals]


def at_files(index: FileIndex, before: str) -> list[str]:
    *_, last = file_proposals(query(before), index)
    return values(last)


def test_files_and_folders_are_found_by_fuzzy_search(project: str) -> None:
    index = listed(project)
    assert found(index, "main")[0] == "src/main.py"
    assert found(index, "editor")[0] == "src/editor/"
    assert found(index, "sedbuf")[0] == "src/editor/buffer.py"
    assert found(index, "README")[0] == found(index, "readme")[0] == "README.md"
    assert found(index, "GROß")[0] == "große.txt"
    assert found(index, "stanbul")[0] == "İstanbul.txt"
    assert found(index, "nothing here") == []


def test_ignored_files_are_not_offered_and_hidden_ones_are(project: str) -> None:
    index = listed(project)
    assert found(index, "x.py") == []
    assert found(index, "ci.yml") == [".github/ci.yml"]
    assert index.top_level(50) == [
        "docs/",
        "src/",
        "große.txt",
        "İstanbul.txt",
        "README.md",
        ".github/",
        ".gitignore",
        ".hidden",
    ]


def test_the_list_works_without_ripgrep(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau.tools.ripgrep.find_ripgrep", lambda cwd: None)
    names = [name for portion in list_files(project) for name in portion]
    assert sorted(names) == sorted({*TREE, ".gitignore"} - {"ignored/x.py"})


def test_a_refreshed_list_has_new_files(project: str) -> None:
    index = listed(project)
    first = index._listing
    assert first
    first.join(30)  # a list is complete before its thread has ended, and only one thread lists at a time
    Path(project, "newcomer.txt").touch()
    index._listed_at = float("-inf")
    index.refresh()
    assert index._listing and index._listing is not first
    index._listing.join(30)
    assert found(index, "newcomer") == ["newcomer.txt"]
    assert len(found(index, "main")) == 1


def test_a_folder_that_cannot_be_listed_has_no_files(tmp_path: Path) -> None:
    index = listed(str(tmp_path / "missing"))
    assert found(index, "x") == []
    assert index.top_level(5) == []


def test_mentions_are_quoted_and_folders_left_open(project: str) -> None:
    index = listed(project)
    assert at_files(index, "see @notes")[0] == '@"docs/my notes.md" '
    assert at_files(index, "@main")[0] == "@src/main.py "
    assert at_files(index, "@docs/")[0] == "@docs/"
    assert '@"docs/my notes.md" ' in at_files(index, '@"my no')


def test_mentions_outside_the_project(project: str, tmp_path: Path) -> None:
    index = FileIndex(str(tmp_path / "src"))
    assert at_files(index, "@../RE")[0] == "@../README.md "
    assert at_files(index, f"@{tmp_path}/src/")[0] == f"@{tmp_path}/src/editor/"
    assert at_files(index, "@..") == ["@../"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("cat s", ["src/"]),
        ("cat src/", ["src/editor/", "src/main.py"]),
        ("cat ./src/m", ["./src/main.py"]),
        ("cat docs/m", ['"docs/my notes.md"']),
        ('cat "docs/m', ['"docs/my notes.md"']),
        ("cat .h", [".hidden"]),
        ("cat re", ["README.md"]),
        ("cat nothing/", []),
        ("cat src/..", ["src/../"]),
    ],
)
def test_tab_completes_paths_of_a_folder(project: str, before: str, expected: list[str]) -> None:
    assert values(path_proposals(query(before, forced=True), project)) == expected


def test_tab_knows_the_home_folder(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", project)
    assert values(path_proposals(query("~/s", forced=True), "/")) == ["~/src/"]
    assert values(path_proposals(query("~", forced=True), "/")) == ["~/"]


def test_files_that_a_prompt_mentions(project: str) -> None:
    text = 'compare @src/main.py, @"docs/my notes.md" and (@README.md) with @src @missing.py me@README.md'
    assert [(text[one.start : one.end], one.path) for one in mentioned_files(text, project)] == [
        ("@src/main.py", "src/main.py"),
        ('@"docs/my notes.md"', "docs/my notes.md"),
        ("@README.md", "README.md"),
    ]


# Sources


class Asking:
    """An editor with a list of proposals and its sources."""

    def __init__(self, cwd: str, commands: Sequence[CommandEntry] = ()) -> None:
        self.editor = Editor()
        self.popup = CompletionList()
        self.index = FileIndex(cwd)
        self.completions = Completions(self.index, lambda: commands, self._offer)

    def _offer(self, query: Query, proposals: Sequence[Proposal]) -> None:
        self.popup.offer(query, proposals)

    async def type(self, text: str, *, forced: bool = False) -> list[str]:
        self.editor.insert(text)
        before = self.editor.line_before_cursor
        ask = self.popup.force if forced else self.popup.text_changed
        if wanted := ask(before, first_line=True):
            await asyncio.wait_for(self.completions.answer(wanted), 30)
        return [proposal.label for proposal in self.popup.proposals]


async def levels(text: str) -> Values:
    return [ArgumentValue("low"), ArgumentValue("medium"), ArgumentValue("high")]


COMMANDS = [
    CommandEntry("settings", "Change settings"),
    CommandEntry(
        "model", "Choose a model", "[provider/model]", lambda text: [ArgumentValue("sonnet"), ArgumentValue("opus")]
    ),
    CommandEntry("thinking", "Choose a level", "[level]", levels),
    CommandEntry("import", "Import a session", "<path>", completes_files=True),
    CommandEntry("skill:review", "Review"),
]


def test_commands_are_completed_with_hints_and_values(project: str) -> None:
    async def scene() -> None:
        asking = Asking(project, COMMANDS)
        assert await asking.type("/") == ["settings", "model", "thinking", "import", "skill:review"]
        assert await asking.type("mod") == ["model"]
        assert asking.popup.proposals[0].description == "[provider/model] — Choose a model"
        accepted = asking.popup.accept()
        assert accepted
        assert accepted.submits
        asking.editor.replace_around_cursor(accepted.before, accepted.text)
        assert asking.editor.text == "/model "
        assert await asking.type("") == ["sonnet", "opus"]
        assert await asking.type("op") == ["opus"]

    asyncio.run(scene())


def test_values_may_be_found_later_and_files_are_values_too(project: str) -> None:
    async def scene() -> None:
        assert await Asking(project, COMMANDS).type("/thinking hi") == ["high"]
        assert await Asking(project, COMMANDS).type("/import src/m") == ["main.py"]
        assert await Asking(project, COMMANDS).type("/settings x") == []
        assert await Asking(project, COMMANDS).type("/rev") == ["skill:review"]

    asyncio.run(scene())


def test_a_command_that_needs_an_argument_is_not_sent_with_enter(project: str) -> None:
    async def scene() -> None:
        asking = Asking(project, COMMANDS)
        await asking.type("/imp")
        accepted = asking.popup.accept()
        assert accepted
        assert (accepted.text, accepted.submits) == ("/import ", False)

    asyncio.run(scene())


def test_files_are_offered_while_the_list_is_being_made(project: str) -> None:
    async def scene() -> None:
        asking = Asking(project)
        assert await asking.type("see @main") == ["main.py"]
        assert asking.index.complete

    asyncio.run(scene())


def test_a_new_query_cancels_the_one_before(project: str) -> None:
    async def scene() -> None:
        asking = Asking(project)
        for text in ("@mai", "@main"):
            wanted = asking.popup.text_changed(text, first_line=True)
            assert wanted
            asking.completions.ask(wanted)
        task = asking.completions._task
        assert task
        await asyncio.wait_for(task, 30)
        assert [proposal.label for proposal in asking.popup.proposals] == ["main.py"]

    asyncio.run(scene())


def test_tab_completes_paths_in_any_text(project: str) -> None:
    async def scene() -> None:
        assert await Asking(project, COMMANDS).type("look at src/", forced=True) == ["editor/", "main.py"]
        assert await Asking(project, COMMANDS).type("/unknown src/", forced=True) == ["editor/", "main.py"]

    asyncio.run(scene())


def test_a_provider_of_an_extension_comes_first(project: str) -> None:
    async def provider(query: Query) -> list[Proposal] | None:
        return [Proposal("@issue-7 ", "issue-7")] if query.text.startswith("issue") else None

    async def scene() -> None:
        asking = Asking(project)
        asking.completions = Completions(asking.index, tuple, asking._offer, lambda: [provider])
        assert await asking.type("@issue") == ["issue-7"]

    asyncio.run(scene())


def test_first_rows_of_a_hundred_thousand_files(tmp_path: Path) -> None:
    """The index must not compare every file with the query: a search looks at blocks of text."""
    index = FileIndex(str(tmp_path))
    from tau.tui.file_index import _block

    folders: set[str] = set()
    for number in range(100):
        index._blocks.append(_block([f"src/module{number}/file_{one}.py" for one in range(1000)], folders))
    index._complete.set()
    first = next(index.search("file_7", 50))
    assert len(first) == 50
    assert all("file_7" in path for path in first)
    assert index.top_level(5) == ["src/"]


def test_names_with_line_feeds_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a\nb").touch()
    (tmp_path / "ok").touch()
    assert [name for portion in list_files(str(tmp_path)) for name in portion] == ["ok"]


def test_a_git_hook_of_the_project_is_not_run(tmp_path: Path) -> None:
    """Listing must not run what the project configures, such as core.fsmonitor."""
    git = ["git", "-C", str(tmp_path)]
    try:
        subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    marker = tmp_path / "ran"
    subprocess.run([*git, "config", "core.fsmonitor", f"touch {marker}; false"], check=True)
    (tmp_path / "a.txt").touch()
    assert found(listed(str(tmp_path)), "a.txt") == ["a.txt"]
    assert not marker.exists()
    assert os.path.isdir(tmp_path / ".git")
