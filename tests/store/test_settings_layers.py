from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tau.records.settings import CompactionSettings, CompatSettings, RetrySettings, Settings
from tau.store.settings import Layers, SettingsFile, migrate_names, read_layers


def file(folder: Path, content: Any) -> SettingsFile:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content, indent=2).encode())
    return SettingsFile(path)


def both(folder: Path, user: Any, project: Any) -> Layers:
    return read_layers(file(folder / "agent", user), file(folder / "work" / ".pi", project))


# Two files.


def test_the_project_goes_before_the_user_and_objects_are_merged_one_level_deep(tmp_path: Path) -> None:
    read = both(
        tmp_path,
        {"retry": {"maxRetries": 5, "enabled": False}, "defaultModel": "a", "enabledModels": ["x"]},
        {"retry": {"maxRetries": 7}, "defaultModel": "b", "enabledModels": ["y"]},
    )
    assert read.settings == Settings(
        retry=RetrySettings(max_retries=7, enabled=False), default_model="b", enabled_models=["y"]
    )


def test_without_trust_there_is_no_project_file(tmp_path: Path) -> None:
    assert read_layers(file(tmp_path, {"defaultModel": "a"}), None).settings == Settings(default_model="a")


def test_it_is_known_which_file_says_what(tmp_path: Path) -> None:
    read = both(tmp_path, {"retry": {"maxRetries": 5, "enabled": False}, "theme": "x"}, {"retry": {"maxRetries": 7}})
    user, project = tmp_path / "agent" / "settings.json", tmp_path / "work" / ".pi" / "settings.json"
    assert read.origins == {"retry.enabled": user, "retry.maxRetries": project, "theme": user}


def test_resources_of_both_count_and_each_path_belongs_to_its_file(tmp_path: Path) -> None:
    read = both(
        tmp_path,
        {"skills": ["mine", "!mine/old", "/abs"], "packages": ["npm:thing", {"source": "./local"}]},
        {"skills": ["../theirs", "~/s"], "packages": ["./p"]},
    )
    work, agent = tmp_path / "work", tmp_path / "agent"
    home = os.path.expanduser("~/s")
    assert read.settings.skills == [f"{work}/theirs", home, f"{agent}/mine", f"!{agent}/mine/old", "/abs"]
    assert read.settings.packages == [f"{work}/.pi/p", "npm:thing", {"source": f"{agent}/local"}]
    assert read.lists["project"]["skills"] == [f"{work}/theirs", home]


@pytest.mark.parametrize(
    ("name", "value"), [("defaultProjectTrust", "always"), ("httpProxy", "http://evil"), ("allowConfigWrites", True)]
)
def test_no_project_has_a_say_in_what_is_the_users_alone(tmp_path: Path, name: str, value: Any) -> None:
    read = both(tmp_path, {}, {name: value})
    assert read.settings == Settings()
    assert read.problems == [f"{tmp_path / 'work'}/.pi/settings.json: {name}: only your own settings.json can set this"]


# Mistakes.


def test_a_mistake_is_reported_with_its_file_line_and_key_and_costs_only_that_key(tmp_path: Path) -> None:
    text = b"""{
  "retry": {
    "maxRetries": "x",
    "baseDelayMs": 5
  },
  "compaction": {"keepRecentTokens": 1, "enabled": 0},
  "httpIdleTimeoutMs": -1,
  "images": 7,
  "defaultModel": "m"
}"""
    read = read_layers(wrong := file(tmp_path, text), None)
    assert read.settings == Settings(
        retry=RetrySettings(base_delay_ms=5), compaction=CompactionSettings(keep_recent_tokens=1), default_model="m"
    )
    assert sorted(read.problems) == [
        f"{wrong.path}:3: retry.maxRetries: expected int, got str. The default is used for it.",
        f"{wrong.path}:6: compaction.enabled: expected bool, got int. The default is used for it.",
        f"{wrong.path}:7: httpIdleTimeoutMs: expected int >= 0. The default is used for it.",
        f"{wrong.path}:8: images: expected object, got int. The default is used for it.",
    ]
    assert wrong.path.read_bytes() == text


def test_a_text_that_is_not_json_is_reported_with_its_line(tmp_path: Path) -> None:
    wrong = file(tmp_path, b'{\n  "defaultModel": "m"\n  "theme": "dark"\n}')
    assert read_layers(wrong, None).settings == Settings()
    assert len(wrong.problems) == 1 and "line 3" in wrong.problems[0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"queueMode": "zork"}, "queueMode: invalid enum value 'zork'"),
        ({"skills": {"customDirectories": ["a", 1]}}, "skills.customDirectories[1]: expected str, got int"),
        ({"skills": {"enableSkillCommands": 1}}, "skills.enableSkillCommands: expected bool, got int"),
        (
            {"retry": {"provider": {"maxRetryDelayMs": "x"}}},
            "retry.provider.maxRetryDelayMs: expected int, got str",
        ),
    ],
)
def test_a_mistake_under_an_older_name_is_reported_under_that_name(tmp_path: Path, content: Any, told: str) -> None:
    wrong = file(tmp_path, content)
    assert wrong.read() == Settings()
    assert [problem.partition(": ")[2] for problem in wrong.problems] == [f"{told}. The default is used for it."]


