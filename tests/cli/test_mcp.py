"""`tau mcp`: configured servers are listed, added, removed, examined and called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.mcp_http_server import McpHttpServer
from support.mcp_server import server_entry
from support.rpc_process import WITHIN, surroundings
from tau.cli.mcp import main
from tau.errors import UsageError
from tau.llm.catalog import OAuthClient
from tau.records.base import to_builtins

PROGRAM = [sys.executable, "-c", "from tau.cli.main import tau; tau()", "mcp"]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def tau_mcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process, in folders of its own."""
    for name, value in surroundings(tmp_path).items():
        if name in ("HOME", "PI_CODING_AGENT_DIR"):
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path / "work")

    def run(*words: str) -> Done:
        try:
            code = main(list(words))
        except UsageError as error:
            return Done(2, "", str(error))
        return Done(code, *capfd.readouterr())

    return run


def test_the_program_runs_these_commands(tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    done = subprocess.run(
        [*PROGRAM, "add", "x", "--", "run", "--help"],
        cwd=tmp_path / "work",
        env=env,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert done.returncode == 0, done.stderr
    assert servers(tmp_path) == {"x": {"command": "run", "args": ["--help"]}}


def servers(folder: Path, name: str = "agent/mcp.json") -> Any:
    return json.loads((folder / name).read_text())["mcpServers"]


def test_a_server_is_added_listed_called_and_removed(tmp_path: Path, tau_mcp: Run) -> None:
    entry = server_entry(tools=["echo", "fail"])
    added = tau_mcp("add", "demo", "--env", "A=b=c", "--", entry["command"], *entry["args"])
    assert added.returncode == 0, added.stderr
    assert servers(tmp_path) == {"demo": {**entry, "env": {"A": "b=c"}}}
    listed = json.loads(tau_mcp("list", "--json").stdout)["servers"]
    assert [(row["name"], row["state"], row["tools"]) for row in listed] == [("demo", "not cached", None)]
    called = tau_mcp("call", "demo", "echo", '{"text": "hi"}')
    assert json.loads(called.stdout)["content"] == [{"type": "text", "text": "hi"}]
    assert tau_mcp("call", "demo", "fail").returncode == 1
    assert "Error: demo: There is no tool nothing. It has: echo, fail" in tau_mcp("call", "demo", "nothing").stderr
    assert "cached, 2 tools" in tau_mcp("list").stdout
    assert tau_mcp("remove", "demo").returncode == 0
    assert servers(tmp_path) == {}
    assert tau_mcp("remove", "demo").returncode == 1


def test_doctor_tells_what_works_what_changed_and_why_one_fails(tmp_path: Path, tau_mcp: Run) -> None:
    change = tmp_path / "work" / "change"
    content = {
        "good": server_entry(tools=["echo"]),
        "bad": {**server_entry(fault="exit"), "env": {"TOKEN": "s3cret-value"}},
    }
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": content}))
    done = tau_mcp("doctor", "--json")
    assert done.returncode == 1
    bad, good = json.loads(done.stdout)["servers"]
    assert (good["state"], good["era"], good["tools"]) == ("ready", "legacy", ["echo"])
    assert bad["state"] == "failed" and bad["stderr"] == ["cannot start: no licence"]
    assert "s3cret-value" not in done.stdout + done.stderr
    for file in (tmp_path / "agent" / "cache" / "mcp").iterdir():
        file.write_text(file.read_text().replace("Echo a text.", "Echo something else."))
    changed = tau_mcp("doctor", "good")
    assert changed.returncode == 0 and "changed since they were cached: echo" in changed.stdout
    assert not change.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read from /proc")
def test_doctor_finds_processes_of_a_server_that_an_earlier_agent_left(tmp_path: Path, tau_mcp: Run) -> None:
    script = tmp_path / "left-behind"
    script.write_text("#!/bin/sh\nread line\n")
    script.chmod(0o700)
    content = {"left": {"command": str(script), "args": ["--stdio"], "startupTimeout": 1}}
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": content}))
    reading, writing = os.pipe()
    try:
        start = ["sh", "-c", f"exec 3<&0; {script} --stdio <&3 >/dev/null 2>&1 & echo $!"]
        left = int(subprocess.run(start, stdin=reading, capture_output=True, text=True, check=True).stdout)
        parent = Path(f"/proc/{left}/stat").read_text().rpartition(")")[2].split()[1]
        if parent != "1":
            pytest.skip(f"orphans are taken over by process {parent} here")
        [report] = json.loads(tau_mcp("doctor", "--json").stdout)["servers"]
        assert report["orphans"] == [left]
    finally:
        os.close(writing)  # ends it
        os.close(reading)


def test_the_rest_of_a_file_stays_as_it_is(tmp_path: Path, tau_mcp: Run) -> None:
    file = tmp_path / "agent" / "mcp.json"
    file.write_text('{\n  // mine\n  "mcpServers": {"a": {"command": "x"}},\n  "other": [1, 2],\n}\n')
    assert tau_mcp("add", "b", "--url", "https://example.com/mcp", "--bearer-token-env-var", "T").returncode == 0
    text = file.read_text()
    assert "// mine" in text and '"other": [1, 2],' in text and '"Authorization": "Bearer ${T}"' in text
    assert tau_mcp("remove", "a").returncode == 0
    assert "// mine" in file.read_text() and '"a"' not in file.read_text()
    local = tau_mcp("add", "-l", "c", "--", "run")
    assert local.returncode == 0 and "tau trust" in local.stdout
    assert servers(tmp_path, "work/.pi/mcp.json") == {"c": {"command": "run"}}


def test_servers_of_another_program_are_copied(tmp_path: Path, tau_mcp: Run) -> None:
    (tmp_path / "work" / "config.toml").write_text(
        '[mcp_servers.a]\ncommand = "x"\nargs = ["y"]\n[mcp_servers.b]\nurl = "https://b/"\n'
    )
    assert tau_mcp("add", "--from", "config.toml").returncode == 0
    assert servers(tmp_path) == {"a": {"command": "x", "args": ["y"]}, "b": {"url": "https://b/"}}
    (tmp_path / "work" / "mcp.json").write_text('{"servers": {"v": {"command": "c", "env": {"K": "${input:my-key}"}}}}')
    assert tau_mcp("add", "--from", "mcp.json", "v").returncode == 0
    assert servers(tmp_path)["v"] == {"command": "c", "env": {"K": "${MY_KEY}"}}


def test_a_header_may_be_given_as_programs_show_it(tmp_path: Path, tau_mcp: Run) -> None:
    given = ["Authorization: Bearer a=b:c", "X-One=1: 2", "X-Two:", "X_Three:3"]
    words = [word for header in given for word in ("--header", header)]
    assert tau_mcp("add", "x", "--url", "https://a/", *words).returncode == 0
    headers = {"Authorization": "Bearer a=b:c", "X-One": "1: 2", "X-Two": "", "X_Three": "3"}
    assert servers(tmp_path)["x"]["headers"] == headers


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["add"], "usage"),
        (["add", "x", "--url", "https://a/", "--header", "A b"], '--header needs NAME=VALUE or "Name: value"'),
        (["add", "x", "--env", "A: b", "--", "y"], "--env needs NAME=VALUE"),
        (["add", "x"], "either a command"),
        (["add", "bad name", "--", "y"], "letters"),
        (["add", "x", "--url", "nonsense"], "http"),
        (["add", "x", "--env", "A", "--", "y"], "NAME=VALUE"),
        (["add", "x", "--flag", "--", "y"], "--flag"),
        (["add", "x", "--url", "https://a/", "--env", "A=b"], "--env is for a server with a command, after --."),
        (["add", "x", "--url", "https://a/", "--cwd", "/"], "--cwd is for a server with a command, after --."),
        (["add", "x", "--header", "A=b", "--", "y"], "--header is for a server with --url."),
        (["add", "x", "--bearer-token-env-var", "T", "--", "y"], "--bearer-token-env-var is for a server with --url."),
        (["add", "x", "--oauth-client-id", "i", "--", "y"], "--oauth-client-id is for a server with --url."),
        (["add", "--from", "f", "--env", "A=b"], "leave out --env"),
        (["add", "--from", "f", "--exposure", "hidden"], "leave out --exposure"),
        (["add", "--from", "f", "--url", "https://a/"], "leave out --url"),
        (["add", "--from", "f", "x", "--", "y"], "leave out a command"),
        (["call", "x", "y", "--", "{}"], "takes nothing after --"),
        (["nothing"], "There is no command"),
        (["call", "x", "y", "{"], "not JSON"),
        (["call", "x", "y"], 'no MCP server "x"'),
        (["login", "x"], 'no MCP server "x"'),
    ],
)
def test_mistakes_are_explained(tau_mcp: Run, words: list[str], reason: str) -> None:
    done = tau_mcp(*words)
    assert done.returncode == 2 and reason in done.stderr


