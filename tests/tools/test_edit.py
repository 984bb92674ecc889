from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tau.core.checks.schema import check_arguments
from tau.errors import ToolError
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.records.settings import FileTexts
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext
from tau.tools.edit import TOOL as EDIT
from tau.tools.read import TOOL as READ
from tau.tools.read_tracking import ReadTracker

ABC = {"oldText": "beta", "newText": "BETA"}
CHANGED = {
    "diff": " 1 alpha\n-2 beta\n+2 BETA\n 3 gamma",
    "patch": "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n",
    "firstChangedLine": 2,
}


def context(cwd: Path, *, fresh: bool = False) -> ToolContext:
    return ToolContext(LocalMachine(), str(cwd), lambda outcome: None, ReadTracker(required=fresh))


def called(where: ToolContext, **args: Any) -> Outcome:
    """As the session does it: checked first."""
    assert EDIT.schema_for
    arguments, problems = check_arguments(EDIT.schema_for(args), args)
    assert problems == []

    async def main() -> Outcome:
        return await EDIT.run(arguments, where)

    return asyncio.run(main())


def failure(where: ToolContext, **args: Any) -> str:
    with pytest.raises(ToolError) as failed:
        called(where, **args)
    return str(failed.value)


@pytest.fixture
def four(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("alpha\nbeta\ngamma\n")
    return tmp_path


def test_one_pair_of_texts(four: Path) -> None:
    said = "Successfully replaced 1 block(s) in a.txt."
    assert called(context(four), path="a.txt", **ABC) == Outcome([Text(said)], CHANGED)
    assert (four / "a.txt").read_text() == "alpha\nBETA\ngamma\n"


@pytest.mark.parametrize(
    "args",
    [
        {"edits": [ABC]},
        {"edits": ABC},
        {"edits": json.dumps([ABC])},
        {"edits": json.dumps(ABC)},
        {"edits": [json.dumps(ABC)]},
        {"edits": [{**ABC, "replaceAll": False}], "oldText": None, "newText": None, "dryRun": True},
        {"edits": [], **ABC},
    ],
)
def test_whatever_models_send_for_a_list_of_pairs(args: dict[str, Any], four: Path) -> None:
    said = "Successfully replaced 1 block(s) in a.txt."
    assert called(context(four), path="a.txt", **args) == Outcome([Text(said)], CHANGED)


def test_null_is_no_list(four: Path) -> None:
    outcome = called(context(four), path="a.txt", edits=None, **ABC)
    assert outcome.content == [Text("Successfully replaced 1 block(s) in a.txt.")]


def test_several_pairs_and_one_beside_them(four: Path) -> None:
    edits = [{"oldText": "alpha", "newText": "beta"}, {"oldText": "gamma", "newText": "c"}]
    outcome = called(context(four), path="a.txt", edits=edits, **ABC)
    assert outcome.content == [Text("Successfully replaced 3 block(s) in a.txt.")]
    assert (four / "a.txt").read_text() == "beta\nBETA\nc\n"


@pytest.mark.parametrize(
    ("args", "problems"),
    [
        (
            {"path": "a"},
            [
                "oldText: must have required property 'oldText'",
                "newText: must have required property 'newText'",
            ],
        ),
        ({"edits": [ABC]}, ["path: must have required property 'path'"]),
        ({"path": "a", "edits": [{"oldText": "x"}]}, ["edits/0/newText: must have required property 'newText'"]),
        ({"path": "a", "edits": "oldText"}, ["edits: must be array"]),
        ({"path": "a", "oldText": 1, "newText": "x"}, ["oldText: must be string"]),
    ],
)
def test_what_is_missing_is_named(args: dict[str, Any], problems: list[str]) -> None:
    assert EDIT.schema_for
    assert check_arguments(EDIT.schema_for(args), args)[1] == problems


def test_an_empty_list_is_nothing_to_do(four: Path) -> None:
    said = "edits is empty; it must contain at least one pair of oldText and newText"
    assert failure(context(four), path="a.txt", edits=[]) == said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert failure(context(tmp_path), path="zzz.txt", **ABC) == "Could not edit file: zzz.txt. Error code: ENOENT."
    assert os.listdir(tmp_path) == []


def test_files_that_cannot_be_edited(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(10 * 1000**3)
    assert {name: failure(context(tmp_path), path=name, **ABC) for name in (".", "fifo", "huge")} == {
        ".": "EISDIR: illegal operation on a directory, read",
        "fifo": f"{tmp_path}/fifo is a named pipe; only regular files can be read",
        "huge": "huge is larger than 64.0MB, too large for edit. Use bash, for example sed.",
    }


def test_a_failed_edit_leaves_the_file_alone(four: Path) -> None:
    before = (four / "a.txt").stat()
    assert failure(context(four), path="a.txt", oldText="delta", newText="x") == (
        "Could not find the exact text in a.txt. The old text must match exactly including all whitespace and newlines."
    )
    after = (four / "a.txt").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    assert os.listdir(four) == ["a.txt"]


def test_a_file_is_edited_under_a_name_that_looks_the_same(tmp_path: Path) -> None:
    (tmp_path / "Jane\u2019s file").write_text("beta")
    called(context(tmp_path), path="Jane's file", **ABC)
    assert {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path)} == {"Jane\u2019s file": "BETA"}


@pytest.mark.promise("F11", "F12", "F15")
def test_a_link_its_mode_and_every_other_byte_stay(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"\xef\xbb\xbfcaf\xe9\r\nbeta \ngamma\r\n")
    (tmp_path / "real").chmod(0o750)
    (tmp_path / "link").symlink_to("real")
    called(context(tmp_path), path="link", **ABC)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"\xef\xbb\xbfcaf\xe9\r\nBETA \ngamma\r\n"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o750


def test_edits_at_the_same_time_see_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"<{n}>\n" for n in range(30)))
    (tmp_path / "b").symlink_to("a")

    async def main() -> None:
        where = context(tmp_path)
        await asyncio.gather(
            *(EDIT.run({"path": "ab"[n % 2], "oldText": f"<{n}>", "newText": f"[{n}]"}, where) for n in range(30))
        )

    asyncio.run(main())
    assert (tmp_path / "a").read_text() == "".join(f"[{n}]\n" for n in range(30))


