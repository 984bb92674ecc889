from __future__ import annotations

from pathlib import Path

import pytest

from tau.store.models import read_models

FILE = """\ufeff{
  // the lab
  "providers": {
    "lab": { "baseUrl": "http://lab//v1", /* not
    yet */ "apiKey": "a, ]", },
  },
}
"""


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    assert read_models(tmp_path / "models.json") == (None, None)


def test_comments_trailing_commas_and_a_bom_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(FILE, encoding="utf-8")
    assert read_models(file) == ({"providers": {"lab": {"baseUrl": "http://lab//v1", "apiKey": "a, ]"}}}, None)


@pytest.mark.promise("G02")
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"{not json", ":1 is not valid JSON: "),
        (b'{"a": 1,\n "b" 2}', ":2 is not valid JSON: "),
        (b'{"a": 1} x', ":1 is not valid JSON: "),
        (b"", ":1 is not valid JSON: "),
        (b"\xff", " is not valid UTF-8."),
    ],
)
def test_a_broken_file_is_reported_with_its_name_and_line(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "models.json"
    file.write_bytes(content)
    found, problem = read_models(file)
    assert found is None
    assert problem is not None and problem.startswith(f"{file}{what}") and problem.endswith(" The file is ignored.")


def test_a_folder_in_its_place_is_reported(tmp_path: Path) -> None:
    found, problem = read_models(tmp_path)
    assert found is None
    assert problem == f"{tmp_path} cannot be read: Is a directory. The file is ignored."
