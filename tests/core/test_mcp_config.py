"""Configuration of MCP servers: the order of files, variables, invalid entries, files of other programs."""

from __future__ import annotations

from typing import Any

import pytest

from tau.mcp.config import BadEntry, Layer, ServerConfig, Source, merge_layers, parse_entry
from tau.mcp.imports import NoServers, import_servers

USER, PROJECT = Source("/home/mcp.json", "user"), Source("/project/.mcp.json", "project")
ENVIRONMENT = {"NAME": "value", "EMPTY": ""}


def parsed(entry: Any, source: Source = USER, name: str = "x") -> ServerConfig:
    return parse_entry(name, entry, source, ENVIRONMENT, "/home/me")


def test_an_entry_is_stdio_or_http_by_its_fields() -> None:
    config = parsed({"command": "~/bin/run", "args": ["~/a", "b"], "env": {"K": "${NAME}"}, "cwd": "sub"})
    assert (config.transport, config.command, config.args) == ("stdio", "/home/me/bin/run", ("/home/me/a", "b"))
    assert (config.env, config.cwd) == ((("K", "value"),), "sub")
    assert parsed({"url": "https://example.com/mcp"}).transport == "http"
    assert parsed({"type": "sse", "url": "http://localhost/sse"}).transport == "sse"
    assert parsed({"type": "streamable-http", "url": "http://localhost/"}).transport == "http"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [("${NAME}", "value"), ("a${NAME}b", "avalueb"), ("${OTHER:-d}", "d"), ("${EMPTY:-d}", ""), ("$NAME", "$NAME")],
)
def test_variables_are_expanded(text: str, expanded: str) -> None:
    assert parsed({"command": text or "x", "args": [text]}).args == (expanded,)


@pytest.mark.parametrize(
    ("entry", "field", "reason"),
    [
        ([], "", "object"),
        ({}, "", "command"),
        ({"command": 3}, "command", "string"),
        ({"command": " "}, "command", "empty"),
        ({"command": "x", "args": "a b"}, "args", "list"),
        ({"command": "x", "env": {"A": 1}}, "env.A", "string"),
        ({"command": "${MISSING}"}, "command", "MISSING is not set"),
        ({"command": "x", "env": {"A": "${MISSING}"}}, "env", "MISSING"),
        (
            {"url": "https://a/", "headers": {"Authorization": "Bearer $MISSING"}},
            "headers",
            "MISSING is not set in the",
        ),
        ({"command": "x", "env": {"A": "$MISSING"}}, "env", "MISSING is not set in the environment"),
        ({"url": "ftp://example.com"}, "url", "http"),
        ({"url": "https://"}, "url", "http"),
        ({"url": "https://a/", "headers": []}, "headers", "object"),
        ({"type": "magic", "command": "x"}, "type", "stdio"),
        ({"command": "x", "timeout": 0}, "timeout", "seconds"),
        ({"command": "x", "timeout": True}, "timeout", "seconds"),
        ({"command": "x", "enabled": "yes"}, "enabled", "true or false"),
        ({"command": "x", "exposure": "loud"}, "exposure", "direct"),
        ({"command": "x", "toolExposure": {"a": 1}}, "toolExposure.a", "direct"),
        ({"url": "https://a/", "oauth": {"callbackPort": 99999}}, "oauth.callbackPort", "port"),
    ],
)
def test_an_invalid_entry_names_its_field(entry: Any, field: str, reason: str) -> None:
    with pytest.raises(BadEntry, match=reason) as caught:
        parsed(entry)
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 33, "ä", "../x", "a.b"])
def test_names_are_restricted(name: str) -> None:
    with pytest.raises(BadEntry, match="letters"):
        parsed({"command": "x"}, name=name)


@pytest.mark.parametrize("field", ["sandbox", "trustAnnotations", "inheritEnv"])
def test_a_project_cannot_set_what_only_the_user_may(field: str) -> None:
    value: Any = {"sandbox": "inside", "trustAnnotations": True, "inheritEnv": "none"}[field]
    assert parsed({"command": "x", field: value})
    with pytest.raises(BadEntry, match="only your own"):
        parsed({"command": "x", field: value}, PROJECT)


