from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tau.errors import UsageError
from tau.store.extension_files import FoundExtension, extension_paths


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make(
        tmp_path,
        *("agent/extensions/user.py", "agent/extensions/pack/__init__.py", "agent/extensions/pack/part.py"),
        *("agent/listed.py", "work/.pi/extensions/own.py", "work/tools/listed.py", "work/given.py"),
    )
    return tmp_path


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def found(
    place: Path, *given: str, trusted: bool = False, only: bool = False, entries: Sequence[str] = ()
) -> list[tuple[str, str]]:
    paths, _ = look(place, *given, trusted=trusted, only=only, entries=entries)
    return [(str(one.path.relative_to(place)), one.scope) for one in paths]


def look(
    place: Path, *given: str, trusted: bool = False, only: bool = False, entries: Sequence[str] = ()
) -> tuple[list[FoundExtension], list[str]]:
    lists = {
        "user": {"extensions": [f"{place}/agent/listed.py", *entries]},
        "project": {"extensions": [f"{place / 'work'}/tools"]},
    }
    return extension_paths(lists, place / "agent", place / "work", trusted=trusted, given=given, only_given=only)


USERS = [("agent/listed.py", "user"), ("agent/extensions/pack", "user"), ("agent/extensions/user.py", "user")]


def test_without_trust_the_user_and_the_command_line_have_a_say(place: Path) -> None:
    assert found(place) == USERS
    assert found(place, "given.py") == [("work/given.py", "cli"), *USERS]


def test_with_trust_the_project_has_one_too(place: Path) -> None:
    assert found(place, trusted=True) == [
        ("work/tools/listed.py", "project"),
        ("agent/listed.py", "user"),
        ("work/.pi/extensions/own.py", "project"),
        *USERS[1:],
    ]


def test_only_what_was_named_can_be_asked_for(place: Path) -> None:
    assert found(place, "given.py", trusted=True, only=True) == [("work/given.py", "cli")]


def test_a_folder_is_a_package_or_holds_several(place: Path) -> None:
    assert found(place, "../agent/extensions/pack", only=True) == [("agent/extensions/pack", "cli")]
    assert found(place, "../agent/extensions", only=True) == [
        ("agent/extensions/pack", "cli"),
        ("agent/extensions/user.py", "cli"),
    ]


def test_one_file_by_two_names_is_one_extension(place: Path) -> None:
    (place / "agent" / "extensions" / "again.py").symlink_to(place / "work" / "given.py")
    assert found(place, "given.py", "./given.py") == [("work/given.py", "cli"), *USERS]


def test_what_is_hidden_ignored_compiled_or_deeper_is_passed_over(place: Path) -> None:
    folder = place / "agent" / "extensions"
    make(folder, ".hidden.py", "__pycache__/x.py", "node_modules/a/__init__.py", "plain/x.py", "ignored.py", "note.md")
    (folder / ".gitignore").write_text("ignored.py\n")
    assert found(place) == USERS


@pytest.mark.parametrize("entry", ["!{}/agent/extensions/pack", "-{}/agent/extensions/pack", "!{}/agent/*/pack"])
def test_settings_can_take_out_what_lies_there(place: Path, entry: str) -> None:
    assert found(place, entries=[entry.format(place)]) == [USERS[0], USERS[2]]


def test_settings_can_bring_back_what_a_pattern_takes_out(place: Path) -> None:
    entries = [f"!{place}/agent/extensions/**", f"+{place}/agent/extensions/pack"]
    assert found(place, entries=entries) == USERS[:2]


def test_settings_can_name_many_at_once(place: Path) -> None:
    make(place, "more/a.py", "more/b.py")
    assert found(place, entries=[f"{place}/more/*.py"])[1:3] == [("more/a.py", "user"), ("more/b.py", "user")]


def test_typescript_is_found_with_its_package(place: Path) -> None:
    folder = place / "agent" / "extensions"
    make(folder, "a.ts", "b/index.ts", "c/package.json", "d/index.js", "types.d.ts", "e/src/one.ts", "e/more/two.ts")
    (folder / "e" / "package.json").write_text('{"pi": {"extensions": ["./src/one.ts", "more", "gone.ts"]}}')
    paths, told = look(place)
    found = {str(one.path.relative_to(folder)): one.package for one in paths if one.path.suffix in (".ts", ".js")}
    assert found == {
        "a.ts": None,
        "b/index.ts": folder / "b",
        "d/index.js": folder / "d",
        "e/src/one.ts": folder / "e",
        "e/more/two.ts": folder / "e",
    }
    assert told == []


def test_a_folder_on_the_command_line_is_read_by_its_manifest(place: Path) -> None:
    make(place, "work/pack/lib.ts", "work/pack/main.ts")
    (place / "work" / "pack" / "package.json").write_text('{"pi": {"extensions": ["main.ts"]}}')
    assert found(place, "pack", only=True) == [("work/pack/main.ts", "cli")]


def test_typescript_is_reported_in_one_line_where_there_is_no_node(place: Path) -> None:
    folder = place / "agent" / "extensions"
    make(folder, "a.ts", "b/index.ts")
    lists = {"user": {}, "project": {}}
    paths, told = extension_paths(
        lists, place / "agent", place / "work", trusted=False, node_problem=lambda: "There is no node"
    )
    assert [one.path.name for one in paths] == ["pack", "user.py"]
    assert told == [f"Not loaded: {folder}/a.ts, {folder}/b/index.ts. There is no node."]
    make(place, "work/x.ts")
    with pytest.raises(UsageError, match="There is no node"):
        extension_paths(
            lists,
            place / "agent",
            place / "work",
            trusted=False,
            given=["x.ts"],
            node_problem=lambda: "There is no node",
        )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("builtin:thing", "files, folders and packages"),
        ("gone.py", "no such file"),
        ("empty", "no extension"),
    ],
)
def test_what_was_asked_for_and_cannot_be_is_an_error(place: Path, given: str, told: str) -> None:
    make(place, "work/empty/note.md")
    with pytest.raises(UsageError, match=told):
        found(place, given)


def test_a_link_that_cannot_lead_anywhere_is_skipped(place: Path) -> None:
    before = found(place, trusted=True)
    for folder in (place / "agent/extensions", place / "work/.pi/extensions", place / "work/tools"):
        (folder / "link").symlink_to("a" * 300)  # longer than any name
        (folder / "link.py").symlink_to("a" * 300)
    assert found(place, trusted=True) == before
