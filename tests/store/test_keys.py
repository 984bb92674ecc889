from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tau.llm.catalog import DEFAULT_MODELS, LOCAL_PROVIDERS, SERVERS
from tau.records.base import encode
from tau.store.keys import AMBIENT_VARIABLES, AUTHENTICATED, KEY_VARIABLES, Keys


def keys(tmp_path: Path, environment: Mapping[str, str] | None = None, **saved: object) -> Keys:
    """Keys with these entries in auth.json."""
    file = tmp_path / "auth.json"
    if saved:
        file.write_bytes(encode(saved))
        file.chmod(0o600)
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
    everything.set_key("anthropic", "from-flag")
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
    assert [found.runs_command(provider) for provider in ("lab", "other", "anthropic", "third")] == [True, *[False] * 3]


@pytest.mark.parametrize(
    "entry", [{"type": "oauth", "key": "o"}, {"type": "api_key"}, {"type": "api_key", "key": 5}, "text", None]
)
def test_entries_of_other_kinds_are_passed_over(tmp_path: Path, entry: object) -> None:
    found = keys(tmp_path, {"ANTHROPIC_API_KEY": "from-env"}, anthropic=entry)
    assert (found.get("anthropic"), found.problems) == ("from-env", [])


@pytest.mark.promise("G03")
@pytest.mark.parametrize("content", [b"{not json", b"[]", b"\xff"])
def test_a_broken_file_is_reported_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "auth.json"
    file.write_bytes(content)
    file.chmod(0o600)
    found = Keys(file, {"ANTHROPIC_API_KEY": "from-env"})
    assert found.get("anthropic") == "from-env"
    assert len(found.problems) == 1 and found.problems[0].startswith(f"{file}: ")
    assert file.read_bytes() == content


# The environment.


def test_every_provider_has_its_variable_and_every_variable_a_provider() -> None:
    assert (
        set(DEFAULT_MODELS) | (set(SERVERS) - LOCAL_PROVIDERS)
        <= set(KEY_VARIABLES)
        <= set(DEFAULT_MODELS) | set(SERVERS)
    )


@pytest.mark.parametrize("provider", KEY_VARIABLES)
def test_the_first_variable_of_a_provider_that_is_set_is_its_key(tmp_path: Path, provider: str) -> None:
    for at, name in enumerate(KEY_VARIABLES[provider]):
        environment = dict.fromkeys(KEY_VARIABLES[provider][at:], "another") | {name: " key\n"}
        found = keys(tmp_path, environment)
        assert (found.get(provider), found.has(provider), found.source(provider)) == ("key", True, name)


def test_tokens_are_distinguished_from_keys(tmp_path: Path) -> None:
    names = ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
    assert [keys(tmp_path, {name: "x"}).is_token("anthropic") for name in names] == [True, True, False]


@pytest.mark.parametrize("names", AMBIENT_VARIABLES["amazon-bedrock"])
def test_aws_has_many_ways_to_be_signed_in(tmp_path: Path, names: tuple[str, ...]) -> None:
    found = keys(tmp_path, dict.fromkeys(names, "x"))
    assert (found.get("amazon-bedrock"), found.source("amazon-bedrock")) == (AUTHENTICATED, " and ".join(names))
    assert not keys(tmp_path, {"AWS_ACCESS_KEY_ID": "x"}).has("amazon-bedrock")


def test_vertex_needs_a_location_a_project_and_an_account(tmp_path: Path) -> None:
    place = {"GOOGLE_CLOUD_LOCATION": "l", "GOOGLE_CLOUD_PROJECT": "p", "HOME": str(tmp_path)}
    assert not keys(tmp_path, place).has("google-vertex")
    file = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    assert keys(tmp_path, place).get("google-vertex") == AUTHENTICATED
    elsewhere = {**place, "HOME": "/nonexistent"}
    assert keys(tmp_path, {**elsewhere, "GOOGLE_APPLICATION_CREDENTIALS": str(file)}).has("google-vertex")
    assert not keys(tmp_path, {**elsewhere, "GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent"}).has("google-vertex")
    assert keys(tmp_path, {**elsewhere, "GOOGLE_OAUTH_ACCESS_TOKEN": "t"}).has("google-vertex")
    assert keys(tmp_path, {**elsewhere, "GOOGLE_CLOUD_API_KEY": "key"}).get("google-vertex") == "key"


def test_a_file_may_have_variables_for_one_provider(tmp_path: Path) -> None:
    entry = {**api_key("$KEY"), "env": {"KEY": "own", "REGION": "eu", "BAD": 5}}
    found = keys(tmp_path, {"KEY": "shared", "HOME": "/"}, azure=entry)
    assert found.get("azure") == "own"
    assert dict(found.environment("azure")) == {"KEY": "own", "REGION": "eu", "HOME": "/"}
    assert found.environment("other") == {"KEY": "shared", "HOME": "/"}


# Commands.


def test_a_command_of_auth_json_runs_once_and_one_of_models_json_each_time(tmp_path: Path) -> None:
    count = f"!echo x >> {tmp_path}/runs; wc -l < {tmp_path}/runs"
    found = keys(tmp_path, anthropic=api_key(count))
    assert [found.get("anthropic") for _ in range(3)] == ["1", "1", "1"]
    found.configured = {"lab": count}
    assert [found.get("lab") for _ in range(2)] == ["2", "3"]


def test_a_key_on_the_command_line_is_just_that(tmp_path: Path) -> None:
    found = keys(tmp_path, {"HOME": "/"})
    for key in ("!echo no", "$HOME", "HOME", "$MISSING"):
        found.set_key("lab", key)
        assert (found.get("lab"), found.has("lab"), found.runs_command("lab")) == (key, True, False)


# For people.


def test_it_can_be_said_where_a_key_comes_from_and_what_is_missing(tmp_path: Path) -> None:
    found = keys(tmp_path, {"XAI_API_KEY": "x"}, openai=api_key("o"))
    found.configured = {"lab": "${A}-$B", "other": "literal"}
    found.set_key("groq", "g")
    providers = ("xai", "openai", "lab", "groq", "zork")
    assert [found.source(name) for name in providers] == ["XAI_API_KEY", "auth.json", "models.json", "--api-key", None]
    assert (found.has("lab"), found.missing("lab"), found.missing("other")) == (False, ["A", "B"], [])
