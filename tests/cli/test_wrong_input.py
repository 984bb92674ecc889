"""Mistakes that people make on the command line: each is one clear line on stderr, an exit code, and no traceback.

Nothing is run, and nothing is sent to a model: it would be in the session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from support.cli_process import Done
from support.rpc_process import WITHIN, surroundings
from tau.store.keys import AMBIENT_VARIABLES, KEY_VARIABLES

USAGE, FAILED = 2, 1
M = {"id": "m"}
LAB = {"baseUrl": "http://127.0.0.1:9", "api": "openai-completions"}


class Wrong(NamedTuple):
    argv: Sequence[str]
    error: str  # how the line begins, after "Error: "
    code: int = USAGE
    program: str = "pi"
    files: dict[str, str | bytes] = {}  # in the working folder; agent/ is the agent's folder
    piped: str | None = None


LONG = "x" * 300
DEMO = ("-p", "--model", "demo")
BAD_PROVIDER = {
    "agent/models.json": json.dumps(
        {"providers": {"mine": {**LAB, "baseUrl": None, "models": [{"id": "m"}]}}}, indent=1
    )
}
SESSION = '{"type": "session", "version": 3, "id": "a", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}\n'

CASES = {
    # Settings that limit what commands can do.
    "a sandbox that does not exist in settings": Wrong(
        [*DEMO, "hi"],
        "{agent}/settings.json:1: sandbox.level: invalid enum value 'workspce'. It was meant to limit",
        files={"agent/settings.json": '{"sandbox": {"level": "workspce"}}'},
    ),
    "a sandbox of a host that does not exist": Wrong(
        ["serve", "--no-tcp", "--sandbox", "workspce"],
        'There is no sandbox "workspce". There are: workspace, strict.',
        program="tau",
    ),
    "secrets that may not be filtered": Wrong(
        [*DEMO, "hi"],
        "{agent}/settings.json:1: childEnvironment.filterSecrets: expected bool, got str. It was meant to limit",
        files={"agent/settings.json": '{"childEnvironment": {"filterSecrets": "yes"}}'},
    ),
    "a sandbox in settings that are not JSON": Wrong(
        [*DEMO, "hi"],
        "{agent}/settings.json:1 is not valid JSON",
        files={"agent/settings.json": '{"sandbox": {"level": "strict"}'},
    ),
    # Models and keys.
    "a missing key": Wrong(
        ["-p", "--provider", "groq", "--model", "llama-3.3-70b-versatile", "hi"],
        "No API key found for groq. Set GROQ_API_KEY.",
        FAILED,
    ),
    "a missing key of a model that several offer": Wrong(
        ["-p", "--model", "claude-sonnet-4-5", "hi"], "No API key found for anthropic. Set ANTHROPIC_API_KEY.", FAILED
    ),
    "no model": Wrong(["-p", "hi"], "No model selected. Set the API key of a provider, for example", FAILED),
    "a misspelt model": Wrong(
        ["-p", "--model", "claude-sonet-4-5", "hi"],
        'Model "claude-sonet-4-5" not found. Did you mean claude-sonnet-4-5',
    ),
    "an unknown model": Wrong(["-p", "--model", "zork", "hi"], 'Model "zork" not found. Use --list-models to see'),
    "a misspelt demo": Wrong(["-p", "--model", "dmeo", "hi"], 'Model "dmeo" not found. Did you mean demo?'),
    "a misspelt provider": Wrong(
        ["-p", "--provider", "antrhopic", "hi"], 'Unknown provider "antrhopic". Did you mean anthropic?'
    ),
    "an unknown provider": Wrong(["-p", "--provider", "zork", "hi"], 'Unknown provider "zork". Use --list-models'),
    "a model without an id": Wrong(
        ["-p", "--provider", "ollama", "hi"], "ollama has no default model. Choose one with"
    ),
    "a key variable that is not set": Wrong(
        ["-p", "--model", "mine/m", "hi"],
        "No API key found for mine: MY_KEY is not set in the environment. models.json refers to it: set it, or",
        FAILED,
        files={"agent/models.json": json.dumps({"providers": {"mine": {**LAB, "apiKey": "MY_KEY", "models": [M]}}})},
    ),
    "a key variable that is not set in auth.json": Wrong(
        ["-p", "--model", "mine/m", "hi"],
        "No API key found for mine: MY_KEY is not set in the environment. auth.json refers to it: set it, or",
        FAILED,
        files={
            "agent/models.json": json.dumps({"providers": {"mine": {**LAB, "apiKey": "sk-1", "models": [M]}}}),
            "agent/auth.json": json.dumps({"mine": {"type": "api_key", "key": "MY_KEY"}}),
        },
    ),
    "a header variable that is not set": Wrong(
        ["-p", "--model", "mine/m", "hi"],
        "The header x-team of mine cannot be sent: TEAM is not set in the environment. Set it, or change the header",
        FAILED,
        files={
            "agent/models.json": json.dumps(
                {"providers": {"mine": {**LAB, "apiKey": "sk-1", "headers": {"x-team": "$TEAM"}, "models": [M]}}}
            )
        },
    ),
    "the name of a variable as a key": Wrong(
        ["-p", "--provider", "openai", "--model", "gpt-5.4", "--api-key", "MY_KEY", "hi"],
        'The API key for openai is "MY_KEY", which is the name of a variable: give its value.',
    ),
    "a mistake in models.json": Wrong(
        ["-p", "--provider", "mine", "hi"],
        'Unknown provider "mine". Use --list-models to see available providers/models.\n  {agent}/models.json:3:'
        ' Provider mine: "baseUrl" is required when defining custom models. This provider is ignored.',
        files=BAD_PROVIDER,
    ),
    "models.json is not JSON": Wrong(
        ["-p", "--provider", "mine", "hi"],
        'Unknown provider "mine". Use --list-models to see available providers/models.\n  {agent}/models.json:2 is not'
        " valid JSON: ",
        files={"agent/models.json": '{\n "providers" {}}'},
    ),
    "a key without a model": Wrong(["-p", "--api-key", "k", "hi"], "--api-key requires a model to be specified"),
    "a script that is missing": Wrong(["-p", "--model", "scripted", "hi"], "--model scripted needs --script FILE"),
    # Flags.
    "a misspelt flag": Wrong(["-p", "--modl", "demo", "hi"], "Unknown option: --modl. Did you mean --model or"),
    "an unknown flag": Wrong(["-p", "--xyzzy", "hi"], "Unknown option: --xyzzy. Put a message that starts with a dash"),
    "a flag without its value": Wrong(["-p", "--model"], "--model needs a value: PATTERN"),
    "an unknown mode": Wrong(["--mode", "tui", "hi"], 'Unknown mode "tui". Use --mode text, json, rpc or acp.'),
    "an unknown thinking level": Wrong(
        [*DEMO, "--thinking", "huge", "hi"], 'Invalid thinking level "huge". Valid values: off, minimal, low, medium,'
    ),
    "an unknown tool": Wrong(
        [*DEMO, "--tools", "read,foo", "hi"], 'Unknown tool "foo". Valid tools: read, bash, edit, write, grep, find, ls'
    ),
    "a tool that no extension has": Wrong(
        [*DEMO, "-e", "ext.py", "--tools", "read,hello,foo", "hi"],
        'Unknown tool "foo". Valid tools: read, bash, edit, write, grep, find, ls, hello',
        files={
            "ext.py": "def setup(pi):\n    @pi.tool\n    def hello() -> str:\n        'Greet.'\n        return 'hi'\n"
        },
    ),
    "a number that is none": Wrong([*DEMO, "--max-turns", "many", "hi"], "--max-turns needs a number, not 'many'"),
    "a number with a fraction": Wrong([*DEMO, "--max-turns", "1.5", "hi"], "--max-turns needs a whole number, not"),
    "a negative limit": Wrong([*DEMO, "--max-cost=-1", "hi"], "--max-cost needs a number above 0, not '-1'"),
    "no limit": Wrong([*DEMO, "--time-limit", "0", "hi"], "--time-limit needs a number above 0, not '0'"),
    "an infinite limit": Wrong([*DEMO, "--max-turns", "inf", "hi"], "--max-turns needs a number above 0, not 'inf'"),
    "an unknown dialect": Wrong([*DEMO, "--dialect", "zork", "hi"], ""),
    "unknown permissions": Wrong([*DEMO, "--permissions", "maybe", "hi"], "--permissions"),
    "rules without a file": Wrong([*DEMO, "--permissions", "rules"], "--permissions needs a value: ask|rules FILE"),
    "rules that are missing": Wrong([*DEMO, "--permissions", "rules", "no.json", "hi"], "--permissions"),
    "an unknown sandbox": Wrong(
        [*DEMO, "--sandbox", "zork", "hi"], 'There is no sandbox "zork". There are: workspace, strict.'
    ),
    "an empty sandbox": Wrong([*DEMO, "--sandbox", "", "hi"], 'There is no sandbox "". There are: workspace, strict.'),
    "a schema that is missing": Wrong(
        [*DEMO, "--output-schema", "no.json", "hi"], "--output-schema no.json: No such file or directory"
    ),
    "a schema that is not JSON": Wrong(
        [*DEMO, "--output-schema", "s.json", "hi"], "--output-schema s.json: ", files={"s.json": "{"}
    ),
    "a replay without recordings": Wrong(
        ["-p", "--provider", "groq", "--replay", "none", "hi"], "--replay {work}/none: there is no such folder."
    ),
    "record and replay": Wrong([*DEMO, "--record", "a", "--replay", "b", "hi"], "--record and --replay cannot go"),
    "a result in print mode": Wrong([*DEMO, "--result", "hi"], "--result is for --mode json"),
    # Files.
    "a file that is missing": Wrong([*DEMO, "@missing.txt", "hi"], "File not found: {work}/missing.txt"),
    "a folder": Wrong([*DEMO, "@.", "hi"], "{work} is a folder; name the files in it"),
    "a binary file": Wrong(
        [*DEMO, "@bin.dat", "hi"],
        "{work}/bin.dat is a binary file: only text and images (PNG, JPEG, GIF, WebP) can be attached",
        files={"bin.dat": bytes(range(256)) * 400},
    ),
    "binary without NUL": Wrong(
        [*DEMO, "@bin.dat", "hi"], "{work}/bin.dat is a binary file", files={"bin.dat": bytes(range(128, 256)) * 40}
    ),
    "a system prompt that is missing": Wrong(
        [*DEMO, "--system-prompt", "nope.md", "hi"], "--system-prompt nope.md: there is no such file"
    ),
    "an appended prompt that is missing": Wrong(
        [*DEMO, "--append-system-prompt", "~/nope.txt", "hi"],
        "--append-system-prompt ~/nope.txt: there is no such file",
    ),
    "an extension that is missing": Wrong([*DEMO, "-e", "nope.py", "hi"], ""),
    "no prompt": Wrong([*DEMO], "There is no prompt: give a message, or pipe text to stdin."),
    "an empty pipe": Wrong([*DEMO], "There is no prompt: give a message, or pipe text to stdin.", piped=" \n"),
    "a file in RPC mode": Wrong(
        ["--model", "demo", "--mode", "rpc", "@README.md"], "@file arguments are not supported in RPC mode"
    ),
    # Sessions.
    "an unknown session": Wrong([*DEMO, "--session", "nope", "hi"], "No session found matching 'nope'"),
    "a session in a folder that is missing": Wrong(
        [*DEMO, "--session", "no/such.jsonl", "hi"],
        "Cannot begin a session at {work}/no/such.jsonl: there is no folder",
    ),
    "a fork of nothing": Wrong([*DEMO, "--fork", "./none.jsonl", "hi"], "Cannot fork: there is no session"),
    "an empty session": Wrong([*DEMO, "--session", "", "hi"], "No session found matching ''"),
    "a fork of an empty session": Wrong(
        [*DEMO, "--session-dir", "s", "--fork", "", "hi"], "No session found matching ''", files={"s/a.jsonl": SESSION}
    ),
    "a fork and the last session": Wrong(
        [*DEMO, "--fork", "01a1", "--continue", "hi"], "Give --continue or --fork, but not both: each chooses"
    ),
    "an id and a session": Wrong(
        [*DEMO, "--session-id", "a", "--session", "b", "hi"], "Give --session or --session-id, but not both"
    ),
    "an id with a slash": Wrong([*DEMO, "--session-id", "a/b", "hi"], "--session-id: letters, digits, '.', '_' and"),
    "resume without a session": Wrong([*DEMO, "--resume", "hi"], "There is no session of this project to resume."),
    "a session that is none": Wrong([*DEMO, "--session", "./a.jsonl", "hi"], "", files={"a.jsonl": "zork\n"}),
    "an export of nothing": Wrong(["--export", "--continue"], "There is no session of this project to export."),
    "an export of an unknown id": Wrong(["--export", "01a1"], "No session found matching '01a1'"),
    "an export of a file that is missing": Wrong(["--export", "a.jsonl"], "Cannot open session"),
    # The system refuses even to look for these.
    "a session in a folder with too long a name": Wrong(
        [*DEMO, "--session", f"{LONG}/a", "hi"], f"Cannot begin a session at {{work}}/{LONG}/a: {{work}}/{LONG}: "
    ),
    "an export of too long a name": Wrong(["--export", LONG], f"No session found matching '{LONG}'"),
    "a fleet in a folder with too long a name": Wrong(
        ["fleet", "status", LONG], f"{LONG} is not the folder of a fleet", program="tau"
    ),
    # Words that are commands.
    "pi install without a source": Wrong(["install"], "the following arguments are required: SOURCE"),
    "pi list with more": Wrong(["list", "x"], "unrecognized arguments: x"),
    "tau update --self": Wrong(["update", "--self"], "tau does not update itself", program="tau"),
    "pi config with more": Wrong(["config", "--model", "demo"], "unrecognized arguments: --model"),
    "pi doctor": Wrong(["doctor"], '"doctor" is a command of tau. Run: tau doctor.'),
    "a misspelt command": Wrong(["doctr"], 'There is no command "doctr". Did you mean tau doctor?', program="tau"),
    "a misspelt package command": Wrong(["instal"], 'There is no command "instal". Did you mean pi install?'),
    "help": Wrong(["help"], 'There is no command "help". Did you mean tau --help?', program="tau"),
    "a command of pi that is another one here": Wrong(
        ["auth", "login", "mine"],
        'There is no command "auth". Did you mean tau login, tau logout or tau doctor? To send the text to',
    ),
    "a command of another agent": Wrong(
        ["exec"], 'There is no command "exec". Did you mean tau -p "TEXT"? To send the word to the', program="tau"
    ),
    "a command of another agent with more": Wrong(
        ["run", "the", "tests"],
        'There is no command "run". Did you mean pi -p "TEXT"? To send the text to the model: pi',
    ),
    "a command that tau had": Wrong(
        ["warm", "start"],
        'There is no command "warm". Did you mean tau serve? To send the text to the model: tau "warm ..."',
        program="tau",
    ),
    "a command of another agent with a flag": Wrong(
        ["export", "--no-session"], 'There is no command "export". Did you mean tau --export ID?', program="tau"
    ),
    "a command of tau, asked of pi, with more": Wrong(
        ["login", "mine"], '"login" is a command of tau. Run: tau login.'
    ),
    "mcp of pi": Wrong(["mcp", "lst"], 'There is no command "tau mcp lst".'),
    "a command that reads its own options after one": Wrong(
        ["--model", "demo", "list"], '"list" is a command of tau. Run: tau list.', program="tau"
    ),
    "a time limit of another agent": Wrong(
        [*DEMO, "--timeout", "5", "hi"], "Unknown option: --timeout. Did you mean --time-limit SECONDS?"
    ),
    "an output format of another agent": Wrong(
        [*DEMO, "--output-format=json", "hi"], "Unknown option: --output-format. Did you mean --mode json?"
    ),
    "a switch of another agent": Wrong(
        [*DEMO, "--yolo", "hi"], "Unknown option: --yolo. Did you mean to leave it out (nothing is asked without"
    ),
    "an unknown flag of a command": Wrong(["doctor", "--zork"], "Unknown option: --zork.", program="tau"),
    "an unknown shell": Wrong(["completion", "tcsh"], "tau completion bash|zsh|fish prints a script", program="tau"),
    "an extension without a name": Wrong(["extension", "new"], "Usage: tau extension new NAME.", program="tau"),
    "trust in too much": Wrong(["trust", "a", "b"], "usage: tau trust [--remove] [DIR]", program="tau"),
    "trust in nothing": Wrong(["trust", "no/such"], "{work}/no/such is not a folder", program="tau"),
}


def wrong(folder: Path, case: Wrong, before: str = "") -> Done:
    """What the program does with this mistake. `before` is code that runs first."""
    env = surroundings(folder, None)
    for names in (*KEY_VARIABLES.values(), *(group for groups in AMBIENT_VARIABLES.values() for group in groups)):
        for name in names:
            env.pop(name, None)
    (folder / "work").mkdir(exist_ok=True)
    for name, content in case.files.items():
        path = folder / name if name.startswith("agent/") else folder / "work" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(0o600)  # else there is a warning about auth.json
    code = f"{before}from tau.cli.main import {case.program}; {case.program}()"
    done = subprocess.run(
        [sys.executable, "-c", code, *case.argv],
        cwd=folder / "work",
        env=env,
        input=(case.piped or "").encode(),
        capture_output=True,
        timeout=WITHIN,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_clear_line_and_an_exit_code(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    done = wrong(tmp_path, case)
    expected = case.error.format(work=os.path.realpath(tmp_path / "work"), agent=tmp_path / "agent")
    assert (done.code, done.out) == (case.code, ""), done.err
    assert done.err.startswith(f"Error: {expected}")
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= (2 if "\n" in expected else 1)
    assert not list(tmp_path.rglob("*.jsonl")) or case.files


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize("mode", ["rpc", "json"])
def test_unknown_tools_and_levels_are_warnings_for_programs(tmp_path: Path, mode: str) -> None:
    argv = ["--mode", mode, "--model", "demo", "--tools", "read,foo,mcp__x__y", "--thinking", "huge"]
    done = wrong(tmp_path, Wrong([*argv, *(["hi"] if mode == "json" else [])], ""))
    assert done.code == 0
    warnings = [line for line in done.err.splitlines() if line.startswith("Warning: ")]
    assert [warning.partition(".")[0] for warning in warnings] == [
        'Warning: Unknown tool "foo"',
        'Warning: Invalid thinking level "huge"',
    ]


@pytest.mark.parametrize("mode", ["text", "json", "rpc"])
@pytest.mark.parametrize("flag", ["--skill", "--prompt-template"])
def test_a_skill_or_a_template_that_is_missing_is_a_warning(tmp_path: Path, mode: str, flag: str) -> None:
    """As in pi: programs always pass their folder of skills, also if it is not there yet."""
    prompt = '{"type": "prompt", "message": "hi"}\n' if mode == "rpc" else None
    argv = ["--mode", mode, "--model", "demo", flag, "nope.md", *(["hi"] if prompt is None else [])]
    done = wrong(tmp_path, Wrong(argv, "", piped=prompt))
    (warning,) = done.err.splitlines()
    assert done.code == 0 and done.out
    assert warning.startswith("tau: WARNING: ") and os.path.realpath(tmp_path / "work" / "nope.md") in warning


def test_tools_of_extensions_and_of_mcp_servers_are_not_unknown(tmp_path: Path) -> None:
    files = CASES["a tool that no extension has"].files
    done = wrong(tmp_path, Wrong([*DEMO, "-e", "ext.py", "--tools", "hello,mcp__a__b", "hello"], "", files=files))
    assert (done.code, done.err) == (0, "")


def test_a_large_image_is_refused_where_it_cannot_be_scaled_down(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"big.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(5 << 20)}
    done = wrong(tmp_path, Wrong([*DEMO, "@big.png", "hi"], "", files=files), "import sys; sys.modules['PIL'] = None; ")
    how = "To scale it down, pip install '.[images]' in a clone of tau; or attach a smaller copy"
    what = f"is too large for a model. {how}"
    assert done == (2, "", f"Error: {os.path.realpath(tmp_path / 'work' / 'big.png')} {what}\n")


def test_a_mistake_in_settings_is_a_warning_with_its_consequence(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"agent/settings.json": '{\n // mine\n "steeringMode": "zork",\n}'}
    done = wrong(tmp_path, Wrong([*DEMO, "hello"], "", files=files))
    problem = "steeringMode: invalid enum value 'zork'. The default is used for it."
    assert (done.code, done.err) == (0, f"Warning: {tmp_path}/agent/settings.json:3: {problem}\n")


@pytest.mark.parametrize(
    ("program", "argv"), [("pi", ["-p", "list"]), ("tau", ["-p", "doctr"]), ("pi", ["list the files"])]
)
def test_a_word_can_still_be_sent(tmp_path: Path, program: str, argv: list[str]) -> None:
    done = wrong(tmp_path, Wrong([*argv, "--model", "demo"], "", program=program))
    assert (done.code, done.err) == (0, "")