def test_a_later_file_replaces_the_whole_entry_and_names_differ_in_more_than_a_dash() -> None:
    layers = [
        Layer(USER, {"my-server": {"command": "a", "timeout": 5}, "other": {"command": "o"}}),
        Layer(PROJECT, {"my_server": {"command": "b"}}),
    ]
    configs, problems = merge_layers(layers, {}, "/")
    assert problems == []
    assert [(config.name, config.command, config.timeout) for config in configs.values()] == [
        ("my_server", "b", 60.0),
        ("other", "o", 60.0),
    ]


def test_an_entry_without_a_target_changes_only_visibility() -> None:
    layers = [
        Layer(USER, {"a": {"command": "a", "timeout": 5}}),
        Layer(PROJECT, {"a": {"enabled": False, "exposure": "hidden"}, "unknown": {"enabled": False}}),
    ]
    configs, problems = merge_layers(layers, {}, "/")
    assert problems == []
    assert list(configs) == ["a"]
    assert (configs["a"].enabled, configs["a"].exposure, configs["a"].timeout) == (False, "hidden", 5.0)


def test_an_invalid_entry_is_skipped_and_the_rest_works() -> None:
    layers = [
        Layer(USER, {"a": {"command": "a"}, "b": {"command": "b"}}),
        Layer(PROJECT, {"a": {"command": "${MISSING}"}}),
    ]
    configs, (problem,) = merge_layers(layers, {}, "/")
    assert (configs["a"].command, configs["b"].command) == ("a", "b")
    assert (problem.source, problem.place) == (PROJECT, "mcpServers.a.command")


def test_a_command_as_a_value_is_kept_and_never_comes_from_a_variable() -> None:
    config = parse_entry(
        "x", {"command": "x", "env": {"A": "!pass show a", "B": "${TRICK}"}}, USER, {"TRICK": "!rm -rf /"}, "/"
    )
    assert config.commands == {"A"}
    assert dict(config.env) == {"A": "!pass show a", "B": "!rm -rf /"}


# Files of other programs.


def imported(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return import_servers(content, lambda asked: f"ASKED_{asked}".upper().replace("-", "_"))


def test_servers_of_claude_and_cursor() -> None:
    entry = {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}
    assert imported({"mcpServers": {"a": {**entry, "alwaysAllow": ["x"]}}}) == {"a": entry}
    assert imported({"mcpServers": {"My Server!": {"url": "https://a"}}}) == {"My_Server_": {"url": "https://a"}}


def test_servers_of_vscode() -> None:
    entry = {
        "type": "stdio",
        "command": "${workspaceFolder}/run",
        "args": ["${env:HOME}"],
        "env": {"TOKEN": "${input:github-token}"},
    }
    wanted = {"type": "stdio", "command": "./run", "args": ["${HOME}"], "env": {"TOKEN": "${ASKED_GITHUB_TOKEN}"}}
    assert imported({"servers": {"a": entry}, "inputs": []}) == {"a": wanted}
    assert imported({"mcp": {"servers": {"a": entry}}}) == {"a": wanted}


def test_servers_of_codex() -> None:
    entry = {
        "url": "https://a/mcp",
        "bearer_token_env_var": "TOKEN",
        "startup_timeout_sec": 20,
        "tool_timeout_sec": 45,
        "enabled_tools": ["read"],
        "disabled_tools": ["drop"],
    }
    assert imported({"mcp_servers": {"a": entry}})["a"] == {
        "url": "https://a/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
        "startupTimeout": 20,
        "timeout": 45,
        "toolExposure": {"drop": "hidden", "read": "auto", "*": "hidden"},
    }


def test_servers_of_opencode() -> None:
    entry = {"type": "local", "command": ["bun", "x"], "environment": {"A": "{env:B}"}, "enabled": False}
    assert imported({"mcp": {"a": entry}}) == {
        "a": {"command": "bun", "args": ["x"], "env": {"A": "${B}"}, "enabled": False}
    }


def test_a_file_without_servers_is_refused() -> None:
    with pytest.raises(NoServers):
        imported({"other": 1})
