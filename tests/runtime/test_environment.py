"""Which variables are kept from commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.rpc_process import Agent, Json
from tau.runtime.machine.child_environment import (
    ANYWHERE,
    ENDINGS,
    NOT_SECRET,
    SSH_SCHEMES,
    WORDS,
    filtered_environment,
    has_user_in_address,
    is_named_like_a_secret,
)
from tau.store.keys import Keys

PAGE = Path(__file__).parents[2] / "docs" / "security.md"

SECRET = """
    DB_PASS PGPASS SSHPASS KEY CREDENTIAL BEARER GH_TOKENS NPM_TOKEN_2 STRIPE_KEY_LIVE DOCKER_AUTH_CONFIG SENTRY_DSN
    PASS PASSWD PASSWORD PASSPHRASE PGPASSWORD MYSQL_PWD MYSQL_ROOT_PASSWORD GPG_PASSPHRASE KEYS TOKEN TOKENS TOKEN2
    SECRET SECRETS SECRET_KEY_BASE CREDENTIALS GOOGLE_APPLICATION_CREDENTIALS AWS_CREDS AUTH NPM_AUTH npm_config__auth
    BEARER_TOKEN DSN COOKIE SESSION_COOKIE PAT GH_PAT AZURE_DEVOPS_EXT_PAT OPENAI_API_KEY OPENAI_APIKEY apiKey
    githubToken AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN SSH_PRIVATE_KEY DEPLOY_SSHKEY db_password
    JWT SUPABASE_JWT SLACK_WEBHOOK_URL AZURE_STORAGE_CONNECTION_STRING GITHUBTOKEN CI_JOB_TOKEN KEY_PASSPHRASE
    WIFI_PSK DB-PASS GPG_KEY OAUTH_CLIENT HTTP_AUTHORIZATION REDIS_PW ADMIN_PASSCODE stripeKeyLive MYPASSWORDS
    RABBITMQ_ERLANG_COOKIE
"""
PLAIN = """
    PATH HOME PWD OLDPWD SHELL TERM LANG USER LOGNAME DISPLAY XAUTHORITY ICEAUTHORITY SSH_AUTH_SOCK SSH_AGENT_PID
    GIT_ASKPASS SSH_ASKPASS SSH_ASKPASS_REQUIRE SUDO_ASKPASS VSCODE_GIT_ASKPASS_MAIN GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL
    TOKENIZERS_PARALLELISM CLAUDE_CODE_MAX_OUTPUT_TOKENS MAX_TOKENS KEYBOARD KEYTIMEOUT XKB_DEFAULT_LAYOUT MONKEY
    LESSKEY GPG_TTY GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS SSL_CERT_FILE PGPASSFILE PGHOST VIRTUAL_ENV CDPATH MANPATH
    LS_COLORS CARGO_HOME GOPATH NODE_PATH PKG_CONFIG_PATH PATTERN COMPASS_HOME PROXY_BYPASS AUTHOR KEYMAP COMPASSES
    PASSIVE
