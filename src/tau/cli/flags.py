"""The command-line flags as a table, and their parser.

Parsed without argparse, which takes longer to load than the rest of `pi --help`. Unknown flags are collected, not
rejected here: an extension may define them.
"""

# Without `from __future__ import annotations`: NamedTuple would compile every annotation, which takes a millisecond.
from typing import NamedTuple

from tau.core.checks.exit_codes import EXIT_CODES, OWN_FLAGS
from tau.errors import UsageError


class Flag:
    """A command-line flag. A plain class: to create a NamedTuple takes ten times as long."""

    def __init__(
        self, name: str, short: str, value: str, help: str, several: bool = False, optional: bool = False
    ) -> None:
        self.name = name
        self.short = short
        self.value = value  # name of the value in --help, or the possible values; empty for a switch
        self.help = help  # empty: accepted for compatibility with clients of other versions, without effect
        self.several = several  # may be repeated; all values are used
        self.optional = optional  # a switch that may have a value after "="


GROUPS: dict[str, tuple[Flag, ...]] = {
    "output": (
        Flag("print", "p", "", "print the answer and exit; default unless stdin and stdout are TTYs"),
        Flag("mode", "", "text|json|rpc|acp", "text: the answer; json: events; rpc: for programs; acp: for editors"),
        Flag("result", "", "", "in JSON mode, end with a record that summarises the run"),
        Flag("plain", "", "", "at a terminal, lines only: for screen readers and simple terminals"),
        Flag("dialect", "", "NAME", "use an older or newer version of the protocol"),
    ),
    "model": (
        Flag("provider", "", "NAME", "provider to use: anthropic, openai, ollama, one of models.json, ..."),
        Flag("model", "", "PATTERN", "model: an id, provider/id, a part of a name; :LEVEL sets thinking"),
        Flag("models", "", "A,B", "models for cycle_model"),
        Flag("api-key", "", "KEY", "API key for the chosen model's provider, for this process only"),
        Flag("thinking", "", "LEVEL", "off, minimal, low, medium, high, xhigh or max"),
        Flag("list-models", "", "", "list the available models; words after it filter the list", optional=True),
        Flag("script", "", "FILE", "script with the answers of --model scripted"),
    ),
    "tools": (
        Flag("tools", "t", "A,B", "tools for the model (default: read,bash,edit,write); * for all"),
        Flag("exclude-tools", "xt", "A,B", "tools to leave out"),
        Flag("no-tools", "nt", "", "disable all tools"),
        Flag("no-builtin-tools", "nbt", "", "disable the built-in tools"),
        Flag("permissions", "", "ask|rules FILE", "ask the client before a tool does more than read, or apply rules"),
        Flag("sandbox", "", "workspace|strict", "restrict commands and file tools to the working folder (Linux)"),
        Flag("mcp-config", "", "FILE", "use the MCP servers of a file; may be repeated", several=True),
        Flag("no-mcp", "", "", "use no MCP servers but those of --mcp-config"),
    ),
    "limits and results": (
        Flag("max-turns", "", "N", "stop working on a prompt after this many turns"),
        Flag("max-tokens", "", "N", "... after this many tokens, input and output"),
        Flag("max-cost", "", "DOLLARS", "... after this cost"),
        Flag("time-limit", "", "SECONDS", "... after this time"),
        Flag("allow-unknown-cost", "", "", "accept --max-cost for models without a known price"),
        Flag("output-schema", "", "FILE", "JSON schema for the result of every prompt"),
        Flag("record", "", "DIR", "record model requests and responses, one file per call"),
        Flag("replay", "", "DIR", "answer from such a folder, without a key or network"),
        Flag("telemetry", "", "", "send traces and metrics to where the OTEL_... variables say"),
    ),
    "session": (
        Flag("continue", "c", "", "continue this project's last session"),
        Flag("resume", "r", "", "list this project's sessions and choose one (at a terminal)"),
        Flag("session", "", "PATH|ID", "continue a session, given its file or the beginning of its id"),
        Flag("session-id", "", "ID", "continue the session with exactly this id, or create it"),
        Flag("fork", "", "PATH|ID", "continue in a copy of a session"),
        Flag("name", "n", "NAME", "name the session"),
        Flag("session-dir", "", "DIR", "folder for session files (default: one per project)"),
        Flag("no-session", "", "", "keep the session in memory only"),
        Flag("export", "", "FILE|ID", "export a session as HTML; --export --continue: the last one"),
    ),
    "sessions of a host (tau serve)": (
        Flag("connect", "", "URL", "in RPC mode, use a session of the host at unix:, http://HOST:PORT, ..."),
        Flag("open", "", "", "with --connect: open a session (default without --session)"),
        Flag("token-file", "", "FILE", "with --connect and `tau attach`: file with the token of the host"),
        Flag("abort-at-end", "", "", "with --connect: abort the run when stdin ends"),
    ),
    "prompts, skills and context": (
        Flag("system-prompt", "", "TEXT|FILE", "replace the default system prompt"),
        Flag("append-system-prompt", "", "TEXT|FILE", "append to the system prompt; may be repeated", several=True),
        Flag("skill", "", "PATH", "load a skill, or a folder of them; may be repeated", several=True),
        Flag("no-skills", "ns", "", "load only the skills of --skill"),
        Flag("prompt-template", "", "PATH", "load a prompt template, or a folder; may be repeated", several=True),
        Flag("no-prompt-templates", "np", "", "load only the prompt templates of --prompt-template"),
        Flag("no-context-files", "nc", "", "do not read AGENTS.md and CLAUDE.md"),
    ),
    "extensions and trust": (
        Flag(
            "extension",
            "e",
            "PATH",
            "load an extension: a file, a folder, npm:NAME, ...; may be repeated",
            several=True,
        ),
        Flag("no-extensions", "ne", "", "load only the extensions of --extension"),
        Flag("approve", "a", "", "trust this project for this run: its settings, extensions, SYSTEM.md"),
        Flag("no-approve", "na", "", "do not trust this project for this run, even if it is trusted"),
        Flag("remove", "", "", "with `tau trust`: revoke trust in the project"),
    ),
    "with `tau serve`": (
        Flag("listen", "", "ADDRESS:PORT", "where to listen for HTTP (default: 127.0.0.1:7717)"),
        Flag("no-tcp", "", "", "listen on the Unix socket only"),
        Flag(
            "root",
            "",
            "DIR",
            "another folder in which sessions may work; may be repeated",
            several=True,
        ),
        Flag("public-url", "", "URL", "the address that clients use: that of the reverse proxy"),
        Flag("insecure-lan", "", "", "listen beyond this machine without TLS"),
        Flag("scope", "", "SCOPE", "with `tau serve token new` and `tau serve url`: watch, drive or admin"),
        Flag("idle", "", "TIME", "close a session without clients after this time (default: 15m)"),
        Flag("max-live", "", "N", "sessions that are open at once (default: 1000)"),
        Flag("answer-timeout", "", "SECONDS", "how long a question waits when no client can answer (default: 60)"),
        Flag("drain", "", "SECONDS", "how long runs may go on after SIGTERM (default: 10)"),
    ),
    "other": (
        Flag("device", "", "", "with `tau login`: log in with a code on another device"),
        Flag("setup", "", "", "with `tau acp`: ask for a provider and an API key, as `tau login` does"),
        Flag("theme", "", "PATH", "load a theme, or a folder of them; may be repeated", several=True),
        Flag("no-themes", "", "", "load only the themes of --theme"),
        Flag("use-theme", "", "NAME", "use this theme, not that of the settings"),
        Flag("offline", "", "", "make no network connections except to the model"),
        Flag("verbose", "", "", "log more to stderr"),
        Flag("help", "h", "", "print this help"),
        Flag("version", "v", "", "print the version"),
    ),
    # Passed by newer clients; tau has nothing that they could change.
    "": (Flag("tui-mode", "", "MODE", ""),),
}
# Commands of the program tau, and what they do.
COMMANDS = {
    "acp": "serve an editor over the Agent Client Protocol",
    "attach": "open the interface on a session of a host (tau serve)",
    "completion": "print a completion script for your shell",
    "config": "turn single extensions, skills and prompt templates on or off",
    "doctor": "check the configuration, and report mistakes in it",
    "extension": "write a template for an extension",
    "fleet": "run a file of tasks, each by an agent of its own",
    "install": "install a package: npm:NAME, git:HOST/PATH, or a folder",
    "list": "list the packages",
    "login": "store an API key, or log in with OAuth",
    "logout": "remove a stored key or login",
    "mcp": "manage MCP servers (list, add, remove, doctor …), or be one (serve)",
    "remove": "remove a package",
    "serve": "keep sessions open for clients that come and go",
    "sessions": "list the sessions of this project",
    "trust": "trust this project, or revoke the trust",
    "uninstall": "the same as remove",
    "update": "update the packages",
}
FLAGS = tuple(flag for group in GROUPS.values() for flag in group)
_BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, flag.short) if name}


