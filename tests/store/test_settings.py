from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tau.records.settings import CompactionSettings, RetrySettings, SandboxSettings, Settings
from tau.store.files import STALE_LOCK_S
from tau.store.settings import SettingsFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "settings.json"


def write(path: Path, content: Any) -> SettingsFile:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return SettingsFile(path)


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


# Reading.


@pytest.mark.parametrize("content", [None, b"", b" \n", b"{}", b"\xef\xbb\xbf{}"])
def test_a_file_that_says_nothing_means_the_defaults(path: Path, content: bytes | None) -> None:
    file = SettingsFile(path) if content is None else write(path, content)
    assert (file.read(), file.problems) == (Settings(), [])


@pytest.mark.parametrize("text", ["a\0b", "a\ud800"])
def test_a_text_that_cannot_be_a_path_is_invalid(path: Path, text: str) -> None:
    content = {
        "sessionDir": text,
        "prompts": ["good.md", f"{text}/*"],
        "sandbox": {"level": "strict", "readable": [text]},
        "packages": [{"source": text}],
        "unknown": text,
    }
    file = write(path, content)
    assert file.read() == Settings(sandbox=SandboxSettings(level="strict"))
    what = "a path contains neither a null character nor a lone surrogate. The default is used for it."
    places = ("packages", "prompts", "sandbox.readable", "sessionDir")
    assert sorted(file.problems) == [f"{path}:1: {place}: {what}" for place in places]


def test_what_the_file_says_is_taken_and_what_we_do_not_know_ignored(path: Path) -> None:
    file = write(
        path,
        {
            "defaultProvider": "lab",
            "defaultModel": "m-1",
            "toolExecution": "parallel",
            "steeringMode": "all",
            "retry": {"maxRetries": 5, "newer": 1},
            "compaction": {"enabled": False},
            "thinkingBudgets": {"low": 3000},
            "tuiMode": "fullscreen",
        },
    )
    assert file.read() == Settings(
        default_provider="lab",
        default_model="m-1",
        tool_execution="parallel",
        steering_mode="all",
        retry=RetrySettings(max_retries=5),
        compaction=CompactionSettings(enabled=False),
        thinking_budgets={"low": 3000},
    )
    assert file.problems == []


@pytest.mark.promise("G01")
def test_for_each_wrong_value_the_default_is_taken_and_its_place_named(path: Path) -> None:
    wrong = {"steeringMode": "zork", "retry": {"maxRetries": "x"}, "enabledModels": ["a", 5], "defaultModel": "m-1"}
    file = write(path, wrong)
    assert file.read() == Settings(default_model="m-1")
    assert sorted(file.problems) == [
        f"{path}:1: enabledModels[1]: expected str, got int. The default is used for it.",
        f"{path}:1: retry.maxRetries: expected int, got str. The default is used for it.",
        f"{path}:1: steeringMode: invalid enum value 'zork'. The default is used for it.",
    ]


def test_a_null_costs_only_its_own_setting(path: Path) -> None:
    file = write(path, {"steeringMode": None, "defaultModel": "m-1"})
    assert file.read() == Settings(default_model="m-1")
    assert len(file.problems) == 1


@pytest.mark.promise("G01")
@pytest.mark.parametrize("content", [b"{not json", b"[]", b"null", b'{"a":1', b"\xff", b'{"a":NaN}', b"[" * 10**5])
def test_a_broken_file_means_the_defaults_and_is_reported(path: Path, content: bytes) -> None:
    file = write(path, content)
    assert file.read() == Settings()
    (problem,) = file.problems
    assert problem.startswith((f"{path}:1 is not ", f"{path} is not valid UTF-8."))
    assert problem.endswith(" The file is ignored, and no settings are saved.")


def test_a_folder_in_its_place_is_reported(path: Path) -> None:
    path.mkdir(parents=True)
    file = SettingsFile(path)
    assert (file.read(), file.problems) == (
        Settings(),
        [f"{path} cannot be read: Is a directory. The file is ignored, and no settings are saved."],
    )


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_comments_and_trailing_commas_are_read_and_survive_a_change(path: Path, bom: bytes) -> None:
    text = b'{\n  // mine\n  "defaultModel": "a", // cheap\n  "retry": {"maxRetries": "x"},\n}\n'
    file = write(path, bom + text)
    assert file.read() == Settings(default_model="a")
    assert file.problems == [f"{path}:4: retry.maxRetries: expected int, got str. The default is used for it."]
    file = write(path, bom + text.replace(b'"x"', b"1"))
    file.read()
    file.change({"defaultModel": "b", "steeringMode": "all"})
    assert path.read_bytes() == (
        b'{\n  // mine\n  "defaultModel": "b", // cheap\n  "retry": {"maxRetries": 1},\n  "steeringMode": "all",\n}\n'
    )
    assert SettingsFile(path).read() == Settings(
        default_model="b", steering_mode="all", retry=RetrySettings(max_retries=1)
    )