def test_a_named_pipe_in_place_of_the_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    pipe = SettingsFile(tmp_path / "settings.json")
    problem = f"{pipe.path} cannot be read: not a regular file. The file is ignored, and no settings are saved."
    assert (pipe.read(), pipe.problems) == (Settings(), [problem])


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    huge = file(tmp_path, b'{"theme":"')
    os.truncate(huge.path, 1 << 40)
    assert huge.read() == Settings()
    assert "larger than" in huge.problems[0]


# What older versions wrote.


@pytest.mark.parametrize(
    ("content", "today"),
    [
        ({"queueMode": "all"}, Settings(steering_mode="all")),
        ({"queueMode": "all", "steeringMode": "one-at-a-time"}, Settings()),
        ({"websockets": True}, Settings(transport="websocket")),
        ({"websockets": False}, Settings(transport="sse")),
        (
            {"skills": {"customDirectories": ["/s"], "enableSkillCommands": False}},
            Settings(skills=["/s"], enable_skill_commands=False),
        ),
        ({"skills": {}}, Settings()),
        ({"retry": {"maxDelayMs": 5}}, Settings(retry=RetrySettings(max_delay_ms=5))),
        ({"retry": {"provider": {"maxRetryDelayMs": 6}}}, Settings(retry=RetrySettings(max_delay_ms=6))),
        (
            {"retry": {"maxDelayMs": 5, "provider": {"maxRetryDelayMs": 6}}},
            Settings(retry=RetrySettings(max_delay_ms=6)),
        ),
        ({"retry": "x", "skills": None}, None),
        ({"statsOf": "conversation"}, Settings(compat=CompatSettings(stats_of="conversation"))),
        (
            {"statsOf": "session", "steerAfter": "turn", "compat": {"statsOf": "conversation"}},
            Settings(compat=CompatSettings(stats_of="conversation", steer_after="turn")),
        ),
        ({"statsOf": "conversation", "compat": 5}, None),
    ],
)
def test_what_older_versions_wrote_is_understood_and_left_as_it_is(tmp_path: Path, content: Any, today: Any) -> None:
    old = file(tmp_path, content)
    before = old.path.read_bytes()
    read = old.read()
    assert read == (today or Settings()) and bool(old.problems) == (today is None)
    assert old.path.read_bytes() == before


def test_reading_an_older_file_does_not_change_what_was_read() -> None:
    content = {"retry": {"provider": {"maxRetryDelayMs": 6}}, "skills": {"customDirectories": ["a"]}}
    before = json.dumps(content)
    migrate_names(content)
    assert json.dumps(content) == before


def test_a_change_keeps_older_names_as_they_are(tmp_path: Path) -> None:
    old = file(tmp_path, {"queueMode": "all", "skills": {"customDirectories": ["a"]}})
    old.read()
    old.change({"defaultModel": "b"})
    assert json.loads(old.path.read_bytes()) == {
        "queueMode": "all",
        "skills": {"customDirectories": ["a"]},
        "defaultModel": "b",
    }


def test_a_mistake_in_a_setting_with_its_older_name_is_reported_by_that_name(tmp_path: Path) -> None:
    old = file(tmp_path, {"statsOf": "zork", "compat": {"steerAfter": "zork", "retrySuccess": "run"}})
    assert old.read() == Settings(compat=CompatSettings(retry_success="run"))
    places = sorted(
        problem.removeprefix(f"{old.path}:").partition(": ")[2].partition(":")[0] for problem in old.problems
    )
    assert places == ["compat.steerAfter", "statsOf"]


def test_older_and_newer_names_of_two_files_are_one_setting(tmp_path: Path) -> None:
    read = both(tmp_path, {"compat": {"statsOf": "conversation", "steerAfter": "turn"}}, {"statsOf": "session"})
    assert read.settings.compat == CompatSettings(steer_after="turn")
    user, project = tmp_path / "agent" / "settings.json", tmp_path / "work" / ".pi" / "settings.json"
    assert read.origins == {"compat.statsOf": project, "compat.steerAfter": user}


def test_a_default_of_the_dialect_gives_way_to_the_older_name(tmp_path: Path) -> None:
    defaults = {"compat": {"statsOf": "conversation", "steerAfter": "turn"}}
    read = read_layers(file(tmp_path, {"statsOf": "session"}), None, defaults)
    assert read.settings.compat == CompatSettings(stats_of="session", steer_after="turn")