class ParsedArguments(NamedTuple):
    flags: dict[str, str]
    words: list[str]
    unknown: list[str]
    lists: dict[str, list[str]]  # flags that may be repeated
    after: dict[str, int]  # unknown flag -> index of the word after it: its value, if an extension defines it with one
    command: str = ""  # the first word, if it may name a command: words after -p, --mode and -- are prompts
    program: str = "tau"  # as which program it was started: "pi" prints what programs expect of pi


def parse(argv: list[str], program: str = "tau") -> ParsedArguments:
    arguments = ParsedArguments({}, [], [], {}, {}, program=program)
    command, rest = "", list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            arguments.words.extend(rest)
            break
        if not word.startswith("-") or word == "-":
            if not (arguments.words or arguments.after or arguments.flags.keys() & {"print", "mode"}):
                command = word
            arguments.words.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        flag = _BY_NAME.get(name)
        if flag is None:
            arguments.unknown.append(word)
            if rest and not equals and not rest[0].startswith("-"):
                arguments.after[name] = len(arguments.words)
            continue
        if equals and not (flag.value or flag.optional):
            raise UsageError(f"--{flag.name} takes no value: give it alone, or leave it out")
        if flag.value and not equals:
            if not rest:
                raise UsageError(f"{word} needs a value: {flag.value}")
            value = rest.pop(0)
        if (name, value) == ("permissions", "rules"):
            if not rest:
                raise UsageError(f"--permissions needs a value: {flag.value}")
            value = f"rules {rest.pop(0)}"
        if flag.several:
            arguments.lists.setdefault(flag.name, []).append(value)
        else:
            arguments.flags[flag.name] = value
    return arguments._replace(command=command)


