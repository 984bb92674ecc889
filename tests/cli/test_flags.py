from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.model_server import serving
from tau import __version__
from tau.cli.flags import FLAGS, ParsedArguments, help_text, parse
from tau.cli.main import main, mode_of
from tau.cli.session_options import session_options
from tau.errors import UsageError
from tau.runtime.app.options import SessionOptions
from tau.runtime.models.bundled import HOW_TO_INSTALL
from tau.tools.registry import TOOLS


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        ([], ParsedArguments({}, [], [], {}, {})),
        (["--mode", "rpc", "--no-session"], ParsedArguments({"mode": "rpc", "no-session": ""}, [], [], {}, {})),
        (["--model=demo"], ParsedArguments({"model": "demo"}, [], [], {}, {})),
        (["--model", "a=b"], ParsedArguments({"model": "a=b"}, [], [], {}, {})),
        (["-t", "read,bash", "-nt"], ParsedArguments({"tools": "read,bash", "no-tools": ""}, [], [], {}, {})),
        (["hello", "-", "--", "--mode"], ParsedArguments({}, ["hello", "-", "--mode"], [], {}, {}, "hello")),
        (["--zork", "-z", "--mode", "rpc"], ParsedArguments({"mode": "rpc"}, [], ["--zork", "-z"], {}, {})),
        (
            ["a", "--zork", "b", "--plan", "--mode", "rpc"],
            ParsedArguments({"mode": "rpc"}, ["a", "b"], ["--zork", "--plan"], {}, {"zork": 1}, "a"),
        ),
        (["--zork=1", "b"], ParsedArguments({}, ["b"], ["--zork=1"], {}, {}, "b")),
        (["--zork", "b", "c"], ParsedArguments({}, ["b", "c"], ["--zork"], {}, {"zork": 0})),
        (["-p", "b"], ParsedArguments({"print": ""}, ["b"], [], {}, {})),
        (["b", "-p"], ParsedArguments({"print": ""}, ["b"], [], {}, {}, "b")),
        (["--", "b"], ParsedArguments({}, ["b"], [], {}, {})),
        (["--model", "a", "--model", "b"], ParsedArguments({"model": "b"}, [], [], {}, {})),
        (["--list-models", "sonnet"], ParsedArguments({"list-models": ""}, ["sonnet"], [], {}, {}, "sonnet")),
        (["--list-models=sonnet"], ParsedArguments({"list-models": "sonnet"}, [], [], {}, {})),
        (["-e", "a.py", "--extension=b"], ParsedArguments({}, [], [], {"extension": ["a.py", "b"]}, {})),
        (["--model", ""], ParsedArguments({"model": ""}, [], [], {}, {})),
    ],
)
def test_flags_words_and_what_we_do_not_know_are_distinguished(argv: list[str], given: ParsedArguments) -> None:
    assert parse(argv) == given
    assert parse(argv, "pi") == given._replace(program="pi")


def test_a_flag_that_needs_a_value_says_so() -> None:
    with pytest.raises(UsageError, match="--model needs a value: PATTERN"):
        parse(["--mode", "rpc", "--model"])


@pytest.mark.parametrize("word", ["--approve=false", "-a=0", "--no-session=", "--no-approve=false"])
def test_a_switch_with_a_value_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"--(no-)?(approve|session) takes no value: give it alone"):
        parse(["--mode", "rpc", word])


def test_every_name_means_one_thing() -> None:
    names = [name for flag in FLAGS for name in (flag.name, flag.short) if name]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("program", ["pi", "tau"])
