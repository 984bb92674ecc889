from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tau.records.base import BadRecord, encode, parse
from tau.store.auth import AuthFile

KEY = {"type": "api_key", "key": "k"}
LOGIN = {"type": "oauth", "refresh": "r", "access": "a", "expires": 5, "extra": {"x": [1]}}


def written(tmp_path: Path, content: bytes, mode: int = 0o600) -> AuthFile:
    file = tmp_path / "agent" / "auth.json"
    file.parent.mkdir()
    file.write_bytes(content)
    file.chmod(mode)
    return AuthFile(file)


def mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    file = AuthFile(tmp_path / "auth.json")
    assert (file.read(), file.problems) == ({}, [])


def test_every_entry_is_read_as_it_is(tmp_path: Path) -> None:
    file = written(tmp_path, b"\xef\xbb\xbf" + encode({"a": KEY, "b": LOGIN, "c": 5}))
    assert (file.read(), file.problems) == ({"a": KEY, "b": LOGIN, "c": 5}, [])


@pytest.mark.promise("G04")
@pytest.mark.parametrize("open_mode", [0o644, 0o640, 0o604, 0o666])
def test_what_others_could_read_is_closed_and_told(tmp_path: Path, open_mode: int) -> None:
    file = written(tmp_path, encode({"a": KEY}), open_mode)
    assert file.read() == {"a": KEY}
    assert mode(file.path) == 0o600
    assert file.problems == [f"{file.path}: other users could read it; now only you can (mode 600)"]
    again = AuthFile(file.path)
    assert (again.read(), again.problems) == ({"a": KEY}, [])


def test_a_change_touches_one_provider_and_leaves_the_rest(tmp_path: Path) -> None:
    file = written(tmp_path, encode({"a": KEY, "b": LOGIN}))
    file.change("c", KEY)
    file.change("a", None)
    assert parse(file.path.read_bytes()) == {"b": LOGIN, "c": KEY}
    assert os.listdir(file.path.parent) == ["auth.json"]  # neither a lock nor a draft is left


def test_a_new_file_is_private_from_the_start(tmp_path: Path) -> None:
    file = AuthFile(tmp_path / "agent" / "auth.json")
    file.change("a", KEY)
    assert (file.read(), mode(file.path), mode(file.path.parent)) == ({"a": KEY}, 0o600, 0o700)


@pytest.mark.promise("G03")
@pytest.mark.parametrize("content", [b"{broken", b"[]", b"", b"\xff"])
def test_a_file_that_cannot_be_read_is_never_written_over(tmp_path: Path, content: bytes) -> None:
    file = written(tmp_path, content)
    assert (file.read(), len(file.problems)) == ({}, 1)
    with pytest.raises(BadRecord):
        file.change("a", KEY)
    assert file.path.read_bytes() == content
