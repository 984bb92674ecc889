"""`tau mcp`: manage MCP servers. Each command is a function of its arguments; `serve` is another front end."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from importlib import import_module

from tau.cli.command_help import COMMAND_HELP
from tau.errors import TauError, UsageError
from tau.records.base import BadRecord
from tau.runtime.terminal import complain, emit

# Where each command is implemented: the function `run_` and its name, or `main` for `serve`.
COMMANDS = {
    "list": "tau.cli.mcp_servers",
    "doctor": "tau.cli.mcp_servers",
    "call": "tau.cli.mcp_servers",
    "add": "tau.cli.mcp_edit",
    "remove": "tau.cli.mcp_edit",
    "login": "tau.cli.mcp_login",
    "logout": "tau.cli.mcp_login",
    "serve": "tau.cli.mcp_serve",
}
EXPOSURES = ("auto", "direct", "deferred", "hidden")


class _Parser(ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"{message}\n{self.format_usage().strip()}")


def main(argv: list[str]) -> int:
    """Run `tau mcp` with the words after it. Returns the exit code."""
    if not argv or argv[0] in ("-h", "--help", "help") or argv in (["serve", "-h"], ["serve", "--help"]):
        emit(COMMAND_HELP["mcp"])
        return 0
    name, *words = argv
    if name == "serve":  # a front end: it has the options of sessions, and ends the process
        import_module(COMMANDS[name]).main(words)
    if name not in COMMANDS:
        raise UsageError(f'There is no command "tau mcp {name}". There are: {", ".join(COMMANDS)}')
    split = words.index("--") if "--" in words else len(words)
    arguments = _parser(name).parse_args(words[:split])
    arguments.command = words[split + 1 :]
    if "--" in words and name != "add":
        raise UsageError(f"tau mcp {name} takes nothing after --.")
    run = import_module(COMMANDS[name]).__dict__[f"run_{name}"]
    try:
        code: int = run(arguments)
    except UsageError:
        raise
    except (TauError, BadRecord, OSError) as error:
        complain(f"Error: {error}")
        return 1
    return code


def _parser(name: str) -> ArgumentParser:
    parser = _Parser(prog=f"tau mcp {name}", add_help=True, allow_abbrev=False)
    add = parser.add_argument
    if name in ("list", "doctor"):
        add("--json", action="store_true", help="print JSON")
    if name == "doctor":
        add("names", nargs="*", metavar="NAME", help="servers to start; all by default")
        add("--refresh", action="store_true", help="forget what is cached about them first")
    elif name == "call":
        add("server", metavar="SERVER")
        add("tool", metavar="TOOL")
        add("arguments", nargs="?", default="{}", metavar="JSON", help="arguments of the tool")
    elif name == "add":
        _add_arguments(parser)
    elif name in ("remove", "login", "logout"):
        add("name", metavar="NAME")
    if name in ("add", "remove"):
        add("-l", "--local", action="store_true", help="in .pi/mcp.json of this project")
    return parser


def _add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="name of the server; with --from, the servers to copy")
    add("--from", dest="source", metavar="FILE", help="copy servers from a file of another program")
    add("--env", action="append", default=[], metavar="K=V", help="environment variable; may be repeated")
    add("--cwd", metavar="DIR", help="working folder of the server")
    add("--url", metavar="URL", help="address of an HTTP server")
    add("--header", action="append", default=[], metavar="K=V", help='HTTP header, also as "K: V"; may be repeated')
    add("--bearer-token-env-var", metavar="NAME", help="variable with a token for the Authorization header")
    add("--oauth-client-id", metavar="ID", help="client id for tau mcp login")
    add("--exposure", choices=EXPOSURES, help="how its tools are offered to models")
    add("--description", metavar="TEXT", help="what the server is for")


def standard_input() -> str:
    """A line that the user types; empty if there is no terminal."""
    return sys.stdin.readline().strip() if sys.stdin is not None and sys.stdin.isatty() else ""