def test_help_lists_every_flag_that_does_something(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(program, ["--help", "--mode", "zork"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (help_text(program) + "\n", "")
    assert out.startswith(f"usage: {program} [options] [@file ...] [message ...]\n")
    listed = [line.split()[0].strip(",") for line in out.splitlines() if line.startswith("  --")]
    assert listed == [f"--{flag.name}" for flag in FLAGS if flag.help]
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.parametrize(("program", "version"), [("pi", "0.87.1"), ("tau", __version__)])
def test_each_name_has_its_version(program: str, version: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [main(program, [flag]) for flag in ("--version", "-v")] == [0, 0]
    assert capsys.readouterr() == (f"{version}\n" * 2, "")


@pytest.mark.process
@pytest.mark.parametrize("words", [["--dialect", "0.73"], ["--dialect", "0.84.2"]])
def test_the_version_of_a_dialect_loads_no_more_than_the_version(words: list[str], tmp_path: Path) -> None:
    def loaded(*argv: str) -> list[str]:
        code = "import sys; from tau.cli.main import main; main('pi', sys.argv[1:]); print(*sorted(sys.modules))"
        environment = {"PATH": os.environ["PATH"], "PI_CODING_AGENT_DIR": str(tmp_path)}
        command = [sys.executable, "-c", code, *argv, "--version"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[-1].split()

    assert loaded(*words) == loaded()
    assert "tau.wire.dialects" not in loaded(*words)


@pytest.mark.parametrize(
    ("dialect", "version"),
    [("default", "0.87.1"), ("2026-03", "0.55.4"), ("2026-01", "0.45.7"), ("2025-12", "0.13.2"), ("0.73", "0.73.1")],
)
def test_pi_is_the_release_whose_dialect_was_chosen_by_flag_environment_or_settings(
    dialect: str, version: str, tmp_path: Path
) -> None:
    said = [
        pi(tmp_path, "--version", "--dialect", dialect),
        pi(tmp_path, "--version", PI_DIALECT=dialect),
    ]
    (tmp_path / "settings.json").write_text(json.dumps({"dialect": dialect}))
    said.append(pi(tmp_path, "--version"))
    assert [(one.returncode, one.stdout, one.stderr) for one in said] == [(0, f"{version}\n", "")] * 3


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--mode", "zork"], 'Unknown mode "zork". Use --mode text, json, rpc or acp.'),
        (["--mode", "rpc", "@file.txt"], "@file arguments are not supported in RPC mode"),
        (["--mode", "rpc", "--result"], "--result is for --mode json"),
        (["--mode"], "--mode needs a value: text|json|rpc|acp"),
        (["--modle", "x"], "Unknown option: --modle. Did you mean --mode or --model?"),
        (["--Continue"], "Unknown option: --Continue. Did you mean --continue?"),
        (["--key=secret"], "Unknown option: --key. Put a message that starts with a dash after --."),
        (
            ["-q", "--no-sesion", "hi"],
            "Unknown option: -q. Put a message that starts with a dash after --.\n"
            "  Unknown option: --no-sesion. Did you mean --no-session or --session?",
        ),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(
    argv: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        assert main("pi", argv) == 2
    finally:  # a program that starts takes them, and other tests are in this process, too
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert capsys.readouterr() == ("", f"Error: {error}\n")


NEWER = ["--approve", "-a", "-na", "--no-themes", "--theme", "x", "--use-theme", "y", "--tui-mode", "z", "--no-mcp"]


def test_flags_of_newer_clients_are_taken_without_a_word(tmp_path: Path) -> None:
    done = pi(tmp_path, "--mode", "rpc", "--offline", *NEWER, "-ne", "-ns", "-np", "-nc")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("flags", "at_a_terminal", "mode"),
    [
        ({}, True, "tui"),
        ({"plain": ""}, True, "plain"),
        ({}, False, "text"),
        ({"print": ""}, True, "text"),
        ({"mode": "text"}, True, "text"),
        ({"mode": "json"}, True, "json"),
        ({"mode": "rpc", "print": ""}, False, "rpc"),
        ({"mode": "json"}, False, "json"),
    ],
)
def test_a_mode_that_is_named_counts_and_an_interface_needs_a_terminal(
    flags: dict[str, str], at_a_terminal: bool, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert mode_of(flags, at_a_terminal=at_a_terminal) == mode


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("TERM", ""), ("TAU_SCREEN_READER", "1")])
def test_screen_readers_and_simple_terminals_get_lines(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    assert mode_of({}, at_a_terminal=True) == "plain"


@pytest.mark.parametrize(
    ("argv", "tools"),
    [
        ([], None),
        (["--tools", "read,bash"], ["read", "bash"]),
        (["--tools", ""], []),
        (["--tools", "*"], list(TOOLS)),
        (["--tools", "+ls,-bash"], ["read", "edit", "write", "ls"]),
        (["--exclude-tools", "bash, write"], ["read", "edit"]),
        (["-t", "*", "-xt", "bash"], [name for name in TOOLS if name != "bash"]),
        (["--no-tools"], ()),
        (["-nbt"], ()),
        (["--no-tools", "--tools", "read"], ["read"]),
    ],
)
def test_the_tools_that_were_asked_for(argv: list[str], tools: list[str] | None) -> None:
    assert session_options(parse(argv)).tools == tools


def test_flags_become_wishes() -> None:
    given = parse(
        ["--model", "m", "--provider=p", "--models", "a, b,,", "--thinking", "low", "--api-key", "k", "--tools", "read"]
    )
    assert session_options(given) == SessionOptions("m", "p", ["a", "b"], "low", "k", ["read"], None)
    assert session_options(parse([])) == SessionOptions()
    assert session_options(parse(["--no-tools", "--script", "s"])) == SessionOptions(tools=(), script="s", no_mcp=True)


# As a program.


def pi(tmp_path: Path, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path), **environment}
    command = [sys.executable, "-c", "from tau.cli.main import pi; pi()", *argv]
    return subprocess.run(command, capture_output=True, text=True, env=clean, stdin=subprocess.DEVNULL, timeout=20)


def test_models_with_a_key_are_listed(tmp_path: Path) -> None:
    listed = pi(tmp_path, "--list-models", "opus", "4-5", ANTHROPIC_API_KEY="sk-x")
    assert (listed.returncode, listed.stderr) == (0, "")
    head, *rows = listed.stdout.splitlines()
    assert head.split()[:2] == ["provider", "model"]
    assert [row.split()[:2] for row in rows] == [
        ["anthropic", "claude-opus-4-5"],
        ["anthropic", "claude-opus-4-5-20251101"],
    ]
    same = pi(tmp_path, "--list-models=opus-4-5", ANTHROPIC_API_KEY="sk-x")
    assert same.stdout == listed.stdout
    none = pi(tmp_path, "--list-models", "zork", ANTHROPIC_API_KEY="sk-x")
    assert (none.returncode, none.stdout, none.stderr) == (0, 'No models matching "zork"\n', "")


def test_models_of_a_server_on_this_machine_are_listed(tmp_path: Path) -> None:
    with serving({"data": [{"id": "qwen3", "max_model_len": 4096}]}) as (address, _):
        listed = pi(tmp_path, "--list-models", "ollama", OLLAMA_HOST=address)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [row.split()[:3] for row in listed.stdout.splitlines()[1:]] == [["ollama", "qwen3", "4.1K"]]


def test_starting_loads_no_http_client_and_only_the_figures_it_needs(tmp_path: Path) -> None:
    watch = """
import sys
def watch(event, given):
    if event == "open" and "llm/data" in str(given[0]):
        print(given[0], file=sys.stderr)
sys.addaudithook(watch)
sys.argv = ["pi", *sys.argv[1:]]
from tau.cli.main import pi
pi()
"""
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path)}
    command = [sys.executable, "-X", "importtime", "-c", watch, "--mode", "rpc"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**clean, "XAI_API_KEY": "x", "GROQ_API_KEY": "y"},
        stdin=subprocess.DEVNULL,
        timeout=20,
    )
    assert done.returncode == 0
    loaded = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    assert "tau.rpc.server" in loaded
    assert {"httptools", "http.client", "urllib.request", "xllamacpp"}.isdisjoint(loaded)
    read = [Path(line).name for line in done.stderr.splitlines() if "llm/data" in line]
    assert read == ["xai.json", "groq.json"]


def test_help_reads_no_figures_and_no_records(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tau", "--help"], capture_output=True, text=True, timeout=20
    )
    loaded = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    assert "tau.cli.flags" in loaded
    assert {"tau.llm.catalog", "msgspec", "asyncio"}.isdisjoint(loaded)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--model", "zork"], 'Error: Model "zork" not found. Use --list-models to see available models.\n'),
        (["--model", "scripted"], "Error: --model scripted needs --script FILE\n"),
        (
            ["--model", "scripted", "--script", "/nonexistent"],
            "Error: --script /nonexistent: No such file or directory\n",
        ),
        (
            ["--api-key", "k"],
            "Error: --api-key requires a model to be specified via --model, --provider/--model, or --models\n",
        ),
    ],
)
def test_rpc_mode_does_not_start_on_a_wrong_wish(tmp_path: Path, argv: list[str], error: str) -> None:
    done = pi(tmp_path, "--mode", "rpc", *argv)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", error)


def test_the_local_model_says_what_it_needs(tmp_path: Path) -> None:
    without = "import sys; sys.modules['xllamacpp'] = None; from tau.cli.main import pi; pi()"
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path)}
    command = [sys.executable, "-c", without, "--mode", "rpc", "--model", "local"]
    done = subprocess.run(command, capture_output=True, text=True, env=clean, stdin=subprocess.DEVNULL, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {HOW_TO_INSTALL}\n")


def test_rpc_mode_starts_without_a_model_and_warns_of_what_it_does_not_understand(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{broken")
    done = pi(tmp_path, "--mode", "rpc", "--tools", "read,hammer", "--thinking", "much")
    assert (done.returncode, done.stdout) == (0, "")
    warnings = done.stderr.splitlines()
    assert [warning.startswith("Warning: ") for warning in warnings] == [True] * 3
    assert [word in done.stderr for word in ("settings.json", "hammer", "much")] == [True] * 3


def test_python_m_tau_is_tau() -> None:
    done = subprocess.run([sys.executable, "-m", "tau", "--version"], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([sys.executable, "-m", "tau", "--help"], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
