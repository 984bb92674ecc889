"""Every block of code in the documents is run, or checked against the program.

Python is run, and prints what it says it prints: `print(x)  # this`. What has a
`setup(pi)` is loaded as an extension. A block whose fence says `fragment` is only
part of a program (`fragment: needs FastAPI`), and has to be one that Python or node
can read; one that says `sketch` (style.md) shows good and poor beside each other. JSON is decoded as what
it is. Of shell commands, also of those in the middle of a sentence, the programs
have to exist, and the flags to be theirs; test_documented_commands.py runs those of
the pages that people start with.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from docgen.tables import EVENTS, tag
from markdown_it import MarkdownIt

from support.rpc_process import WITHIN, Agent, of, surroundings
from tau.cli.flags import parse
from tau.cli.main import COMMANDS as SUBCOMMANDS
from tau.cli.main import PACKAGE_COMMANDS
from tau.cli.mcp import COMMANDS as MCP_COMMANDS
from tau.cli.packages import argument_parser as package_parser
from tau.core.checks.permissions import Rules
from tau.core.fleet.tasks import NamedTask, read_task
from tau.core.text.frontmatter import parse_fields, split_page
from tau.llm.catalog import parse_providers
from tau.llm.scripted import read_script
from tau.mcp.config import Layer, Source, merge_layers
from tau.records.base import decode
from tau.records.commands import AnyCommand
from tau.records.dialogs import AnyUiRequest, UiResponse
from tau.records.events import AnyEvent
from tau.records.host_commands import HOST_COMMANDS
from tau.records.host_events import HOST_CHANNEL_EVENTS
from tau.records.permissions import Permissions
from tau.records.settings import Settings
from tau.wire.dialect import COMMANDS
from tau.wire.dialects import NAMES

HOST_SHAPES: dict[str, Any] = {**HOST_COMMANDS, **{tag(kind): kind for kind in HOST_CHANNEL_EVENTS}}
ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not page.name.endswith(".in.md")),
]


class Block(NamedTuple):
    page: str
    line: int
    language: str  # empty for what is indented
    mark: str  # what else its fence says
    text: str


def _blocks(page: Path) -> Iterator[Block]:
    name = page.relative_to(ROOT).as_posix()
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            language, _, mark = token.info.partition(" ")
            yield Block(name, (token.map or [0])[0] + 1, language, mark, token.content)
        for child in token.children or ():
            if child.type == "code_inline" and re.match(r"(pi|tau|make|\.venv/bin/\w+) [a-z@-]", child.content):
                first_choice = re.sub(r"(?<=\w)(\|\w+)+", "", child.content)  # `tau completion bash|zsh|fish`
                yield Block(name, (token.map or [0])[0] + 1, "sh", "inline", first_choice)


BLOCKS = [block for page in PAGES for block in _blocks(page)]


# Programs that are not ours.
ELSEWHERE = {
    *("echo", "printf", "git", "export", "source", "eval", "cd", "mkdir", "tail", "test", "true", "command"),
    *("pip", "pipx", "uv", "npm", "npx", "node", "ollama", "dask"),
}
OURS = {"pi", "tau", "make", "python", "python3"}


def _is_shell(block: Block) -> bool:
    first = re.match(r"(?:\$ )?([\w./-]+)", block.text)
    known = first is not None and first[1].rpartition("/")[2] in OURS | ELSEWHERE
    return block.language in ("sh", "bash") or (not block.language and known)


def _is_extension(block: Block) -> bool:
    return block.language == "python" and "def setup(pi" in block.text


def chosen(wanted: Callable[[Block], bool]) -> Any:
    some = [block for block in BLOCKS if wanted(block)]
    assert some
    return pytest.mark.parametrize("block", some, ids=[f"{block.page}:{block.line}" for block in some])


def test_every_block_says_what_it_is() -> None:
    known = {"python", "json", "sh", "bash", "js", "lua", "elisp", "markdown", "text", "yaml", ""}
    assert [f"{block.page}:{block.line}" for block in BLOCKS if block.language not in known] == []


# Programs


@chosen(lambda block: block.language == "python" and not block.mark and not _is_extension(block))
def test_a_program_runs_and_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    # Ten lines have no room for a farewell to the process they started.
    warnings = [] if "Popen" in block.text else ["-W", "error"]
    env = surroundings(tmp_path)
    work, scripts = tmp_path / "work", Path(sys.executable).parent
    (work / "notes.txt").write_text("hello\n")
    (work / ".venv").mkdir()
    (work / ".venv" / "bin").symlink_to(scripts)  # README.md names the pi of a clone
    done = subprocess.run(
        [sys.executable, *warnings, "-c", block.text],
        cwd=work,
        env={**env, "PATH": f"{scripts}:{env.get('PATH', '')}"},
        capture_output=True,
        text=True,
        timeout=2 * WITHIN,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for promised in re.findall(r"^ *print\(.+\)  # (.+)", block.text, re.MULTILINE):
        assert promised in done.stdout


@chosen(_is_extension)
def test_an_extension_can_be_loaded(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "extension.py"
    file.write_text(block.text)
    with Agent(tmp_path, args=["-e", str(file)]) as agent:
        agent.prompt("hello")
        assert of("extension_error", agent.events) == []


@chosen(lambda block: block.language == "python" and block.mark.startswith("fragment"))
def test_a_fragment_is_python(block: Block) -> None:
    compile(block.text, block.page, "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert set(re.findall(r'"PI_DIALECT": "(.+?)"', block.text)) <= set(NAMES)


@chosen(lambda block: block.language == "js")
def test_javascript_can_be_read(block: Block, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on this machine: JavaScript was NOT read")
    file = tmp_path / "block.mjs"
    file.write_text(block.text)
    done = subprocess.run([node, "--check", file], capture_output=True, text=True, timeout=WITHIN)
    assert (done.returncode, done.stderr) == (0, "")


# Data


@chosen(lambda block: block.language == "json")
def test_json_is_what_it_shows(block: Block) -> None:
    for value in _values(block.text):
        assert _known(value), value


def _values(text: str) -> list[Any]:
    """One value, or one in each line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def _known(value: Any) -> bool:
    match value:
        case {"type": "response", "command": command, "success": bool()}:
            return command in COMMANDS or command in HOST_COMMANDS
        case {"type": "extension_ui_request" | "extension_ui_response" as kind}:
            dialog: Any = UiResponse if kind.endswith("response") else AnyUiRequest
            return decode(dialog, json.dumps(value).encode()) is not None
        case {"type": "image", **rest}:
            return rest.keys() <= {"data", "mimeType", "source"}
        case {"type": str(kind)}:
            shape: Any = HOST_SHAPES.get(kind) or (AnyCommand if kind in COMMANDS else AnyEvent)
            return decode(shape, json.dumps(value).encode()) is not None
        case {"answers": _}:
            return bool(read_script(json.dumps(value).encode()).answers)
        case {"providers": _}:
            return parse_providers(value)[1] == []
        case {"mcpServers": servers}:
            return merge_layers([Layer(Source("", "user"), servers)], {}, "/")[1] == []
        case {"prompt": _}:  # a task of a fleet
            return isinstance(read_task(json.dumps(value).encode(), {}), NamedTask)
        case {"extensionHost": _} | {"packages": _}:
            return decode(Settings, json.dumps(value).encode()) is not None
        case {"otherwise": _}:  # rules for --permissions
            return Rules(decode(Permissions, json.dumps(value).encode()), "/", "/") is not None
        case {"agent_servers": servers}:  # of an editor
            environments = [server.get("env", {}) for server in servers.values()]
            return {env["PI_DIALECT"] for env in environments if "PI_DIALECT" in env} <= set(NAMES)
        case dict():  # auth.json
            return all(entry["type"] == "api_key" and entry["key"] for entry in value.values())
    return False


