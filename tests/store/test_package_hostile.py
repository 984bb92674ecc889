"""Files of packages that are not what they seem."""

from __future__ import annotations

from pathlib import Path

from tau.store.files import MAX_SMALL_BYTES
from tau.store.packages.git import _dependencies


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
