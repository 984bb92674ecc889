"""Error messages for unknown flags and commands, with suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tau.cli.flags import FLAGS
from tau.errors import UsageError

# First words that are commands of other agents, or were commands of tau, by what they are called here.
MEANT = {
    "--help": "help",
    "--version": "version",
    "--list-models": "models model providers provider",
    "--resume": "resume history session threads projects project",
    "--continue": "continue",
    "--fork ID": "fork",
    "--export ID": "export share",
    '-p "TEXT"': "run exec e ask prompt headless task review apply pr github search recipe ultrareview",
    "--session FILE": "import",
    "--permissions ask": "permissions execpolicy auto-mode",
    "--sandbox workspace": "sandbox",
    "--tools NAMES": "tools",
    "--mode rpc": "rpc app-server",
    "tau, without a word": "chat start new agent agents interactive create-chat term tui",
    "tau login, tau logout or tau doctor": "auth whoami",
    "tau login": "keys setup-token configure setup",
    "tau doctor": "status info diagnose diagnostic debug features about",
    "tau serve": "server web daemon warm",
    "tau mcp serve": "mcp-server",
    "tau fleet run": "cloud bench schedule",
    "tau sessions": "logs ls db",
    "tau, and /session in it": "stats usage cost",
    "tau, and /settings in it": "settings theme",
    "tau, and /bug in it": "feedback bug issue",
    "tau install": "add plugin plugins extensions skill skills hooks",
    "tau update, which updates packages (tau itself: with pip, pipx or uv)": "upgrade self-update update-providers",
    'tau -p "write AGENTS.md for this project"': "init rule generate-rule",
}
# The same for flags.
MEANT_FLAGS = {
    "--mode json": "output-format json stream-json",
    "--time-limit SECONDS": "timeout max-time",
    "--max-cost DOLLARS": "max-budget-usd budget",
    "--tools": "allowedTools allowed-tools",
    "--exclude-tools": "disallowedTools disallowed-tools",
    "--permissions ask": "permission-mode ask-for-approval approval-mode",
    "--thinking": "effort reasoning-effort",
    "--output-schema FILE": "json-schema",
    "-p": "prompt",
    "to leave it out (nothing is asked without --permissions)": (
        "yolo dangerously-skip-permissions dangerously-bypass-approvals-and-sandbox full-auto yes auto-approve"
    ),
}
MEANT_BY_FLAG = {f"--{name}": meant for meant, names in MEANT_FLAGS.items() for name in names.split()}
MEANT_BY = {word: meant for meant, words in MEANT.items() for word in words.split()}


def unknown_flags_error(unknown: Sequence[str]) -> str:
    """One line for each unknown flag."""
    return "\n".join(f"Unknown option: {_name(word)}.{_suggestion(word)}" for word in unknown)


def _name(word: str) -> str:
    """The flag without its value, which may be a secret."""
    return word.partition("=")[0]


def _suggestion(word: str) -> str:
    if meant := MEANT_BY_FLAG.get(_name(word)):
        return f" Did you mean {meant}?"
    names = [f"--{flag.name}" for flag in FLAGS]
    similar = get_close_matches("--" + _name(word).strip("-").lower(), names, n=2, cutoff=0.75)
    return f" Did you mean {' or '.join(similar)}?" if similar else " Put a message that starts with a dash after --."


def check_command(program: str, word: str, first_words: Sequence[str], commands: Sequence[str], *, alone: bool) -> None:
    """Raise UsageError if the first word is, or as the only word nearly is, a command that cannot be run like this."""
    text, quoted = ("the word", f"-p {word}") if alone else ("the text", f'"{word} ..."')
    as_prompt = f"To send {text} to the model: {program} {quoted}"
    if word in commands:
        raise UsageError(f'"{word}" is a command of tau. Run: tau {word}. {as_prompt}')
    if meant := MEANT_BY.get(word):
        name = f"{program} {meant}" if meant.startswith("-") else meant
        raise UsageError(f'There is no command "{word}". Did you mean {name}? {as_prompt}')
    similar = get_close_matches(word.lower(), commands, n=1, cutoff=0.75) if alone else []
    if similar:
        name = program if similar[0] in first_words else "tau"
        raise UsageError(f'There is no command "{word}". Did you mean {name} {similar[0]}? {as_prompt}')