@chosen(lambda block: block.language == "markdown")
def test_fields_of_a_file_can_be_read(block: Block) -> None:
    assert "description" in parse_fields(split_page(block.text)[0])


@chosen(lambda block: not block.language and block.text.lstrip("$ ").startswith("pi ") and "{" in block.text)
def test_an_excerpt_of_a_stream_has_events_there_are(block: Block) -> None:
    kinds = set(re.findall(r'^\{"type":"(\w+)"', block.text, re.MULTILINE))
    assert kinds and kinds <= {"session", *map(tag, EVENTS)}


# What the program says in words, and where a whole test is about it.
SAID = {
    "docs/protocol.md": ["Ran `", "Command exited with code "],
    "docs/record-replay.md": ["there is no recorded answer to", "Record it again with --record"],
    "docs/structured-output.md": ["this keyword is not supported"],
    "docs/trust.md": ["tau:sha256:"],
}


@chosen(lambda block: not block.language and not _is_shell(block))
def test_what_the_program_says_is_what_it_says(block: Block) -> None:
    source = "".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "src" / "tau").rglob("*.py")))
    for words in SAID[block.page]:
        assert words in block.text and words in source


def test_the_recording_of_the_demo_is_what_it_shows() -> None:
    (recorded,) = [block.text for block in BLOCKS if block.page == "docs/media/demo.md" and block.language == "text"]
    command = [sys.executable, str(ROOT / "examples" / "demo.py")]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * WITHIN
    )
    lines = iter(done.stdout.splitlines())
    assert [line for line in recorded.splitlines()[1:] if line not in lines] == []  # all of it, in this order