@pytest.mark.parametrize("words", [["add", "x", "--", "y"], ["remove", "x"]])
def test_a_file_with_a_mistake_is_named_and_stays_as_it_is(tmp_path: Path, tau_mcp: Run, words: list[str]) -> None:
    file = tmp_path / "agent" / "mcp.json"
    file.write_text('{"mcpServers": {}\n "x": 1}')
    done = tau_mcp(*words)
    assert done.returncode == 1 and file.read_text() == '{"mcpServers": {}\n "x": 1}'
    assert done.stderr.startswith(f"Error: {file} is not valid JSON: ") and "; correct it first." in done.stderr


def test_a_path_in_the_working_folder_gets_a_warning_in_the_file_of_the_user(tmp_path: Path, tau_mcp: Run) -> None:
    (tmp_path / "work" / "x.py").write_text("")
    warning = "Warning: x.py is relative to this folder, so notes starts only here. "
    assert tau_mcp("add", "notes", "--", "python3", "x.py").stderr.startswith(warning)
    assert tau_mcp("add", "notes", "--", "./x.py").stderr.startswith(warning.replace("x.py", "./x.py"))
    for words in (["python3", str(tmp_path / "work" / "x.py")], ["npx", "-y", "server", "."], ["x.py"]):
        assert tau_mcp("add", "notes", "--", *words).stderr == ""
    assert tau_mcp("add", "notes", "-l", "--", "python3", "x.py").stderr == ""
    assert tau_mcp("add", "notes", "--cwd", str(tmp_path / "work"), "--", "python3", "x.py").stderr == ""


