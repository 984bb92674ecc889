from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tau.records.base import encode
from tau.store.keys import Keys


def keys(tmp_path: Path, environment: Mapping[str, str] | None = None, **saved: object) -> Keys:
    """Keys with these entries in auth.json."""
    file = tmp_path / "auth.json"
    if saved:
        file.write_bytes(encode(saved))
    return Keys(file, environment or {})


def api_key(key: str) -> dict[str, str]:
    return {"type": "api_key", "key": key}


def test_without_any_source_there_is_no_key(tmp_path: Path) -> None:
    found = keys(tmp_path)
    assert (found.has("anthropic"), found.get("anthropic"), found.problems) == (False, None, [])


def test_the_command_line_goes_before_auth_json_before_the_environment_before_models_json(tmp_path: Path) -> None:
    everything = keys(tmp_path, {"ANTHROPIC_API_KEY": "from-env"}, anthropic=api_key("from-auth"))
    everything.configured = {"anthropic": "from-models"}
    assert everything.get("anthropic") == "from-auth"
    everything.give("anthropic", "from-flag")
    assert everything.get("anthropic") == "from-flag"

    less = Keys(tmp_path / "none.json", {"ANTHROPIC_API_KEY": "from-env"})
    less.configured = {"anthropic": "from-models"}
    assert less.get("anthropic") == "from-env"
    least = Keys(tmp_path / "none.json", {})
    least.configured = {"anthropic": "from-models"}
    assert least.get("anthropic") == "from-models"


def test_keys_of_other_providers_are_not_taken(tmp_path: Path) -> None:
    found = keys(tmp_path, {"ANTHROPIC_API_KEY": "a"}, other=api_key("o"))
    assert [found.get(provider) for provider in ("anthropic", "other", "third")] == ["a", "o", None]


@pytest.mark.parametrize(
    ("configured", "key"),
    [
        ("sk-literal", "sk-literal"),
        ("$LAB_KEY", "from-env"),
        ("${LAB_KEY}", "from-env"),
        ("LAB_KEY", "from-env"),
        ("$MISSING", None),
        ("MISSING", "MISSING"),
        ("$EMPTY", None),
        ("", None),
        ("!echo ' from-command '", "from-command"),
        ("!exit 1", None),
        ("!true", None),
    ],
)
def test_a_configured_value_may_be_a_command_a_variable_or_the_key(
    tmp_path: Path, configured: str, key: str | None
) -> None:
    environment = {"LAB_KEY": "from-env", "EMPTY": ""}
    for found in (keys(tmp_path, environment), keys(tmp_path, environment, lab=api_key(configured))):
        found.configured = {"lab": configured}
        assert found.get("lab") == key
        assert found.has("lab") is (key is not None or configured.startswith("!"))


def test_whether_there_is_a_key_is_known_without_running_anything(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    found = keys(tmp_path)
    found.configured = {"lab": f"!touch {mark}"}
    assert found.has("lab")
    assert not mark.exists()


def test_only_a_command_takes_time(tmp_path: Path) -> None:
    found = keys(tmp_path, {"ANTHROPIC_API_KEY": "a"})
    found.configured = {"lab": "!echo x", "other": "sk-literal"}
    assert [found.takes_time(provider) for provider in ("lab", "other", "anthropic", "third")] == [True, *[False] * 3]


@pytest.mark.parametrize(
    "entry", [{"type": "oauth", "key": "o"}, {"type": "api_key"}, {"type": "api_key", "key": 5}, "text", None]
)
def test_entries_of_other_kinds_are_passed_over(tmp_path: Path, entry: object) -> None:
    found = keys(tmp_path, {"ANTHROPIC_API_KEY": "from-env"}, anthropic=entry)
    assert (found.get("anthropic"), found.problems) == ("from-env", [])


@pytest.mark.parametrize("content", [b"{not json", b"[]", b"\xff"])
def test_a_broken_file_is_reported_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "auth.json"
    file.write_bytes(content)
    found = Keys(file, {"ANTHROPIC_API_KEY": "from-env"})
    assert found.get("anthropic") == "from-env"
    assert len(found.problems) == 1 and found.problems[0].startswith(f"{file}: ")
    assert file.read_bytes() == content