# Commands


@chosen(_is_shell)
def test_commands_and_their_flags_exist(block: Block) -> None:
    lines = block.text.replace("\\\n", " ").splitlines()
    commands = [command for line in lines for command in _commands(line)]
    assert commands
    assert [problem for words in commands for problem in _problems(words)] == []


def _commands(line: str) -> Iterator[list[str]]:
    """The commands of a line; `$` before one marks it among what it prints."""
    line = line.removeprefix("$ ")
    if not line.strip() or line[0] in "{…#":
        return
    for inner in re.findall(r"\$\((.+?)\)", line):
        yield from _commands(inner)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word[0] not in "|&;":
            words.append(word)
            continue
        while words and re.match(r"\w+=", words[0]):
            del words[0]
        if words:
            yield words
        words = []


def _problems(words: list[str]) -> Iterator[str]:
    program, *arguments = words
    for word in arguments:
        if re.match(r"(examples|scripts|benchmarks)/", word) and not (ROOT / word).exists():
            yield f"there is no {word}"
    match program.rpartition("/")[2]:
        case "tau" | "pi" as name if arguments[0:1] and arguments[0] in PACKAGE_COMMANDS:
            known = package_parser(arguments[0]).format_usage()
            flags = [word for word in arguments[1:] if word.startswith("-")]
            yield from (f"{name} {arguments[0]} knows no {flag}" for flag in flags if flag not in known)
        case "tau" if arguments[:1] == ["fleet"]:  # it parses what follows itself
            pass
        case "tau" if arguments[:1] == ["mcp"]:
            if arguments[1:2] and arguments[1] not in MCP_COMMANDS:
                yield f"tau mcp has no command {arguments[1]}"
        case "pi" | "tau" as name:
            given = parse(arguments)
            yield from (f"{name} knows no {flag}" for flag in given.unknown)
            if name == "tau" and given.words and given.words[0] not in SUBCOMMANDS and " " not in given.words[0]:
                yield f"tau has no command {given.words[0]}"
        case "make":
            targets = [word for word in arguments if "=" not in word and word not in _targets()]
            yield from (f"make has no {target}" for target in targets)
            if "bench" in arguments:
                flags = re.findall(r"--[a-z-]+", " ".join(arguments))
                yield from (f"bench knows no {flag}" for flag in flags if flag not in _help_of_bench())
        case "python" | "python3":
            if arguments and not arguments[0].startswith("-") and not (ROOT / arguments[0]).exists():
                yield f"there is no {arguments[0]}"
        case name:
            if name not in ELSEWHERE:
                yield f"nobody knows {name}"


@cache
def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@cache
def _help_of_bench() -> str:
    command = [sys.executable, "-m", "benchmarks", "--help"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=WITHIN).stdout