def test_arguments_of_a_call_are_checked_before_the_server_gets_them(tmp_path: Path, tau_mcp: Run) -> None:
    journal = tmp_path / "journal"
    entry = {"demo": server_entry(tools=["echo", "reject"], journal=str(journal))}
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": entry}))
    done = tau_mcp("call", "demo", "echo", '{"text": ["a"]}')
    assert (done.returncode, done.stderr) == (2, "demo: the arguments do not fit echo: text: must be string")
    assert "tools/call" not in journal.read_text()
    entry["demo"] = server_entry(schemas={"echo": {"type": "object", "additionalProperties": False}})
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": entry}))
    unknown = tau_mcp("call", "demo", "echo", '{"x": 1}')
    assert (unknown.returncode, unknown.stderr) == (2, "demo: the arguments do not fit echo: x: unknown field")
    entry["demo"] = server_entry(tools=["echo", "reject"])
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": entry}))
    assert tau_mcp("call", "demo", "reject").stderr.startswith("Error: demo: ")


def test_an_invalid_entry_is_named_with_its_line(tmp_path: Path, tau_mcp: Run) -> None:
    text = '{\n "mcpServers": {\n  "a": {"command": "x"},\n  "b": {\n   "command": 3\n  }\n }\n}\n'
    (tmp_path / "agent" / "mcp.json").write_text(text)
    done = tau_mcp("list")
    assert done.returncode == 1 and "mcp.json:5: mcpServers.b.command: must be a string" in done.stderr
    assert "a  stdio" in done.stdout
    (tmp_path / "agent" / "mcp.json").write_text("{\n\n nonsense")
    broken = tau_mcp("list")
    assert broken.returncode == 1 and "mcp.json:3 is not valid JSON" in broken.stderr


@pytest.mark.promise("M11")
def test_no_secret_of_a_server_is_printed(tmp_path: Path, tau_mcp: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_TOKEN", "token-in-arguments")
    words = ["-S", "-c", "import os, sys; print(os.environ['OTHER_KEY'], sys.argv[1], file=sys.stderr); sys.exit(1)"]
    entries = {
        "one": {
            "command": sys.executable,
            "args": [*words, "${DEMO_TOKEN}"],
            "env": {"OTHER_KEY": "key-in-a-variable"},
        },
        "two": {"url": "http://user:password-of-it@127.0.0.1:1/mcp?api_key=key-in-the-address&x=${DEMO_TOKEN}"},
    }
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    printed = [tau_mcp(*given) for given in (["list"], ["list", "--json"], ["doctor"], ["doctor", "--json"])]
    assert "127.0.0.1:1/mcp" in printed[0].stdout and '"stderr":' in printed[3].stdout
    text = "\n".join(done.stdout + done.stderr for done in printed)
    for secret in ("token-in-arguments", "key-in-a-variable", "password-of-it", "key-in-the-address"):
        assert secret not in text


def test_a_logout_revokes_the_login_of_a_server_with_a_dash_in_its_name(tmp_path: Path, tau_mcp: Run) -> None:
    with McpHttpServer(oauth=True) as server:
        (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": {"my-docs": {"url": server.url}}}))
        client = to_builtins(OAuthClient("c", f"{server.origin}/token", revocation_url=f"{server.origin}/revoke"))
        entry = {"type": "oauth", "access": "a", "refresh": "the-refresh-token", "expires": 9e15, "url": server.url}
        (tmp_path / "agent" / "tau-mcp-auth.json").write_text(json.dumps({"my-docs": {**entry, "client": client}}))
        assert tau_mcp("logout", "my_docs").returncode == 0
        assert server.revoked == ["the-refresh-token"]
        assert json.loads((tmp_path / "agent" / "tau-mcp-auth.json").read_text()) == {}
