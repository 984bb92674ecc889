"""What packages of the settings bring: manifests, folders, filters, both scopes, and packages that changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tau.store.packages.digests import content_digest
from tau.store.packages.extensions import found_extensions
from tau.store.packages.loading import load_packages
from tau.store.packages.lock_file import LockEntry, change_lock, read_lock
from tau.store.packages.marks import quick_mark

SKILL = "---\nname: {}\ndescription: d\n---\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    return tmp_path


def make(folder: Path, files: Mapping[str, str], pi: Any = None, **manifest: Any) -> Path:
    content = {"name": folder.name, "version": "1.0.0", **manifest, **({} if pi is None else {"pi": pi})}
    for name, text in {"package.json": json.dumps(content), **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def of_user(place: Path, name: str = "kit") -> Path:
    return place / "agent" / "npm" / "node_modules" / name


def of_project(place: Path, name: str = "kit") -> Path:
    return place / "work" / ".pi" / "npm" / "node_modules" / name


KIT = {"extensions/a.ts": "", "extensions/b.py": "", "skills/x/SKILL.md": SKILL.format("x"), "prompts/p.md": "p"}


def names(place: Path, user: list[Any], project: list[Any] | None = None) -> tuple[dict[str, list[str]], list[str]]:
    """The used files by kind, relative to their package, and the problems."""
    found = load_packages({"user": user, "project": project or []}, place / "agent", place / "work")
    used = {
        kind: [f"{one.scope[0]}:{os.path.relpath(one.path, one.base)}" for one in found.used(kind)]
        for kind in found.files
    }
    return {kind: paths for kind, paths in used.items() if paths}, list(found.problems)


def test_a_manifest_offers_what_it_lists_and_nothing_else(place: Path) -> None:
    make(of_user(place), KIT, {"extensions": ["./extensions/a.ts"], "skills": ["skills"], "prompts": "wrong"})
    assert names(place, ["npm:kit"]) == ({"extensions": ["u:extensions/a.ts"], "skills": ["u:skills/x/SKILL.md"]}, [])


def test_entries_of_a_manifest_may_be_globs_with_exceptions(place: Path) -> None:
    files = {"src/a.ts": "", "src/b.ts": "", "src/deep/c.ts": "", "src/.hidden.ts": ""}
    make(of_user(place), files, {"extensions": ["src/**/*.ts", "!b.ts"]})
    assert names(place, ["npm:kit"])[0] == {"extensions": ["u:src/a.ts", "u:src/deep/c.ts"]}


def test_without_a_manifest_the_conventional_folders_count(place: Path) -> None:
    make(of_user(place), KIT)
    assert names(place, ["npm:kit"])[0] == {
        "extensions": ["u:extensions/a.ts", "u:extensions/b.py"],
        "skills": ["u:skills/x/SKILL.md"],
        "prompts": ["u:prompts/p.md"],
    }


def test_a_filter_falls_back_to_the_conventional_folder_of_a_kind(place: Path) -> None:
    make(of_user(place), KIT, {"extensions": ["extensions/a.ts"]})
    assert names(place, ["npm:kit"])[0] == {"extensions": ["u:extensions/a.ts"]}
    assert names(place, [{"source": "npm:kit", "extensions": []}])[0] == {
        "skills": ["u:skills/x/SKILL.md"],
        "prompts": ["u:prompts/p.md"],
    }


def test_a_package_that_offers_nothing_is_told(place: Path) -> None:
    make(of_user(place), {"index.ts": ""})
    used, problems = names(place, ["npm:kit"])
    assert used == {} and problems[0].startswith("npm:kit offers nothing")


def test_a_local_folder_without_resources_is_one_extension_and_so_is_a_file(place: Path) -> None:
    make(place / "agent" / "one", {"index.ts": ""})
    (place / "agent" / "two.py").write_text("")
    found = load_packages({"user": ["./one", "two.py"]}, place / "agent", place / "work")
    assert [(one.path, one.whole) for one in found.used("extensions")] == [
        (place / "agent" / "one", True),
        (place / "agent" / "two.py", True),
    ]


FILES = ["extensions/a.ts", "extensions/b.py", "prompts/p.md", "skills/x/SKILL.md"]
ONLY_A = {"source": "npm:kit", "extensions": ["a.ts"], "skills": [], "prompts": []}
OVERRIDE = {"source": "npm:kit", "autoload": False}
SCOPES: list[tuple[list[Any], list[Any], list[str]]] = [
    (["npm:kit"], [], [f"u:{name}" for name in FILES]),
    ([ONLY_A], [], ["u:extensions/a.ts"]),
    ([], ["npm:kit"], [f"p:{name}" for name in FILES]),
    (["npm:kit"], ["npm:kit"], [f"p:{name}" for name in FILES]),
    (["npm:kit"], [ONLY_A], ["p:extensions/a.ts"]),
    ([ONLY_A], ["npm:kit"], [f"p:{name}" for name in FILES]),
    (["npm:kit"], [OVERRIDE], [f"u:{name}" for name in FILES]),
    ([ONLY_A], [OVERRIDE], ["u:extensions/a.ts"]),
    (["npm:kit"], [{**OVERRIDE, "extensions": ["-extensions/a.ts"]}], [f"u:{name}" for name in FILES[1:]]),
    ([ONLY_A], [{**OVERRIDE, "skills": ["+skills/x"]}], ["p:skills/x/SKILL.md", "u:extensions/a.ts"]),
    ([ONLY_A], [{**OVERRIDE, "extensions": ["!*"]}], []),
    ([], [OVERRIDE], []),
    ([], [{**OVERRIDE, "extensions": ["+extensions/a.ts"]}], ["p:extensions/a.ts"]),  # of what the project installed
    (
        ["npm:kit@1.0.0"],
        [{**OVERRIDE, "source": "npm:kit", "prompts": ["-prompts/p.md"]}],
        [f"u:{n}" for n in FILES if n != "prompts/p.md"],
    ),
    (["npm:kit", ONLY_A], [], [f"u:{name}" for name in FILES]),  # the first of the user's
    ([], ["npm:kit", ONLY_A], ["p:extensions/a.ts"]),  # the last of the project's
]


@pytest.mark.parametrize(("user", "project", "used"), SCOPES)
def test_an_entry_of_the_project_replaces_that_of_the_user_or_filters_it(
    place: Path, user: list[Any], project: list[Any], used: list[str]
) -> None:
    make(of_user(place), KIT)
    make(of_project(place), KIT)
    found, problems = names(place, user, project)
    assert sorted(path for paths in found.values() for path in paths) == sorted(used)
    assert problems == []


def test_a_filter_on_top_of_nothing_does_nothing(place: Path) -> None:
    assert names(place, [], [{**OVERRIDE, "extensions": ["+extensions/a.ts"]}]) == ({}, [])


def test_packages_of_the_project_come_first(place: Path) -> None:
    make(of_user(place, "mine"), {"skills/x/SKILL.md": ""})
    make(of_project(place, "theirs"), {"skills/x/SKILL.md": ""})
    assert names(place, ["npm:mine"], ["npm:theirs"])[0] == {"skills": ["p:skills/x/SKILL.md", "u:skills/x/SKILL.md"]}


def test_a_missing_package_is_told_and_left_out(place: Path) -> None:
    make(of_user(place), KIT)
    used, problems = names(place, ["npm:none", "npm:kit@2.0.0", "git:example.org/me/kit@v1", "./gone"], ["npm:other"])
    assert used == {}
    assert problems == [
        'npm:other is not installed; run "tau install npm:other -l"',
        'npm:none is not installed; run "tau install npm:none"',
        'npm:kit@2.0.0 is installed as 1.0.0; run "tau install npm:kit@2.0.0"',
        'git:example.org/me/kit@v1 is not installed; run "tau install git:example.org/me/kit@v1"',
        f"./gone: there is no {place / 'agent' / 'gone'}",
    ]


def test_a_package_at_a_path_that_the_system_refuses_is_told(place: Path) -> None:
    long = "x" * 300
    assert names(place, [f"./{long}"]) == ({}, [f"./{long}: there is no {place / 'agent' / long}"])


def test_an_entry_that_is_no_package_is_told(place: Path) -> None:
    used, problems = names(place, [1, {"extensions": []}, "git:example.org/../x/y"])
    assert used == {}
    assert problems == [
        "packages: an entry without a source is ignored",
        "packages: git:example.org/../x/y: a path that leaves the folder of packages is refused.",
    ]


@pytest.mark.promise("U03")
def test_a_link_out_of_the_folder_of_packages_is_not_used(place: Path) -> None:
    (place / "secret.md").write_text("---\nname: s\ndescription: the user's own file\n---\n")
    kit = make(of_user(place), {"prompts/ok.md": "ok"})
    (kit / "prompts" / "leak.md").symlink_to(place / "secret.md")
    make(of_user(place, "up"), {}, {"prompts": ["../../../../secret.md"]})
    used, problems = names(place, ["npm:kit", "npm:up"])
    assert used == {"prompts": ["u:prompts/ok.md"]}
    assert [problem.rpartition(": ")[2] for problem in problems[:1]] == ["not used"]


def test_what_an_older_pi_installed_globally_is_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_CONFIG_PREFIX", str(place / "global"))
    monkeypatch.delenv("npm_config_prefix", raising=False)
    make(place / "global" / "lib" / "node_modules" / "kit", KIT)
    assert "extensions" in names(place, ["npm:kit"])[0]


def lock(base: Path, folder: Path) -> None:
    entry = LockEntry(source="npm:kit", files=content_digest(folder), mark=quick_mark(folder))
    change_lock(base / "packages.lock.json", lambda entries: {**entries, "npm:kit": entry})


@pytest.mark.promise("U08")
def test_a_changed_package_is_told_and_one_of_the_project_is_not_loaded(place: Path) -> None:
    mine, theirs = make(of_user(place), KIT), make(of_project(place), KIT)
    lock(place / "agent", mine)
    lock(place / "work" / ".pi", theirs)
    assert names(place, ["npm:kit"])[1] == names(place, [], ["npm:kit"])[1] == []
    for kit in (mine, theirs):
        (kit / "extensions" / "a.ts").write_text("// changed")
    used, problems = names(place, ["npm:kit"])
    assert len(used["extensions"]) == 2 and "not those that were installed" in problems[0]
    used, problems = names(place, [], ["npm:kit"])
    assert used == {} and "not loaded" in problems[0]


def test_the_files_of_a_project_are_compared_even_if_sizes_and_times_fit(place: Path) -> None:
    kit = make(of_project(place), KIT)
    lock(place / "work" / ".pi", kit)
    file = kit / "prompts" / "p.md"
    times = file.stat()
    file.write_text("q")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert quick_mark(kit) == read_lock(place / "work" / ".pi" / "packages.lock.json")["npm:kit"].mark
    assert names(place, [], ["npm:kit"])[0] == {}


def test_an_extension_whose_install_scripts_were_not_run_has_a_hint(place: Path) -> None:
    kit = make(of_user(place), KIT)
    entry = LockEntry(source="npm:kit", files=content_digest(kit), scripts=["one", "two"], built=["one"])
    change_lock(place / "agent" / "packages.lock.json", lambda entries: {"npm:kit": entry})
    files = load_packages({"user": ["npm:kit"]}, place / "agent", place / "work").files["extensions"]
    hints = {one.hint for one in found_extensions(files, None)}
    assert hints == {
        "Install scripts that were not run may be why; to run them: tau install npm:kit --allow-scripts two"
    }


@pytest.mark.promise("U05")
def test_both_states_of_an_exchange_are_valid(place: Path) -> None:
    kit = make(of_project(place), KIT)
    before = content_digest(kit)
    lock(place / "work" / ".pi", kit)
    (kit / "prompts" / "p.md").write_text("new")
    new = LockEntry(source="npm:kit", files=content_digest(kit))
    change_lock(
        place / "work" / ".pi" / "packages.lock.json",
        lambda entries: {"npm:kit": LockEntry(source="npm:kit", files=before, next=new)},
    )
    assert names(place, [], ["npm:kit"])[1] == []
    (kit / "prompts" / "p.md").write_text("p")
    assert names(place, [], ["npm:kit"])[1] == []
    (kit / "prompts" / "p.md").write_text("other")
    assert names(place, [], ["npm:kit"])[1] != []


def test_a_link_that_cannot_lead_anywhere_is_skipped(place: Path) -> None:
    expected = {"extensions": ["u:extensions/a.ts", "u:extensions/b.py"]}
    expected |= {"skills": ["u:skills/x/SKILL.md"], "prompts": ["u:prompts/p.md"]}
    kit = make(of_user(place), KIT)
    for kind in ("extensions", "skills", "prompts"):
        for name in ("link", "link.ts", "link.md"):
            (kit / kind / name).symlink_to("a" * 300)  # longer than any name
    assert names(place, ["npm:kit"]) == (expected, [])