"""


@pytest.mark.parametrize("name", SECRET.split())
def test_a_variable_that_is_named_like_a_secret_is_known(name: str) -> None:
    assert is_named_like_a_secret(name)


@pytest.mark.parametrize("name", PLAIN.split())
def test_a_variable_that_commands_need_is_not_taken_for_a_secret(name: str) -> None:
    assert not is_named_like_a_secret(name)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "https://ghp_abcdef@github.com/x",
            "postgres://me:hush@db/x",
            "redis://:hush@cache",
            "http://user@proxy:3128",
        ),
        *("see https://a.b, then amqps://u:p@host/v", "ssh://git:hush@host", "HTTPS://token@host", "mysql://u:@host"),
        *("postgres://me:hu/sh@db/x", "redis://:hu#sh@cache", "amqp://u:a/2?3@host:5672/v", "x=1https://u:p@h"),
    ],
)
def test_an_address_with_a_user_or_a_password_is_a_secret(value: str) -> None:
    assert has_user_in_address(value)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "https://github.com/x",
            "ssh://git@github.com/x.git",
            "git+ssh://git@host/x",
            "git@github.com:x.git",
            "a@b.c",
        ),
        *(
            "https://host/user@example.org",
            "https://host/?mail=a@b",
            '{"url":"https://x.y","mail":"a@b"}',
            "SFTP://me@h",
        ),
        *("http://host:8080/user@example.org", "http://[::1]:80/a@b", "http://[::1]/a@b", "http://host:80?a@b"),
    ],
)
def test_other_addresses_are_not(value: str) -> None:
    assert not has_user_in_address(value)


def test_the_user_names_more_and_exempts_some(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "auth.json", {})
    environment = {"ACME_LOGIN": "x", "CI_TOKEN": "y", "DB_TOKEN": "z", "LANG": "C", "MIRROR": "https://me@mirror"}
    passed = {"CI_TOKEN": "y", "LANG": "C", "MIRROR": "https://me@mirror"}
    assert filtered_environment(environment, keys, more=["acme_*"], passed=["ci_token", "MIRROR"]) == passed


def listed(page: str, row: str) -> list[str]:
    (found,) = re.findall(rf"^\| {row} \|(.*)\|$", page, re.MULTILINE)
    return re.findall(r"`([^`]+)`", found)


def test_the_page_has_the_whole_list() -> None:
    page = PAGE.read_text()
    assert sorted(listed(page, "words")) == sorted(WORDS)
    assert sorted(listed(page, "ends of words")) == sorted(ENDINGS)
    assert sorted(listed(page, "anywhere in the name")) == sorted(ANYWHERE)
    assert sorted(listed(page, "no secrets")) == sorted(NOT_SECRET)
    assert sorted(listed(page, "addresses")) == sorted(SSH_SCHEMES)


def environment(folder: Path, settings: Json, variables: dict[str, str], args: tuple[str, ...] = ()) -> list[str]:
    """Which of the variables a command sees."""
    with Agent(folder, settings=settings, env=variables, args=args) as agent:
        lines = agent.get("bash", command="env")["output"].splitlines()
    return [name for name, value in variables.items() if f"{name}={value}" in lines]


VARIABLES = {"DB_PASS": "a1", "ACME_LOGIN": "b2", "CI_TOKEN": "c3", "PLAIN": "d4", "SSH_AUTH_SOCK": "/e5"}


def test_settings_say_what_commands_inherit(tmp_path: Path) -> None:
    settings = {"childEnvironment": {"filterSecrets": True, "secretNames": ["ACME_*"], "passNames": ["CI_TOKEN"]}}
    assert environment(tmp_path, settings, VARIABLES) == ["CI_TOKEN", "PLAIN", "SSH_AUTH_SOCK"]


def test_a_project_cannot_loosen_what_the_user_says(tmp_path: Path) -> None:
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    looser = {"filterSecrets": False, "passNames": ["*"], "secretNames": []}
    (tmp_path / "work" / ".pi" / "settings.json").write_text(json.dumps({"childEnvironment": looser}))
    settings = {"childEnvironment": {"filterSecrets": True, "secretNames": ["ACME_*"]}}
    assert environment(tmp_path, settings, VARIABLES, ("--approve",)) == ["PLAIN", "SSH_AUTH_SOCK"]


def test_a_project_can_ask_for_the_filter(tmp_path: Path) -> None:
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    (tmp_path / "work" / ".pi" / "settings.json").write_text('{"childEnvironment": {"filterSecrets": true}}')
    seen = environment(tmp_path, {"childEnvironment": {"passNames": ["DB_PASS"]}}, VARIABLES, ("--approve",))
    assert seen == ["DB_PASS", "ACME_LOGIN", "PLAIN", "SSH_AUTH_SOCK"]