@pytest.mark.promise("F26")
def test_with_the_setting_only_what_the_model_knows_is_edited(four: Path) -> None:
    where = context(four, fresh=True)

    async def read() -> None:
        await READ.run({"path": "a.txt", "offset": 3}, where)

    assert failure(where, path="a.txt", **ABC).startswith("a.txt has not been read in this session")
    asyncio.run(read())
    called(where, path="a.txt", **ABC)
    called(where, path="a.txt", oldText="BETA", newText="b")
    (four / "a.txt").write_text("somebody else\n")
    assert failure(where, path="a.txt", oldText="else", newText="x") == (
        "a.txt has changed since it was last read. Read it again before you change it."
    )


@pytest.mark.parametrize(
    ("texts", "said", "missing", "patch"),
    [
        ("0.13", "text", "File not found: b.txt", False),
        ("0.59", "1 block(s)", "Could not edit file: b.txt. Error code: ENOENT.", False),
        ("0.84", "1 block(s)", "Could not edit file: b.txt. Error code: ENOENT.", True),
        ("0.87", "1 block(s)", "Could not edit file: b.txt. Error code: ENOENT.", True),
    ],
)
def test_results_are_worded_as_the_releases_of_pi_do(
    tmp_path: Path, texts: FileTexts, said: str, missing: str, patch: bool
) -> None:
    (tmp_path / "a.txt").write_text("alpha\nbeta\n")
    where = ToolContext(LocalMachine(), str(tmp_path), lambda outcome: None, file_texts=texts)
    done = called(where, path="a.txt", oldText="beta", newText="BETA")
    assert done.content == [Text(f"Successfully replaced {said} in a.txt.")]
    assert list(done.details) == ["diff", *(["patch"] if patch else []), "firstChangedLine"]
    assert failure(where, path="b.txt", oldText="a", newText="b") == missing
