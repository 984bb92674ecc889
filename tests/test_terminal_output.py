"""Only runtime/terminal.py writes text for people; the others ask it to, so no name reaches a terminal as it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "tau"
PRINTS = "runtime/terminal.py"
# module -> how many times it writes by itself, and why that is no text of others for a terminal
EXCEPTIONS = {
    "cli/entry.py": (1, "a sentence of ours, where nothing else can be loaded"),
    "cli/main.py": (2, "--help and --version: text of ours, and loading anything for it would take time"),
    "fleet/command.py": (1, "progress: words and numbers of ours"),
    "fleet/queries.py": (1, "progress: its texts are escaped"),
    "fleet/worker.py": (1, "stdout is a pipe that the coordinator reads"),
    "fleet/export.py": (1, "results, byte for byte"),
    "tui/stderr.py": (1, "log lines, which are escaped already, to the stderr that they were written to"),
    "library/run.py": (1, "a warning in the caller's program"),
    "tools/search.py": (1, "stderr is a pipe that tau reads"),
    "runtime/models/bundled.py": (1, "stdout is a pipe that tau reads"),
    "runtime/sandbox/launcher.py": (1, "only printable characters, in a process that loads as little as possible"),
}
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
WRITERS = {"write", "writelines"}
PRINTERS = {"traceback.print_exc", "traceback.print_exception", "traceback.print_tb", "warnings.warn", "pprint.pprint"}


def writes(tree: ast.AST) -> list[int]:
    """The lines that write to stdout or stderr: print, sys.stderr.write and their like, os.write(2, ...)."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _writes(node)]


def _writes(call: ast.Call) -> bool:
    called = ast.unparse(call.func)
    if called in {"print", *PRINTERS}:
        return True
    stream, _, method = called.rpartition(".")
    if method in WRITERS and stream.removesuffix(".buffer") in STREAMS:
        return True
    if called == "os.write":
        return isinstance(call.args[0], ast.Constant)
    return any(ast.unparse(given) in STREAMS for given in call.args)


def test_nothing_else_writes_to_a_terminal() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if (lines := writes(ast.parse(path.read_text())))
    }
    assert found.pop(PRINTS)
    assert {name: len(lines) for name, lines in found.items()} == {name: n for name, (n, _) in EXCEPTIONS.items()}, (
        found
    )


@pytest.mark.parametrize(
    "code",
    [
        "print('x')",
        "sys.stderr.write('x')",
        "sys.stdout.buffer.write(b'x')",
        "os.write(2, b'x')",
        "traceback.print_exc()",
        "shutil.copyfileobj(file, sys.stdout)",
    ],
)
def test_the_check_knows_the_ways_to_write(code: str) -> None:
    assert writes(ast.parse(code)) == [1]


@pytest.mark.parametrize("code", ["os.write(handle, b'x')", "sys.stderr.flush()", "file.write('x')"])
def test_the_check_leaves_other_things_alone(code: str) -> None:
    assert writes(ast.parse(code)) == []
