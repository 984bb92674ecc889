"""The command line, as a table.

Parsed by hand: argparse costs more to load than the rest of `pi --help`. What is
not known is gathered, not refused here: the caller may know more than we do.
"""

from __future__ import annotations

from typing import NamedTuple

from tau.core.checks.exit_codes import EXITS
from tau.errors import UsageError


class Flag(NamedTuple):
    name: str
    short: str
    value: str  # what the value is called in the help, or the values there are; empty for a switch
    help: str  # empty: accepted for the sake of other versions' clients, without effect here
    several: bool = False  # may be given more than once; all values count


GROUPS: dict[str, tuple[Flag, ...]] = {
    "how to answer": (
        Flag("print", "p", "", "print the answer and end; usual unless stdin and stdout are a terminal"),
        Flag("mode", "", "text|json|rpc", "text: the answer. json: every event, a line each. rpc: for programs"),
        Flag("result", "", "", "in JSON mode, end with one record that sums everything up"),
        Flag("dialect", "", "NAME", "speak an older or newer version of the protocol"),
    ),
    "model": (
        Flag("provider", "", "NAME", "provider to use: anthropic, openai, ollama, one of models.json, ..."),
        Flag("model", "", "PATTERN", "model: an id, provider/id, a part of a name; :LEVEL sets thinking"),
        Flag("models", "", "A,B", "models that cycle_model goes through"),
        Flag("api-key", "", "KEY", "API key for the chosen model's provider, for this process only"),
        Flag("thinking", "", "LEVEL", "off, minimal, low, medium, high, xhigh or max"),
        Flag("list-models", "", "", "print the models that can be used; words after it choose among them"),
        Flag("script", "", "FILE", "what --model scripted shall say"),
    ),
    "tools": (
        Flag("tools", "t", "A,B", "tools the model gets (default: read,bash,edit,write); * for all"),
        Flag("exclude-tools", "xt", "A,B", "tools the model does not get"),
        Flag("no-tools", "nt", "", "give the model no tools"),
        Flag("no-builtin-tools", "nbt", "", "give the model none of tau's own tools"),
        Flag("permissions", "", "ask|rules FILE", "ask the client before a tool does more than read; or go by rules"),
        Flag("sandbox", "", "workspace|strict", "keep commands and file tools to the working folder (Linux)"),
    ),
    "limits and results": (
        Flag("max-turns", "", "N", "end the work on a prompt after this many turns"),
        Flag("max-tokens", "", "N", "... after this many tokens, sent and answered"),
        Flag("max-cost", "", "DOLLARS", "... after this much money"),
        Flag("time-limit", "", "SECONDS", "... after this time"),
        Flag("allow-unknown-cost", "", "", "take --max-cost also where the price of the model is not known"),
        Flag("output-schema", "", "FILE", "a JSON schema that the result of every prompt has to fit"),
        Flag("record", "", "DIR", "keep what models are asked and what they answer, a file for each call"),
        Flag("replay", "", "DIR", "answer from such a folder, without key and network"),
    ),
    "session": (
        Flag("continue", "c", "", "go on with this project's last session"),
        Flag("resume", "r", "", "list this project's sessions and choose one (at a terminal)"),
        Flag("session", "", "PATH|ID", "go on with a session, by its file or the beginning of its id"),
        Flag("session-id", "", "ID", "go on with the session of exactly this id, or begin one"),
        Flag("fork", "", "PATH|ID", "go on in a copy of a session"),
        Flag("name", "n", "NAME", "name the session"),
        Flag("session-dir", "", "DIR", "folder for session files (default: one per project)"),
        Flag("no-session", "", "", "keep the session in memory only"),
        Flag("export", "", "FILE", "write a session file as an HTML page; the page's name may follow"),
    ),
    "what the model is told": (
        Flag("system-prompt", "", "TEXT|FILE", "what the model is told first, instead of our own words"),
        Flag("append-system-prompt", "", "TEXT|FILE", "what it is told after that; may be repeated", several=True),
        Flag("skill", "", "PATH", "load a skill, or a folder of them; may be repeated", several=True),
        Flag("no-skills", "ns", "", "load no skills but those of --skill"),
        Flag("prompt-template", "", "PATH", "load a prompt template, or a folder; may be repeated", several=True),
        Flag("no-prompt-templates", "np", "", "load no prompt templates but those of --prompt-template"),
        Flag("no-context-files", "nc", "", "do not read AGENTS.md and CLAUDE.md"),
    ),
    "extensions and trust": (
        Flag("extension", "e", "PATH", "load an extension: a Python file, or a folder; may be repeated", several=True),
        Flag("no-extensions", "ne", "", "load no extensions but those of --extension"),
        Flag("approve", "a", "", "trust this project for this run: its settings, extensions, SYSTEM.md"),
        Flag("no-approve", "na", "", "do not trust this project for this run, whatever was decided"),
        Flag("remove", "", "", "with `tau trust`: trust the project no more"),
    ),
    "other": (
        Flag("offline", "", "", "make no network connection but to the model"),
        Flag("verbose", "", "", "more about what happens, on stderr"),
        Flag("help", "h", "", "print this"),
        Flag("version", "v", "", "print the version"),
    ),
    # What newer clients pass. tau does without it, or has nothing that it could change.
    "": (
        Flag("no-mcp", "", "", ""),
        Flag("no-themes", "", "", ""),
        Flag("theme", "", "PATH", ""),
        Flag("use-theme", "", "NAME", ""),
        Flag("tui-mode", "", "MODE", ""),
    ),
}
FLAGS = tuple(flag for group in GROUPS.values() for flag in group)
_BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, flag.short) if name}