def help_text(program: str) -> str:
    listed = "\n\n".join(
        f"{title}:\n" + "\n".join(_row(flag) for flag in flags) for title, flags in GROUPS.items() if title
    )
    commands = "\n".join(f"  {f'tau {name}':<28}  {about}" for name, about in COMMANDS.items())
    codes = "\n".join(f"  {code:<4}{meaning}" for code, meaning in EXIT_CODES.items())
    codes += "\n  In JSON mode 0 after any answer, as pi has it, unless the command line has"
    codes += f"\n  one of {', '.join(OWN_FLAGS)}"
    return f"""\
usage: {program} [options] [@file ...] [message ...]
       tau COMMAND ...

A coding agent. At a terminal it opens its interface; with -p, or with stdin or stdout redirected,
it answers and exits; with --mode rpc it speaks the protocol of pi. Piped input and files named with
@ are added in front of the first message; further messages follow when it is answered.
-- ends the options.

commands (tau COMMAND --help tells more):
{commands}

{listed}

environment:
  ANTHROPIC_API_KEY           key for Claude models; OPENAI_API_KEY, GEMINI_API_KEY and many more
  PI_CODING_AGENT_DIR         where settings.json and models.json are (default: ~/.pi/agent)
  PI_DIALECT                  the same as --dialect
  HTTPS_PROXY, NO_PROXY       a proxy (http:// or socks5h://), and hosts to reach without it
  SSL_CERT_FILE               certificates to trust; NODE_EXTRA_CA_CERTS names more of them

exit codes:
{codes}

Try it without a key: {program} -p --model demo "list the files here\""""


def _row(flag: Flag) -> str:
    names = f"--{flag.name}" + (f", -{flag.short}" if flag.short else "")
    left = f"  {names} {flag.value}".rstrip()
    # A long flag has its help on the next line, so that the column stays straight.
    return f"{left:<28}  {flag.help}" if len(left) <= 28 else f"{left}\n{'':<28}  {flag.help}"
