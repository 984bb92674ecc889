"""The command line, as a table.

Parsed by hand: argparse costs more to load than the rest of `pi --help`, and pi's
rules differ from its own (unknown flags are passed over with a warning, since
clients of many versions start us).
"""

from __future__ import annotations

from typing import NamedTuple

from tau.errors import UsageError


class Flag(NamedTuple):
    name: str
    short: str
    value: str  # what the value is called in the help; empty for a switch
    help: str  # empty: accepted for the sake of other versions' clients, without effect here
    several: bool = False  # may be given more than once; all values count


FLAGS = (
    Flag("mode", "", "MODE", "rpc: JSON lines on stdin and stdout"),
    Flag("provider", "", "NAME", "provider to use: anthropic, openai, ollama, one of models.json, ..."),
    Flag("model", "", "PATTERN", "model: an id, provider/id, a part of a name; :LEVEL sets thinking"),
    Flag("models", "", "A,B", "models that cycle_model goes through"),
    Flag("api-key", "", "KEY", "API key for the chosen model's provider, for this process only"),
    Flag("thinking", "", "LEVEL", "off, minimal, low, medium, high, xhigh or max"),
    Flag("tools", "t", "A,B", "tools the model gets (default: read, bash)"),
    Flag("no-tools", "nt", "", "give the model no tools"),
    Flag("script", "", "FILE", "what --model scripted shall say"),
    Flag("no-session", "", "", "keep the session in memory only"),
    Flag("session-dir", "", "DIR", "folder for session files (default: one per project)"),
    Flag("continue", "c", "", "go on with this project's last session"),
    Flag("session", "", "PATH|ID", "go on with a session, by its file or the beginning of its id"),
    Flag("session-id", "", "ID", "go on with the session of exactly this id, or begin one"),
    Flag("fork", "", "PATH|ID", "go on in a copy of a session"),
    Flag("name", "n", "NAME", "name the session"),
    Flag("resume", "r", "", "list this project's sessions and choose one (at a terminal)"),
    Flag("export", "", "FILE", "write a session file as an HTML page; the page's name may follow"),
    Flag("list-models", "", "", "print the models that can be used; words after it choose among them"),
    Flag("extension", "e", "PATH", "load an extension: a Python file, or a folder; may be repeated", several=True),
    Flag("no-extensions", "ne", "", "load no extensions but those of --extension"),
    Flag("system-prompt", "", "TEXT|FILE", "what the model is told first, instead of our own words"),
    Flag("append-system-prompt", "", "TEXT|FILE", "what it is told after that; may be repeated", several=True),
    Flag("skill", "", "PATH", "load a skill, or a folder of them; may be repeated", several=True),
    Flag("no-skills", "ns", "", "load no skills but those of --skill"),
    Flag("prompt-template", "", "PATH", "load a prompt template, or a folder of them; may be repeated", several=True),
    Flag("no-prompt-templates", "np", "", "load no prompt templates but those of --prompt-template"),
    Flag("no-context-files", "nc", "", "do not read AGENTS.md and CLAUDE.md"),
    Flag("approve", "a", "", "trust this project for this run: its settings, extensions, SYSTEM.md"),
    Flag("no-approve", "na", "", "do not trust this project for this run, whatever was decided"),
    Flag("remove", "", "", "with `tau trust`: trust the project no more"),
    Flag("offline", "", "", "make no network connection but to the model"),
    Flag("verbose", "", "", "more about what happens, on stderr"),
    Flag("help", "h", "", "print this"),
    Flag("version", "v", "", "print the version"),
    Flag("no-themes", "", "", ""),
    Flag("theme", "", "PATH", ""),
)
# Parts of pi that tau does not have yet: better a sentence than something else than was asked for.
NOT_YET = {
    "print": "print mode",
    "p": "print mode",
}
_BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, flag.short) if name}


class Given(NamedTuple):
    flags: dict[str, str]
    words: list[str]
    unknown: list[str]
    lists: dict[str, list[str]]  # flags that may be given more than once


def parse(argv: list[str]) -> Given:
    given = Given({}, [], [], {})
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
        if name in NOT_YET:
            raise UsageError(f"{word}: this version of tau does not have {NOT_YET[name]} yet.")
        flag = _BY_NAME.get(name)
        if flag is None:
            given.unknown.append(word)
            continue
        if flag.value and not equals:
            if not rest:
                raise UsageError(f"{word} needs a value: {flag.value}")
            value = rest.pop(0)
        if flag.several:
            given.lists.setdefault(flag.name, []).append(value)
        else:
            given.flags[flag.name] = value
    return given


def help_text(program: str) -> str:
    rows = []
    for flag in FLAGS:
        if flag.help:
            names = f"--{flag.name}" + (f", -{flag.short}" if flag.short else "")
            rows.append(f"  {names} {flag.value}".rstrip().ljust(28) + f"  {flag.help}")
    listed = "\n".join(rows)
    return f"""\
usage: {program} --mode rpc [options]

A coding agent for programs: it speaks the RPC protocol of pi on stdin and stdout.

options:
{listed}

environment:
  ANTHROPIC_API_KEY           key for Claude models; OPENAI_API_KEY, GEMINI_API_KEY and many more
  PI_CODING_AGENT_DIR         where settings.json and models.json are (default: ~/.pi/agent)
  HTTPS_PROXY, SSL_CERT_FILE  a proxy, and certificates to trust

Try it without a key: {program} --mode rpc --model demo"""