class Given(NamedTuple):
    flags: dict[str, str]
    words: list[str]
    unknown: list[str]
    lists: dict[str, list[str]]  # flags that may be given more than once
    after: dict[str, int]  # unknown flag -> the one of `words` that follows it: its value, if it turns out to have one


def parse(argv: list[str]) -> Given:
    given = Given({}, [], [], {}, {})
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            given.words.extend(rest)
            break
        if not word.startswith("-") or word == "-":
            given.words.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        flag = _BY_NAME.get(name)
        if flag is None:
            given.unknown.append(word)
            if rest and not equals and not rest[0].startswith("-"):
                given.after[name] = len(given.words)
            continue
        if flag.value and not equals:
            if not rest:
                raise UsageError(f"{word} needs a value: {flag.value}")
            value = rest.pop(0)
        if (name, value) == ("permissions", "rules"):
            if not rest:
                raise UsageError(f"--permissions needs a value: {flag.value}")
            value = f"rules {rest.pop(0)}"
        if flag.several:
            given.lists.setdefault(flag.name, []).append(value)
        else:
            given.flags[flag.name] = value
    return given


def help_text(program: str) -> str:
    listed = "\n\n".join(
        f"{title}:\n" + "\n".join(_row(flag) for flag in flags) for title, flags in GROUPS.items() if title
    )
    codes = "\n".join(f"  {code:<4}{meaning}" for code, meaning in EXITS.items())
    return f"""\
usage: {program} [options] [@file ...] [message ...]

A coding agent. At a terminal it opens a chat; with -p, or with stdin or stdout redirected, it
answers and ends; with --mode rpc it speaks the protocol of pi. What is piped in and the files that
are named with @ go in front of the first message; further messages follow when it is answered.
-- ends the options.

{listed}

environment:
  ANTHROPIC_API_KEY           key for Claude models; OPENAI_API_KEY, GEMINI_API_KEY and many more
  PI_CODING_AGENT_DIR         where settings.json and models.json are (default: ~/.pi/agent)
  PI_DIALECT                  the same as --dialect
  HTTPS_PROXY, NO_PROXY       a proxy, and whom to reach without it
  SSL_CERT_FILE               certificates to trust; NODE_EXTRA_CA_CERTS names more of them

exit codes:
{codes}

Try it without a key: {program} -p --model demo "list the files here\""""


def _row(flag: Flag) -> str:
    names = f"--{flag.name}" + (f", -{flag.short}" if flag.short else "")
    return f"  {names} {flag.value}".rstrip().ljust(28) + f"  {flag.help}"