# Writing.


def test_a_change_is_merged_into_what_is_there_now(path: Path) -> None:
    file = write(path, {"theme": "dark", "retry": {"maxRetries": 5, "newer": 1}, "defaultModel": "a"})
    file.read()
    write(path, {**read(path), "lastChangelogVersion": "1.0"})  # another program, in between
    file.change({"defaultModel": "b", "retry": {"enabled": False}})
    assert read(path) == {
        "theme": "dark",
        "retry": {"maxRetries": 5, "newer": 1, "enabled": False},
        "defaultModel": "b",
        "lastChangelogVersion": "1.0",
    }


def test_a_file_is_made_where_there_was_none_and_is_private(path: Path) -> None:
    SettingsFile(path).change({"defaultModel": "é"})
    assert path.read_text() == '{\n  "defaultModel": "é"\n}'
    assert [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent)] == [0o600, 0o700]
    assert [left.name for left in path.parent.iterdir()] == ["settings.json"]


def test_nothing_is_written_when_nothing_changes(path: Path) -> None:
    file = write(path, b'{ "defaultModel":"a" }')
    before = path.stat()
    file.change({"defaultModel": "a"})
    assert (path.stat().st_ino, path.read_bytes()) == (before.st_ino, b'{ "defaultModel":"a" }')


@pytest.mark.promise("G01")
@pytest.mark.parametrize("content", [b"{not json", b"[]"])
def test_a_file_with_a_mistake_is_left_exactly_as_it_is(path: Path, content: bytes) -> None:
    file = write(path, content)
    file.read()
    file.change({"defaultModel": "b"})
    assert path.read_bytes() == content


def test_a_file_that_broke_since_it_was_read_is_left_exactly_as_it_is(path: Path) -> None:
    file = write(path, {})
    file.read()
    write(path, b"{not json")
    file.change({"defaultModel": "b"})
    assert path.read_bytes() == b"{not json"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_of_the_file_is_kept(path: Path, mode: int) -> None:
    file = write(path, {})
    path.chmod(mode)
    file.change({"defaultModel": "b"})
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_link_stays_a_link_and_its_target_is_written(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    write(target, {"theme": "dark"})
    path.parent.mkdir()
    path.symlink_to(target)
    SettingsFile(path).change({"defaultModel": "b"})
    assert path.is_symlink()
    assert read(target) == {"theme": "dark", "defaultModel": "b"}


def test_text_that_is_no_utf8_survives_a_change(path: Path) -> None:
    file = write(path, b'{"tuiMode":"\\ud800"}')
    file.change({"defaultModel": "\udfff"})
    assert SettingsFile(path).read() == Settings(default_model="\udfff")
    assert read(path)["tuiMode"] == "\ud800"


# With others.


def test_a_lock_that_was_left_behind_is_broken(path: Path) -> None:
    file = write(path, {})
    lock = path.with_name("settings.json.lock")
    lock.mkdir()
    os.utime(lock, (time.time() - STALE_LOCK_S - 1,) * 2)
    file.change({"defaultModel": "b"})
    assert read(path) == {"defaultModel": "b"}
    assert not lock.exists()


WRITER = """
import sys
from pathlib import Path
from tau.store.settings import SettingsFile
file = SettingsFile(Path(sys.argv[1]))
for at in range(10):
    while True:
        try:
            file.change({f"{sys.argv[2]}{at}": at, "retry": {f"{sys.argv[2]}{at}": at}})
            break
        except TimeoutError:  # the others had it all the time, on a disk that is slow just now: who asks is told so
            continue
"""


def test_programs_that_write_at_the_same_time_lose_nothing(path: Path) -> None:
    write(path, {"theme": "dark"})
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    assert [writer.wait(90) for writer in writers] == [0, 0, 0]
    changes = {f"{name}{at}": at for name in "abc" for at in range(10)}
    assert read(path) == {"theme": "dark", **changes, "retry": changes}
