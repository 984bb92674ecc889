"""Files of packages that are not what they seem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tau.core.packages.filters import chosen
from tau.store.files import MAX_SMALL_BYTES
from tau.store.packages.git import _dependencies
from tau.store.packages.offers import PackageFolder


def test_a_manifest_of_a_repository_is_read_only_as_far_as_a_small_file(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"dependencies": {"a": "1"}}')
    assert _dependencies(tmp_path) == ["a"]
    with (tmp_path / "package.json").open("r+b") as file:
        file.seek(MAX_SMALL_BYTES)
        file.write(b" ")
    assert _dependencies(tmp_path) == []
    (tmp_path / "package.json").unlink()
    (tmp_path / "package.json").symlink_to("/dev/zero")  # a file without end
    assert _dependencies(tmp_path) == []
    (tmp_path / "package.json").unlink()
    (tmp_path / "package.json").write_text("[" * 100_000)
    assert _dependencies(tmp_path) == []


def test_a_glob_with_many_stars_ends() -> None:
    path = "/package/" + "a" * 200
    assert chosen([path], ["*a" * 40 + "*b"], "/package") == []
    assert chosen([path], ["*a" * 40 + "*"], "/package") == [path]


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*ab*ab", "ababab", True),
        ("*ab*ab", "ab", False),
        ("*[ab]?*", "xa1", True),
        ("a*", "a", True),
        ("**", "x", True),
    ],
)
def test_stars_match_what_they_matched(glob: str, name: str, fits: bool) -> None:
    assert (chosen([f"/package/{name}"], [glob], "/package") != []) is fits


@pytest.mark.parametrize("glob", ["/**/*.md", "../**/*.md", "skills/../../*"])
def test_a_manifest_does_not_make_tau_search_the_disk(tmp_path: Path, glob: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "package.json").write_text(json.dumps({"pi": {"prompts": [glob]}}))
    contents = PackageFolder(tmp_path / "package", within=tmp_path)
    assert contents.files(None, ["prompts"]) == {"prompts": {}}
    assert contents.problems == [f"{glob} is outside of the package: not used"]
